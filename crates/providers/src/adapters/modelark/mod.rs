//! `modelark`: `ByteDance`'s `ModelArk` (Volcengine Ark in China), the home of the
//! Seedance models.
//!
//! Sources: `byteplus-python-sdk-v2` 3.0.63 on the wire; the provider's
//! documents for what a deletion does and how long an address lives (24 h).
//!
//! ```text
//! POST   /contents/generations/tasks       {id}
//! GET    /contents/generations/tasks/{id}  queued │ running │ succeeded │ failed │ cancelled │ expired
//! DELETE /contents/generations/tasks/{id}  calls a queued task off, is refused for a running one
//! ```
//!
//! The SDK sends members that are not set as null; nothing here is null.
//!
//! Common knowledge only: the words of the error codes, and what each model
//! offers. Unknown: whether the oldest models read their parameters from the
//! body or only from flags in the prompt; they are sent in the body.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Map, Value, json};

use crate::adapters::Protocol;
use crate::answer::{Answer, Described, required_text, text_at};
use crate::error::{Class, ProviderError};
use crate::limits::{Durations, Limits, Pictures, VideoLimits};
use crate::order::{Kind, Order, PictureRole, Work};
use crate::port::{Adapter, Asked, Call, Handle, Output, Pace, Step};
use crate::settings::{Settings, SettingsError};
use crate::shape;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "modelark",
    base_url: Some("https://ark.ap-southeast.bytepluses.com/api/v3"),
    options: &[],
    anonymous: false,
    build,
};

const TASKS: &str = "/contents/generations/tasks";

#[expect(clippy::unnecessary_wraps, reason = "the table's type")]
fn build(_: &Settings) -> Result<Arc<dyn Adapter>, SettingsError> {
    Ok(Arc::new(ModelArk))
}

#[derive(Debug)]
struct ModelArk;

impl Adapter for ModelArk {
    fn limits(&self, kind: Kind, model: &str) -> Option<Limits> {
        let is = |part: &str| model.contains(part);
        let mut sizes = vec![
            (1280, 720),
            (720, 1280),
            (960, 960),
            (1112, 834),
            (834, 1112),
            (1470, 630),
            (864, 496),
            (496, 864),
            (640, 640),
        ];
        let large = is("1-0-pro") || is("1-5-pro") || is("2-0");
        if large && !is("fast") && !is("mini") {
            sizes.extend([(1920, 1080), (1080, 1920), (1440, 1440)]);
        }
        // Endpoints have ids of the operator's own instead of a model's name:
        // they get what all models have.
        let (min, max) = if is("1-0-") {
            (2, 12)
        } else if is("2-0") || is("2-5") {
            (4, 15)
        } else {
            (4, 12)
        };
        let frames = if is("t2v") {
            0
        } else if is("1-0-pro-fast") {
            1
        } else {
            2
        };
        (kind == Kind::Video).then(|| {
            Limits::Video(VideoLimits {
                sizes,
                durations: Durations::Range { min, max },
                default_seconds: 5,
                pictures: Pictures {
                    needed: is("i2v"),
                    ..Pictures::frames(frames)
                },
                negative_prompt: false,
                seed: true,
                max_prompt: 2000,
            })
        })
    }

    fn pace(&self) -> Pace {
        Pace::new(Duration::from_secs(5), Duration::from_secs(20))
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        let Work::Video(video) = &order.work else {
            return Err(ProviderError::new(
                Class::Rejected,
                "this provider makes videos only",
            ));
        };
        let mut content = vec![json!({"type": "text", "text": video.prompt})];
        for (word, role) in [
            ("first_frame", PictureRole::FirstFrame),
            ("last_frame", PictureRole::LastFrame),
        ] {
            if let Some(file) = video.picture(role) {
                let url = json!({"url": file.url_or_data()});
                content.push(json!({"type": "image_url", "image_url": url, "role": word}));
            }
        }
        let mut fields = Map::new();
        fields.insert("model".into(), json!(order.model));
        fields.insert("content".into(), Value::Array(content));
        fields.insert("resolution".into(), json!(resolution(video.size)));
        fields.insert("ratio".into(), json!(shape::ratio(video.size)));
        fields.insert("duration".into(), json!(video.seconds));
        if let Some(seed) = video.seed {
            fields.insert("seed".into(), json!(seed % (1 << 32)));
        }
        Ok(Call::post("submit", TASKS, Value::Object(fields)).submits())
    }

    fn submitted(&self, _: &Order, _: &Asked, answer: &Answer) -> Result<Step, ProviderError> {
        let body = answer.success(describe).map_err(class_by_code)?;
        Ok(Step::submitted(json!({"id": required_text(&body, "/id")?})))
    }

    fn poll(&self, handle: &Handle) -> Result<Call, ProviderError> {
        Ok(Call::get("poll", format!("{TASKS}/{}", handle.text("id"))))
    }

    fn polled(&self, _: &Handle, _: &Asked, answer: &Answer) -> Result<Step, ProviderError> {
        if answer.status == 404 {
            return Err(answer.failure(describe).of_class(Class::Lost));
        }
        let body = answer.success(describe).map_err(class_by_code)?;
        match required_text(&body, "/status")?.as_str() {
            "queued" | "running" => Ok(Step::running(None)),
            "succeeded" => {
                let made = text_at(&body, "/content/video_url");
                Step::done(made.map(Output::video_at).into_iter().collect())
            }
            "failed" => Err(failure(&body)),
            "cancelled" | "expired" => Err(ProviderError::new(
                Class::Lost,
                "the provider no longer works on it",
            )),
            word => Ok(Step::unknown(word)),
        }
    }

    fn cancel(&self, handle: &Handle) -> Option<Call> {
        let path = format!("{TASKS}/{}", handle.text("id"));
        Some(Call::new("cancel", Method::DELETE, path))
    }
}

/// The fineness by area: the models' sizes of one fineness have one area,
/// whatever their shape.
fn resolution((width, height): (u32, u32)) -> &'static str {
    match u64::from(width) * u64::from(height) {
        0..650_000 => "480p",
        650_000..1_400_000 => "720p",
        _ => "1080p",
    }
}

fn describe(body: &Value) -> Described {
    Described::at(body, "/error/code", "/error/message")
}

fn is_refusal(code: &str) -> bool {
    code.contains("SensitiveContent")
}

/// What the code of a refused call says beside its status.
fn class_by_code(error: ProviderError) -> ProviderError {
    // Only a 4xx proves that nothing was taken.
    if error.class == Class::Unclear {
        return error;
    }
    let class = match error.code.as_deref().unwrap_or_default() {
        code if is_refusal(code) => Class::Refused,
        "AccountOverdueError" | "QuotaExceeded" | "SetLimitExceeded" => Class::Account,
        "ModelNotOpen" => Class::Credentials,
        _ => error.class,
    };
    error.of_class(class)
}

fn failure(body: &Value) -> ProviderError {
    let said = describe(body);
    let refused = said.code.as_deref().is_some_and(is_refusal);
    ProviderError {
        class: if refused {
            Class::Refused
        } else {
            Class::Failed
        },
        code: said.code,
        message: said.message.unwrap_or_else(|| "the task failed".into()),
        retry_after: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::tests::{adapter, picture, stems, video};
    use crate::order::Picture;
    use crate::port::{Body, Effect};

    fn modelark() -> Arc<dyn Adapter> {
        adapter("modelark", &json!({}))
    }

    fn sent(order: &Order) -> Value {
        let call = modelark().start(order).unwrap();
        assert_eq!(call.effect, Effect::Submission);
        match call.body {
            Body::Json(body) => body,
            other => panic!("not JSON: {other:?}"),
        }
    }

    #[test]
    fn parts_with_roles_and_nothing_null() {
        let mut order = video("seedance-1-5-pro-251215");
        let text = json!({"type": "text", "text": "a lighthouse in a storm"});
        assert_eq!(
            sent(&order),
            json!({"model": "seedance-1-5-pro-251215", "content": [text], "resolution": "720p",
                   "ratio": "16:9", "duration": 5})
        );
        if let Work::Video(video) = &mut order.work {
            (video.seed, video.size) = (Some(1 << 32), (1080, 1920));
            for role in [PictureRole::FirstFrame, PictureRole::LastFrame] {
                let file = picture();
                video.pictures.push(Picture { role, file });
            }
        }
        let body = sent(&order);
        assert_eq!(
            (&body["seed"], &body["resolution"]),
            (&json!(0), &json!("1080p"))
        );
        let url = json!({"url": picture().data_url()});
        let frame = |role| json!({"type": "image_url", "image_url": url, "role": role});
        let content = json!([text, frame("first_frame"), frame("last_frame")]);
        assert_eq!(body["content"], content);
    }

    #[test]
    fn every_size_has_its_fineness() {
        let limits = modelark().limits(Kind::Video, "seedance-2-0-260128");
        let Some(Limits::Video(limits)) = limits else {
            panic!("no videos");
        };
        let of = |wanted: &str| {
            let all = limits.sizes.iter();
            all.filter(|size| resolution(**size) == wanted).count()
        };
        assert_eq!((of("480p"), of("720p"), of("1080p")), (3, 6, 3));
    }

    #[test]
    fn what_a_submission_may_answer() {
        let order = video("seedance-1-5-pro-251215");
        let asked = modelark().start(&order).unwrap().asked();
        let answered = |status, body: &Value| {
            let answer = Answer::json_of(status, body);
            modelark().submitted(&order, &asked, &answer)
        };
        assert!(matches!(
            answered(200, &json!({"id": "cgt-1"})),
            Ok(Step::Submitted { .. })
        ));
        for (status, code, class) in [
            (400, "InvalidParameter", Class::Rejected),
            (400, "InputTextSensitiveContentDetected", Class::Refused),
            (401, "AuthenticationError", Class::Credentials),
            (403, "AccountOverdueError", Class::Account),
            (404, "ModelNotOpen", Class::Credentials),
            (
                429,
                "RateLimitExceeded.EndpointRPMExceeded",
                Class::RateLimited,
            ),
            (429, "QuotaExceeded", Class::Account),
            (429, "ServerOverloaded", Class::RateLimited),
            (500, "InternalServiceError", Class::Unclear),
            (503, "ServiceUnavailable", Class::Unavailable),
            (200, "InvalidParameter", Class::Unclear),
        ] {
            let body = json!({"error": {"code": code, "message": "no"}});
            assert_eq!(answered(status, &body).unwrap_err().class, class, "{code}");
        }
        let error = modelark().start(&stems("x")).unwrap_err();
        assert_eq!(error.class, Class::Rejected);
    }

    #[test]
    fn every_status_word() {
        let handle = Handle(json!({"id": "cgt-1"}));
        let asked = modelark().poll(&handle).unwrap().asked();
        let polled = |status, body: Value| {
            modelark().polled(&handle, &asked, &Answer::json_of(status, &body))
        };
        for word in ["queued", "running"] {
            let step = polled(200, json!({"status": word})).unwrap();
            assert!(matches!(
                step,
                Step::Running {
                    unknown_word: None,
                    ..
                }
            ));
        }
        let step = polled(200, json!({"status": "pondering"})).unwrap();
        assert!(matches!(
            step,
            Step::Running {
                unknown_word: Some(_),
                ..
            }
        ));
        let done = json!({"status": "succeeded", "content": {"video_url": "https://x.example/v"}});
        assert!(matches!(polled(200, done), Ok(Step::Done { outputs }) if outputs.len() == 1));
        let class = |status, body| polled(status, body).unwrap_err().class;
        assert_eq!(
            class(200, json!({"status": "succeeded", "content": {}})),
            Class::Failed
        );
        assert_eq!(class(200, json!({"status": "cancelled"})), Class::Lost);
        assert_eq!(class(200, json!({"status": "expired"})), Class::Lost);
        let failed =
            |code: &str| json!({"status": "failed", "error": {"code": code, "message": "no"}});
        assert_eq!(class(200, failed("InternalServiceError")), Class::Failed);
        let refused = failed("OutputVideoSensitiveContentDetected");
        assert_eq!(class(200, refused), Class::Refused);
        let gone = json!({"error": {"code": "ResourceNotFound", "message": "no"}});
        assert_eq!(class(404, gone), Class::Lost);
        assert_eq!(class(500, json!({})), Class::Unclear);
    }

    #[test]
    fn a_running_task_is_not_called_off() {
        let handle = Handle(json!({"id": "cgt-1"}));
        assert_eq!(modelark().cancel(&handle).unwrap().method, Method::DELETE);
        let said = |status| modelark().cancelled(&handle, &Answer::json_of(status, &json!({})));
        assert!(said(200) && !said(400) && !said(409));
    }
}
