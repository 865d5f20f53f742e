-- Money that adds up, and requests that are known when they come again.

ALTER TABLE accounts ADD COLUMN prepaid BIGINT NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN budget_micros BIGINT;
-- Running sums of the ledger, moved in the transaction of each entry.
ALTER TABLE accounts ADD COLUMN held_micros BIGINT NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN spent_micros BIGINT NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN credit_micros BIGINT NOT NULL DEFAULT 0;
ALTER TABLE api_keys ADD COLUMN held_micros BIGINT NOT NULL DEFAULT 0;
ALTER TABLE api_keys ADD COLUMN spent_micros BIGINT NOT NULL DEFAULT 0;

-- free, held, settled or released
ALTER TABLE tasks ADD COLUMN money TEXT NOT NULL DEFAULT 'free';
ALTER TABLE tasks ADD COLUMN reserved_micros BIGINT NOT NULL DEFAULT 0;
-- The prices that held when the task was accepted, and what was asked for.
ALTER TABLE tasks ADD COLUMN tariff TEXT;
-- What was made and is paid for.
ALTER TABLE tasks ADD COLUMN bill TEXT;
CREATE INDEX tasks_cancelled_and_held ON tasks (id) WHERE money = 'held' AND state = 'cancelled';

-- Entries are added and never changed. Each says how it changes what is held,
-- spent and credited.
CREATE TABLE ledger (
    -- Of a task's entry the task and the kind: there is one of each.
    id            TEXT   NOT NULL PRIMARY KEY,
    account_id    TEXT   NOT NULL REFERENCES accounts (id),
    key_id        TEXT   REFERENCES api_keys (id),
    task_id       TEXT   REFERENCES tasks (id),
    -- reserve, settle, release, adjust or credit
    kind          TEXT   NOT NULL,
    held_micros   BIGINT NOT NULL,
    spent_micros  BIGINT NOT NULL,
    credit_micros BIGINT NOT NULL,
    note          TEXT,
    created_at    BIGINT NOT NULL
);
-- A reservation ends once, one way or the other.
CREATE UNIQUE INDEX ledger_ends_once ON ledger (task_id) WHERE kind IN ('settle', 'release');
CREATE INDEX ledger_by_account ON ledger (account_id, created_at);

UPDATE tasks SET reserved_micros = cost_micros, money = CASE state WHEN 'succeeded' THEN 'settled' ELSE 'held' END
WHERE cost_micros > 0;
INSERT INTO ledger (id, account_id, key_id, task_id, kind, held_micros, spent_micros, credit_micros, note, created_at)
SELECT id || ':reserve', account_id, key_id, id, 'reserve', cost_micros, 0, 0, NULL, created_at FROM tasks WHERE cost_micros > 0;
INSERT INTO ledger (id, account_id, key_id, task_id, kind, held_micros, spent_micros, credit_micros, note, created_at)
SELECT id || ':settle', account_id, key_id, id, 'settle', -cost_micros, cost_micros, 0, NULL, COALESCE(finished_at, created_at)
FROM tasks WHERE cost_micros > 0 AND state = 'succeeded';
UPDATE api_keys SET
    held_micros = (SELECT CAST(COALESCE(SUM(ledger.held_micros), 0) AS BIGINT) FROM ledger WHERE ledger.key_id = api_keys.id),
    spent_micros = (SELECT CAST(COALESCE(SUM(ledger.spent_micros), 0) AS BIGINT) FROM ledger WHERE ledger.key_id = api_keys.id);
UPDATE accounts SET
    held_micros = (SELECT CAST(COALESCE(SUM(ledger.held_micros), 0) AS BIGINT) FROM ledger WHERE ledger.account_id = accounts.id),
    spent_micros = (SELECT CAST(COALESCE(SUM(ledger.spent_micros), 0) AS BIGINT) FROM ledger WHERE ledger.account_id = accounts.id);

-- What callers wanted, so that a request that comes again is known.
CREATE TABLE intents (
    id              TEXT   NOT NULL PRIMARY KEY,
    account_id      TEXT   NOT NULL,
    key_id          TEXT   NOT NULL,
    -- The Idempotency-Key, as long as it leads here.
    idempotency_key TEXT,
    -- SHA-256 of endpoint and body; and the first 64 bits of another one, of that
    -- and the API key, to look it up by.
    fingerprint     TEXT   NOT NULL,
    body            BIGINT NOT NULL,
    -- working or made
    state           TEXT   NOT NULL,
    -- What was made: tasks, a clip or a persona.
    made            TEXT,
    -- The first answer, of an intent with a key.
    answer          TEXT,
    -- The server whose caller waits for the answer.
    holder          TEXT,
    -- How many requests it had.
    visits          BIGINT NOT NULL,
    -- Until when a request with the same body leads here; open when NULL. An
    -- answer that was written to the end closes it.
    joinable_until  BIGINT,
    -- When something was about to be sent to a provider, for what is no task.
    sent_at         BIGINT,
    created_at      BIGINT NOT NULL
);
CREATE UNIQUE INDEX intents_by_key ON intents (account_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX intents_by_body ON intents (body, joinable_until, holder);

-- Who sends or follows a submission.
ALTER TABLE submissions ADD COLUMN follower TEXT;
-- 1 as long as its job has to be followed although its task has ended.
ALTER TABLE submissions ADD COLUMN stray BIGINT NOT NULL DEFAULT 0;
-- When it is looked at next: a stray one, or one that is unclear.
ALTER TABLE submissions ADD COLUMN due_at BIGINT;
CREATE INDEX submissions_stray ON submissions (due_at) WHERE stray = 1;
CREATE INDEX submissions_unclear ON submissions (due_at) WHERE state = 'unclear' AND due_at IS NOT NULL;
