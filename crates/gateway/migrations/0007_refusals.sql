-- Tries that were refused before anything was made, so that their retries are not
-- taken for those of orders alike.
CREATE TABLE refusals (
    -- Endpoint, body and API key, as in intents.
    body     BIGINT NOT NULL,
    -- How many tries came before, as the SDK counts.
    tries    BIGINT NOT NULL,
    refused  BIGINT NOT NULL,
    -- Until when their retries are expected.
    until_at BIGINT NOT NULL,
    PRIMARY KEY (body, tries)
);
CREATE INDEX refusals_until ON refusals (until_at);
