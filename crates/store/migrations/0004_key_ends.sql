-- Only adds.

-- What becomes of the open tasks of a key that was revoked: keep | cancel. NULL, as for a key that
-- has expired: those that were not sent are cancelled.
ALTER TABLE api_keys ADD COLUMN tasks_at_end TEXT;
-- Set if the account is closed: its keys were revoked, and it gets no new ones.
ALTER TABLE accounts ADD COLUMN closed_at BIGINT;
CREATE INDEX api_keys_revoked ON api_keys (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX api_keys_expiring ON api_keys (expires_at) WHERE expires_at IS NOT NULL;
