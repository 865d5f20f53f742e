//! Changes of the ledger's entries.

use super::Change;

pub(super) const ENTRIES: &[Change] = &[
    Change {
        name: "what an entry reserved",
        kind: "task",
        detail: "reserves",
        sql: &[
            "UPDATE ledger SET held_micros = held_micros + 1 WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'reserve'",
        ],
    },
    Change {
        name: "what an entry gave back",
        kind: "entry",
        detail: "whose reservation is",
        sql: &[
            "UPDATE ledger SET held_micros = held_micros + 1 WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'settle'",
        ],
    },
    Change {
        name: "what an entry charged",
        kind: "task",
        detail: "settles",
        sql: &[
            "UPDATE ledger SET spent_micros = spent_micros + 1 WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'settle'",
        ],
    },
    Change {
        name: "what an entry released",
        kind: "entry",
        detail: "whose reservation is",
        sql: &[
            "UPDATE ledger SET held_micros = held_micros + 1 WHERE task_id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed') AND kind = 'release'",
        ],
    },
    Change {
        name: "what a reservation spent",
        kind: "day",
        detail: "its entries sum to",
        sql: &[
            "UPDATE ledger SET spent_micros = 1 WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'reserve'",
        ],
    },
    Change {
        name: "credit in a charge",
        kind: "entry",
        detail: "credit 0.000005",
        sql: &[
            "UPDATE ledger SET credit_micros = 5 WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'settle'",
        ],
    },
    Change {
        name: "what a correction gave back",
        kind: "day",
        detail: "its entries sum to",
        sql: &["UPDATE ledger SET spent_micros = spent_micros - 1 WHERE kind = 'adjust'"],
    },
    Change {
        name: "more given back than was paid",
        kind: "task",
        detail: "adjusts by",
        sql: &["UPDATE ledger SET spent_micros = -9000000 WHERE kind = 'adjust'"],
    },
    Change {
        name: "what was credited",
        kind: "day",
        detail: "credited",
        sql: &["UPDATE ledger SET credit_micros = credit_micros + 1 WHERE kind = 'credit'"],
    },
    Change {
        name: "a credit that spends",
        kind: "entry",
        detail: "a credit has",
        sql: &["UPDATE ledger SET spent_micros = 1 WHERE kind = 'credit'"],
    },
    Change {
        name: "a credit of a task",
        kind: "entry",
        detail: "a credit has",
        sql: &[
            "UPDATE ledger SET task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') WHERE kind = 'credit'",
        ],
    },
    Change {
        name: "an entry of kind reserve that is gone",
        kind: "task",
        detail: "reserves 0.00",
        sql: &[
            "DELETE FROM ledger WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'reserve'",
        ],
    },
    Change {
        name: "an entry of kind settle that is gone",
        kind: "day",
        detail: "its entries sum to",
        sql: &[
            "DELETE FROM ledger WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'settle'",
        ],
    },
    Change {
        name: "an entry of kind release that is gone",
        kind: "task",
        detail: "releases 0 times",
        sql: &[
            "DELETE FROM ledger WHERE task_id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed') AND kind = 'release'",
        ],
    },
    Change {
        name: "a correction that is gone",
        kind: "day",
        detail: "its entries sum to",
        sql: &["DELETE FROM ledger WHERE kind = 'adjust'"],
    },
    Change {
        name: "a credit that is gone",
        kind: "day",
        detail: "credited",
        sql: &["DELETE FROM ledger WHERE kind = 'credit'"],
    },
    Change {
        name: "all entries of a task that are gone",
        kind: "task",
        detail: "reserves 0.00",
        sql: &[
            "DELETE FROM ledger WHERE task_id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed')",
        ],
    },
    Change {
        name: "an entry of another account",
        kind: "entry",
        detail: "it is of account",
        sql: &[
            "UPDATE ledger SET account_id = (SELECT id FROM accounts WHERE handle = 'default') WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'settle'",
        ],
    },
    Change {
        name: "a reservation of another account",
        kind: "entry",
        detail: "it is of account",
        sql: &[
            "UPDATE ledger SET account_id = (SELECT id FROM accounts WHERE handle = 'default') WHERE task_id = (SELECT id FROM tasks WHERE state IN ('queued', 'running')) AND kind = 'reserve'",
        ],
    },
    Change {
        name: "all entries of a task, of another account",
        kind: "entry",
        detail: "it is of account",
        sql: &[
            "UPDATE ledger SET account_id = (SELECT id FROM accounts WHERE handle = 'default'), key_id = (SELECT MIN(k.id) FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE a.handle = 'default') WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a credit of another account",
        kind: "day",
        detail: "credited",
        sql: &[
            "UPDATE ledger SET account_id = (SELECT id FROM accounts WHERE handle = 'default') WHERE kind = 'credit'",
        ],
    },
    Change {
        name: "an entry of an account that does not exist",
        kind: "entry",
        detail: "there is no account",
        sql: &[
            "UPDATE ledger SET account_id = 'x' WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'reserve'",
        ],
    },
    Change {
        name: "an entry of another key",
        kind: "entry",
        detail: "it is of key",
        sql: &[
            "UPDATE ledger SET key_id = (SELECT MAX(k.id) FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE a.handle = 'owls') WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'settle'",
        ],
    },
    Change {
        name: "an entry without a key",
        kind: "entry",
        detail: "it is of key none",
        sql: &[
            "UPDATE ledger SET key_id = NULL WHERE task_id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed') AND kind = 'release'",
        ],
    },
    Change {
        name: "an entry without a task",
        kind: "entry",
        detail: "names no task",
        sql: &[
            "UPDATE ledger SET task_id = NULL WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'settle'",
        ],
    },
    Change {
        name: "a reservation without a task",
        kind: "entry",
        detail: "names no task",
        sql: &[
            "UPDATE ledger SET task_id = NULL WHERE task_id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed') AND kind = 'reserve'",
        ],
    },
    Change {
        name: "an entry of a task that does not exist",
        kind: "entry",
        detail: "there is no task",
        sql: &[
            "UPDATE ledger SET task_id = 'x', id = 'x:reserve' WHERE task_id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed') AND kind = 'reserve'",
        ],
    },
    Change {
        name: "a correction of another task",
        kind: "entry",
        detail: "its id is not the id",
        sql: &[
            "UPDATE ledger SET task_id = (SELECT MIN(id) FROM tasks WHERE model = 'stated' AND state = 'succeeded') WHERE kind = 'adjust'",
        ],
    },
    Change {
        name: "a charge that is a release",
        kind: "entry",
        detail: "no release",
        sql: &[
            "UPDATE ledger SET kind = 'release', id = task_id || ':release' WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'settle'",
        ],
    },
    Change {
        name: "a release that is a charge",
        kind: "task",
        detail: "settles 0.00 (1 times)",
        sql: &[
            "UPDATE ledger SET kind = 'settle', id = task_id || ':settle' WHERE task_id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed') AND kind = 'release'",
        ],
    },
    Change {
        name: "an entry of a kind that does not exist",
        kind: "entry",
        detail: "is not a valid kind",
        sql: &["UPDATE ledger SET kind = 'bonus' WHERE kind = 'adjust'"],
    },
    Change {
        name: "an entry's id",
        kind: "entry",
        detail: "its id is not the id",
        sql: &[
            "UPDATE ledger SET id = 'x' WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'settle'",
        ],
    },
    Change {
        name: "an entry of another day",
        kind: "day",
        detail: "its entries sum to",
        sql: &[
            "UPDATE ledger SET created_at = created_at - 86400000000 WHERE task_id = (SELECT MAX(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'settle'",
        ],
    },
    Change {
        name: "an entry written a moment later",
        kind: "entry",
        detail: "it was written at",
        sql: &[
            "UPDATE ledger SET created_at = created_at + 1 WHERE task_id = (SELECT MAX(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'settle'",
        ],
    },
    Change {
        name: "a reservation of another day",
        kind: "entry",
        detail: "it was written at",
        sql: &[
            "UPDATE ledger SET created_at = created_at - 86400000000 WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'reserve'",
        ],
    },
    Change {
        name: "a correction that counts on another day",
        kind: "entry",
        detail: "it counts at",
        sql: &["UPDATE ledger SET counted_at = counted_at - 86400000000 WHERE kind = 'adjust'"],
    },
    Change {
        name: "a charge that counts on another day",
        kind: "entry",
        detail: "it counts at",
        sql: &[
            "UPDATE ledger SET counted_at = created_at - 86400000000 WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'settle'",
        ],
    },
    Change {
        name: "a correction that nobody made",
        kind: "day",
        detail: "its entries sum to",
        sql: &[
            "INSERT INTO ledger (id, account_id, key_id, task_id, kind, held_micros, spent_micros, credit_micros, created_at, counted_at) SELECT task_id || ':adjust', account_id, key_id, task_id, 'adjust', 0, -5, 0, created_at, created_at FROM ledger WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'stated' AND state = 'succeeded') AND kind = 'settle'",
        ],
    },
    Change {
        name: "a credit that nobody paid",
        kind: "day",
        detail: "credited",
        sql: &[
            "INSERT INTO ledger (id, account_id, kind, held_micros, spent_micros, credit_micros, created_at) SELECT 'x', account_id, 'credit', 0, 0, 5000000, created_at FROM ledger WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'settle'",
        ],
    },
    Change {
        name: "a credit with the sums of its day and account",
        kind: "account",
        detail: "credited",
        sql: &[
            "INSERT INTO ledger (id, account_id, kind, held_micros, spent_micros, credit_micros, created_at) SELECT 'x', account_id, 'credit', 0, 0, 5, created_at FROM ledger WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded') AND kind = 'settle'",
            "UPDATE daily_sums SET credit_micros = credit_micros + 5 WHERE key_id = ''",
        ],
    },
];
