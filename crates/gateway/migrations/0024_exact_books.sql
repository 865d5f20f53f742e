-- Books in which every row is held against another.

-- Where a correction counts that was written later: at the end of the order that it corrects. NULL: when it was written.
ALTER TABLE ledger ADD COLUMN counted_at BIGINT;
CREATE INDEX ledger_counted_elsewhere ON ledger (counted_at) WHERE counted_at IS NOT NULL;

-- What was given back on a day for jobs that were cancelled and that their provider did not call off: the most that
-- those may cost which are still at work, and what the others did cost.
ALTER TABLE daily_sums ADD COLUMN forgiven_micros BIGINT NOT NULL DEFAULT 0;

-- One job belongs to one order; and what jobs cost is summed up by when they ended.
CREATE INDEX submissions_by_handle ON submissions (provider, handle) WHERE handle IS NOT NULL;
CREATE INDEX submissions_by_end ON submissions (ended_at) WHERE ended_at IS NOT NULL;

-- What is said of a task whose record is gone while its order may still be repeated.
CREATE TABLE past_tasks (
    id          TEXT   NOT NULL PRIMARY KEY,
    -- How it ended, and what it cost.
    state       TEXT   NOT NULL,
    error_code  TEXT,
    cost_micros BIGINT NOT NULL,
    removed_at  BIGINT NOT NULL
);
CREATE INDEX past_tasks_by_time ON past_tasks (removed_at);

-- Older versions removed records and kept no count of them: what is here already is checked for less.
INSERT INTO meta (name, value)
SELECT 'books_exact_from', CAST((MAX(at) / 86400000000 + 1) * 86400000000 AS TEXT)
FROM (SELECT MAX(created_at) AS at FROM tasks UNION ALL SELECT MAX(finished_at) FROM tasks
      UNION ALL SELECT MAX(created_at) FROM ledger UNION ALL SELECT MAX(day) * 86400000000 FROM daily_sums
      UNION ALL SELECT MAX(hour) * 3600000000 FROM hourly_sums) AS latest
HAVING MAX(at) IS NOT NULL;
