//! Comfy API v2 (beta): one API for Comfy Cloud, its serverless offer and a proxy in front of a
//! self-hosted server.
//!
//! Sources: `comfy-sdk` 0.5.0, read as source, and its documentation.
//!
//! ```text
//! POST /api/v2/jobs              {workflow} + Idempotency-Key → 201 {id, status}
//! GET  /api/v2/jobs/{id}         {status, progress: {value}, outputs: [{type, url}], error}
//! POST /api/v2/jobs/{id}/cancel  may be repeated
//! ```
//!
//! An `Idempotency-Key` can be used once: a repetition is refused without information about the
//! first submission. So there cannot be two jobs, but an unclear submission stays unclear.
//!
//! Unknown: the format of an asset's upload, so graphs with pictures need the older API; the values
//! of an output's `type`, so its content type and its file extension decide.

use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::{Value, json};

use super::graph::WorkflowSet;
use super::{class_by_code, pace};
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::limits::ModelLimits;
use crate::order::{MediaKind, Order};
use crate::port::jobs::JobApi;
use crate::port::jobs::errors::FailureTable;
use crate::port::jobs::status::JobStatus;
use crate::port::{
    Adapter, Authorization, Call, CallTarget, JobOutput, MAX_RESULT_BYTES, OutputKind,
    OutputSource, PollPace, RefusalRule,
};
use crate::response::{percent_at, text_at};
use crate::secret::Secret;
use crate::settings::SettingsError;

static JOB: JobApi = JobApi {
    id: "/id",
    path: "/api/v2/jobs/{id}",
    cancel: Some((Method::POST, "/api/v2/jobs/{id}/cancel")),
    headers: &[],
    submission_body: |answer| answer.success(describe).map_err(class_by_code),
    poll_body: |answer| answer.success(describe),
    status: "/status",
    words: &[
        ("queued", JobStatus::Running),
        ("running", JobStatus::Running),
        ("canceling", JobStatus::Running),
        ("succeeded", JobStatus::Done),
        ("failed", JobStatus::FAILED),
        ("canceled", JobStatus::LOST),
        ("expired", JobStatus::LOST),
    ],
    progress: |body| percent_at(body, "/progress/value", 1.0),
    outputs: |_, body| Ok(video_of(body).into_iter().collect()),
    failure: |body| FAILURES.error(describe(body)),
    lost_message: "the job was cancelled or has expired at the provider",
};

#[derive(Debug)]
pub(super) struct ComfyJobsAdapter {
    graphs: WorkflowSet,
}

impl ComfyJobsAdapter {
    pub(super) fn new(graphs: WorkflowSet) -> Result<Self, SettingsError> {
        if graphs.accepts_pictures() {
            return Err(SettingsError::at(
                "patch.image",
                "images are supported only with api = \"v1\"",
            ));
        }
        Ok(Self { graphs })
    }
}

impl Adapter for ComfyJobsAdapter {
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        (kind == MediaKind::Video)
            .then(|| self.graphs.limits(model))
            .flatten()
    }

    fn pace(&self) -> PollPace {
        PollPace {
            floor: Duration::from_secs(2),
            ..pace()
        }
    }

    fn authorize(&self, secret: &Secret, _: SystemTime) -> Result<Authorization, ProviderError> {
        Ok(Authorization::bearer(secret))
    }

    fn job(&self) -> Option<&JobApi> {
        Some(&JOB)
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        vec![RefusalRule::http_statuses()]
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        let video = order.video()?;
        let body = json!({"workflow": self.graphs.fill(order, video, &[])?});
        Ok(Call::post("submit", "/api/v2/jobs", body)
            // The server refuses a used key and does not return the first job.
            .with_header("idempotency-key", &order.idempotency_key)
            .mark_submission())
    }
}

fn describe(body: &Value) -> ErrorDescription {
    ErrorDescription::at(body, "/error/code", "/error/message")
}

/// The error types of Comfy's router, which its jobs use too.
const FAILURES: FailureTable = FailureTable {
    codes: &[
        ("content_policy_violation", ErrorClass::Refused),
        ("invalid_input", ErrorClass::Unfit),
        ("model_not_found", ErrorClass::Unfit),
        ("cancelled", ErrorClass::Lost),
    ],
    words: &[],
};

/// The first output that is a video.
fn video_of(body: &Value) -> Option<JobOutput> {
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
        // A URL relative to the host belongs to the provider.
        let mut call = Call::get("content", "").with_target(CallTarget::Root(url));
        call.limit_bytes = MAX_RESULT_BYTES;
        OutputSource::Call(Box::new(call))
    } else {
        OutputSource::Address(url)
    };
    Some(JobOutput {
        kind: OutputKind::Video,
        source,
    })
}
