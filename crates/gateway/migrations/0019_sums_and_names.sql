-- What ended and what it cost, of all accounts, by hour: what the operator's usage shows.
CREATE TABLE hourly_sums (
    -- Hours since the epoch, in UTC.
    hour              BIGINT NOT NULL,
    account_id        TEXT   NOT NULL REFERENCES accounts (id),
    key_id            TEXT   NOT NULL,
    model             TEXT   NOT NULL,
    -- Who made it; of what was never taken, who was asked first.
    provider          TEXT   NOT NULL,
    -- How the task ended: succeeded, failed or cancelled.
    outcome           TEXT   NOT NULL,
    tasks             BIGINT NOT NULL DEFAULT 0,
    -- Charged.
    spent_micros      BIGINT NOT NULL DEFAULT 0,
    -- What providers were paid for jobs that they finished.
    made_micros       BIGINT NOT NULL DEFAULT 0,
    -- What they say that they charged for others.
    wasted_micros     BIGINT NOT NULL DEFAULT 0,
    -- Jobs of which nobody knows what they cost.
    unknown_jobs      BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (hour, account_id, key_id, model, provider, outcome)
);
INSERT INTO hourly_sums (hour, account_id, key_id, model, provider, outcome, tasks, spent_micros)
SELECT hour, account_id, key_id, model, provider, outcome, CAST(SUM(tasks) AS BIGINT), CAST(SUM(spent) AS BIGINT)
FROM (
    SELECT finished_at / 3600000000 AS hour, account_id, key_id, model, provider, state AS outcome, 1 AS tasks, 0 AS spent
    FROM tasks WHERE finished_at IS NOT NULL
    UNION ALL
    SELECT ledger.created_at / 3600000000, ledger.account_id, tasks.key_id, tasks.model, tasks.provider, tasks.state, 0,
           ledger.spent_micros
    FROM ledger JOIN tasks ON tasks.id = ledger.task_id WHERE ledger.spent_micros <> 0
) AS what
GROUP BY hour, account_id, key_id, model, provider, outcome;

-- What a file is called when it is taken home.
CREATE INDEX clips_by_audio ON clips (audio);
