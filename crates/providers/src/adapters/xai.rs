//! `xai`: Grok Imagine videos.
//!
//! Sources: docs.x.ai; `@ai-sdk/xai` 5.0.12 (the requests it sends; xAI's own Python SDK uses gRPC
//! instead).
//!
//! ```text
//! POST /videos/generations   {model, prompt, duration, …} → {request_id}
//! GET  /videos/{request_id}  202, perhaps without a body, while it is pending;
//!                            {status: pending │ done │ failed │ expired, video: {url, respect_moderation}, progress}
//! ```
//!
//! `status` may be missing once there is a URL. `respect_moderation: false` means that the video
//! was made and is withheld. The URL is valid for 24 hours.
//!
//! Unknown: how to cancel a job, so cancelling is not supported; whether models other than 1.5 make
//! 1080p (the SDK's types allow it without naming a model); the error codes for refused content and
//! for an empty account, which are recognised by their messages instead.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::adapters::Protocol;
use crate::catalogue::ProtocolCatalogue;
use crate::cost::{CostUnit, ProviderCost};
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::frame_size;
use crate::limits::{Durations, ModelLimits, SourcePictureLimits, VideoLimits};
use crate::order::{MediaKind, Order, PictureRole};
use crate::port::jobs::errors::FailureTable;
use crate::port::{
    Adapter, AdapterStep, Call, CallContext, JobHandle, JobOutput, PollPace, RefusalRule,
};
use crate::response::{ProviderResponse, percent_at, required_text, text_at};

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "xai",
    base_url: Some("https://api.x.ai/v1"),
    options: &[],
    anonymous: false,
    build: |settings| {
        Ok(Arc::new(XaiAdapter {
            catalogue: settings.protocol_catalogue("xai"),
        }))
    },
};

#[derive(Debug)]
struct XaiAdapter {
    catalogue: ProtocolCatalogue,
}

impl Adapter for XaiAdapter {
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        let unknown = VideoLimits {
            sizes: vec![(1280, 720), (720, 1280)],
            durations: Durations::range(1, 15),
            default_seconds: 6,
            pictures: SourcePictureLimits::frames(1),
            max_prompt: 4_000,
            ..VideoLimits::default()
        };
        (kind == MediaKind::Video).then(|| ModelLimits::Video(self.catalogue.video(model, unknown)))
    }

    fn can_express_size(&self, _: &str, size: (u32, u32)) -> bool {
        // The request names the shorter side and the shape, but no size in pixels.
        matches!(size.0.min(size.1), 480 | 720 | 1080) && frame_size::has_usual_ratio(size)
    }

    fn pace(&self) -> PollPace {
        PollPace::new(Duration::from_secs(3), Duration::from_secs(15))
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        vec![RefusalRule::http_statuses()]
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        let video = order.video()?;
        let mut body = Map::new();
        body.insert("model".into(), json!(order.model));
        body.insert("prompt".into(), json!(video.prompt));
        body.insert("duration".into(), json!(video.seconds));
        body.insert("resolution".into(), json!(frame_size::tier(video.size)));
        if let Some(file) = video.picture(PictureRole::FirstFrame) {
            // The video takes the picture's shape; another one would stretch it.
            body.insert("image".into(), json!({"url": file.url_or_data()}));
            if let Some(last) = video.picture(PictureRole::LastFrame) {
                body.insert("last_frame".into(), json!({"url": last.url_or_data()}));
            }
        } else {
            body.insert("aspect_ratio".into(), json!(frame_size::ratio(video.size)));
        }
        let references = video.references();
        let references: Vec<Value> = references
            .map(|file| json!({"url": file.url_or_data()}))
            .collect();
        if !references.is_empty() {
            body.insert("reference_images".into(), Value::Array(references));
        }
        if let Some(user) = &video.options.user {
            body.insert("user".into(), json!(user));
        }
        Ok(Call::post("submit", "/videos/generations", Value::Object(body)).mark_submission())
    }

    fn read_submission(
        &self,
        _: &Order,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let body = answer.success(describe).map_err(reclassify)?;
        Ok(AdapterStep::submitted(
            json!({"id": required_text(&body, "/request_id")?}),
        ))
    }

    fn poll(&self, handle: &JobHandle) -> Result<Call, ProviderError> {
        Ok(Call::get("poll", format!("/videos/{}", handle.text("id"))))
    }

    fn read_poll(
        &self,
        _: &JobHandle,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        // The HTTP status alone means that the job is pending; the body may be missing.
        if answer.status == 202 {
            let body = answer.json().unwrap_or(Value::Null);
            return Ok(AdapterStep::running(percent_at(&body, "/progress", 100.0)));
        }
        let body = answer.success(describe).map_err(|error| {
            let class = if answer.status == 404 {
                ErrorClass::Missing
            } else {
                reclassify(error.clone()).class
            };
            error.with_class(class)
        })?;
        let url = text_at(&body, "/video/url");
        let status = text_at(&body, "/status");
        let is_withheld = body.pointer("/video/respect_moderation") == Some(&Value::Bool(false));
        match (status.as_deref(), url) {
            // Before the arm for a URL, because a video that was made and withheld is "done" too.
            (Some("done") | None, _) if is_withheld => Err(ProviderError::new(
                ErrorClass::Refused,
                "the provider's moderation blocked the video",
            )),
            (Some("done"), url) | (None, url @ Some(_)) => {
                AdapterStep::done(url.map(JobOutput::video_at).into_iter().collect())
            }
            (Some("pending"), _) => Ok(AdapterStep::running(percent_at(&body, "/progress", 100.0))),
            (Some("failed"), _) => {
                let error = FAILURES.error(describe(&body));
                Err(if is_moderation(&error) {
                    error.with_class(ErrorClass::Refused)
                } else {
                    error
                })
            }
            (Some("expired"), _) => Err(ProviderError::new(
                ErrorClass::Lost,
                "the job expired at the provider",
            )),
            (Some(word), _) => Ok(AdapterStep::unknown(word)),
            (None, None) => Err(ProviderError::unreadable(
                "the provider's response has neither a status nor a video",
            )),
        }
    }

    fn cost(&self, answer: &ProviderResponse) -> Option<ProviderCost> {
        let body = answer.json().ok()?;
        ProviderCost::from_value(
            body.pointer("/usage/cost_in_usd_ticks")?,
            CostUnit::Usd,
            TICKS,
        )
    }
}

/// Ticks per dollar.
// docs.x.ai, "Cost Tracking", November 2026.
const TICKS: f64 = 1e10;

/// `{"error": {"message", "code"}}`, or `{"code", "error": "a sentence"}`.
fn describe(body: &Value) -> ErrorDescription {
    if body.get("error").is_some_and(Value::is_string) {
        return ErrorDescription::at(body, "/code", "/error");
    }
    let description = ErrorDescription::at(body, "/error/code", "/error/message");
    if description.code.is_none() && description.message.is_some() {
        return ErrorDescription::at(body, "/error/type", "/error/message");
    }
    description
}

fn reclassify(error: ProviderError) -> ProviderError {
    let message = error.message.to_lowercase();
    let class = match error.class {
        // An empty account has the same statuses as a wrong key and as too many requests.
        ErrorClass::Credentials | ErrorClass::RateLimited
            if message.contains("credits") || message.contains("spending limit") =>
        {
            ErrorClass::Account
        }
        ErrorClass::Rejected if is_moderation(&error) => ErrorClass::Refused,
        ErrorClass::Rejected if message.contains("api key") => ErrorClass::Credentials,
        class => class,
    };
    error.with_class(class)
}

/// The codes of docs.x.ai for a deferred video; `service_unavailable` and `internal_error` may be
/// temporary.
const FAILURES: FailureTable = FailureTable {
    codes: &[
        ("invalid_argument", ErrorClass::Unfit),
        ("failed_precondition", ErrorClass::Unfit),
    ],
    words: &[("content policy", ErrorClass::Refused)],
};

fn is_moderation(error: &ProviderError) -> bool {
    let is_about_moderation = |text: &str| text.to_lowercase().contains("moderat");
    is_about_moderation(&error.message) || error.code.as_deref().is_some_and(is_about_moderation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::tests::{adapter, picture, stems, video};
    use crate::order::{SourcePicture, WorkSpec};
    use crate::port::{CallEffect, RequestBody};

    fn body(order: &Order) -> Value {
        let call = adapter("xai", &json!({})).start(order).unwrap();
        assert_eq!(call.effect, CallEffect::Submission);
        let RequestBody::Json(body) = call.body else {
            panic!("not JSON");
        };
        body
    }

    fn poll(status: u16, body: &Value) -> Result<AdapterStep, ProviderError> {
        let adapter = adapter("xai", &json!({}));
        let handle = JobHandle(json!({"id": "r1"}));
        let context = adapter.poll(&handle).unwrap().context();
        adapter.read_poll(
            &handle,
            &context,
            &ProviderResponse::from_json(status, body),
        )
    }

    #[test]
    fn a_picture_gives_the_shape() {
        let mut order = video("grok-imagine-video");
        assert_eq!(
            body(&order),
            json!({"model": "grok-imagine-video", "prompt": "a lighthouse in a storm", "duration": 5,
                "resolution": "720p", "aspect_ratio": "16:9"})
        );
        if let WorkSpec::Video(video) = &mut order.work {
            video.pictures.push(SourcePicture {
                role: PictureRole::FirstFrame,
                file: picture(),
            });
        }
        let body = body(&order);
        assert!(body.get("aspect_ratio").is_none());
        let url = body["image"]["url"].as_str().unwrap();
        assert!(url.starts_with("data:image/png;base64,iVBOR"));
        order.model = "grok-imagine-video-1.5".into();
        if let WorkSpec::Video(video) = &mut order.work {
            video.pictures.push(SourcePicture {
                role: PictureRole::LastFrame,
                file: picture(),
            });
        }
        assert_eq!(self::body(&order)["last_frame"]["url"], url);
        let error = adapter("xai", &json!({})).start(&stems("x")).unwrap_err();
        assert_eq!(error.class, ErrorClass::Rejected);
    }

    #[test]
    fn a_pending_job_is_recognized_in_every_form() {
        for (status, body) in [
            (202, Value::Null),
            (202, json!({"status": "pending"})),
            (200, json!({"status": "pending", "progress": 40})),
        ] {
            let step = poll(status, &body).unwrap();
            assert!(
                matches!(
                    step,
                    AdapterStep::Running {
                        unknown_status: None,
                        ..
                    }
                ),
                "{body}"
            );
        }
        let mut empty = ProviderResponse::from_json(202, &Value::Null);
        empty.body = "".into();
        let handle = JobHandle(json!({"id": "r1"}));
        let xai = adapter("xai", &json!({}));
        let context = xai.poll(&handle).unwrap().context();
        assert!(matches!(
            xai.read_poll(&handle, &context, &empty),
            Ok(AdapterStep::Running { .. })
        ));
        let step = poll(200, &json!({"status": "warming_up"})).unwrap();
        assert!(
            matches!(step, AdapterStep::Running { unknown_status: Some(word), .. } if word == "warming_up")
        );
    }

    #[test]
    fn a_url_ends_the_job_unless_it_is_withheld() {
        let video = json!({"video": {"url": "https://v.x.ai/1.mp4", "respect_moderation": true}});
        assert!(matches!(poll(200, &video), Ok(AdapterStep::Done { .. })));
        for (body, class) in [
            (
                json!({"status": "done", "video": {"url": "https://v.x.ai/1.mp4", "respect_moderation": false}}),
                ErrorClass::Refused,
            ),
            (
                json!({"video": {"url": "", "respect_moderation": false}}),
                ErrorClass::Refused,
            ),
            (json!({"status": "done"}), ErrorClass::Failed),
            (
                json!({"status": "failed", "error": {"message": "broken"}}),
                ErrorClass::Failed,
            ),
            (
                json!({"status": "failed", "error": {"message": "Rejected by content moderation"}}),
                ErrorClass::Refused,
            ),
            (json!({"status": "expired"}), ErrorClass::Lost),
            (json!({}), ErrorClass::Unclear),
        ] {
            assert_eq!(poll(200, &body).unwrap_err().class, class, "{body}");
        }
        assert_eq!(
            poll(404, &json!({})).unwrap_err().class,
            ErrorClass::Missing
        );
        assert_eq!(
            poll(500, &json!({})).unwrap_err().class,
            ErrorClass::Unclear
        );
    }

    #[test]
    fn answers_to_a_submission_are_classified() {
        let xai = adapter("xai", &json!({}));
        let order = video("grok-imagine-video");
        let context = xai.start(&order).unwrap().context();
        for (status, body, class) in [
            (200, json!({}), ErrorClass::Unclear),
            (
                400,
                json!({"code": "bad", "error": "no such model"}),
                ErrorClass::Rejected,
            ),
            (
                400,
                json!({"error": {"message": "blocked by moderation"}}),
                ErrorClass::Refused,
            ),
            (
                400,
                json!({"error": "Incorrect API key provided"}),
                ErrorClass::Credentials,
            ),
            (
                403,
                json!({"error": "your team has no credits"}),
                ErrorClass::Account,
            ),
            (
                429,
                json!({"error": "too many requests"}),
                ErrorClass::RateLimited,
            ),
            (502, json!({}), ErrorClass::Unclear),
        ] {
            let error = xai
                .read_submission(
                    &order,
                    &context,
                    &ProviderResponse::from_json(status, &body),
                )
                .unwrap_err();
            assert_eq!(error.class, class, "{body}");
        }
        let answer = ProviderResponse::from_json(200, &json!({"request_id": "r1"}));
        assert!(matches!(
            xai.read_submission(&order, &context, &answer),
            Ok(AdapterStep::Submitted { handle, .. }) if handle.text("id") == "r1"
        ));
    }
}
