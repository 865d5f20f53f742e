//! `minimax`: `MiniMax`'s two video APIs: v1 for the Hailuo models (`api = "v1"`)
//! and v2 for the H3 family (`api = "v2"`), and songs. Each has a file.
//!
//! Sources: platform.minimax.io; `minimax-mcp` 0.0.19 and the request models of
//! `ComfyUI`. There is no official SDK.
//!
//! Both report errors by codes of the same list, v1 with status 200. Nothing deduplicates. Only
//! version 2 can cancel jobs.

mod music;
mod v1;
mod v2;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::adapters::Protocol;
use crate::error::{ErrorBasis, ErrorClass, ErrorDescription, ProviderError};
use crate::limits::ModelLimits;
use crate::order::{MediaKind, Order, WorkSpec};
use crate::port::jobs::ParsedBody;
use crate::port::jobs::errors::FailureTable;
use crate::port::{Adapter, AdapterStep, Call, CallContext, JobHandle, PollPace, RefusalRule};
use crate::response::{ProviderResponse, text_at};
use crate::settings::{ProviderSettings, SettingsError};

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "minimax",
    base_url: Some("https://api.minimax.io"),
    options: &["api"],
    anonymous: false,
    build,
};

fn build(settings: &ProviderSettings) -> Result<Arc<dyn Adapter>, SettingsError> {
    let catalogue = settings.protocol_catalogue("minimax");
    let video: Box<dyn Adapter> = match settings.word("api", &["v1", "v2"])? {
        "v2" => Box::new(v2::MiniMaxV2Adapter { catalogue }),
        _ => Box::new(v1::MiniMaxV1Adapter { catalogue }),
    };
    Ok(Arc::new(MiniMaxAdapter { video }))
}

/// Songs work in the same way with both video APIs.
#[derive(Debug)]
struct MiniMaxAdapter {
    video: Box<dyn Adapter>,
}

impl Adapter for MiniMaxAdapter {
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        match kind {
            MediaKind::Video => self.video.limits(kind, model),
            MediaKind::Music => music::limits(model),
        }
    }

    fn fault_of_model(&self, kind: MediaKind, model: &str) -> Option<String> {
        match kind {
            MediaKind::Video => self.video.fault_of_model(kind, model),
            MediaKind::Music => None,
        }
    }

    fn can_express_size(&self, model: &str, size: (u32, u32)) -> bool {
        self.video.can_express_size(model, size)
    }

    fn pace(&self) -> PollPace {
        self.video.pace()
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        self.video.refusals()
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        match &order.work {
            WorkSpec::Song(song) => music::start(order, song),
            _ => self.video.start(order),
        }
    }

    fn read_submission(
        &self,
        order: &Order,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        match &order.work {
            WorkSpec::Song(song) => music::read_song(order, song, answer),
            _ => self.video.read_submission(order, context, answer),
        }
    }

    fn named_job(
        &self,
        order: &Order,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Option<JobHandle> {
        match &order.work {
            WorkSpec::Song(_) => None,
            _ => self.video.named_job(order, context, answer),
        }
    }

    fn poll(&self, handle: &JobHandle) -> Result<Call, ProviderError> {
        self.video.poll(handle)
    }

    fn read_poll(
        &self,
        handle: &JobHandle,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        self.video.read_poll(handle, context, answer)
    }

    fn cancel(&self, handle: &JobHandle) -> Option<Call> {
        self.video.cancel(handle)
    }

    fn confirms_cancellation(&self, handle: &JobHandle, answer: &ProviderResponse) -> bool {
        self.video.confirms_cancellation(handle, answer)
    }
}

const PACE: PollPace = PollPace::new(Duration::from_secs(5), Duration::from_secs(20));

/// The body, unless it or the status reports an error.
fn parse_body(answer: &ProviderResponse) -> ParsedBody {
    let body = answer.json();
    let code = body.as_ref().ok().and_then(code_of);
    if code.is_none() && answer.status.is_success() {
        return body;
    }
    let mut error = answer.failure(describe);
    // With a success status, only the code decides.
    let by_code = code.as_deref().and_then(class_of);
    let default_class = || answer.status.is_success().then_some(ErrorClass::Rejected);
    if let Some(class) = by_code.or_else(default_class) {
        error.class = class;
    }
    if let Some(trace) = answer.header("trace-id") {
        error.message = format!("{} (trace {trace})", error.message);
    }
    Err(error)
}

/// The code of an error; `None` if the answer reports none.
fn code_of(body: &Value) -> Option<String> {
    let code = text_at(body, "/base_resp/status_code").filter(|code| code != "0");
    // The code in the message takes precedence over the type, which is coarser.
    let pointers = || ["/error/code", "/error/type"];
    let in_message = || code_in(body["error"]["message"].as_str()?);
    code.or_else(in_message)
        .or_else(|| pointers().iter().find_map(|pointer| text_at(body, pointer)))
}

/// Version 2 has no field for the code: its messages end with it, as in
/// `insufficient balance (1008)`.
fn code_in(message: &str) -> Option<String> {
    let (_, code) = message.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    let is_code = code.len() == 4 && code.bytes().all(|byte| byte.is_ascii_digit());
    is_code.then(|| code.to_owned())
}

fn describe(body: &Value) -> ErrorDescription {
    let first_text =
        |pointers: [&str; 3]| pointers.iter().find_map(|pointer| text_at(body, pointer));
    ErrorDescription {
        code: code_of(body),
        message: first_text(["/error/message", "/base_resp/status_msg", "/error"]),
    }
}

/// The codes that reject a request.
const REFUSALS: [&str; 11] = [
    "1002", "1004", "1008", "1026", "1027", "1039", "1041", "2013", "2038", "2049", "2056",
];

fn refusals() -> Vec<RefusalRule<'static>> {
    vec![
        RefusalRule::http_statuses(),
        RefusalRule::error_codes(REFUSALS, "platform.minimax.io, Error Codes"),
    ]
}

/// 1002, 1004, 1008, 1026, 1027, 2013 and 2038 are classified as documented for video; the others
/// come from the list for all of the provider's APIs. Version 2 has types, like the provider's
/// other APIs, and no field for a code.
fn class_of(code: &str) -> Option<ErrorClass> {
    Some(match code {
        "1002" | "1039" | "1041" | "rate_limit_error" => ErrorClass::RateLimited,
        "1004"
        | "2038"
        | "2049"
        | "authentication_error"
        | "permission_error"
        | "authorized_error" => ErrorClass::Credentials,
        "1008" | "2056" | "insufficient_balance_error" | "billing_error" => ErrorClass::Account,
        "1026" | "1027" => ErrorClass::Refused,
        "2013" | "invalid_request_error" | "bad_request_error" => ErrorClass::Rejected,
        "1000" | "1001" | "1013" | "1024" | "1033" => ErrorClass::Unclear,
        _ => return None,
    })
}

/// Classifies an error of a poll. A wrong parameter (2013) can only be the job's id, which the
/// provider does not know. An unknown code does not end a job.
fn parse_poll(answer: &ProviderResponse) -> ParsedBody {
    parse_body(answer).map_err(|error| {
        // Version 2 answers 500 for an id that it does not know. A failing server does so too, but
        // does not mention the task.
        let message = error.message.to_lowercase();
        let phrases = ["not found", "not exist", "no such task", "invalid task"];
        let mentions_task = phrases.iter().any(|phrase| message.contains(phrase));
        let is_unknown_task = answer.status == 500 && mentions_task;
        let is_gone =
            is_unknown_task || answer.status == 404 || error.code.as_deref() == Some("2013");
        let class = match error.class {
            _ if is_gone => ErrorClass::Missing,
            ErrorClass::Rejected if answer.status.is_success() => ErrorClass::Unclear,
            class => class,
        };
        error.with_class(class).with_basis(ErrorBasis::Answer)
    })
}

/// The codes of failed jobs that concern the order.
const FAILURES: FailureTable = FailureTable {
    codes: &[
        ("1026", ErrorClass::Refused),
        ("1027", ErrorClass::Refused),
        ("2013", ErrorClass::Unfit),
        ("invalid_", ErrorClass::Unfit),
        ("bad_request", ErrorClass::Unfit),
    ],
    words: &[("sensitive", ErrorClass::Refused)],
};

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::adapters::tests::{adapter, stems, video};

    #[test]
    fn answers_to_a_submission_are_classified() {
        for (api, model) in [("v1", "MiniMax-Hailuo-2.3"), ("v2", "MiniMax-H3")] {
            let adapter = adapter("minimax", &json!({"api": api}));
            let order = video(model);
            let context = adapter.start(&order).unwrap().context();
            let error = |status, body: &Value| {
                let answer = ProviderResponse::from_json(status, body);
                adapter
                    .read_submission(&order, &context, &answer)
                    .unwrap_err()
            };
            for (status, code, expected) in [
                (200, 1002, ErrorClass::RateLimited),
                (200, 1004, ErrorClass::Credentials),
                (200, 2038, ErrorClass::Credentials),
                (200, 1008, ErrorClass::Account),
                (200, 1026, ErrorClass::Refused),
                (200, 1027, ErrorClass::Refused),
                (200, 2013, ErrorClass::Rejected),
                (200, 1000, ErrorClass::Unclear),
                (200, 7777, ErrorClass::Rejected),
                (429, 7777, ErrorClass::RateLimited),
                (500, 7777, ErrorClass::Unclear),
            ] {
                let v1_body =
                    json!({"task_id": "", "base_resp": {"status_code": code, "status_msg": "no"}});
                let v2_body = json!({"error": {"code": code.to_string(), "message": "no"}});
                for body in [v1_body, v2_body] {
                    let error = error(status, &body);
                    assert_eq!(error.class, expected, "{api} {status} {body}");
                    assert_eq!(error.message, "no");
                }
            }
            let without_id = json!({"base_resp": {"status_code": 0, "status_msg": "success"}});
            assert_eq!(error(200, &without_id).class, ErrorClass::Unclear);
            assert_eq!(error(502, &Value::Null).class, ErrorClass::Unclear);
            assert_eq!(error(401, &Value::Null).class, ErrorClass::Credentials);
            let error = adapter.start(&stems("x")).unwrap_err();
            assert_eq!(error.class, ErrorClass::Rejected);
        }
    }

    #[test]
    fn version_two_has_types_and_no_codes() {
        let adapter = adapter("minimax", &json!({"api": "v2"}));
        let order = video("MiniMax-H3");
        let context = adapter.start(&order).unwrap().context();
        let body = json!({"type": "error", "error": {"type": "insufficient_balance_error",
            "message": "insufficient balance", "http_code": "429"}});
        let answer = ProviderResponse::from_json(429, &body);
        let error = adapter
            .read_submission(&order, &context, &answer)
            .unwrap_err();
        assert_eq!(error.class, ErrorClass::Account);
        assert_eq!(error.message, "insufficient balance");
        // The examples on the provider's page.
        for (status, kind, message, class) in [
            (
                400,
                "bad_request_error",
                "invalid params, no prompt (2013)",
                ErrorClass::Rejected,
            ),
            (
                402,
                "insufficient_balance_error",
                "insufficient balance (1008)",
                ErrorClass::Account,
            ),
            (
                422,
                "unprocessable_entity_error",
                "video description contains sensitive content (1026)",
                ErrorClass::Refused,
            ),
            (
                429,
                "rate_limit_error",
                "rate limit, please retry later (1002)",
                ErrorClass::RateLimited,
            ),
            (
                500,
                "server_error",
                "internal error (1000)",
                ErrorClass::Unclear,
            ),
        ] {
            let body = json!({"type": "error",
                "error": {"type": kind, "message": message, "http_code": status.to_string()}});
            let answer = ProviderResponse::from_json(status, &body);
            let error = adapter
                .read_submission(&order, &context, &answer)
                .unwrap_err();
            assert_eq!(error.class, class, "{message}");
        }
    }

    #[test]
    fn the_error_includes_the_trace_id() {
        let body = json!({"base_resp": {"status_code": 2013, "status_msg": "invalid params"}});
        let mut answer = ProviderResponse::from_json(200, &body);
        answer.headers.insert("trace-id", "0f3a".parse().unwrap());
        let error = parse_body(&answer).unwrap_err();
        assert_eq!(error.message, "invalid params (trace 0f3a)");
    }
}
