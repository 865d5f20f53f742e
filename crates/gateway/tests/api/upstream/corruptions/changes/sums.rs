//! Changes of the sums of days and hours, and of kept intents.

use super::Change;

pub(super) const SUMS: &[Change] = &[
    Change {
        name: "what a day spent",
        kind: "day",
        detail: "its entries sum to",
        sql: &[
            "UPDATE daily_sums SET spent_micros = spent_micros + 1 WHERE account_id = (SELECT id FROM accounts WHERE handle = 'owls') AND model = 'film'",
        ],
    },
    Change {
        name: "what a day credited",
        kind: "account",
        detail: "credited",
        sql: &["UPDATE daily_sums SET credit_micros = credit_micros + 1 WHERE key_id = ''"],
    },
    Change {
        name: "what a day spent in entries that are no longer kept",
        kind: "day",
        detail: "its entries sum to",
        sql: &[
            "UPDATE daily_sums SET past_micros = past_micros + 1 WHERE account_id = (SELECT id FROM accounts WHERE handle = 'owls') AND model = 'film'",
        ],
    },
    Change {
        name: "how many succeeded on a day: more",
        kind: "day",
        detail: "succeeded; there are",
        sql: &[
            "UPDATE daily_sums SET succeeded = succeeded + 1 WHERE account_id = (SELECT id FROM accounts WHERE handle = 'owls') AND model = 'film'",
        ],
    },
    Change {
        name: "how many succeeded on a day: fewer",
        kind: "day",
        detail: "succeeded; there are",
        sql: &[
            "UPDATE daily_sums SET succeeded = succeeded - 1 WHERE account_id = (SELECT id FROM accounts WHERE handle = 'owls') AND model = 'film' AND succeeded > 0",
        ],
    },
    Change {
        name: "how many failed on a day: more",
        kind: "day",
        detail: "failed; there are",
        sql: &[
            "UPDATE daily_sums SET failed = failed + 1 WHERE account_id = (SELECT id FROM accounts WHERE handle = 'owls') AND model = 'film'",
        ],
    },
    Change {
        name: "how many failed on a day: fewer",
        kind: "day",
        detail: "failed; there are",
        sql: &[
            "UPDATE daily_sums SET failed = failed - 1 WHERE account_id = (SELECT id FROM accounts WHERE handle = 'owls') AND model = 'film' AND failed > 0",
        ],
    },
    Change {
        name: "how many were cancelled on a day: more",
        kind: "day",
        detail: "cancelled; there are",
        sql: &[
            "UPDATE daily_sums SET cancelled = cancelled + 1 WHERE account_id = (SELECT id FROM accounts WHERE handle = 'owls') AND model = 'film'",
        ],
    },
    Change {
        name: "how many were cancelled on a day: fewer",
        kind: "day",
        detail: "cancelled; there are",
        sql: &[
            "UPDATE daily_sums SET cancelled = cancelled - 1 WHERE account_id = (SELECT id FROM accounts WHERE handle = 'owls') AND model = 'film' AND cancelled > 0",
        ],
    },
    Change {
        name: "how many free tasks succeeded on a day",
        kind: "day",
        detail: "succeeded; there are",
        sql: &["UPDATE daily_sums SET succeeded = 0 WHERE model = 'free'"],
    },
    Change {
        name: "a day that is gone",
        kind: "account",
        detail: "spent",
        sql: &[
            "DELETE FROM daily_sums WHERE account_id = (SELECT id FROM accounts WHERE handle = 'owls') AND model = 'film'",
        ],
    },
    Change {
        name: "a free day that is gone",
        kind: "day",
        detail: "succeeded; there are",
        sql: &["DELETE FROM daily_sums WHERE model = 'free'"],
    },
    Change {
        name: "a sum on another day",
        kind: "day",
        detail: "its entries sum to",
        sql: &[
            "UPDATE daily_sums SET day = day - 1 WHERE account_id = (SELECT id FROM accounts WHERE handle = 'owls') AND model = 'film'",
        ],
    },
    Change {
        name: "a day of another key",
        kind: "key",
        detail: "spent",
        sql: &[
            "UPDATE daily_sums SET key_id = (SELECT MAX(k.id) FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE a.handle = 'owls') WHERE account_id = (SELECT id FROM accounts WHERE handle = 'owls') AND model = 'film'",
        ],
    },
    Change {
        name: "a day of another account",
        kind: "account",
        detail: "spent",
        sql: &[
            "UPDATE daily_sums SET account_id = (SELECT id FROM accounts WHERE handle = 'default') WHERE account_id = (SELECT id FROM accounts WHERE handle = 'owls') AND model = 'film'",
        ],
    },
    Change {
        name: "a day of another model",
        kind: "day",
        detail: "there are",
        sql: &[
            "UPDATE daily_sums SET model = 'other' WHERE account_id = (SELECT id FROM accounts WHERE handle = 'owls') AND model = 'film'",
        ],
    },
    Change {
        name: "what two models spent on a day, exchanged",
        kind: "hours",
        detail: "spent",
        sql: &[
            "UPDATE daily_sums SET spent_micros = spent_micros + CASE model WHEN 'film' THEN 5 ELSE -5 END WHERE model IN ('film', 'both')",
        ],
    },
    Change {
        name: "what an hour spent",
        kind: "hours",
        detail: "spent",
        sql: &[
            "UPDATE hourly_sums SET spent_micros = spent_micros + 1 WHERE model = 'film' AND outcome = 'succeeded'",
        ],
    },
    Change {
        name: "how many ended in an hour: more",
        kind: "hours",
        detail: "succeeded",
        sql: &[
            "UPDATE hourly_sums SET tasks = tasks + 1 WHERE model = 'film' AND outcome = 'succeeded'",
        ],
    },
    Change {
        name: "how many ended in an hour: fewer",
        kind: "hours",
        detail: "succeeded",
        sql: &[
            "UPDATE hourly_sums SET tasks = tasks - 1 WHERE model = 'film' AND outcome = 'succeeded'",
        ],
    },
    Change {
        name: "what an hour paid",
        kind: "hours",
        detail: "by the submissions",
        sql: &[
            "UPDATE hourly_sums SET made_micros = made_micros + 1 WHERE model = 'film' AND outcome = 'succeeded'",
        ],
    },
    Change {
        name: "what an hour paid for nothing",
        kind: "hours",
        detail: "by the submissions",
        sql: &[
            "UPDATE hourly_sums SET wasted_micros = wasted_micros + 1 WHERE model = 'film' AND outcome = 'succeeded'",
        ],
    },
    Change {
        name: "how many jobs have an unknown cost",
        kind: "hours",
        detail: "by the submissions",
        sql: &[
            "UPDATE hourly_sums SET unknown_jobs = unknown_jobs + 1 WHERE model = 'film' AND outcome = 'succeeded'",
        ],
    },
    Change {
        name: "an hour that is gone",
        kind: "hours",
        detail: "the day's sum",
        sql: &["DELETE FROM hourly_sums WHERE model = 'film' AND outcome = 'succeeded'"],
    },
    Change {
        name: "a sum in another hour",
        kind: "hours",
        detail: "the day's sum",
        sql: &[
            "UPDATE hourly_sums SET hour = hour + 240 WHERE model = 'film' AND outcome = 'succeeded'",
        ],
    },
    Change {
        name: "an hour of another provider",
        kind: "hours",
        detail: "such tasks",
        sql: &[
            "UPDATE hourly_sums SET provider = 'other' WHERE model = 'film' AND outcome = 'succeeded'",
        ],
    },
    Change {
        name: "an hour of another outcome",
        kind: "hours",
        detail: "failed",
        sql: &[
            "UPDATE hourly_sums SET outcome = 'lost' WHERE model = 'film' AND outcome = 'failed'",
        ],
    },
    Change {
        name: "an hour of another model",
        kind: "hours",
        detail: "the day's sum",
        sql: &[
            "UPDATE hourly_sums SET model = 'other' WHERE model = 'film' AND outcome = 'succeeded'",
        ],
    },
    Change {
        name: "what two outcomes spent in an hour, exchanged",
        kind: "hours",
        detail: "such tasks",
        sql: &[
            "UPDATE hourly_sums SET spent_micros = spent_micros + CASE outcome WHEN 'succeeded' THEN -5 ELSE 5 END WHERE model = 'stated' AND outcome IN ('succeeded', 'cancelled') AND account_id = (SELECT id FROM accounts WHERE handle = 'owls')",
        ],
    },
    Change {
        name: "an intent that has made another account's task",
        kind: "intent",
        detail: "its task",
        sql: &[
            "UPDATE intents SET account_id = (SELECT id FROM accounts WHERE handle = 'default'), key_id = (SELECT MIN(k.id) FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE a.handle = 'default') WHERE id = (SELECT MIN(id) FROM intents WHERE made LIKE '%tasks%')",
        ],
    },
    Change {
        name: "an intent of another key",
        kind: "intent",
        detail: "its task",
        sql: &[
            "UPDATE intents SET key_id = (SELECT MIN(k.id) FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE a.handle = 'default') WHERE id = (SELECT MIN(id) FROM intents WHERE made LIKE '%tasks%')",
        ],
    },
    Change {
        name: "an intent whose task does not exist",
        kind: "intent",
        detail: "and was not removed",
        sql: &[
            r#"UPDATE intents SET made = '{"tasks":["0193b000-0000-7000-8000-000000000010"]}' WHERE id = (SELECT MIN(id) FROM intents WHERE made LIKE '%tasks%')"#,
        ],
    },
    Change {
        name: "an intent that cannot be read",
        kind: "intent",
        detail: "cannot be read",
        sql: &[
            "UPDATE intents SET made = 'x' WHERE id = (SELECT MIN(id) FROM intents WHERE made LIKE '%tasks%')",
        ],
    },
];
