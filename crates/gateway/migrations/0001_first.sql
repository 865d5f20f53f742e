-- One text for SQLite and Postgres: ids and JSON are TEXT, instants are BIGINT
-- microseconds since the epoch, flags are BIGINT 0 or 1, money is BIGINT
-- micro-dollars.

CREATE TABLE accounts (
    id           TEXT   NOT NULL PRIMARY KEY,
    handle       TEXT   NOT NULL UNIQUE,
    display_name TEXT   NOT NULL,
    avatar       TEXT   NOT NULL,
    created_at   BIGINT NOT NULL
);

CREATE TABLE api_keys (
    id            TEXT   NOT NULL PRIMARY KEY,
    account_id    TEXT   NOT NULL REFERENCES accounts (id),
    name          TEXT   NOT NULL,
    prefix        TEXT   NOT NULL,
    sha256        TEXT   NOT NULL UNIQUE,
    scopes        TEXT   NOT NULL,
    models        TEXT,
    networks      TEXT,
    rpm           BIGINT NOT NULL,
    max_running   BIGINT NOT NULL,
    budget_micros BIGINT,
    created_at    BIGINT NOT NULL,
    expires_at    BIGINT,
    revoked_at    BIGINT
);

CREATE TABLE tasks (
    id            TEXT   NOT NULL PRIMARY KEY,
    account_id    TEXT   NOT NULL REFERENCES accounts (id),
    key_id        TEXT   NOT NULL REFERENCES api_keys (id),
    kind          TEXT   NOT NULL,
    model         TEXT   NOT NULL,
    asked_model   TEXT   NOT NULL,
    provider      TEXT   NOT NULL,
    fingerprint   TEXT   NOT NULL,
    payload       TEXT   NOT NULL,
    state         TEXT   NOT NULL,
    progress      BIGINT NOT NULL DEFAULT 0,
    cost_micros   BIGINT NOT NULL DEFAULT 0,
    request_id    TEXT   NOT NULL,
    attempts      BIGINT NOT NULL DEFAULT 0,
    created_at    BIGINT NOT NULL,
    started_at    BIGINT,
    finished_at   BIGINT,
    error_code    TEXT,
    error_message TEXT,
    output        TEXT,
    event_seq     BIGINT NOT NULL DEFAULT 0,
    -- When a worker should look at the task next.
    due_at        BIGINT NOT NULL,
    -- Who works on it, and until when that holds without a heartbeat.
    lease_owner   TEXT,
    lease_until   BIGINT NOT NULL DEFAULT 0,
    -- Set when the caller deleted it from the Videos API's list.
    deleted_at    BIGINT
);
CREATE INDEX tasks_by_account ON tasks (account_id, id);
CREATE INDEX tasks_open_by_key ON tasks (key_id) WHERE state IN ('queued', 'running');
CREATE INDEX tasks_due ON tasks (due_at) WHERE state IN ('queued', 'running');
CREATE INDEX tasks_finished ON tasks (model, finished_at) WHERE state = 'succeeded';

CREATE TABLE task_events (
    task_id  TEXT   NOT NULL REFERENCES tasks (id),
    seq      BIGINT NOT NULL,
    state    TEXT   NOT NULL,
    progress BIGINT NOT NULL,
    PRIMARY KEY (task_id, seq)
);

CREATE TABLE assets (
    id         TEXT   NOT NULL PRIMARY KEY,
    account_id TEXT   NOT NULL REFERENCES accounts (id),
    media      TEXT   NOT NULL,
    size_bytes BIGINT NOT NULL,
    sha256     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    removed_at BIGINT
);
CREATE INDEX assets_expiring ON assets (expires_at) WHERE removed_at IS NULL AND expires_at IS NOT NULL;

CREATE TABLE clips (
    id           TEXT   NOT NULL PRIMARY KEY,
    account_id   TEXT   NOT NULL REFERENCES accounts (id),
    task_id      TEXT   REFERENCES tasks (id),
    position     BIGINT NOT NULL DEFAULT 0,
    source_id    TEXT   REFERENCES clips (id),
    target       TEXT,
    title        TEXT   NOT NULL,
    model        TEXT   NOT NULL,
    asked_model  TEXT   NOT NULL,
    audio        TEXT   REFERENCES assets (id),
    image        TEXT   REFERENCES assets (id),
    image_large  TEXT   REFERENCES assets (id),
    milliseconds BIGINT NOT NULL DEFAULT 0,
    is_trashed   BIGINT NOT NULL DEFAULT 0,
    created_at   BIGINT NOT NULL
);
CREATE INDEX clips_by_account ON clips (account_id, id);
CREATE INDEX clips_by_task ON clips (task_id, position);

CREATE TABLE personas (
    id                 TEXT   NOT NULL PRIMARY KEY,
    account_id         TEXT   NOT NULL REFERENCES accounts (id),
    name               TEXT   NOT NULL,
    description        TEXT   NOT NULL,
    image              TEXT   NOT NULL REFERENCES assets (id),
    root_clip_id       TEXT   NOT NULL REFERENCES clips (id),
    clip_ids           TEXT   NOT NULL,
    is_public          BIGINT NOT NULL,
    is_public_approved BIGINT NOT NULL,
    is_trashed         BIGINT NOT NULL DEFAULT 0,
    created_at         BIGINT NOT NULL
);
CREATE INDEX personas_by_account ON personas (account_id, id);
