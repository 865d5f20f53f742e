-- Where a submission was made: its protocol and base address, with a space between. A job is asked for only there.
ALTER TABLE submissions ADD COLUMN endpoint TEXT;

-- When the file of a removed asset is deleted: a day later, so that a clock that was wrong for a moment deletes
-- nothing. NULL once it is deleted.
ALTER TABLE assets ADD COLUMN delete_at BIGINT;
CREATE INDEX assets_deleting ON assets (delete_at) WHERE removed_at IS NOT NULL AND delete_at IS NOT NULL;
