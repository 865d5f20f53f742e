-- Work that hosted providers do. A worker's lease is one row instead of a
-- column of every task that it holds, so that thousands of waiting jobs cost
-- one write a heartbeat.

CREATE TABLE workers (
    name       TEXT   NOT NULL PRIMARY KEY,
    -- Until when it holds its tasks without another heartbeat.
    held_until BIGINT NOT NULL
);

DROP INDEX tasks_due;
UPDATE tasks SET lease_owner = NULL;
ALTER TABLE tasks DROP COLUMN lease_until;
CREATE INDEX tasks_free ON tasks (due_at) WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND provider = 'embedded';
CREATE INDEX tasks_free_upstream ON tasks (model, due_at) WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND provider <> 'embedded';
CREATE INDEX tasks_held ON tasks (lease_owner) WHERE lease_owner IS NOT NULL;
CREATE INDEX tasks_ended ON tasks (finished_at) WHERE finished_at IS NOT NULL;

-- What was sent to providers: a row is on disk before the request leaves.
CREATE TABLE submissions (
    id            TEXT   NOT NULL PRIMARY KEY,
    task_id       TEXT   NOT NULL REFERENCES tasks (id),
    attempt       BIGINT NOT NULL,
    provider      TEXT   NOT NULL,
    route_model   TEXT   NOT NULL,
    -- The credential: its place in the settings and a mark of its value.
    credential    TEXT   NOT NULL,
    -- intended, accepted, refused, unclear or ended
    state         TEXT   NOT NULL,
    handle        TEXT,
    error_class   TEXT,
    error_message TEXT,
    created_at    BIGINT NOT NULL,
    accepted_at   BIGINT,
    UNIQUE (task_id, attempt)
);
CREATE INDEX submissions_open ON submissions (provider) WHERE state IN ('intended', 'accepted');
CREATE INDEX submissions_recent ON submissions (provider, created_at);

-- What a provider calls a clip or a persona, and what it says of it.
ALTER TABLE clips ADD COLUMN upstream TEXT;
ALTER TABLE personas ADD COLUMN upstream TEXT;
