//! A Mediagate as the provider: its own names of tasks, by which a job is cancelled and which say
//! what it cost.
//!
//! ```text
//! POST /v1/tasks/{id}/cancel  {id, status, cost_usd, billing: {status: held │ settled │ released │ free}}
//! GET  /v1/tasks/{id}         the same
//! ```
//!
//! The job of another protocol's endpoint is recognised by its id, which is the task's: a UUID of
//! version 7. No other server is known to use these, and one that does answers 404 or 405 to such a
//! call.

use http::Method;
use serde_json::Value;

use crate::cost::{CostUnit, ProviderCost};
use crate::error::{ErrorDescription, ProviderError};
use crate::port::{Call, CallTarget, JobSettlement, RefusalRule};
use crate::response::{ProviderResponse, text_at};

/// The task of a video with this id, `video_` and the task's id without dashes.
pub(super) fn task_of_video(id: &str) -> Option<String> {
    let digits = id
        .strip_prefix("video_")
        .filter(|digits| digits.len() == 32)?;
    let mut task = String::with_capacity(36);
    for (position, digit) in digits.chars().enumerate() {
        if matches!(position, 8 | 12 | 16 | 20) {
            task.push('-');
        }
        task.push(digit);
    }
    task_of_id(&task)
}

/// The task with this id.
pub(super) fn task_of_id(id: &str) -> Option<String> {
    let is_uuid_v7 = id.len() == 36
        && id.char_indices().all(|(position, digit)| match position {
            8 | 13 | 18 | 23 => digit == '-',
            14 => digit == '7',
            19 => matches!(digit, '8' | '9' | 'a' | 'b'),
            _ => matches!(digit, '0'..='9' | 'a'..='f'),
        });
    is_uuid_v7.then(|| id.to_owned())
}

/// The call that cancels a task; `target` makes the target of a path below `/v1`.
pub(super) fn cancel(task: &str, target: fn(String) -> CallTarget) -> Call {
    let path = format!("/tasks/{task}/cancel");
    Call::new("cancel", Method::POST, "").with_target(target(path))
}

/// Whether this answer to [`cancel`] comes from a server that has no tasks.
pub(super) fn has_no_tasks(answer: &ProviderResponse) -> bool {
    matches!(answer.status.as_u16(), 404 | 405)
}

/// The call that asks for a task's record.
pub(super) fn record(task: &str, target: fn(String) -> CallTarget) -> Call {
    Call::get("settlement", "").with_target(target(format!("/tasks/{task}")))
}

/// The target of a path below `/v1`, for a provider whose base URL is that of another API of the
/// same server.
#[expect(
    clippy::needless_pass_by_value,
    reason = "it is given where a variant of the target could be"
)]
pub(super) fn beside(path: String) -> CallTarget {
    CallTarget::Root(format!("/v1{path}"))
}

/// What a task's record says about its money.
pub(super) fn settlement(
    task: &str,
    answer: &ProviderResponse,
) -> Result<JobSettlement, ProviderError> {
    let body = answer.success(describe)?;
    if text_at(&body, "/id").as_deref() != Some(task) {
        let message = "the provider's response is not the task's record";
        return Err(ProviderError::unreadable(message));
    }
    let has_ended =
        matches!(&body["status"], Value::String(word) if word == "cancelled" || word == "failed");
    if !has_ended {
        return Ok(JobSettlement::Open);
    }
    match text_at(&body, "/billing/status").as_deref() {
        Some("held") => Ok(JobSettlement::Open),
        Some("released" | "free") => Ok(JobSettlement::Unpaid),
        Some("settled") => {
            let cost = ProviderCost::at_pointer(&body, "/cost_usd", CostUnit::Usd);
            cost.map(JobSettlement::Paid)
                .ok_or_else(|| ProviderError::unreadable("the provider's response has no cost_usd"))
        }
        _ => Err(ProviderError::unreadable(
            "the provider's response has no billing.status",
        )),
    }
}

fn describe(body: &Value) -> ErrorDescription {
    ErrorDescription::at(body, "/error/code", "/error/message")
}

/// The codes by which a Mediagate says that it made nothing of an order.
pub(super) fn refusals() -> RefusalRule<'static> {
    RefusalRule {
        statuses: vec![503],
        codes: vec!["shutting_down", "provider_unavailable"],
        source: "Mediagate, errors: nothing was accepted, or every provider refused the task",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::ErrorClass;

    const TASK: &str = "0193b000-0000-7000-8000-0000000000ab";

    #[test]
    fn a_task_is_recognised_by_its_id() {
        let video = "video_0193b00000007000800000000000 00ab".replace(' ', "");
        assert_eq!(task_of_video(&video).as_deref(), Some(TASK));
        for other in [
            "video_0193b00000004000800000000000 00ab",
            "video_68d7512d07848190b3e45da0ecbebcde004da08e1e0678d5",
            "video_1",
            "0193b0000000700080000000000000ab",
            "video_é193b0000000700080000000000000b",
        ] {
            assert_eq!(task_of_video(&other.replace(' ', "")), None, "{other}");
        }
        assert_eq!(task_of_id(TASK).as_deref(), Some(TASK));
        assert_eq!(task_of_id("b9f3c2a1-0000-4000-8000-000000000001"), None);
    }

    #[test]
    fn a_record_says_what_a_cancelled_task_cost() {
        let read = |status: u16, body: &Value| {
            settlement(TASK, &ProviderResponse::from_json(status, body))
        };
        let task = |status: &str, billing: &str| json!({"id": TASK, "status": status, "cost_usd": "0.40", "billing": {"status": billing}});
        let paid = ProviderCost {
            millionths: 400_000,
            unit: CostUnit::Usd,
        };
        for (body, expected) in [
            (task("running", "held"), JobSettlement::Open),
            (task("cancelled", "held"), JobSettlement::Open),
            (task("succeeded", "settled"), JobSettlement::Open),
            (task("cancelled", "released"), JobSettlement::Unpaid),
            (task("cancelled", "free"), JobSettlement::Unpaid),
            (task("cancelled", "settled"), JobSettlement::Paid(paid)),
        ] {
            assert_eq!(read(200, &body), Ok(expected), "{body}");
        }
        for (status, body, class) in [
            (404, json!({}), ErrorClass::Rejected),
            (200, json!({"id": "video_1"}), ErrorClass::Unclear),
            (200, task("cancelled", "pawned"), ErrorClass::Unclear),
            (502, json!({}), ErrorClass::Unclear),
        ] {
            assert_eq!(read(status, &body).unwrap_err().class, class, "{body}");
        }
    }
}
