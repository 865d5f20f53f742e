//! Check of a task's submissions against the task: one order has one job, and there is no trace of
//! a second.

use super::TaskRow;
use crate::columns::record;
use crate::verify::Mismatch;

/// The row of a submission.
pub(super) struct SubmissionRow {
    id: String,
    pub(super) attempt: i64,
    pub(super) provider: String,
    pub(super) route_model: String,
    pub(super) state: String,
    /// Whether the submission has a handle, or results.
    has_job: bool,
    error_class: Option<String>,
    accepted_at: Option<i64>,
    answered_at: Option<i64>,
    ended_at: Option<i64>,
    is_stray: bool,
    cost_amount: Option<i64>,
    cost_unit: Option<String>,
    /// Another submission with the same job.
    duplicate_of: Option<String>,
}

record! {
    sent_columns for SubmissionRow of "submissions" {
        id: "s.id",
        attempt: "s.attempt",
        provider: "s.provider",
        route_model: "s.route_model",
        state: "s.state",
        has_job: has_handle_or_results("s.handle", "s.results"),
        error_class: "s.error_class",
        accepted_at: "s.accepted_at",
        answered_at: "s.answered_at",
        ended_at: "s.ended_at",
        is_stray: "s.stray",
        cost_amount: "s.cost_millionths",
        cost_unit: "s.cost_unit",
        duplicate_of: "(SELECT MIN(o.id) FROM submissions o WHERE o.endpoint = s.endpoint
                                                      AND COALESCE(o.job, o.handle) = COALESCE(s.job, s.handle)
                                                      AND o.handle IS NOT NULL AND o.id <> s.id)",
    }
}

fn has_handle_or_results(handle: Option<String>, results: Option<String>) -> bool {
    handle.or(results).is_some()
}

impl SubmissionRow {
    fn is_open(&self) -> bool {
        ["intended", "accepted"].contains(&self.state.as_str())
    }

    /// Whether the provider may have accepted it, that is, did not provably refuse it.
    fn may_be_paid(&self) -> bool {
        self.state != "refused"
    }

    /// Contradictions within the submission's own row.
    fn faults(&self, task: &TaskRow) -> Vec<String> {
        let mut faults = Vec::new();
        let error = self.error_class.as_deref();
        match self.state.as_str() {
            "refused" => {
                let contradictions = [
                    (self.has_job, "it names a job"),
                    (self.accepted_at.is_some(), "it was accepted"),
                    (self.cost_amount.is_some(), "it has a cost"),
                    (error.is_none(), "it has no reason"),
                    (self.answered_at.is_none(), "the provider did not answer"),
                    (
                        error == Some("cancelled"),
                        "its reason is that of an order that may have been accepted",
                    ),
                ];
                let contradictions = contradictions.iter().filter(|(is_true, _)| *is_true);
                faults.extend(
                    contradictions.map(|(_, detail)| format!("its state is refused, but {detail}")),
                );
            }
            "intended" if self.has_job || self.accepted_at.is_some() => {
                faults.push("its state is intended, but it names a job".to_owned());
            }
            "accepted" | "found" if self.accepted_at.is_none() => {
                faults.push(format!("it is {} without a time", self.state));
            }
            "intended" | "accepted" | "found" | "unclear" | "ended" => {}
            other => faults.push(format!("{other:?} is not a valid state")),
        }
        if self.is_open() != self.ended_at.is_none() {
            let article = if self.is_open() { "an" } else { "no" };
            faults.push(format!("it is {} and has {article} end", self.state));
        }
        if self.cost_amount.is_some() != self.cost_unit.is_some() {
            faults.push("its cost has no unit, or its unit no amount".to_owned());
        }
        if task.is_hosted() {
            let must_be_stray = task.finished_at.is_some() && self.is_open();
            if must_be_stray != self.is_stray {
                let article = if self.is_stray { "a" } else { "no" };
                faults.push(format!(
                    "its task is {}, it is {} and {article} stray",
                    task.state, self.state
                ));
            }
        }
        faults
    }
}

/// The mismatches in the submissions of a task, in the order of its attempts.
pub(super) fn mismatches(task: &TaskRow, submissions: &[SubmissionRow]) -> Vec<Mismatch> {
    let mut mismatches = Vec::new();
    let mut add = |kind, id: &str, detail| {
        let id = id.to_owned();
        mismatches.push(Mismatch { kind, id, detail });
    };
    let maybe_paid: Vec<&SubmissionRow> = submissions
        .iter()
        .filter(|submission| submission.may_be_paid())
        .collect();
    // An index forbids a second such submission. This is checked nevertheless, because a second one
    // may have been paid for.
    if maybe_paid.len() > 1 {
        let ids: Vec<&str> = maybe_paid
            .iter()
            .map(|submission| submission.id.as_str())
            .collect();
        let detail = format!(
            "it was submitted {} times without a provider's refusal in between: more than one may have been paid \
             (submissions {})",
            maybe_paid.len(),
            ids.join(", ")
        );
        add("task", &task.id, detail);
    }
    for submission in submissions {
        if let Some(other) = &submission.duplicate_of {
            let detail = format!(
                "it has the same job at {} as submission {other}: one of the two was paid for but not made",
                submission.provider
            );
            add("submission", &submission.id, detail);
        }
    }
    for (number, submission) in (1..).zip(submissions) {
        // Attempts are numbered without gaps, so a gap means that the row of a submission was lost.
        if submission.attempt != number {
            let detail = format!(
                "its attempt {number} is missing; the next one is {}",
                submission.attempt
            );
            add("task", &task.id, detail);
            break;
        }
    }
    for submission in submissions {
        for detail in submission.faults(task) {
            add(
                "submission",
                &submission.id,
                format!("{detail} (of task {})", task.id),
            );
        }
    }
    if let Some(detail) = missing_submission(task, submissions, &maybe_paid) {
        add("task", &task.id, detail);
    }
    mismatches
}

/// What is wrong if a hosted task lacks a submission that it must have.
fn missing_submission(
    task: &TaskRow,
    submissions: &[SubmissionRow],
    maybe_paid: &[&SubmissionRow],
) -> Option<String> {
    if !task.is_hosted() {
        return None;
    }
    if task.state == "succeeded" {
        return match maybe_paid {
            [submission] if submission.state == "ended" && submission.provider == task.provider => {
                None
            }
            [] => Some(format!(
                "{} made it, but no submission confirms that",
                task.provider
            )),
            [submission, ..] => Some(format!(
                "{} made it; its submission {} to {} is {}",
                task.provider, submission.id, submission.provider, submission.state
            )),
        };
    }
    if task.started_at.is_some() && submissions.is_empty() {
        return Some("it was begun, but no submission is recorded".to_owned());
    }
    let last = maybe_paid
        .last()
        .filter(|submission| submission.provider != task.provider);
    last.map(|submission| {
        format!(
            "it was sent to {}; its submission {} says {}",
            task.provider, submission.id, submission.provider
        )
    })
}
