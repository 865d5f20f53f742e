-- Only adds.
-- What an open task is expected to add to its account's storage, in bytes. NULL if it stores no file, or was accepted
-- by an earlier version.
ALTER TABLE tasks ADD COLUMN expected_bytes BIGINT;
CREATE INDEX tasks_expected ON tasks (account_id, expected_bytes)
    WHERE expected_bytes IS NOT NULL AND state IN ('queued', 'running');

-- The account in whose log an entry is: an action of a key that is no operator's. NULL: the operators' log.
ALTER TABLE audit ADD COLUMN account_id TEXT REFERENCES accounts (id);
-- What such keys did before this column existed.
UPDATE audit SET account_id = (SELECT account_id FROM api_keys WHERE id = audit.actor_id)
WHERE actor_kind = 'key' AND actor_id IN (SELECT id FROM api_keys WHERE scopes NOT LIKE '%"admin"%');
CREATE INDEX audit_of_operators ON audit (at, id) WHERE account_id IS NULL;
CREATE INDEX audit_of_account ON audit (account_id, at, id) WHERE account_id IS NOT NULL;
CREATE INDEX audit_of_accounts ON audit (at, id) WHERE account_id IS NOT NULL;
