//! Changes of what was sent to providers.

use super::Change;

pub(super) const SUBMISSIONS: &[Change] = &[
    Change {
        name: "a submission of a settled task that is gone",
        kind: "task",
        detail: "no submission confirms",
        sql: &[
            "DELETE FROM submissions WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a submission of a failed task that is gone",
        kind: "task",
        detail: "no submission is recorded",
        sql: &[
            "DELETE FROM submissions WHERE task_id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed')",
        ],
    },
    Change {
        name: "an unconfirmed submission that is gone",
        kind: "task",
        detail: "no submission is recorded",
        sql: &[
            "DELETE FROM submissions WHERE task_id = (SELECT id FROM tasks WHERE error_code = 'submission_unconfirmed')",
        ],
    },
    Change {
        name: "a submission of a cancelled task that is gone",
        kind: "task",
        detail: "no submission is recorded",
        sql: &[
            "DELETE FROM submissions WHERE task_id = (SELECT id FROM tasks WHERE state = 'cancelled' AND money = 'settled')",
        ],
    },
    Change {
        name: "a submission of an open task that is gone",
        kind: "task",
        detail: "no submission is recorded",
        sql: &[
            "DELETE FROM submissions WHERE task_id = (SELECT id FROM tasks WHERE state IN ('queued', 'running'))",
        ],
    },
    Change {
        name: "a refused attempt that is gone",
        kind: "task",
        detail: "attempt 1 is missing",
        sql: &["DELETE FROM submissions WHERE state = 'refused'"],
    },
    Change {
        name: "a submission of a settled task that was refused",
        kind: "submission",
        detail: "its state is refused",
        sql: &[
            "UPDATE submissions SET state = 'refused' WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a submission of a failed task that was refused",
        kind: "submission",
        detail: "its state is refused",
        sql: &[
            "UPDATE submissions SET state = 'refused' WHERE task_id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed')",
        ],
    },
    Change {
        name: "a submission of a cancelled task that was refused",
        kind: "submission",
        detail: "its state is refused",
        sql: &[
            "UPDATE submissions SET state = 'refused' WHERE task_id = (SELECT id FROM tasks WHERE state = 'cancelled' AND money = 'settled')",
        ],
    },
    Change {
        name: "a submission of an open task that was refused",
        kind: "submission",
        detail: "its state is refused",
        sql: &[
            "UPDATE submissions SET state = 'refused' WHERE task_id = (SELECT id FROM tasks WHERE state IN ('queued', 'running'))",
        ],
    },
    Change {
        name: "an unconfirmed submission that was refused",
        kind: "submission",
        detail: "the provider did not answer",
        sql: &["UPDATE submissions SET state = 'refused' WHERE state = 'unclear'"],
    },
    Change {
        name: "an unconfirmed submission that a provider answered and refused",
        kind: "hours",
        detail: "unknown costs",
        sql: &[
            "UPDATE submissions SET state = 'refused', answered_at = ended_at WHERE state = 'unclear'",
        ],
    },
    Change {
        name: "a submission that is still open",
        kind: "submission",
        detail: "and no stray",
        sql: &[
            "UPDATE submissions SET state = 'accepted', ended_at = NULL WHERE task_id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed')",
        ],
    },
    Change {
        name: "a submission of a settled task that is not over",
        kind: "task",
        detail: "its submission",
        sql: &[
            "UPDATE submissions SET state = 'unclear' WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a submission in a state that does not exist",
        kind: "submission",
        detail: "is not a valid state",
        sql: &[
            "UPDATE submissions SET state = 'lost' WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "one job of two tasks",
        kind: "submission",
        detail: "the same job",
        sql: &[
            "UPDATE submissions SET job_rank = 1, job = NULL, handle = (SELECT o.handle FROM submissions o WHERE o.task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')) WHERE task_id = (SELECT MAX(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "one job of a failed and a settled task",
        kind: "submission",
        detail: "the same job",
        sql: &[
            "UPDATE submissions SET job_rank = 1, job = NULL, handle = (SELECT o.handle FROM submissions o WHERE o.task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')) WHERE task_id = (SELECT MIN(id) FROM tasks WHERE state = 'failed' AND error_code <> 'submission_unconfirmed')",
        ],
    },
    Change {
        name: "a second submission",
        kind: "task",
        detail: "submitted 2 times",
        sql: &[
            "DROP INDEX submissions_once",
            "INSERT INTO submissions (id, task_id, attempt, provider, route_model, credential, state, handle, error_class, created_at, accepted_at, answered_at, ended_at, endpoint) SELECT 'x', task_id, 2, provider, route_model, credential, 'ended', '{}', NULL, created_at, accepted_at, answered_at, ended_at, endpoint FROM submissions WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a second submission that is said to have been refused",
        kind: "submission",
        detail: "its state is refused",
        sql: &[
            "INSERT INTO submissions (id, task_id, attempt, provider, route_model, credential, state, handle, error_class, created_at, accepted_at, answered_at, ended_at, endpoint) SELECT 'x', task_id, 2, provider, route_model, credential, 'refused', '{}', 'busy', created_at, accepted_at, answered_at, ended_at, endpoint FROM submissions WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a first submission that is gone behind a second",
        kind: "task",
        detail: "attempt 1 is missing",
        sql: &[
            "DROP INDEX submissions_once",
            "INSERT INTO submissions (id, task_id, attempt, provider, route_model, credential, state, handle, error_class, created_at, accepted_at, answered_at, ended_at, endpoint) SELECT 'x', task_id, 2, provider, route_model, credential, 'ended', '{}', NULL, created_at, accepted_at, answered_at, ended_at, endpoint FROM submissions WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
            "DELETE FROM submissions WHERE id <> 'x' AND task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "what a job cost",
        kind: "hours",
        detail: "by the submissions",
        sql: &[
            "UPDATE submissions SET cost_millionths = cost_millionths + 1 WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'stated' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "what a job cost that was cancelled",
        kind: "hours",
        detail: "by the submissions",
        sql: &[
            "UPDATE submissions SET cost_millionths = cost_millionths * 10 WHERE task_id = (SELECT id FROM tasks WHERE state = 'cancelled' AND money = 'settled')",
        ],
    },
    Change {
        name: "a job's cost that is gone",
        kind: "hours",
        detail: "by the submissions",
        sql: &[
            "UPDATE submissions SET cost_millionths = NULL, cost_unit = NULL WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'stated' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a job's cost without a unit",
        kind: "submission",
        detail: "has no unit",
        sql: &[
            "UPDATE submissions SET cost_unit = NULL WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'stated' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "the unit of a job's cost",
        kind: "hours",
        detail: "by the submissions",
        sql: &[
            "UPDATE submissions SET cost_unit = 'credits' WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'stated' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a job at another provider",
        kind: "task",
        detail: "its submission",
        sql: &[
            "UPDATE submissions SET provider = 'dear' WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a job by another route",
        kind: "hours",
        detail: "by the submissions",
        sql: &[
            "UPDATE submissions SET route_model = 'sora-3' WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a submission of another task",
        kind: "task",
        detail: "no submission confirms",
        sql: &[
            "UPDATE submissions SET task_id = (SELECT MIN(id) FROM tasks WHERE model = 'animatic-1') WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a submission's attempt",
        kind: "task",
        detail: "is missing",
        sql: &[
            "UPDATE submissions SET attempt = 7 WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a job that ended on another day",
        kind: "hours",
        detail: "by the submissions",
        sql: &[
            "UPDATE submissions SET ended_at = ended_at - 86400000000 WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'stated' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a job that ended and has no end",
        kind: "submission",
        detail: "has no end",
        sql: &[
            "UPDATE submissions SET ended_at = NULL WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
    Change {
        name: "a job that nobody follows any more",
        kind: "submission",
        detail: "stray",
        sql: &[
            "UPDATE submissions SET stray = 1 WHERE task_id = (SELECT MIN(id) FROM tasks WHERE model = 'film' AND state = 'succeeded')",
        ],
    },
];
