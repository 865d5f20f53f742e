-- Only adds.

-- How an operator resolved an unconfirmed submission: when, why, and the provider's id of the job if there was one.
ALTER TABLE submissions ADD COLUMN resolved_at BIGINT;
ALTER TABLE submissions ADD COLUMN resolved_note TEXT;
ALTER TABLE submissions ADD COLUMN resolved_job TEXT;
