-- How many bytes an account keeps: the sum of its files that were not removed.
CREATE TABLE account_storage (
    account_id TEXT   NOT NULL PRIMARY KEY REFERENCES accounts (id),
    size_bytes BIGINT NOT NULL
);
INSERT INTO account_storage (account_id, size_bytes)
SELECT account_id, CAST(SUM(size_bytes) AS BIGINT) FROM assets WHERE removed_at IS NULL GROUP BY account_id;
