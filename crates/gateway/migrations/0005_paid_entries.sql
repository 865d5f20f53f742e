-- What was paid is summed up by account and day. What is only held has no part
-- in that, and is written with every request: it stays out of the index.
DROP INDEX ledger_by_account;
CREATE INDEX ledger_paid ON ledger (account_id, created_at) WHERE spent_micros <> 0;
