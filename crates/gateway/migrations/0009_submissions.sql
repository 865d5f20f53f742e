-- A task has one submission that is not provably refused, whoever writes it.
-- Older versions could write a second one: those that were overtaken are marked,
-- so that they stay to be seen.
ALTER TABLE submissions ADD COLUMN surplus BIGINT NOT NULL DEFAULT 0;
UPDATE submissions SET surplus = 1 WHERE state <> 'refused' AND EXISTS
(SELECT 1 FROM submissions later WHERE later.task_id = submissions.task_id AND later.state <> 'refused' AND later.attempt > submissions.attempt);
CREATE UNIQUE INDEX submissions_once ON submissions (task_id) WHERE state <> 'refused' AND surplus = 0;
-- What a provider's answer to an order named as the result, so that it can be
-- fetched whatever happens in between.
ALTER TABLE submissions ADD COLUMN results TEXT;

-- The models whose tasks a worker takes. NULL: an older version, which takes all.
ALTER TABLE workers ADD COLUMN models TEXT;
