-- Only adds.

-- The latest earlier task of an identical order of the same API key, within 24 hours.
ALTER TABLE tasks ADD COLUMN identical_task_id TEXT;
