//! `xai`: Grok Imagine videos.
//!
//! Sources: docs.x.ai; `@ai-sdk/xai` 5.0.12 on the wire (xAI's own Python SDK
//! speaks gRPC and says nothing of this).
//!
//! ```text
//! POST /videos/generations   {model, prompt, duration, …} → {request_id}
//! GET  /videos/{request_id}  202, perhaps without a body, while it is pending;
//!                            {status: pending │ done │ failed │ expired, video: {url, respect_moderation}, progress}
//! ```
//!
//! `status` may be missing once there is an address. `respect_moderation:
//! false` means that the video was made and is withheld. The address lives for
//! 24 hours.
//!
//! Unknown: a way to call a job off, so there is none here; whether another
//! model than 1.5 makes 1080p (the SDK's types name it and no model); the error code of refused content and of an
//! empty account, which are known by the words of the message instead.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::adapters::Protocol;
use crate::answer::{Answer, percent_at, required_text, text_at};
use crate::catalogue::Shelf;
use crate::cost::{Cost, Unit};
use crate::error::{Class, Described, ProviderError};
use crate::limits::{Durations, Limits, Pictures, VideoLimits};
use crate::order::{Kind, Order, PictureRole};
use crate::port::jobs::errors::Ends;
use crate::port::{Adapter, Asked, Call, Handle, Output, Pace, Refusal, Step};
use crate::shape;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "xai",
    base_url: Some("https://api.x.ai/v1"),
    options: &[],
    anonymous: false,
    build: |settings| {
        Ok(Arc::new(Xai {
            known: settings.shelf("xai"),
        }))
    },
};

#[derive(Debug)]
struct Xai {
    known: Shelf,
}

impl Adapter for Xai {
    fn limits(&self, kind: Kind, model: &str) -> Option<Limits> {
        let unknown = VideoLimits {
            sizes: vec![(1280, 720), (720, 1280)],
            durations: Durations::Range { min: 1, max: 15 },
            default_seconds: 6,
            pictures: Pictures::frames(1),
            negative_prompt: false,
            seed: false,
            audio: None,
            max_prompt: 4_000,
        };
        (kind == Kind::Video).then(|| Limits::Video(self.known.video(model, unknown)))
    }

    fn can_say(&self, _: &str, size: (u32, u32)) -> bool {
        matches!(size.0.min(size.1), 480 | 720 | 1080) && shape::has_usual_ratio(size)
    }

    fn pace(&self) -> Pace {
        Pace::new(Duration::from_secs(3), Duration::from_secs(15))
    }

    fn refusals(&self) -> Vec<Refusal<'_>> {
        vec![Refusal::of_http()]
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        let video = order.video()?;
        let mut body = Map::new();
        body.insert("model".into(), json!(order.model));
        body.insert("prompt".into(), json!(video.prompt));
        body.insert("duration".into(), json!(video.seconds));
        body.insert("resolution".into(), json!(shape::tier(video.size)));
        if let Some(file) = video.picture(PictureRole::FirstFrame) {
            // The video takes the picture's shape; another one would stretch it.
            body.insert("image".into(), json!({"url": file.url_or_data()}));
            if let Some(last) = video.picture(PictureRole::LastFrame) {
                body.insert("last_frame".into(), json!({"url": last.url_or_data()}));
            }
        } else {
            body.insert("aspect_ratio".into(), json!(shape::ratio(video.size)));
        }
        let references = video.references();
        let references: Vec<Value> = references
            .map(|file| json!({"url": file.url_or_data()}))
            .collect();
        if !references.is_empty() {
            body.insert("reference_images".into(), Value::Array(references));
        }
        if let Some(user) = &video.user {
            body.insert("user".into(), json!(user));
        }
        Ok(Call::post("submit", "/videos/generations", Value::Object(body)).submits())
    }

    fn submitted(&self, _: &Order, _: &Asked, answer: &Answer) -> Result<Step, ProviderError> {
        let body = answer.success(describe).map_err(classed)?;
        Ok(Step::submitted(
            json!({"id": required_text(&body, "/request_id")?}),
        ))
    }

    fn poll(&self, handle: &Handle) -> Result<Call, ProviderError> {
        Ok(Call::get("poll", format!("/videos/{}", handle.text("id"))))
    }

    fn polled(&self, _: &Handle, _: &Asked, answer: &Answer) -> Result<Step, ProviderError> {
        if answer.status == 202 {
            let body = answer.json().unwrap_or(Value::Null);
            return Ok(Step::running(percent_at(&body, "/progress", 100.0)));
        }
        let body = answer.success(describe).map_err(|error| {
            let class = if answer.status == 404 {
                Class::Missing
            } else {
                classed(error.clone()).class
            };
            error.of_class(class)
        })?;
        let url = text_at(&body, "/video/url");
        let status = text_at(&body, "/status");
        let withheld = body.pointer("/video/respect_moderation") == Some(&Value::Bool(false));
        match (status.as_deref(), url) {
            (Some("done") | None, _) if withheld => Err(ProviderError::new(
                Class::Refused,
                "the provider's moderation withholds the video",
            )),
            (Some("done"), url) | (None, url @ Some(_)) => {
                Step::done(url.map(Output::video_at).into_iter().collect())
            }
            (Some("pending"), _) => Ok(Step::running(percent_at(&body, "/progress", 100.0))),
            (Some("failed"), _) => {
                let error = ENDS.error(describe(&body));
                Err(if is_moderation(&error) {
                    error.of_class(Class::Refused)
                } else {
                    error
                })
            }
            (Some("expired"), _) => Err(ProviderError::new(
                Class::Lost,
                "the provider let the job expire",
            )),
            (Some(word), _) => Ok(Step::unknown(word)),
            (None, None) => Err(ProviderError::unreadable(
                "the provider's answer has neither a status nor a video",
            )),
        }
    }

    fn cost(&self, answer: &Answer) -> Option<Cost> {
        let body = answer.json().ok()?;
        Cost::of(body.pointer("/usage/cost_in_usd_ticks")?, Unit::Usd, TICKS)
    }
}

/// Ticks of a dollar.
const TICKS: f64 = 1e10;

/// `{"error": {"message", "code"}}`, or `{"code", "error": "a sentence"}`.
fn describe(body: &Value) -> Described {
    if body.get("error").is_some_and(Value::is_string) {
        return Described::at(body, "/code", "/error");
    }
    let said = Described::at(body, "/error/code", "/error/message");
    if said.code.is_none() && said.message.is_some() {
        return Described::at(body, "/error/type", "/error/message");
    }
    said
}

fn classed(error: ProviderError) -> ProviderError {
    let message = error.message.to_lowercase();
    let class = match error.class {
        // An empty account is told of by the same statuses as a wrong key and
        // as too many requests.
        Class::Credentials | Class::RateLimited
            if message.contains("credits") || message.contains("spending limit") =>
        {
            Class::Account
        }
        Class::Rejected if is_moderation(&error) => Class::Refused,
        Class::Rejected if message.contains("api key") => Class::Credentials,
        class => class,
    };
    error.of_class(class)
}

/// The codes of docs.x.ai for a deferred video; `service_unavailable` and
/// `internal_error` may go away.
const ENDS: Ends = Ends {
    codes: &[
        ("invalid_argument", Class::Unfit),
        ("failed_precondition", Class::Unfit),
    ],
    words: &[("content policy", Class::Refused)],
};

fn is_moderation(error: &ProviderError) -> bool {
    let says = |text: &str| text.to_lowercase().contains("moderat");
    says(&error.message) || error.code.as_deref().is_some_and(says)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::tests::{adapter, picture, stems, video};
    use crate::order::{Picture, Work};
    use crate::port::{Body, Effect};

    fn body(order: &Order) -> Value {
        let call = adapter("xai", &json!({})).start(order).unwrap();
        assert_eq!(call.effect, Effect::Submission);
        let Body::Json(body) = call.body else {
            panic!("not JSON");
        };
        body
    }

    fn polled(status: u16, body: &Value) -> Result<Step, ProviderError> {
        let adapter = adapter("xai", &json!({}));
        let handle = Handle(json!({"id": "r1"}));
        let asked = adapter.poll(&handle).unwrap().asked();
        adapter.polled(&handle, &asked, &Answer::json_of(status, body))
    }

    #[test]
    fn a_picture_gives_the_shape() {
        let mut order = video("grok-imagine-video");
        assert_eq!(
            body(&order),
            json!({"model": "grok-imagine-video", "prompt": "a lighthouse in a storm", "duration": 5,
                "resolution": "720p", "aspect_ratio": "16:9"})
        );
        if let Work::Video(video) = &mut order.work {
            video.pictures.push(Picture {
                role: PictureRole::FirstFrame,
                file: picture(),
            });
        }
        let body = body(&order);
        assert!(body.get("aspect_ratio").is_none());
        let url = body["image"]["url"].as_str().unwrap();
        assert!(url.starts_with("data:image/png;base64,iVBOR"));
        order.model = "grok-imagine-video-1.5".into();
        if let Work::Video(video) = &mut order.work {
            video.pictures.push(Picture {
                role: PictureRole::LastFrame,
                file: picture(),
            });
        }
        assert_eq!(self::body(&order)["last_frame"]["url"], url);
        let error = adapter("xai", &json!({})).start(&stems("x")).unwrap_err();
        assert_eq!(error.class, Class::Rejected);
    }

    #[test]
    fn pending_has_many_faces() {
        for (status, body) in [
            (202, Value::Null),
            (202, json!({"status": "pending"})),
            (200, json!({"status": "pending", "progress": 40})),
        ] {
            let step = polled(status, &body).unwrap();
            assert!(
                matches!(
                    step,
                    Step::Running {
                        unknown_word: None,
                        ..
                    }
                ),
                "{body}"
            );
        }
        let mut empty = Answer::json_of(202, &Value::Null);
        empty.body = "".into();
        let handle = Handle(json!({"id": "r1"}));
        let xai = adapter("xai", &json!({}));
        let asked = xai.poll(&handle).unwrap().asked();
        assert!(matches!(
            xai.polled(&handle, &asked, &empty),
            Ok(Step::Running { .. })
        ));
        let step = polled(200, &json!({"status": "warming_up"})).unwrap();
        assert!(
            matches!(step, Step::Running { unknown_word: Some(word), .. } if word == "warming_up")
        );
    }

    #[test]
    fn an_address_is_the_end_unless_it_is_withheld() {
        let video = json!({"video": {"url": "https://v.x.ai/1.mp4", "respect_moderation": true}});
        assert!(matches!(polled(200, &video), Ok(Step::Done { .. })));
        for (body, class) in [
            (
                json!({"status": "done", "video": {"url": "https://v.x.ai/1.mp4", "respect_moderation": false}}),
                Class::Refused,
            ),
            (
                json!({"video": {"url": "", "respect_moderation": false}}),
                Class::Refused,
            ),
            (json!({"status": "done"}), Class::Failed),
            (
                json!({"status": "failed", "error": {"message": "broken"}}),
                Class::Failed,
            ),
            (
                json!({"status": "failed", "error": {"message": "Rejected by content moderation"}}),
                Class::Refused,
            ),
            (json!({"status": "expired"}), Class::Lost),
            (json!({}), Class::Unclear),
        ] {
            assert_eq!(polled(200, &body).unwrap_err().class, class, "{body}");
        }
        assert_eq!(polled(404, &json!({})).unwrap_err().class, Class::Missing);
        assert_eq!(polled(500, &json!({})).unwrap_err().class, Class::Unclear);
    }

    #[test]
    fn submissions_are_classed() {
        let xai = adapter("xai", &json!({}));
        let order = video("grok-imagine-video");
        let asked = xai.start(&order).unwrap().asked();
        for (status, body, class) in [
            (200, json!({}), Class::Unclear),
            (
                400,
                json!({"code": "bad", "error": "no such model"}),
                Class::Rejected,
            ),
            (
                400,
                json!({"error": {"message": "blocked by moderation"}}),
                Class::Refused,
            ),
            (
                400,
                json!({"error": "Incorrect API key provided"}),
                Class::Credentials,
            ),
            (
                403,
                json!({"error": "your team has no credits"}),
                Class::Account,
            ),
            (
                429,
                json!({"error": "too many requests"}),
                Class::RateLimited,
            ),
            (502, json!({}), Class::Unclear),
        ] {
            let error = xai
                .submitted(&order, &asked, &Answer::json_of(status, &body))
                .unwrap_err();
            assert_eq!(error.class, class, "{body}");
        }
        let answer = Answer::json_of(200, &json!({"request_id": "r1"}));
        assert!(matches!(
            xai.submitted(&order, &asked, &answer),
            Ok(Step::Submitted { handle, .. }) if handle.text("id") == "r1"
        ));
    }
}
