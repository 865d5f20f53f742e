-- What the operator changes, and who did.

CREATE TABLE audit (
    id         TEXT   NOT NULL PRIMARY KEY,
    at         BIGINT NOT NULL,
    -- key | command | configuration
    actor_kind TEXT   NOT NULL,
    -- The API key's.
    actor_id   TEXT,
    actor_name TEXT   NOT NULL,
    -- Noun and verb: key.create
    action     TEXT   NOT NULL,
    -- The id or name of what was changed.
    target     TEXT   NOT NULL,
    -- JSON, without secrets.
    before     TEXT,
    after      TEXT,
    request_id TEXT,
    address    TEXT
);
CREATE INDEX audit_by_time ON audit (at, id);
CREATE INDEX audit_by_target ON audit (target, at, id);

-- day | week | month; NULL: the budget is for the key's whole life.
ALTER TABLE api_keys ADD COLUMN budget_period TEXT;
-- To the minute.
ALTER TABLE api_keys ADD COLUMN last_used_at BIGINT;
-- The secret before the latest rotation, and until when it is accepted.
ALTER TABLE api_keys ADD COLUMN former_sha256 TEXT;
ALTER TABLE api_keys ADD COLUMN former_until BIGINT;
CREATE UNIQUE INDEX api_keys_by_former ON api_keys (former_sha256) WHERE former_sha256 IS NOT NULL;

-- For the operator's list of all accounts' tasks.
CREATE INDEX tasks_by_provider ON tasks (provider, id);
CREATE INDEX tasks_open ON tasks (id) WHERE state IN ('queued', 'running');
