-- Records that say everything: whether a progress is a guess, when a provider
-- answered and when its job ended, and the words by which a task is found.
ALTER TABLE tasks ADD COLUMN progress_estimated BIGINT NOT NULL DEFAULT 0;
-- Whether its words are in task_words. An older version does not write them; upkeep does.
ALTER TABLE tasks ADD COLUMN has_words BIGINT NOT NULL DEFAULT 0;
CREATE INDEX tasks_without_words ON tasks (id) WHERE has_words = 0;
CREATE INDEX tasks_by_key ON tasks (account_id, key_id, id);
CREATE INDEX tasks_by_error ON tasks (account_id, error_code, id) WHERE error_code IS NOT NULL;

ALTER TABLE submissions ADD COLUMN answered_at BIGINT;
ALTER TABLE submissions ADD COLUMN ended_at BIGINT;

-- The words of prompts and titles. A term is a hash of the account and the word.
CREATE TABLE task_words (
    term    BIGINT NOT NULL,
    task_id TEXT   NOT NULL,
    PRIMARY KEY (term, task_id)
);
