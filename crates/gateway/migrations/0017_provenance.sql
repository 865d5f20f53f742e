-- What came in with a clip, or was put into it: a model::provenance::Provenance. NULL: made before
-- that was looked at.
ALTER TABLE clips ADD COLUMN provenance TEXT;

-- What each result is known by. A video's goes with its task, a clip's stays with the clip.
CREATE TABLE prints (
    -- Of the result's file.
    id         TEXT   NOT NULL PRIMARY KEY,
    account_id TEXT   NOT NULL REFERENCES accounts (id),
    task_id    TEXT,
    clip_id    TEXT,
    -- video | song | stem
    kind       TEXT   NOT NULL,
    is_embedded BIGINT NOT NULL,
    -- Of the file as kept.
    sha256     TEXT   NOT NULL,
    -- 40 bits.
    watermark  BIGINT,
    -- Fingerprints in base64.
    video      TEXT,
    sound      TEXT,
    created_at BIGINT NOT NULL
);
CREATE INDEX prints_by_digest ON prints (sha256, id);
CREATE INDEX prints_by_watermark ON prints (watermark, id) WHERE watermark IS NOT NULL;
CREATE INDEX prints_by_task ON prints (task_id) WHERE task_id IS NOT NULL;

-- Parts of fingerprints: what is alike shares some.
CREATE TABLE print_keys (
    part     BIGINT NOT NULL,
    print_id TEXT   NOT NULL REFERENCES prints (id),
    PRIMARY KEY (part, print_id)
);
CREATE INDEX print_keys_of_print ON print_keys (print_id);
