-- Accounts whose tasks wait for the same places take turns.

-- The last turn of each account in a queue, by the number of turns in it. Postgres may lose it in a crash: then nobody had
-- a turn yet.
CREATE /* UNLOGGED */ TABLE turns (
    queue      TEXT   NOT NULL,
    account_id TEXT   NOT NULL,
    number     BIGINT NOT NULL,
    PRIMARY KEY (queue, account_id)
);
CREATE INDEX turns_in_order ON turns (queue, number);

-- What waits is found by its account, and what is held is counted by it.
DROP INDEX tasks_free;
CREATE INDEX tasks_free ON tasks (account_id, due_at, id)
WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND provider = 'embedded';
-- SQLite would prefer the index of all tasks by provider.
/* SQLITE
DROP INDEX tasks_free;
CREATE INDEX tasks_free ON tasks (provider, account_id, due_at, id)
WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND provider = 'embedded';
SQLITE */
DROP INDEX tasks_free_upstream;
CREATE INDEX tasks_free_upstream ON tasks (model, account_id, due_at, id, state)
WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND provider <> 'embedded';
DROP INDEX tasks_held;
CREATE INDEX tasks_held ON tasks (lease_owner, model, account_id) WHERE lease_owner IS NOT NULL;
