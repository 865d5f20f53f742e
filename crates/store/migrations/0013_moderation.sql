-- Only adds.

-- Verdicts of moderation, summed up by hour. A column is '' where a verdict has no such value.
CREATE TABLE moderation_sums (
    hour       BIGINT,
    account_id TEXT,
    key_id     TEXT,
    end_user   TEXT,
    model      TEXT,
    outcome    TEXT,
    category   TEXT,
    verdicts   BIGINT,
    PRIMARY KEY (hour, account_id, key_id, end_user, model, outcome, category)
) /* WITHOUT ROWID */;
