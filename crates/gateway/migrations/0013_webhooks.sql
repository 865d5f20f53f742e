-- Whoever wants to be told when a task has ended.

-- An address that an account registered.
CREATE TABLE webhook_endpoints (
    id            TEXT   NOT NULL PRIMARY KEY,
    account_id    TEXT   NOT NULL REFERENCES accounts (id),
    url           TEXT   NOT NULL,
    description   TEXT   NOT NULL,
    -- A JSON list of event types; NULL: all.
    events        TEXT,
    -- hmac | ed25519
    scheme        TEXT   NOT NULL,
    -- A JSON list, the newest first; encrypted.
    secrets       TEXT   NOT NULL,
    enabled       BIGINT NOT NULL,
    -- gone | failing | operator's words; NULL while it is enabled or its owner disabled it.
    disabled_why  TEXT,
    -- Since its latest success: how many tries failed, and when the first did.
    failures      BIGINT NOT NULL DEFAULT 0,
    failing_since BIGINT,
    created_at    BIGINT NOT NULL
);
CREATE INDEX webhook_endpoints_by_account ON webhook_endpoints (account_id, id);

-- What an account's callbacks are signed with; encrypted.
CREATE TABLE webhook_secrets (
    account_id TEXT NOT NULL PRIMARY KEY REFERENCES accounts (id),
    secrets    TEXT NOT NULL
);

-- What happened, once; the body is what is signed, byte for byte.
CREATE TABLE webhook_events (
    id         TEXT   NOT NULL PRIMARY KEY,
    account_id TEXT   NOT NULL REFERENCES accounts (id),
    task_id    TEXT   UNIQUE,
    type       TEXT   NOT NULL,
    body       TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);

-- One event on its way to one receiver.
CREATE TABLE webhook_deliveries (
    id          TEXT   NOT NULL PRIMARY KEY,
    account_id  TEXT   NOT NULL REFERENCES accounts (id),
    event_id    TEXT   NOT NULL REFERENCES webhook_events (id),
    -- NULL: a callback, to `url`.
    endpoint_id TEXT,
    url         TEXT,
    -- Where it differs from the event's.
    body        TEXT,
    task_id     TEXT,
    -- Deliveries of one lane share the limit of requests in flight: an endpoint, or the
    -- callbacks of an account to one host.
    lane        TEXT   NOT NULL,
    -- waiting | delivered | failed | held
    state       TEXT   NOT NULL,
    -- Tries so far, and how many of them came before it was sent again by hand.
    attempts    BIGINT NOT NULL DEFAULT 0,
    tried_before BIGINT NOT NULL DEFAULT 0,
    due_at      BIGINT NOT NULL,
    lease_owner TEXT,
    created_at  BIGINT NOT NULL,
    -- When it was delivered, given up or held.
    ended_at    BIGINT,
    UNIQUE (event_id, lane)
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (due_at, id) WHERE state = 'waiting' AND lease_owner IS NULL;
CREATE INDEX webhook_deliveries_in_lane ON webhook_deliveries (lane, due_at) WHERE state = 'waiting' AND lease_owner IS NULL;
CREATE INDEX webhook_deliveries_held ON webhook_deliveries (lease_owner) WHERE lease_owner IS NOT NULL;
CREATE INDEX webhook_deliveries_by_endpoint ON webhook_deliveries (endpoint_id, id);
CREATE INDEX webhook_deliveries_by_state ON webhook_deliveries (endpoint_id, state, id);
CREATE INDEX webhook_deliveries_by_task ON webhook_deliveries (task_id, id) WHERE task_id IS NOT NULL;
CREATE INDEX webhook_deliveries_ended ON webhook_deliveries (state, ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE webhook_attempts (
    delivery_id TEXT   NOT NULL REFERENCES webhook_deliveries (id),
    number      BIGINT NOT NULL,
    at          BIGINT NOT NULL,
    took_ms     BIGINT NOT NULL,
    status      BIGINT,
    -- The class of what went wrong.
    error       TEXT,
    -- How the answer begins.
    response    TEXT,
    PRIMARY KEY (delivery_id, number)
);

-- Who is called when it ends, and the address under which its request reached the
-- gateway, for addresses in what is sent.
ALTER TABLE tasks ADD COLUMN callback TEXT;
ALTER TABLE tasks ADD COLUMN origin TEXT;
