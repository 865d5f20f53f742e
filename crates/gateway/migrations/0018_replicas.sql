-- Processes that share this database, and fingerprints of what must be set alike in all of them: an
-- object by the settings' names. Postgres may lose it in a crash: they come again.
CREATE /* UNLOGGED */ TABLE replicas (
    name    TEXT   NOT NULL PRIMARY KEY,
    seen_at BIGINT NOT NULL,
    marks   TEXT   NOT NULL
);

-- Films that nobody has looked at yet; '' is what was looked at and is known by nothing.
CREATE INDEX prints_unseen ON prints (id) WHERE kind = 'video' AND video IS NULL;
