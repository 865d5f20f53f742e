-- Only adds.

-- The caller's id of its end user, and its own names and values as a JSON object. NULL: none.
ALTER TABLE tasks ADD COLUMN end_user TEXT;
ALTER TABLE tasks ADD COLUMN metadata TEXT;

-- For the sums of an end user's open and held tasks.
CREATE INDEX tasks_of_user ON tasks (account_id, end_user)
WHERE end_user IS NOT NULL AND (money = 'held' OR state IN ('queued', 'running'));

-- Like hourly_sums, once for each attribute of a task: its end user, and each entry of its metadata.
CREATE TABLE attributed_sums (
    account_id    TEXT   NOT NULL REFERENCES accounts (id),
    -- 'user', or 'metadata.' and a name.
    attribute     TEXT   NOT NULL,
    -- The beginning of the SHA-256 of the value, which may be too long for an index.
    digest        TEXT   NOT NULL,
    hour          BIGINT NOT NULL,
    key_id        TEXT   NOT NULL,
    model         TEXT   NOT NULL,
    provider      TEXT   NOT NULL,
    outcome       TEXT   NOT NULL,
    value         TEXT   NOT NULL,
    tasks         BIGINT NOT NULL DEFAULT 0,
    spent_micros  BIGINT NOT NULL DEFAULT 0,
    made_micros   BIGINT NOT NULL DEFAULT 0,
    wasted_micros BIGINT NOT NULL DEFAULT 0,
    unknown_jobs  BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (account_id, attribute, digest, hour, key_id, model, provider, outcome)
);
CREATE INDEX attributed_sums_by_hour ON attributed_sums (attribute, hour);
CREATE INDEX attributed_sums_of_account ON attributed_sums (account_id, attribute, hour);

-- The operator's limits for end users.
CREATE TABLE end_user_limits (
    id            TEXT   NOT NULL PRIMARY KEY,
    account_id    TEXT   NOT NULL REFERENCES accounts (id),
    -- '*': everyone who has no limits of their own.
    end_user      TEXT   NOT NULL,
    budget_micros BIGINT,
    -- day | week | month; NULL: the budget never renews.
    budget_period TEXT,
    -- Orders per minute.
    rpm           BIGINT,
    -- Open tasks.
    max_running   BIGINT,
    created_at    BIGINT NOT NULL
);
CREATE UNIQUE INDEX end_user_limits_by_user ON end_user_limits (account_id, end_user);
CREATE INDEX end_user_limits_by_account ON end_user_limits (account_id, id);

-- End users to whom a limit applies: a row for their orders to lock.
CREATE TABLE end_users (
    account_id TEXT   NOT NULL REFERENCES accounts (id),
    end_user   TEXT   NOT NULL,
    -- When all accepted orders would have arrived if they were spread evenly, in microseconds.
    tat        BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (account_id, end_user)
);

-- Parts of budgets that were used up, each reported once: for webhooks and the operators' events.
CREATE TABLE budget_alerts (
    id            TEXT   NOT NULL PRIMARY KEY,
    account_id    TEXT   NOT NULL REFERENCES accounts (id),
    -- key | user | account
    owner         TEXT   NOT NULL,
    -- The key, end user or account whose budget it is.
    owner_id      TEXT   NOT NULL,
    -- When the budget's period began; 0 if it never renews.
    period_start  BIGINT NOT NULL,
    -- The budget; of a prepaid account its credit.
    budget_micros BIGINT NOT NULL,
    percent       BIGINT NOT NULL,
    -- Charged and held when it was noted.
    used_micros   BIGINT NOT NULL,
    created_at    BIGINT NOT NULL
);
CREATE UNIQUE INDEX budget_alerts_once ON budget_alerts (account_id, owner, owner_id, period_start, budget_micros, percent);
CREATE INDEX budget_alerts_by_time ON budget_alerts (created_at, id);
