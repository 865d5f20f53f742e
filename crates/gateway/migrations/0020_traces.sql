-- The trace that a task belongs to, where its request was traced: `traceparent`, a space and `tracestate`.
ALTER TABLE tasks ADD COLUMN trace TEXT;
