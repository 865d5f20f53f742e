-- Only adds.
-- How a submission was made. NULL: unknown, as an earlier version made it.
-- 1 if an idempotency key went out with it: only then may it be repeated.
ALTER TABLE submissions ADD COLUMN has_key BIGINT;
-- Digests of the settings by which its job is asked for, and of all that shape its request.
ALTER TABLE submissions ADD COLUMN job_settings TEXT;
ALTER TABLE submissions ADD COLUMN order_settings TEXT;
