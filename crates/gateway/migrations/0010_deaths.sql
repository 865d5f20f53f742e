-- How often a task's run ended the child process that it was run in. NULL: no
-- process that ran the task has died.
ALTER TABLE tasks ADD COLUMN deaths BIGINT;
