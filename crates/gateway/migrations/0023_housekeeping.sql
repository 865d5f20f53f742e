-- Whether a key makes nothing of chats that an interface holds on its own, for titles and tags.
ALTER TABLE api_keys ADD COLUMN refuse_housekeeping BIGINT NOT NULL DEFAULT 0;
