-- How many requests each key may still make, for all processes together. Postgres may lose it in a
-- crash: then each key has a full minute once.
CREATE /* UNLOGGED */ TABLE rate_grants (
    key_id  TEXT   NOT NULL PRIMARY KEY,
    -- When all requests that were granted would have arrived, evenly spread, in nanoseconds.
    tat     BIGINT NOT NULL,
    -- Requests of the last grant.
    granted BIGINT NOT NULL
);
