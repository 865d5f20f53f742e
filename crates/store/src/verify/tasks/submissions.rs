//! Check of a task's submissions against the task: one order, one job, and nothing that conceals
//! another.

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
    names_a_job: bool,
    error_class: Option<String>,
    accepted_at: Option<i64>,
    answered_at: Option<i64>,
    ended_at: Option<i64>,
    is_stray: bool,
    cost_amount: Option<i64>,
    cost_unit: Option<String>,
    /// Another submission to the same provider with the same handle.
    duplicate_of: Option<String>,
}

record! {
    sent_columns for SubmissionRow of "submissions" {
        id: "s.id",
        attempt: "s.attempt",
        provider: "s.provider",
        route_model: "s.route_model",
        state: "s.state",
        names_a_job: any("s.handle", "s.results"),
        error_class: "s.error_class",
        accepted_at: "s.accepted_at",
        answered_at: "s.answered_at",
        ended_at: "s.ended_at",
        is_stray: "s.stray",
        cost_amount: "s.cost_millionths",
        cost_unit: "s.cost_unit",
        duplicate_of: "(SELECT MIN(o.id) FROM submissions o WHERE o.provider = s.provider AND o.handle = s.handle
                                                      AND s.handle IS NOT NULL AND o.id <> s.id)",
    }
}

fn any(handle: Option<String>, results: Option<String>) -> bool {
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
                let shows = [
                    (self.names_a_job, "it names a job"),
                    (self.accepted_at.is_some(), "it was accepted"),
                    (self.cost_amount.is_some(), "it has a cost"),
                    (error.is_none(), "it has no reason"),
                    (self.answered_at.is_none(), "nobody answered"),
                    (
                        error == Some("cancelled"),
                        "its reason is that of one that may have been taken",
                    ),
                ];
                let shown = shows.iter().filter(|(is_so, _)| *is_so);
                faults.extend(
                    shown.map(|(_, why)| format!("it is said to have been refused, but {why}")),
                );
            }
            "intended" if self.names_a_job || self.accepted_at.is_some() => {
                faults.push("it is said not to have been answered, but it names a job".to_owned());
            }
            "accepted" | "found" if self.accepted_at.is_none() => {
                faults.push(format!("it is {} at no time", self.state));
            }
            "intended" | "accepted" | "found" | "unclear" | "ended" => {}
            other => faults.push(format!("{other:?} is no state")),
        }
        if self.is_open() != self.ended_at.is_none() {
            let says = if self.is_open() { "an" } else { "no" };
            faults.push(format!("it is {} and has {says} end", self.state));
        }
        if self.cost_amount.is_some() != self.cost_unit.is_some() {
            faults.push("its cost has no unit, or its unit no amount".to_owned());
        }
        if task.is_hosted() {
            let is_left = task.finished_at.is_some() && self.is_open();
            if is_left != self.is_stray {
                let says = if self.is_stray { "a" } else { "no" };
                faults.push(format!(
                    "its task is {}, it is {} and {says} stray",
                    task.state, self.state
                ));
            }
        }
        faults
    }
}

/// The mismatches in the submissions of a task, in the order of its attempts.
pub(super) fn mismatches(task: &TaskRow, sent: &[SubmissionRow]) -> Vec<Mismatch> {
    let mut found = Vec::new();
    let mut note = |what, id: &str, why| {
        let id = id.to_owned();
        found.push(Mismatch { what, id, why });
    };
    let paid: Vec<&SubmissionRow> = sent.iter().filter(|one| one.may_be_paid()).collect();
    // An index forbids a second submission. It is checked nevertheless, because it may have been
    // paid for.
    if paid.len() > 1 {
        let ids: Vec<&str> = paid.iter().map(|one| one.id.as_str()).collect();
        let why = format!(
            "it was submitted {} times without a provider's refusal in between: more than one may have been paid \
             (submissions {})",
            paid.len(),
            ids.join(", ")
        );
        note("task", &task.id, why);
    }
    for one in sent {
        if let Some(twin) = &one.duplicate_of {
            let why = format!(
                "it has the same job at {} as submission {twin}: one of the two is paid for and not made",
                one.provider
            );
            note("submission", &one.id, why);
        }
    }
    for (number, one) in (1..).zip(sent) {
        // Attempts are numbered without gaps, so a gap means that the row of a submission was lost.
        if one.attempt != number {
            let why = format!(
                "its attempt {number} is missing; the next that is there is {}",
                one.attempt
            );
            note("task", &task.id, why);
            break;
        }
    }
    for one in sent {
        for why in one.faults(task) {
            note(
                "submission",
                &one.id,
                format!("{why} (of task {})", task.id),
            );
        }
    }
    if let Some(why) = missing(task, sent, &paid) {
        note("task", &task.id, why);
    }
    found
}

/// The submission that a hosted task must have and does not.
fn missing(task: &TaskRow, sent: &[SubmissionRow], paid: &[&SubmissionRow]) -> Option<String> {
    if !task.is_hosted() {
        return None;
    }
    if task.state == "succeeded" {
        return match paid {
            [one] if one.state == "ended" && one.provider == task.provider => None,
            [] => Some(format!(
                "{} made it, and no submission says so",
                task.provider
            )),
            [one, ..] => Some(format!(
                "{} made it; its submission {} to {} is {}",
                task.provider, one.id, one.provider, one.state
            )),
        };
    }
    if task.started_at.is_some() && sent.is_empty() {
        return Some("it was begun, and nothing says that it was sent".to_owned());
    }
    let last = paid.last().filter(|one| one.provider != task.provider);
    last.map(|one| {
        format!(
            "it was sent to {}; its submission {} says {}",
            task.provider, one.id, one.provider
        )
    })
}
