//! Changes of accounts, keys and tasks.

use super::Change;

pub(super) const TASKS: &[Change] = &[
    Change {
        name: "an account's held sum",
        kind: "account",
        detail: "held",
        sql: &["UPDATE accounts SET held_micros = held_micros + 1 WHERE handle = 'owls'"],
    },
    Change {
        name: "an account's spent sum",
        kind: "account",
        detail: "spent",
        sql: &["UPDATE accounts SET spent_micros = spent_micros + 1 WHERE handle = 'owls'"],
    },
    Change {
        name: "an account's credit sum",
        kind: "account",
        detail: "credited",
        sql: &["UPDATE accounts SET credit_micros = credit_micros + 1 WHERE handle = 'owls'"],
    },
    Change {
        name: "two accounts' sums, exchanged",
        kind: "account",
        detail: "spent",
        sql: &[
            "UPDATE accounts SET spent_micros = spent_micros + CASE handle WHEN 'owls' THEN 5 ELSE -5 END",
        ],
    },
    Change {
        name: "a key's held sum",
        kind: "key",
        detail: "held",
        sql: &[
            "UPDATE api_keys SET held_micros = held_micros - 1 WHERE id = (SELECT MIN(k.id) FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE a.handle = 'owls')",
        ],
    },
    Change {
        name: "a key's spent sum",
        kind: "key",
        detail: "spent",
        sql: &[
            "UPDATE api_keys SET spent_micros = spent_micros - 1 WHERE id = (SELECT MIN(k.id) FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE a.handle = 'owls')",
        ],
    },
    Change {
        name: "a key's open tasks",
        kind: "key",
        detail: "open tasks",
        sql: &[
            "UPDATE api_keys SET open_tasks = 0 WHERE id = (SELECT MIN(k.id) FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE a.handle = 'owls')",
        ],
    },
    Change {
        name: "a key that is another account's",
        kind: "entry",
        detail: "its key",
        sql: &[
            "UPDATE api_keys SET account_id = (SELECT id FROM accounts WHERE handle = 'default') WHERE id = (SELECT MIN(k.id) FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE a.handle = 'owls')",
        ],
    },
    Change {
        name: "a key that is gone",
        kind: "entry",
        detail: "its key",
        sql: &[
            "DELETE FROM api_keys WHERE id = (SELECT MAX(k.id) FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE a.handle = 'owls')",
        ],
    },
    Change {
        name: "the cost of a settled task",
        kind: "task",
        detail: "cost",
        sql: &[
            "UPDATE tasks SET cost_micros = cost_micros + 1 WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "the cost of a task of an embedded model",
        kind: "task",
        detail: "its bill says",
        sql: &[
            "UPDATE tasks SET cost_micros = cost_micros - 1 WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'animatic-1')",
        ],
    },
    Change {
        name: "the cost of a failed task",
        kind: "task",
        detail: "cost 0.000001",
        sql: &[
            "UPDATE tasks SET cost_micros = 1 WHERE id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed')",
        ],
    },
    Change {
        name: "the reservation of a settled task",
        kind: "task",
        detail: "by its prices",
        sql: &[
            "UPDATE tasks SET reserved_micros = reserved_micros + 1 WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "the reservation of a released task",
        kind: "entry",
        detail: "whose reservation is",
        sql: &[
            "UPDATE tasks SET reserved_micros = reserved_micros + 1 WHERE id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed')",
        ],
    },
    Change {
        name: "the reservation of an open task",
        kind: "account",
        detail: "held",
        sql: &[
            "UPDATE tasks SET reserved_micros = reserved_micros + 1 WHERE id = (SELECT id FROM tasks WHERE state IN ('queued', 'running'))",
        ],
    },
    Change {
        name: "a reservation and its entry",
        kind: "task",
        detail: "by its prices",
        sql: &[
            "UPDATE tasks SET reserved_micros = reserved_micros + 1 WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'animatic-1')",
            "UPDATE ledger SET held_micros = held_micros + CASE kind WHEN 'reserve' THEN 1 ELSE -1 END WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'animatic-1')",
        ],
    },
    Change {
        name: "money that was settled is released",
        kind: "task",
        detail: "its money released",
        sql: &[
            "UPDATE tasks SET money = 'released' WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "money that was settled is free",
        kind: "task",
        detail: "its money free",
        sql: &[
            "UPDATE tasks SET money = 'free' WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "money that was settled is held",
        kind: "task",
        detail: "its money held",
        sql: &[
            "UPDATE tasks SET money = 'held' WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "money that was released is settled",
        kind: "task",
        detail: "its money settled",
        sql: &[
            "UPDATE tasks SET money = 'settled' WHERE id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed')",
        ],
    },
    Change {
        name: "money that was released is free",
        kind: "task",
        detail: "its money free",
        sql: &[
            "UPDATE tasks SET money = 'free' WHERE id = (SELECT id FROM tasks WHERE state = 'cancelled' AND money = 'released')",
        ],
    },
    Change {
        name: "money that was held is released",
        kind: "task",
        detail: "its money released",
        sql: &[
            "UPDATE tasks SET money = 'released' WHERE id = (SELECT id FROM tasks WHERE state IN ('queued', 'running'))",
        ],
    },
    Change {
        name: "money that was held is settled",
        kind: "task",
        detail: "its money settled",
        sql: &[
            "UPDATE tasks SET money = 'settled' WHERE id = (SELECT id FROM tasks WHERE state IN ('queued', 'running'))",
        ],
    },
    Change {
        name: "money that was free is settled",
        kind: "task",
        detail: "its money settled",
        sql: &[
            "UPDATE tasks SET money = 'settled' WHERE id = (SELECT id FROM tasks WHERE money = 'free')",
        ],
    },
    Change {
        name: "money in a state that does not exist",
        kind: "task",
        detail: "is not a valid state of its money",
        sql: &[
            "UPDATE tasks SET money = 'gone' WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a task that succeeded is failed",
        kind: "task",
        detail: "it is failed",
        sql: &[
            "UPDATE tasks SET state = 'failed' WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a task that failed is succeeded",
        kind: "task",
        detail: "it is succeeded",
        sql: &[
            "UPDATE tasks SET state = 'succeeded' WHERE id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed')",
        ],
    },
    Change {
        name: "a task that was cancelled is failed",
        kind: "task",
        detail: "it is failed",
        sql: &[
            "UPDATE tasks SET state = 'failed' WHERE id = (SELECT id FROM tasks WHERE state = 'cancelled' AND money = 'settled')",
        ],
    },
    Change {
        name: "a task that succeeded is cancelled",
        kind: "day",
        detail: "cancelled; there are",
        sql: &[
            "UPDATE tasks SET state = 'cancelled' WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a released task that was cancelled is failed",
        kind: "day",
        detail: "failed; there are",
        sql: &[
            "UPDATE tasks SET state = 'failed' WHERE id = (SELECT id FROM tasks WHERE state = 'cancelled' AND money = 'released')",
        ],
    },
    Change {
        name: "a free task that succeeded is failed",
        kind: "day",
        detail: "failed; there are",
        sql: &[
            "UPDATE tasks SET state = 'failed' WHERE id = (SELECT id FROM tasks WHERE money = 'free')",
        ],
    },
    Change {
        name: "an open task that failed",
        kind: "task",
        detail: "has no end",
        sql: &[
            "UPDATE tasks SET state = 'failed' WHERE id = (SELECT id FROM tasks WHERE state IN ('queued', 'running'))",
        ],
    },
    Change {
        name: "a task in a state that does not exist",
        kind: "task",
        detail: "is not a valid state of a task",
        sql: &[
            "UPDATE tasks SET state = 'lost' WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a bill's cost",
        kind: "task",
        detail: "its bill says",
        sql: &[
            r#"UPDATE tasks SET bill = REPLACE(bill, '"cost":', '"cost":1') WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')"#,
        ],
    },
    Change {
        name: "a bill's price",
        kind: "task",
        detail: "another price",
        sql: &[
            r#"UPDATE tasks SET bill = REPLACE(bill, '"per_unit":', '"per_unit":1') WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')"#,
        ],
    },
    Change {
        name: "a bill's quantity",
        kind: "task",
        detail: "by its price and quantity",
        sql: &[
            r#"UPDATE tasks SET bill = REPLACE(bill, '"milliseconds":1000', '"milliseconds":900') WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'animatic-1')"#,
        ],
    },
    Change {
        name: "a bill that is gone",
        kind: "task",
        detail: "has no bill",
        sql: &[
            "UPDATE tasks SET bill = NULL WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a bill of a failed task",
        kind: "task",
        detail: "it has a bill",
        sql: &[
            "UPDATE tasks SET bill = (SELECT o.bill FROM tasks o WHERE o.id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')) WHERE id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed')",
        ],
    },
    Change {
        name: "a bill that cannot be read",
        kind: "task",
        detail: "cannot be read",
        sql: &[
            "UPDATE tasks SET bill = 'x' WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "the prices of a task",
        kind: "task",
        detail: "by its prices",
        sql: &[
            r#"UPDATE tasks SET tariff = REPLACE(tariff, '"per_unit":', '"per_unit":1') WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')"#,
        ],
    },
    Change {
        name: "the prices of an open task",
        kind: "task",
        detail: "by its prices",
        sql: &[
            r#"UPDATE tasks SET tariff = REPLACE(tariff, '"per_unit":', '"per_unit":1') WHERE id = (SELECT id FROM tasks WHERE state IN ('queued', 'running'))"#,
        ],
    },
    Change {
        name: "prices that cannot be read",
        kind: "task",
        detail: "cannot be read",
        sql: &[
            "UPDATE tasks SET tariff = '{}' WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a task of another account",
        kind: "entry",
        detail: "its task",
        sql: &[
            "UPDATE tasks SET account_id = (SELECT id FROM accounts WHERE handle = 'default') WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a task of another key",
        kind: "entry",
        detail: "of key",
        sql: &[
            "UPDATE tasks SET key_id = (SELECT MAX(k.id) FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE a.handle = 'owls') WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a task of another model",
        kind: "day",
        detail: "there are",
        sql: &[
            "UPDATE tasks SET model = 'other' WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a task of another provider",
        kind: "task",
        detail: "its submission",
        sql: &[
            "UPDATE tasks SET provider = 'dear' WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a task of an embedded model that a provider made",
        kind: "task",
        detail: "no submission confirms",
        sql: &[
            "UPDATE tasks SET provider = 'acme' WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'animatic-1')",
        ],
    },
    Change {
        name: "a task that ended a day before",
        kind: "day",
        detail: "there are",
        sql: &[
            "UPDATE tasks SET finished_at = finished_at - 86400000000 WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a task that ended a moment later",
        kind: "entry",
        detail: "its task changed at",
        sql: &[
            "UPDATE tasks SET finished_at = finished_at + 1 WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a task that ended and has no end",
        kind: "task",
        detail: "has no end",
        sql: &[
            "UPDATE tasks SET finished_at = NULL WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "an open task that has an end",
        kind: "task",
        detail: "has an end",
        sql: &[
            "UPDATE tasks SET finished_at = created_at WHERE id = (SELECT id FROM tasks WHERE state IN ('queued', 'running'))",
        ],
    },
    Change {
        name: "a task that was accepted before",
        kind: "entry",
        detail: "its task changed at",
        sql: &[
            "UPDATE tasks SET created_at = created_at - 1 WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a settled task that is gone",
        kind: "entry",
        detail: "there is no task",
        sql: &[
            "DELETE FROM tasks WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a settled task of an embedded model that is gone",
        kind: "entry",
        detail: "there is no task",
        sql: &[
            "DELETE FROM tasks WHERE id = (SELECT MIN(id) FROM tasks WHERE model = 'animatic-1')",
        ],
    },
    Change {
        name: "a failed task that is gone",
        kind: "entry",
        detail: "there is no task",
        sql: &[
            "DELETE FROM tasks WHERE id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed')",
        ],
    },
    Change {
        name: "a cancelled and charged task that is gone",
        kind: "entry",
        detail: "there is no task",
        sql: &[
            "DELETE FROM tasks WHERE id = (SELECT id FROM tasks WHERE state = 'cancelled' AND money = 'settled')",
        ],
    },
    Change {
        name: "an open task that is gone",
        kind: "entry",
        detail: "there is no task",
        sql: &[
            "DELETE FROM tasks WHERE id = (SELECT id FROM tasks WHERE state IN ('queued', 'running'))",
        ],
    },
    Change {
        name: "a free task that is gone",
        kind: "day",
        detail: "there are 0 such tasks",
        sql: &["DELETE FROM tasks WHERE id = (SELECT id FROM tasks WHERE money = 'free')"],
    },
    Change {
        name: "a settled task that is gone with all of its rows",
        kind: "day",
        detail: "its entries sum to",
        sql: &[
            "DELETE FROM submissions WHERE task_id = (SELECT MAX(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
            "DELETE FROM ledger WHERE task_id = (SELECT MAX(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
            "DELETE FROM tasks WHERE id = (SELECT MAX(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a failed task that is gone with all of its rows",
        kind: "day",
        detail: "failed; there are",
        sql: &[
            "DELETE FROM submissions WHERE task_id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed')",
            "DELETE FROM ledger WHERE task_id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed')",
            "DELETE FROM tasks WHERE id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed')",
        ],
    },
];
