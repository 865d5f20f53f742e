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

-- For the operator's list of what nobody could confirm.
CREATE INDEX submissions_unconfirmed ON submissions (id) WHERE state IN ('unclear', 'found');

-- What is known of a route beyond its settings, for every process and over restarts.
CREATE TABLE route_notes (
    provider      TEXT NOT NULL,
    -- The provider's name for the model.
    model         TEXT NOT NULL,
    -- Since when an operator has it paused.
    paused_at     BIGINT,
    -- When an operator last said to try it again.
    tried_at      BIGINT,
    -- Since when the provider refuses the key; until it takes an order.
    refused_at    BIGINT,
    -- Its last error, in the provider's words.
    error_class   TEXT,
    error_message TEXT,
    error_at      BIGINT,
    PRIMARY KEY (provider, model)
);

-- Who is signed in by a cookie.
CREATE TABLE sessions (
    -- Of the cookie.
    sha256     TEXT   NOT NULL PRIMARY KEY,
    key_id     TEXT   NOT NULL REFERENCES api_keys (id),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sessions_by_key ON sessions (key_id);
CREATE INDEX sessions_ending ON sessions (expires_at);
