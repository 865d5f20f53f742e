-- A process that cannot reach the database refuses a request that another one then
-- makes something for: the refusal, once it is known, must not free the retry again.
-- When the earliest of these tries was refused.
ALTER TABLE refusals ADD COLUMN refused_at BIGINT NOT NULL DEFAULT 0;
-- Begun by a retry of a try of which nobody knew anything.
ALTER TABLE intents ADD COLUMN of_unknown_try BIGINT NOT NULL DEFAULT 0;
-- Few are.
CREATE INDEX intents_of_unknown_tries ON intents (body, created_at) WHERE of_unknown_try = 1;
