-- What a request, a worker's step or a check costs does not grow with what is
-- kept.

-- How many tasks of a key have not ended.
ALTER TABLE api_keys ADD COLUMN open_tasks BIGINT NOT NULL DEFAULT 0;
UPDATE api_keys SET open_tasks =
    (SELECT COUNT(*) FROM tasks WHERE tasks.key_id = api_keys.id AND tasks.state IN ('queued', 'running'));
CREATE INDEX api_keys_by_account ON api_keys (account_id, id);

-- Lists, by what they are narrowed to.
CREATE INDEX tasks_by_state ON tasks (account_id, state, id);
CREATE INDEX tasks_by_kind ON tasks (account_id, kind, id);
CREATE INDEX tasks_by_model ON tasks (account_id, model, id);
CREATE INDEX tasks_shown ON tasks (account_id, kind, id) WHERE deleted_at IS NULL;
DROP INDEX tasks_ended;
CREATE INDEX tasks_ended ON tasks (finished_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX tasks_with_money_held ON tasks (account_id, key_id) WHERE money = 'held';
DROP INDEX clips_by_account;
CREATE INDEX clips_by_account ON clips (account_id, is_trashed, id);
DROP INDEX personas_by_account;
CREATE INDEX personas_by_account ON personas (account_id, id) WHERE is_trashed = 0;
CREATE INDEX ledger_by_task ON ledger (task_id);
CREATE INDEX ledger_by_time ON ledger (created_at, id);
CREATE INDEX ledger_by_account ON ledger (account_id, created_at, id);
DROP INDEX ledger_paid;

-- Jobs that take one of the places of a route or a credential.
DROP INDEX submissions_open;
CREATE INDEX submissions_taking_place ON submissions (provider, route_model, credential)
WHERE state IN ('intended', 'accepted') AND stray = 0;
DROP INDEX submissions_recent;
CREATE INDEX submissions_recent ON submissions (provider, created_at, route_model, credential);
UPDATE submissions SET state = 'ended' WHERE state IN ('intended', 'accepted')
AND EXISTS (SELECT 1 FROM tasks WHERE tasks.id = submissions.task_id AND tasks.state = 'succeeded');
UPDATE submissions SET stray = 1, due_at = COALESCE(due_at, 0) WHERE stray = 0 AND state IN ('intended', 'accepted')
AND EXISTS (SELECT 1 FROM tasks WHERE tasks.id = submissions.task_id AND tasks.state IN ('failed', 'cancelled'));

-- What was paid, credited and made on a day: what usage shows, and what the sums
-- of keys and accounts are checked against.
CREATE TABLE daily_sums (
    account_id    TEXT   NOT NULL REFERENCES accounts (id),
    -- Days since the epoch, in UTC.
    day           BIGINT NOT NULL,
    -- Empty where money moved without one, as a credit does.
    key_id        TEXT   NOT NULL,
    model         TEXT   NOT NULL,
    spent_micros  BIGINT NOT NULL DEFAULT 0,
    credit_micros BIGINT NOT NULL DEFAULT 0,
    -- The part of what was spent whose entries are no longer kept.
    past_micros   BIGINT NOT NULL DEFAULT 0,
    -- Tasks, by how they ended.
    succeeded     BIGINT NOT NULL DEFAULT 0,
    failed        BIGINT NOT NULL DEFAULT 0,
    cancelled     BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (account_id, day, key_id, model)
);
CREATE INDEX daily_sums_by_day ON daily_sums (day);
INSERT INTO daily_sums (account_id, day, key_id, model, spent_micros, credit_micros, succeeded, failed, cancelled)
SELECT account_id, day, key_id, model, CAST(SUM(spent) AS BIGINT), CAST(SUM(credit) AS BIGINT),
       CAST(SUM(succeeded) AS BIGINT), CAST(SUM(failed) AS BIGINT), CAST(SUM(cancelled) AS BIGINT)
FROM (
    SELECT ledger.account_id AS account_id, ledger.created_at / 86400000000 AS day, COALESCE(ledger.key_id, '') AS key_id,
           COALESCE(tasks.model, '') AS model, ledger.spent_micros AS spent, ledger.credit_micros AS credit,
           0 AS succeeded, 0 AS failed, 0 AS cancelled
    FROM ledger LEFT JOIN tasks ON tasks.id = ledger.task_id WHERE ledger.spent_micros <> 0 OR ledger.credit_micros <> 0
    UNION ALL
    SELECT account_id, finished_at / 86400000000, key_id, model, 0, 0,
           CASE state WHEN 'succeeded' THEN 1 ELSE 0 END, CASE state WHEN 'failed' THEN 1 ELSE 0 END,
           CASE state WHEN 'cancelled' THEN 1 ELSE 0 END
    FROM tasks WHERE finished_at IS NOT NULL
) AS what
GROUP BY account_id, day, key_id, model;

-- Work that is done now and then, by one process at a time: when it is due next.
CREATE TABLE upkeep (
    kind   TEXT   NOT NULL PRIMARY KEY,
    due_at BIGINT NOT NULL
);

-- The task that made a clip, and what it was asked for, once it is no longer kept.
ALTER TABLE clips ADD COLUMN past_task_id TEXT;
ALTER TABLE clips ADD COLUMN past_payload TEXT;
-- Whoever removes a clip has to know what refers to it.
CREATE INDEX clips_by_source ON clips (source_id);
CREATE INDEX personas_by_root_clip ON personas (root_clip_id);
