-- Every request adds an intent, and its answer closes it a moment later. Those
-- that are open are few, so an index of them stays small and is cheap to add to;
-- the closed ones get into theirs many at a time.
DROP INDEX intents_by_body;
CREATE INDEX intents_open ON intents (body) WHERE joinable_until IS NULL;
CREATE INDEX intents_closed ON intents (body, joinable_until) WHERE joinable_until IS NOT NULL;
