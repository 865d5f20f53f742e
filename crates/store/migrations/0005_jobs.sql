-- Only adds.
-- A job belongs to one submission. Earlier versions could give one to several orders: `job_rank` counts the submissions
-- before this one that have the same job. NULL: none.
ALTER TABLE submissions ADD COLUMN job_rank BIGINT;
-- What identifies its job: the handle without what it repeats of the order. NULL: the handle.
ALTER TABLE submissions ADD COLUMN job TEXT;
-- A digest of what a provider's list shows of every order: its model and prompt. NULL: unknown.
ALTER TABLE submissions ADD COLUMN likeness TEXT;
CREATE INDEX submissions_by_endpoint ON submissions (endpoint, handle, id) WHERE handle IS NOT NULL;
UPDATE submissions SET job_rank = (SELECT COUNT(*) FROM submissions earlier WHERE earlier.endpoint = submissions.endpoint
    AND earlier.handle = submissions.handle AND earlier.id < submissions.id)
WHERE handle IS NOT NULL AND EXISTS (SELECT 1 FROM submissions earlier WHERE earlier.endpoint = submissions.endpoint
    AND earlier.handle = submissions.handle AND earlier.id < submissions.id);
DROP INDEX submissions_by_endpoint;
-- Two providers of the settings may be the same server, which has one list of jobs.
CREATE UNIQUE INDEX submissions_of_job ON submissions (endpoint, COALESCE(job, handle), COALESCE(job_rank, 0))
WHERE handle IS NOT NULL;
-- For look-ups by content, which decide nothing while a similar submission may have a job too.
CREATE INDEX submissions_undecided ON submissions (endpoint, likeness) WHERE state IN ('intended', 'unclear') AND handle IS NULL;
