-- What the provider itself says that a job cost, in millionths of the unit that it
-- counts in. NULL: it does not say.
ALTER TABLE submissions ADD COLUMN cost_millionths BIGINT;
ALTER TABLE submissions ADD COLUMN cost_unit TEXT;
