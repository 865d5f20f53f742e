-- Less to write for each task. What these two were read for is rare, and few indexes of other tasks' serve it as well.
DROP INDEX tasks_open_by_key;
DROP INDEX tasks_with_money_held;
CREATE INDEX tasks_cancelled_and_held_of ON tasks (account_id, key_id) WHERE money = 'held' AND state = 'cancelled';

-- How long a model's tasks take, and have taken.
DROP INDEX tasks_finished;
CREATE INDEX tasks_succeeded ON tasks (model, finished_at, started_at) WHERE state = 'succeeded';
CREATE INDEX tasks_running ON tasks (model, started_at) WHERE state = 'running';

-- SQLite keeps a table and the index of its key in two trees, unless it is told that the key is the table. All that
-- is in this comment runs on SQLite only.
/* SQLITE
CREATE TABLE task_words_by_term (
    term    BIGINT NOT NULL,
    task_id TEXT   NOT NULL,
    PRIMARY KEY (term, task_id)
) WITHOUT ROWID;
INSERT INTO task_words_by_term (term, task_id) SELECT term, task_id FROM task_words ORDER BY term, task_id;
DROP TABLE task_words;
ALTER TABLE task_words_by_term RENAME TO task_words;

CREATE TABLE task_events_in_order (
    task_id  TEXT   NOT NULL REFERENCES tasks (id),
    seq      BIGINT NOT NULL,
    state    TEXT   NOT NULL,
    progress BIGINT NOT NULL,
    PRIMARY KEY (task_id, seq)
) WITHOUT ROWID;
INSERT INTO task_events_in_order (task_id, seq, state, progress)
SELECT task_id, seq, state, progress FROM task_events ORDER BY task_id, seq;
DROP TABLE task_events;
ALTER TABLE task_events_in_order RENAME TO task_events;
SQLITE */
