//! Comfy API v2 (beta): one API for Comfy Cloud, its serverless offer and a
//! proxy before one's own server.
//!
//! Sources: `comfy-sdk` 0.5.0, read as source, and its documentation.
//!
//! ```text
//! POST /api/v2/jobs              {workflow} + Idempotency-Key → 201 {id, status}
//! GET  /api/v2/jobs/{id}         {status, progress: {value}, outputs: [{type, url}], error}
//! POST /api/v2/jobs/{id}/cancel  may be repeated
//! ```
//!
//! An `Idempotency-Key` serves once: a repeat is refused and says nothing of the
//! first, so it guards against two jobs, and an unclear submission stays unclear.
//!
//! Unknown: the form of an asset's upload, so that graphs with pictures are left
//! to the older API; the values of an output's `type`, so that its content type
//! and the ending of its name decide.

use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::{Value, json};

use super::graph::Graphs;
use super::{class_by_code, pace, videos_only};
use crate::adapters::ends::Ends;
use crate::answer::{Answer, Described, percent_at, required_text, text_at};
use crate::error::{Class, ProviderError};
use crate::limits::Limits;
use crate::order::{Kind, Order, Work};
use crate::port::{
    Adapter, Asked, Authorization, Call, Handle, Output, Pace, RESULT, Source, Step, Target, What,
};
use crate::secret::Secret;
use crate::settings::SettingsError;

#[derive(Debug)]
pub(super) struct ComfyJobs {
    graphs: Graphs,
}

impl ComfyJobs {
    pub(super) fn new(graphs: Graphs) -> Result<Self, SettingsError> {
        if graphs.take_pictures() {
            return Err(SettingsError::at(
                "patch.image",
                "pictures are handed over by api = \"v1\" only",
            ));
        }
        Ok(Self { graphs })
    }
}

impl Adapter for ComfyJobs {
    fn limits(&self, kind: Kind, model: &str) -> Option<Limits> {
        (kind == Kind::Video)
            .then(|| self.graphs.limits(model))
            .flatten()
    }

    fn pace(&self) -> Pace {
        Pace {
            floor: Duration::from_secs(2),
            ..pace()
        }
    }

    fn authorize(&self, secret: &Secret, _: SystemTime) -> Result<Authorization, ProviderError> {
        Ok(Authorization::bearer(secret))
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        let Work::Video(video) = &order.work else {
            return Err(videos_only());
        };
        let body = json!({"workflow": self.graphs.fill(order, video, &[])?});
        Ok(Call::post("submit", "/api/v2/jobs", body)
            .with_header("idempotency-key", &order.key)
            .submits())
    }

    fn submitted(&self, _: &Order, _: &Asked, answer: &Answer) -> Result<Step, ProviderError> {
        let body = answer.success(describe).map_err(class_by_code)?;
        Ok(Step::submitted(json!({"id": required_text(&body, "/id")?})))
    }

    fn poll(&self, handle: &Handle) -> Result<Call, ProviderError> {
        Ok(Call::get(
            "poll",
            format!("/api/v2/jobs/{}", handle.text("id")),
        ))
    }

    fn polled(&self, _: &Handle, _: &Asked, answer: &Answer) -> Result<Step, ProviderError> {
        if answer.status == 404 {
            return Err(answer.failure(describe).of_class(Class::Missing));
        }
        let body = answer.success(describe)?;
        match required_text(&body, "/status")?.as_str() {
            "queued" | "running" | "canceling" => {
                Ok(Step::running(percent_at(&body, "/progress/value", 1.0)))
            }
            "succeeded" => Step::done(video_of(&body).into_iter().collect()),
            "failed" => {
                let said = describe(&body);
                Err(ENDS.error(said))
            }
            word @ ("canceled" | "expired") => Err(ProviderError::new(
                Class::Lost,
                format!("the job is {word} at the provider"),
            )),
            word => Ok(Step::unknown(word)),
        }
    }

    fn cancel(&self, handle: &Handle) -> Option<Call> {
        let path = format!("/api/v2/jobs/{}/cancel", handle.text("id"));
        Some(Call::new("cancel", Method::POST, path))
    }
}

fn describe(body: &Value) -> Described {
    Described::at(body, "/error/code", "/error/message")
}

/// The error types of Comfy's router, which its jobs use too.
const ENDS: Ends = Ends {
    codes: &[
        ("content_policy_violation", Class::Refused),
        ("invalid_input", Class::Unfit),
        ("model_not_found", Class::Unfit),
        ("cancelled", Class::Lost),
    ],
    words: &[],
};

/// The first output that is a video.
fn video_of(body: &Value) -> Option<Output> {
    let outputs = body.get("outputs")?.as_array()?;
    let is_video = |output: &&Value| {
        let mime = text_at(output, "/content_type").unwrap_or_default();
        let url = text_at(output, "/url").unwrap_or_default();
        let path = url.split(['?', '#']).next().unwrap_or_default();
        let extension = path.rsplit('.').next().unwrap_or_default();
        mime.starts_with("video/") || ["mp4", "webm", "mov", "mkv"].contains(&extension)
    };
    let url = text_at(outputs.iter().find(is_video)?, "/url")?;
    let source = if url.starts_with('/') {
        // Relative to the host, and then the provider's own.
        let mut call = Call::get("content", "").to(Target::Root(url));
        call.limit_bytes = RESULT;
        Source::Call(Box::new(call))
    } else {
        Source::Address(url)
    };
    Some(Output {
        what: What::Video,
        source,
    })
}
