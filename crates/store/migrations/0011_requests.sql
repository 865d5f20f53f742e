-- Only adds.

-- The log of requests. `id` begins with the time of the response, so the newest are the last. `account_id` and `key_id`
-- are NULL if the request had no valid key.
CREATE TABLE requests (
    id         TEXT PRIMARY KEY,
    at         BIGINT,
    request_id TEXT,
    method     TEXT,
    route      TEXT,
    status     BIGINT,
    code       TEXT,
    message    TEXT,
    account_id TEXT,
    key_id     TEXT,
    model      TEXT,
    task_id    TEXT,
    took_ms    BIGINT
) /* WITHOUT ROWID */;
CREATE INDEX requests_by_request ON requests (request_id, id);
CREATE INDEX requests_by_account ON requests (account_id, id);
CREATE INDEX requests_by_code ON requests (code, id) WHERE code IS NOT NULL;
-- Finds a task by the id of its request.
CREATE INDEX tasks_by_request ON tasks (request_id, id);
