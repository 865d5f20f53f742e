-- Only adds.

-- Orders of the key that reserve more than this wait for approval. NULL: none do.
ALTER TABLE api_keys ADD COLUMN approve_above_micros BIGINT;

-- pending | approved | rejected | expired | cancelled; NULL: the task needs no approval. A pending task is held under a
-- lease of its own, which no process has, so that no worker of any version claims it.
ALTER TABLE tasks ADD COLUMN approval_state TEXT;
ALTER TABLE tasks ADD COLUMN approval_expires_at BIGINT;
ALTER TABLE tasks ADD COLUMN approval_decided_at BIGINT;
CREATE INDEX tasks_pending_approval ON tasks (approval_expires_at) WHERE approval_state = 'pending';
CREATE INDEX tasks_by_approval ON tasks (account_id, approval_state, id) WHERE approval_state IS NOT NULL;
