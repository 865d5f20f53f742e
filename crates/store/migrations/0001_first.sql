-- One text for SQLite and Postgres: ids and JSON are TEXT, instants are BIGINT microseconds since the epoch, flags are
-- BIGINT 0 or 1, money is BIGINT micro-dollars.

CREATE TABLE accounts (
    id            TEXT   NOT NULL PRIMARY KEY,
    handle        TEXT   NOT NULL UNIQUE,
    display_name  TEXT   NOT NULL,
    avatar        TEXT   NOT NULL,
    created_at    BIGINT NOT NULL,
    prepaid       BIGINT NOT NULL DEFAULT 0,
    budget_micros BIGINT,
    -- Running sums of the ledger, updated in the transaction of each entry.
    held_micros   BIGINT NOT NULL DEFAULT 0,
    spent_micros  BIGINT NOT NULL DEFAULT 0,
    credit_micros BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE api_keys (
    id                  TEXT   NOT NULL PRIMARY KEY,
    account_id          TEXT   NOT NULL REFERENCES accounts (id),
    name                TEXT   NOT NULL,
    prefix              TEXT   NOT NULL,
    sha256              TEXT   NOT NULL UNIQUE,
    scopes              TEXT   NOT NULL,
    models              TEXT,
    networks            TEXT,
    rpm                 BIGINT NOT NULL,
    max_running         BIGINT NOT NULL,
    budget_micros       BIGINT,
    created_at          BIGINT NOT NULL,
    expires_at          BIGINT,
    revoked_at          BIGINT,
    held_micros         BIGINT NOT NULL DEFAULT 0,
    spent_micros        BIGINT NOT NULL DEFAULT 0,
    -- How many of its tasks have not ended.
    open_tasks          BIGINT NOT NULL DEFAULT 0,
    -- day | week | month; NULL: the budget is for the key's whole life.
    budget_period       TEXT,
    -- To the minute.
    last_used_at        BIGINT,
    -- The secret before the latest rotation, and until when it is accepted.
    former_sha256       TEXT,
    former_until        BIGINT,
    -- Whether it refuses requests that chat interfaces send on their own, for titles and tags.
    refuse_housekeeping BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX api_keys_by_account ON api_keys (account_id, id);
CREATE UNIQUE INDEX api_keys_by_former ON api_keys (former_sha256) WHERE former_sha256 IS NOT NULL;

CREATE TABLE tasks (
    id                 TEXT   NOT NULL PRIMARY KEY,
    account_id         TEXT   NOT NULL REFERENCES accounts (id),
    key_id             TEXT   NOT NULL REFERENCES api_keys (id),
    kind               TEXT   NOT NULL,
    model              TEXT   NOT NULL,
    asked_model        TEXT   NOT NULL,
    provider           TEXT   NOT NULL,
    fingerprint        TEXT   NOT NULL,
    payload            TEXT   NOT NULL,
    state              TEXT   NOT NULL,
    progress           BIGINT NOT NULL DEFAULT 0,
    cost_micros        BIGINT NOT NULL DEFAULT 0,
    request_id         TEXT   NOT NULL,
    attempts           BIGINT NOT NULL DEFAULT 0,
    created_at         BIGINT NOT NULL,
    started_at         BIGINT,
    finished_at        BIGINT,
    error_code         TEXT,
    error_message      TEXT,
    output             TEXT,
    event_seq          BIGINT NOT NULL DEFAULT 0,
    -- When a worker should look at the task next.
    due_at             BIGINT NOT NULL,
    -- The worker that holds it.
    lease_owner        TEXT,
    -- Set when the caller deleted it from the Videos API's list.
    deleted_at         BIGINT,
    -- free, held, settled or released
    money              TEXT   NOT NULL DEFAULT 'free',
    reserved_micros    BIGINT NOT NULL DEFAULT 0,
    -- The prices when the task was accepted, and the quantity that was ordered.
    tariff             TEXT,
    -- The price, quantity and cost that were charged.
    bill               TEXT,
    -- How often the child process that ran it has died. NULL: never.
    deaths             BIGINT,
    -- The URL that is called when it ends, and the URL under which its request reached the gateway, for URLs in the
    -- callback.
    callback           TEXT,
    origin             TEXT,
    -- Whether its progress is a guess.
    progress_estimated BIGINT NOT NULL DEFAULT 0,
    -- The trace that it belongs to, if its request was traced: `traceparent`, a space and `tracestate`.
    trace              TEXT
);
CREATE INDEX tasks_by_account ON tasks (account_id, id);
CREATE INDEX tasks_cancelled_and_held ON tasks (id) WHERE money = 'held' AND state = 'cancelled';
-- For lists, by the condition that narrows them.
CREATE INDEX tasks_by_state ON tasks (account_id, state, id);
CREATE INDEX tasks_by_kind ON tasks (account_id, kind, id);
CREATE INDEX tasks_by_model ON tasks (account_id, model, id);
CREATE INDEX tasks_shown ON tasks (account_id, kind, id) WHERE deleted_at IS NULL;
CREATE INDEX tasks_ended ON tasks (finished_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX tasks_by_key ON tasks (account_id, key_id, id);
CREATE INDEX tasks_by_error ON tasks (account_id, error_code, id) WHERE error_code IS NOT NULL;
-- For the operator's list of all accounts' tasks.
CREATE INDEX tasks_by_provider ON tasks (provider, id);
CREATE INDEX tasks_open ON tasks (id) WHERE state IN ('queued', 'running');
CREATE INDEX tasks_cancelled_and_held_of ON tasks (account_id, key_id) WHERE money = 'held' AND state = 'cancelled';
CREATE INDEX tasks_succeeded ON tasks (model, finished_at, started_at) WHERE state = 'succeeded';
CREATE INDEX tasks_running ON tasks (model, started_at) WHERE state = 'running';
-- Waiting tasks are found, and held ones counted, by account. Without the provider as its first column, SQLite would
-- use the index of all tasks by provider instead of this one.
CREATE INDEX tasks_free ON tasks (provider, account_id, due_at, id)
WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND provider = 'embedded';
CREATE INDEX tasks_free_upstream ON tasks (model, account_id, due_at, id, state)
WHERE state IN ('queued', 'running') AND lease_owner IS NULL AND provider <> 'embedded';
-- For the few tasks that have begun, among many that wait.
CREATE INDEX tasks_free_begun ON tasks (model, due_at)
WHERE state = 'running' AND lease_owner IS NULL AND provider <> 'embedded';
CREATE INDEX tasks_held ON tasks (lease_owner, model, account_id) WHERE lease_owner IS NOT NULL;

CREATE TABLE task_events (
    task_id  TEXT   NOT NULL REFERENCES tasks (id),
    seq      BIGINT NOT NULL,
    state    TEXT   NOT NULL,
    progress BIGINT NOT NULL,
    PRIMARY KEY (task_id, seq)
) /* WITHOUT ROWID */;

CREATE TABLE assets (
    id         TEXT   NOT NULL PRIMARY KEY,
    account_id TEXT   NOT NULL REFERENCES accounts (id),
    media      TEXT   NOT NULL,
    size_bytes BIGINT NOT NULL,
    sha256     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    removed_at BIGINT,
    -- When the file of a removed asset is deleted: a day later, so that a clock that was wrong for a moment deletes
    -- nothing. NULL once it is deleted.
    delete_at  BIGINT
);
CREATE INDEX assets_expiring ON assets (expires_at) WHERE removed_at IS NULL AND expires_at IS NOT NULL;
CREATE INDEX assets_deleting ON assets (delete_at) WHERE removed_at IS NOT NULL AND delete_at IS NOT NULL;

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
    created_at   BIGINT NOT NULL,
    -- The provider's ids of it, and what the provider reports about it, as JSON.
    upstream     TEXT,
    -- The task that made it and that task's order, once the record of the task is removed.
    past_task_id TEXT,
    past_payload TEXT,
    -- The marks of origin found in its file or added to it: a model::provenance::Provenance as JSON.
    provenance   TEXT
);
CREATE INDEX clips_by_task ON clips (task_id, position);
CREATE INDEX clips_by_account ON clips (account_id, is_trashed, id);
-- Finds the clips that refer to a clip, for example before it is removed.
CREATE INDEX clips_by_source ON clips (source_id);
-- For the name of a downloaded file.
CREATE INDEX clips_by_audio ON clips (audio);

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
    created_at         BIGINT NOT NULL,
    -- The provider's ids of it, as JSON.
    upstream           TEXT
);
CREATE INDEX personas_by_account ON personas (account_id, id) WHERE is_trashed = 0;
CREATE INDEX personas_by_root_clip ON personas (root_clip_id);

-- Workers. A lease is one row instead of a column of every held task, so that a heartbeat costs one write, however many
-- tasks are held.
CREATE TABLE workers (
    name       TEXT   NOT NULL PRIMARY KEY,
    -- Until when it holds its tasks without another heartbeat. Negative: when it was declared dead.
    held_until BIGINT NOT NULL,
    -- The models whose tasks it claims, a JSON list.
    models     TEXT   NOT NULL
);

-- What was sent to providers: a row is on disk before the request leaves.
CREATE TABLE submissions (
    id              TEXT   NOT NULL PRIMARY KEY,
    task_id         TEXT   NOT NULL REFERENCES tasks (id),
    attempt         BIGINT NOT NULL,
    provider        TEXT   NOT NULL,
    route_model     TEXT   NOT NULL,
    -- The credential: its position in the settings and a digest of its value.
    credential      TEXT   NOT NULL,
    -- intended, accepted, refused, unclear, found or ended
    state           TEXT   NOT NULL,
    handle          TEXT,
    error_class     TEXT,
    error_message   TEXT,
    created_at      BIGINT NOT NULL,
    accepted_at     BIGINT,
    -- The worker that sends or follows it.
    follower        TEXT,
    -- 1 as long as its job has to be followed although its task has ended.
    stray           BIGINT NOT NULL DEFAULT 0,
    -- When it is examined next, if it is a stray or unclear.
    due_at          BIGINT,
    -- The results that the provider's answer to the order named, so that they can be fetched after a crash.
    results         TEXT,
    -- The cost of the job as the provider reports it, in millionths of the provider's unit. NULL: not reported.
    cost_millionths BIGINT,
    cost_unit       TEXT,
    -- When the provider answered, and when its job ended.
    answered_at     BIGINT,
    ended_at        BIGINT,
    -- Where it was sent: protocol and base URL, separated by a space. Its job is polled only there.
    endpoint        TEXT   NOT NULL,
    UNIQUE (task_id, attempt)
);
CREATE INDEX submissions_stray ON submissions (due_at) WHERE stray = 1;
CREATE INDEX submissions_unclear ON submissions (due_at) WHERE state = 'unclear' AND due_at IS NOT NULL;
CREATE INDEX submissions_taking_place ON submissions (provider, route_model, credential)
WHERE state IN ('intended', 'accepted') AND stray = 0;
CREATE INDEX submissions_recent ON submissions (provider, created_at, route_model, credential);
-- A task has at most one submission that was not refused, whichever process writes it.
CREATE UNIQUE INDEX submissions_once ON submissions (task_id) WHERE state <> 'refused';
-- For the operator's list of unconfirmed submissions.
CREATE INDEX submissions_unconfirmed ON submissions (id) WHERE state IN ('unclear', 'found');
-- To check that a job belongs to only one order, and to sum up job costs by the time at which they ended.
CREATE INDEX submissions_by_handle ON submissions (provider, handle) WHERE handle IS NOT NULL;
CREATE INDEX submissions_by_end ON submissions (ended_at) WHERE ended_at IS NOT NULL;

-- Entries are added and never changed. Each is a change of the held, spent and credited sums.
CREATE TABLE ledger (
    -- For an entry of a task, the task and the kind, so that there is at most one of each kind.
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
    created_at    BIGINT NOT NULL,
    -- When a correction counts: at the time of the entry that it corrects. NULL: the entry counts when it was written.
    counted_at    BIGINT
);
-- A reservation ends once, one way or the other.
CREATE UNIQUE INDEX ledger_ends_once ON ledger (task_id) WHERE kind IN ('settle', 'release');
CREATE INDEX ledger_by_task ON ledger (task_id);
CREATE INDEX ledger_by_time ON ledger (created_at, id);
CREATE INDEX ledger_by_account ON ledger (account_id, created_at, id);
CREATE INDEX ledger_counted_elsewhere ON ledger (counted_at) WHERE counted_at IS NOT NULL;

-- Requests that create something, so that a repeated request is recognised.
CREATE TABLE intents (
    id              TEXT   NOT NULL PRIMARY KEY,
    account_id      TEXT   NOT NULL,
    key_id          TEXT   NOT NULL,
    -- The Idempotency-Key, as long as it belongs to this intent.
    idempotency_key TEXT,
    -- SHA-256 of endpoint and body; and, for look-ups, the first 64 bits of the SHA-256 of the API key and this one.
    fingerprint     TEXT   NOT NULL,
    body            BIGINT NOT NULL,
    -- working or made
    state           TEXT   NOT NULL,
    -- What was made, as JSON: tasks, a clip, a persona, a webhook endpoint or a change.
    made            TEXT,
    -- The first answer, of an intent with a key.
    answer          TEXT,
    -- The process whose caller waits for the answer.
    holder          TEXT,
    -- How many requests for it there were.
    visits          BIGINT NOT NULL,
    -- Until when a request with the same body joins it. NULL: it is open. It is closed once its answer was delivered.
    joinable_until  BIGINT,
    -- When something other than a task was about to be sent to a provider.
    sent_at         BIGINT,
    created_at      BIGINT NOT NULL
);
CREATE UNIQUE INDEX intents_by_key ON intents (account_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX intents_open ON intents (body) WHERE joinable_until IS NULL;
CREATE INDEX intents_closed ON intents (body, joinable_until) WHERE joinable_until IS NOT NULL;

-- Charges, credits and ended tasks of a day, for usage and for checking the sums of keys and accounts.
CREATE TABLE daily_sums (
    account_id      TEXT   NOT NULL REFERENCES accounts (id),
    -- Days since the epoch, in UTC.
    day             BIGINT NOT NULL,
    -- Empty for money that moves without a key, such as a credit.
    key_id          TEXT   NOT NULL,
    model           TEXT   NOT NULL,
    spent_micros    BIGINT NOT NULL DEFAULT 0,
    credit_micros   BIGINT NOT NULL DEFAULT 0,
    -- The part of `spent_micros` whose ledger entries were removed.
    past_micros     BIGINT NOT NULL DEFAULT 0,
    -- Tasks, by how they ended.
    succeeded       BIGINT NOT NULL DEFAULT 0,
    failed          BIGINT NOT NULL DEFAULT 0,
    cancelled       BIGINT NOT NULL DEFAULT 0,
    -- Refunds for tasks that were cancelled while their jobs continued at the provider: the reservation while such a
    -- job runs, and what it cost once it has ended.
    forgiven_micros BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (account_id, day, key_id, model)
);
CREATE INDEX daily_sums_by_day ON daily_sums (day);

-- Periodic jobs that one process does at a time: when each is due next.
CREATE TABLE upkeep (
    kind   TEXT   NOT NULL PRIMARY KEY,
    due_at BIGINT NOT NULL
);

-- Orders that were refused before anything was made, counted by body, so that their retries do not join the results of
-- identical orders.
CREATE TABLE refused_orders (
    -- Endpoint, body and API key, as in intents.
    body       BIGINT NOT NULL PRIMARY KEY,
    -- How many of them may still make something.
    owed       BIGINT NOT NULL,
    -- Until when their retries are expected.
    until_at   BIGINT NOT NULL,
    -- When a retry last made something although no refusal was known. A refusal from before that time belongs to it: a
    -- process that could not reach the database reported it late.
    made_up_at BIGINT NOT NULL
);
CREATE INDEX refused_orders_until ON refused_orders (until_at);

-- How many bytes an account stores: the sum of its files that were not removed.
CREATE TABLE account_storage (
    account_id TEXT   NOT NULL PRIMARY KEY REFERENCES accounts (id),
    size_bytes BIGINT NOT NULL
);

-- A URL that an account registered.
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
    -- gone | failing; NULL while it is enabled or its owner disabled it.
    disabled_why  TEXT,
    -- Since its latest success: how many attempts failed, and when the first did.
    failures      BIGINT NOT NULL DEFAULT 0,
    failing_since BIGINT,
    created_at    BIGINT NOT NULL,
    -- The API key with which its URL was set: it receives what that key may see. NULL: the operator's command set the
    -- URL, and it receives everything about its account.
    key_id        TEXT   REFERENCES api_keys (id)
);
CREATE INDEX webhook_endpoints_by_account ON webhook_endpoints (account_id, id);

-- The keys with which an account's callbacks are signed; encrypted.
CREATE TABLE webhook_secrets (
    account_id TEXT NOT NULL PRIMARY KEY REFERENCES accounts (id),
    secrets    TEXT NOT NULL
);

-- Events. The body is signed byte for byte.
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
    id           TEXT   NOT NULL PRIMARY KEY,
    account_id   TEXT   NOT NULL REFERENCES accounts (id),
    event_id     TEXT   NOT NULL REFERENCES webhook_events (id),
    -- NULL: a callback, to `url`.
    endpoint_id  TEXT,
    url          TEXT,
    -- Sent instead of the event's body, unless NULL.
    body         TEXT,
    task_id      TEXT,
    -- Deliveries of one lane share the limit of requests in flight: an endpoint, or the
    -- callbacks of an account to one host.
    lane         TEXT   NOT NULL,
    -- waiting | delivered | failed | held
    state        TEXT   NOT NULL,
    -- Attempts so far, and how many of them came before it was last sent again by hand.
    attempts     BIGINT NOT NULL DEFAULT 0,
    tried_before BIGINT NOT NULL DEFAULT 0,
    due_at       BIGINT NOT NULL,
    lease_owner  TEXT,
    created_at   BIGINT NOT NULL,
    -- When it was delivered, given up or held.
    ended_at     BIGINT,
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
    -- The class of the error.
    error       TEXT,
    -- The beginning of the response.
    response    TEXT,
    PRIMARY KEY (delivery_id, number)
);

-- The words of prompts and titles. A term is a hash of the account and the word.
CREATE TABLE task_words (
    term    BIGINT NOT NULL,
    task_id TEXT   NOT NULL,
    PRIMARY KEY (term, task_id)
) /* WITHOUT ROWID */;

-- Changes by the operator, and who made them.
CREATE TABLE audit (
    id         TEXT   NOT NULL PRIMARY KEY,
    at         BIGINT NOT NULL,
    -- key | command | configuration
    actor_kind TEXT   NOT NULL,
    -- The id of the API key.
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

-- The state of a route that is not in the settings, for all processes and across restarts.
CREATE TABLE route_notes (
    provider      TEXT   NOT NULL,
    -- The provider's name for the model.
    model         TEXT   NOT NULL,
    -- Since when it is paused by an operator.
    paused_at     BIGINT,
    -- When an operator last said to try it again.
    tried_at      BIGINT,
    -- Since when the provider refuses the key; NULL again once it accepts an order.
    refused_at    BIGINT,
    -- Its last error, in the provider's words.
    error_class   TEXT,
    error_message TEXT,
    error_at      BIGINT,
    PRIMARY KEY (provider, model)
);

-- Login sessions by cookie.
CREATE TABLE sessions (
    -- The hash of the cookie.
    sha256        TEXT   NOT NULL PRIMARY KEY,
    key_id        TEXT   NOT NULL REFERENCES api_keys (id),
    created_at    BIGINT NOT NULL,
    expires_at    BIGINT NOT NULL,
    -- The hash of the key's secret when it began. It ends when that secret is replaced.
    secret_sha256 TEXT   NOT NULL
);
CREATE INDEX sessions_ending ON sessions (expires_at);
-- If a key has more sessions than it may, the oldest end.
CREATE INDEX sessions_by_age ON sessions (key_id, created_at, sha256);

-- How many requests each key may still make, for all processes together. Postgres may empty this table in a crash: then
-- each key may make a full minute's requests at once.
CREATE /* UNLOGGED */ TABLE rate_grants (
    key_id  TEXT   NOT NULL PRIMARY KEY,
    -- When all granted requests would have arrived if they were spread evenly, in nanoseconds.
    tat     BIGINT NOT NULL,
    -- Requests of the last grant.
    granted BIGINT NOT NULL
);

-- By what each result is recognised. A video's row is removed with its task, a clip's stays with the clip.
CREATE TABLE prints (
    -- The id of the result's file.
    id          TEXT   NOT NULL PRIMARY KEY,
    account_id  TEXT   NOT NULL REFERENCES accounts (id),
    task_id     TEXT,
    clip_id     TEXT,
    -- video | song | stem
    kind        TEXT   NOT NULL,
    is_embedded BIGINT NOT NULL,
    -- The hash of the file as stored.
    sha256      TEXT   NOT NULL,
    -- 40 bits.
    watermark   BIGINT,
    -- Fingerprints in base64.
    video       TEXT,
    sound       TEXT,
    created_at  BIGINT NOT NULL
);
CREATE INDEX prints_by_digest ON prints (sha256, id);
CREATE INDEX prints_by_watermark ON prints (watermark, id) WHERE watermark IS NOT NULL;
CREATE INDEX prints_by_task ON prints (task_id) WHERE task_id IS NOT NULL;
-- Films that were not examined yet; '' is a film that was examined and has no fingerprint.
CREATE INDEX prints_unseen ON prints (id) WHERE kind = 'video' AND video IS NULL;

-- Parts of fingerprints, for look-ups: similar results share some.
CREATE TABLE print_keys (
    part     BIGINT NOT NULL,
    print_id TEXT   NOT NULL REFERENCES prints (id),
    PRIMARY KEY (part, print_id)
);
CREATE INDEX print_keys_of_print ON print_keys (print_id);

-- Processes that share this database. `marks` is a JSON object with fingerprints of the settings that must agree, by
-- their names, and the process's route states. Postgres may empty this table in a crash: the processes then write it
-- again.
CREATE /* UNLOGGED */ TABLE replicas (
    name    TEXT   NOT NULL PRIMARY KEY,
    seen_at BIGINT NOT NULL,
    marks   TEXT   NOT NULL
);

-- Ended tasks and their costs, of all accounts, by hour: for the operator's usage.
CREATE TABLE hourly_sums (
    -- Hours since the epoch, in UTC.
    hour          BIGINT NOT NULL,
    account_id    TEXT   NOT NULL REFERENCES accounts (id),
    key_id        TEXT   NOT NULL,
    model         TEXT   NOT NULL,
    -- The provider that made it, or the first one that was asked if none accepted.
    provider      TEXT   NOT NULL,
    -- How the task ended: succeeded, failed or cancelled.
    outcome       TEXT   NOT NULL,
    tasks         BIGINT NOT NULL DEFAULT 0,
    -- Charged.
    spent_micros  BIGINT NOT NULL DEFAULT 0,
    -- What providers were paid for jobs that they finished.
    made_micros   BIGINT NOT NULL DEFAULT 0,
    -- What they report that they charged for other jobs.
    wasted_micros BIGINT NOT NULL DEFAULT 0,
    -- Jobs with unknown costs.
    unknown_jobs  BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (hour, account_id, key_id, model, provider, outcome)
);

-- What is kept of a removed task while its order may still be repeated.
CREATE TABLE past_tasks (
    id          TEXT   NOT NULL PRIMARY KEY,
    -- How it ended, and what it cost.
    state       TEXT   NOT NULL,
    error_code  TEXT,
    cost_micros BIGINT NOT NULL,
    removed_at  BIGINT NOT NULL
);
CREATE INDEX past_tasks_by_time ON past_tasks (removed_at);

-- The number of each account's last turn in a queue. Postgres may empty this table in a crash: then no account has had
-- a turn yet.
CREATE /* UNLOGGED */ TABLE turns (
    queue      TEXT   NOT NULL,
    account_id TEXT   NOT NULL,
    number     BIGINT NOT NULL,
    PRIMARY KEY (queue, account_id)
);
CREATE INDEX turns_in_order ON turns (queue, number);
