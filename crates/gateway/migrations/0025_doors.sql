-- The API key whose holder gave an endpoint its address: the endpoint is told what that key may see. NULL: the
-- operator's command did, and it is told of everything in its account.
ALTER TABLE webhook_endpoints ADD COLUMN key_id TEXT REFERENCES api_keys (id);
UPDATE webhook_endpoints SET key_id = (
    SELECT MIN(k.id) FROM audit a JOIN api_keys k ON k.id = a.actor_id
    WHERE a.target = webhook_endpoints.id AND a.action = 'webhook.create' AND a.actor_kind = 'key');

-- The hash of the secret that a session began with, and ends with. NULL: it began before this was kept.
ALTER TABLE sessions ADD COLUMN secret_sha256 TEXT;
-- The oldest session of a key ends for one more than it may have.
CREATE INDEX sessions_by_age ON sessions (key_id, created_at, sha256);
DROP INDEX sessions_by_key;
