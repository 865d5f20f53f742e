//! `luma`: Luma's two APIs: Agents (`api = "agents"`, the current one) and the
//! older Dream Machine (`api = "dream-machine"`).
//!
//! Sources: the SDKs `luma-agents` 0.5.0 and `lumaai` 1.21.0 (Python) on the
//! wire, their types for what may be asked.
//!
//! ```text
//!                 agents                            dream-machine
//! submit          POST /generations                 POST /generations/video
//! poll            GET /generations/{id}             GET /generations/{id}
//! waits, works    queued, processing                queued, dreaming
//! ends            completed, failed                 completed, failed
//! result          output[].url, signed for an hour  assets.video
//! cancel          none                              DELETE /generations/{id}
//! pictures        inline or by address              by address only
//! ```
//!
//! Neither deduplicates. A poll signs the result's address anew.
//!
//! Unknown: the body of an error (every usual place is looked at); whether
//! deleting a running Dream Machine generation stops it, so that a deletion is
//! no proof of a cancellation; the longest prompt. Common knowledge only: that
//! Dream Machine says "credits" and "moderat…" in the sentence of an error.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Map, Value, json};

use crate::adapters::Protocol;
use crate::answer::{Answer, Described, required_text, text_at};
use crate::error::{Class, ProviderError};
use crate::limits::{Durations, Handover, Limits, Pictures, VideoLimits};
use crate::order::{File, Kind, Order, PictureRole, Video, Work};
use crate::port::{Adapter, Asked, Call, Handle, Output, Pace, Step};
use crate::settings::{Settings, SettingsError};
use crate::shape;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "luma",
    base_url: Some("https://agents.lumalabs.ai/v1"),
    options: &["api"],
    anonymous: false,
    build,
};

fn build(settings: &Settings) -> Result<Arc<dyn Adapter>, SettingsError> {
    let api = match settings.word("api", &["agents", "dream-machine"])? {
        "dream-machine" => Api::DreamMachine,
        _ => Api::Agents,
    };
    Ok(Arc::new(Luma { api }))
}

#[derive(Debug)]
struct Luma {
    api: Api,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    Agents,
    DreamMachine,
}

/// Output frames a second, by which Agents names the place of a key frame.
const RATE: u32 = 24;

impl Adapter for Luma {
    fn limits(&self, kind: Kind, _: &str) -> Option<Limits> {
        let sizes = [720, 1080, 540].into_iter().flat_map(|side| {
            let long = side * 16 / 9;
            let middle = side * 4 / 3;
            [
                (long, side),
                (side, long),
                (side, side),
                (middle, side),
                (side, middle),
            ]
        });
        let (durations, handover) = match self.api {
            Api::Agents => (vec![5, 10], Handover::Any),
            Api::DreamMachine => (vec![5, 9], Handover::AddressOnly),
        };
        (kind == Kind::Video).then(|| {
            Limits::Video(VideoLimits {
                sizes: sizes.collect(),
                durations: Durations::Only(durations),
                default_seconds: 5,
                pictures: Pictures {
                    handover,
                    ..Pictures::frames(2)
                },
                negative_prompt: false,
                seed: false,
                max_prompt: 5000,
            })
        })
    }

    fn pace(&self) -> Pace {
        Pace::new(Duration::from_secs(3), Duration::from_secs(15))
    }

    fn base_url(&self) -> Option<&str> {
        Some(match self.api {
            Api::Agents => "https://agents.lumalabs.ai/v1",
            Api::DreamMachine => "https://api.lumalabs.ai/dream-machine/v1",
        })
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        let Work::Video(video) = &order.work else {
            return Err(ProviderError::new(
                Class::Rejected,
                "this provider makes videos only",
            ));
        };
        let call = match self.api {
            Api::Agents => Call::post("submit", "/generations", for_agents(order, video)),
            Api::DreamMachine => {
                let body = for_dream_machine(order, video)?;
                Call::post("submit", "/generations/video", body)
            }
        };
        Ok(call.submits())
    }

    fn submitted(&self, _: &Order, _: &Asked, answer: &Answer) -> Result<Step, ProviderError> {
        let body = answer.success(describe).map_err(class_of_refusal)?;
        Ok(Step::submitted(json!({"id": required_text(&body, "/id")?})))
    }

    fn poll(&self, handle: &Handle) -> Result<Call, ProviderError> {
        let path = format!("/generations/{}", handle.text("id"));
        Ok(Call::get("poll", path))
    }

    fn polled(&self, _: &Handle, _: &Asked, answer: &Answer) -> Result<Step, ProviderError> {
        if answer.status == 404 {
            return Err(answer.failure(describe).of_class(Class::Lost));
        }
        let body = answer.success(describe)?;
        match required_text(&body, "/state")?.as_str() {
            "queued" | "processing" | "dreaming" => Ok(Step::running(None)),
            "completed" => {
                let made = match self.api {
                    Api::Agents => made_by_agents(&body),
                    Api::DreamMachine => text_at(&body, "/assets/video"),
                };
                Step::done(made.map(Output::video_at).into_iter().collect())
            }
            "failed" => Err(failure(&body)),
            word => Ok(Step::unknown(word)),
        }
    }

    fn cancel(&self, handle: &Handle) -> Option<Call> {
        let path = format!("/generations/{}", handle.text("id"));
        (self.api == Api::DreamMachine).then(|| Call::new("cancel", Method::DELETE, path))
    }

    fn cancelled(&self, _: &Handle, _: &Answer) -> bool {
        false
    }
}

fn for_agents(order: &Order, video: &Video) -> Value {
    let reference = |file: &File| match &file.url {
        Some(url) => json!({"url": url}),
        None => json!({"data": file.base64(), "media_type": file.mime}),
    };
    let first = video.picture(PictureRole::FirstFrame).map(reference);
    let last = video.picture(PictureRole::LastFrame).map(reference);
    let mut options = Map::new();
    options.insert("duration".into(), json!(format!("{}s", video.seconds)));
    options.insert("resolution".into(), json!(shape::tier(video.size)));
    if video.seconds == 5 {
        options.extend(first.map(|first| ("start_frame".into(), first)));
        options.extend(last.map(|last| ("end_frame".into(), last)));
    } else {
        // Start and end frames are for five seconds; key frames, of which
        // these are two, for any length.
        let ends = [(first, 0), (last, video.seconds * RATE)];
        let frames = ends
            .into_iter()
            .filter_map(|(frame, at)| Some((frame?, at)));
        let (frames, places): (Vec<Value>, Vec<u32>) = frames.unzip();
        if !frames.is_empty() {
            options.insert("keyframes".into(), json!(frames));
            options.insert("keyframe_indexes".into(), json!(places));
        }
    }
    let mut fields = Map::new();
    fields.insert("type".into(), json!("video"));
    fields.insert("model".into(), json!(order.model));
    fields.insert("prompt".into(), json!(video.prompt));
    fields.insert("aspect_ratio".into(), json!(shape::ratio(video.size)));
    fields.insert("video".into(), Value::Object(options));
    if let Some(user) = &video.user {
        fields.insert("user_id".into(), json!(user));
    }
    Value::Object(fields)
}

fn for_dream_machine(order: &Order, video: &Video) -> Result<Value, ProviderError> {
    let mut frames = Map::new();
    for (name, role) in [
        ("frame0", PictureRole::FirstFrame),
        ("frame1", PictureRole::LastFrame),
    ] {
        let Some(file) = video.picture(role) else {
            continue;
        };
        let Some(url) = &file.url else {
            let message = "this provider fetches pictures from an address: this gateway must be reachable from outside for that";
            return Err(ProviderError::new(Class::Rejected, message));
        };
        frames.insert(name.into(), json!({"type": "image", "url": url}));
    }
    let mut fields = Map::new();
    fields.insert("model".into(), json!(order.model));
    fields.insert("prompt".into(), json!(video.prompt));
    fields.insert("aspect_ratio".into(), json!(shape::ratio(video.size)));
    fields.insert("resolution".into(), json!(shape::tier(video.size)));
    fields.insert("duration".into(), json!(format!("{}s", video.seconds)));
    if !frames.is_empty() {
        fields.insert("keyframes".into(), Value::Object(frames));
    }
    Ok(Value::Object(fields))
}

fn made_by_agents(body: &Value) -> Option<String> {
    let outputs = body.pointer("/output")?.as_array()?;
    let is_video = |output: &&Value| text_at(output, "/type").as_deref() == Some("video");
    text_at(outputs.iter().find(is_video)?, "/url")
}

fn describe(body: &Value) -> Described {
    let first = |places: &[&str]| places.iter().find_map(|place| text_at(body, place));
    Described {
        code: first(&["/failure_code", "/error/code", "/code"]),
        message: first(&[
            "/detail",
            "/error/message",
            "/message",
            "/error",
            "/detail/0/msg",
        ]),
    }
}

/// What a refused submission says beside its status.
fn class_of_refusal(error: ProviderError) -> ProviderError {
    if error.class != Class::Rejected {
        return error;
    }
    let words = error.message.to_lowercase();
    let class = match error.code.as_deref() {
        Some("content_moderated") => Class::Refused,
        Some("budget_exhausted") => Class::Account,
        Some("rate_limited") => Class::RateLimited,
        None if words.contains("moderat") => Class::Refused,
        None if words.contains("credits") => Class::Account,
        _ => Class::Rejected,
    };
    error.of_class(class)
}

/// The error of a generation that the provider took: whatever its code, the
/// generation has ended.
fn failure(body: &Value) -> ProviderError {
    let said = Described::at(body, "/failure_code", "/failure_reason");
    let message = said
        .message
        .unwrap_or_else(|| "the generation failed".into());
    let refused = match said.code.as_deref() {
        Some(code) => code == "content_moderated",
        None => message.to_lowercase().contains("moderat"),
    };
    let class = if refused {
        Class::Refused
    } else {
        Class::Failed
    };
    ProviderError {
        class,
        code: said.code,
        message,
        retry_after: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::tests::{adapter, picture, stems, video};
    use crate::adapters::{base_url, protocol};
    use crate::order::Picture;
    use crate::port::{Body, Effect, Source, Target};

    fn luma(api: &str) -> Arc<dyn Adapter> {
        adapter("luma", &json!({"api": api}))
    }

    fn with_frames(mut order: Order, seconds: u32, url: Option<&str>) -> Order {
        if let Work::Video(video) = &mut order.work {
            video.seconds = seconds;
            for role in [PictureRole::FirstFrame, PictureRole::LastFrame] {
                let mut file = picture();
                file.url = url.map(str::to_owned);
                video.pictures.push(Picture { role, file });
            }
        }
        order
    }

    fn body(call: &Call) -> &Value {
        match &call.body {
            Body::Json(body) => body,
            other => panic!("not JSON: {other:?}"),
        }
    }

    #[test]
    fn each_api_has_its_own_address() {
        let of = |api: Option<&str>, url: Option<&str>| {
            let options = api.map(|api| ("api".to_owned(), json!(api)));
            let settings = Settings {
                name: "test".into(),
                base_url: url.map(|url| url.parse().unwrap()),
                options: options.into_iter().collect(),
            };
            base_url(protocol("luma").unwrap(), &settings)
                .unwrap()
                .to_string()
        };
        assert_eq!(of(None, None), "https://agents.lumalabs.ai/v1");
        let older = of(Some("dream-machine"), None);
        assert_eq!(older, "https://api.lumalabs.ai/dream-machine/v1");
        let own = of(Some("dream-machine"), Some("http://10.0.0.1/x"));
        assert_eq!(own, "http://10.0.0.1/x");
    }

    #[test]
    fn agents_take_frames_inline() {
        let order = video("ray-3.2");
        let call = luma("agents").start(&order).unwrap();
        assert_eq!(call.to, Target::Path("/generations".into()));
        assert_eq!(call.effect, Effect::Submission);
        assert_eq!(
            body(&call),
            &json!({"type": "video", "model": "ray-3.2", "prompt": "a lighthouse in a storm",
                    "aspect_ratio": "16:9", "video": {"duration": "5s", "resolution": "720p"}})
        );
        let inline = json!({"data": "iVBORw0KGgo=", "media_type": "image/png"});
        let call = luma("agents")
            .start(&with_frames(order.clone(), 5, None))
            .unwrap();
        assert_eq!(body(&call)["video"]["start_frame"], inline);
        assert_eq!(body(&call)["video"]["end_frame"], inline);
        let call = luma("agents").start(&with_frames(order, 10, None)).unwrap();
        let options = &body(&call)["video"];
        assert_eq!(options["keyframes"], json!([inline, inline]));
        assert_eq!(options["keyframe_indexes"], json!([0, 240]));
        assert_eq!(options.get("start_frame"), None);
    }

    #[test]
    fn dream_machine_takes_addresses_only() {
        let order = with_frames(video("ray-2"), 9, Some("https://g.example/a.png"));
        let call = luma("dream-machine").start(&order).unwrap();
        assert_eq!(call.to, Target::Path("/generations/video".into()));
        let frame = json!({"type": "image", "url": "https://g.example/a.png"});
        assert_eq!(
            body(&call),
            &json!({"model": "ray-2", "prompt": "a lighthouse in a storm", "aspect_ratio": "16:9",
                    "resolution": "720p", "duration": "9s", "keyframes": {"frame0": frame, "frame1": frame}})
        );
        let order = with_frames(video("ray-2"), 5, None);
        let error = luma("dream-machine").start(&order).unwrap_err();
        assert_eq!(error.class, Class::Rejected);
        assert!(error.message.contains("reachable"));
    }

    #[test]
    fn what_a_submission_may_answer() {
        let order = video("ray-3.2");
        let asked = luma("agents").start(&order).unwrap().asked();
        let answered = |status, body: &Value| {
            luma("agents").submitted(&order, &asked, &Answer::json_of(status, body))
        };
        assert!(matches!(
            answered(201, &json!({"id": "g"})),
            Ok(Step::Submitted { .. })
        ));
        for (status, body, class) in [
            (201, json!({}), Class::Unclear),
            (400, json!({"detail": "bad"}), Class::Rejected),
            (
                400,
                json!({"detail": "Insufficient credits"}),
                Class::Account,
            ),
            (
                400,
                json!({"detail": "advanced moderation failed"}),
                Class::Refused,
            ),
            (
                422,
                json!({"error": {"code": "content_moderated"}}),
                Class::Refused,
            ),
            (401, json!({"detail": "no"}), Class::Credentials),
            (402, json!({}), Class::Account),
            (429, json!({}), Class::RateLimited),
            (500, json!({"detail": "credits"}), Class::Unclear),
            (503, json!({}), Class::Unclear),
        ] {
            let error = answered(status, &body).unwrap_err();
            assert_eq!(error.class, class, "{status} {body}");
        }
    }

    #[test]
    fn every_state() {
        let handle = Handle(json!({"id": "g"}));
        let polled = |api: &str, status, body: Value| {
            let luma = luma(api);
            let asked = luma.poll(&handle).unwrap().asked();
            luma.polled(&handle, &asked, &Answer::json_of(status, &body))
        };
        for word in ["queued", "processing", "dreaming"] {
            let step = polled("agents", 200, json!({"state": word})).unwrap();
            assert!(matches!(
                step,
                Step::Running {
                    unknown_word: None,
                    ..
                }
            ));
        }
        let step = polled("agents", 200, json!({"state": "pondering"})).unwrap();
        assert!(matches!(
            step,
            Step::Running {
                unknown_word: Some(_),
                ..
            }
        ));
        let address = |step| match step {
            Ok(Step::Done { outputs }) => match outputs.into_iter().next().unwrap().source {
                Source::Address(url) => url,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        let output = json!([{"type": "image", "url": "i"}, {"type": "video", "url": "v"}]);
        let done = json!({"state": "completed", "output": output});
        assert_eq!(address(polled("agents", 200, done.clone())), "v");
        let older = json!({"state": "completed", "assets": {"video": "w"}});
        assert_eq!(address(polled("dream-machine", 200, older)), "w");
        let class = |api, status, body| polled(api, status, body).unwrap_err().class;
        assert_eq!(class("dream-machine", 200, done), Class::Failed);
        let failed = |code: &str| json!({"state": "failed", "failure_code": code});
        assert_eq!(
            class("agents", 200, failed("content_moderated")),
            Class::Refused
        );
        assert_eq!(
            class("agents", 200, failed("budget_exhausted")),
            Class::Failed
        );
        assert_eq!(class("agents", 200, failed("rate_limited")), Class::Failed);
        let words = json!({"state": "failed", "failure_reason": "Output was moderated"});
        assert_eq!(class("dream-machine", 200, words), Class::Refused);
        assert_eq!(class("agents", 404, json!({})), Class::Lost);
        assert_eq!(class("agents", 500, json!({})), Class::Unclear);
    }

    #[test]
    fn a_deletion_proves_nothing() {
        let handle = Handle(json!({"id": "g"}));
        assert!(luma("agents").cancel(&handle).is_none());
        let older = luma("dream-machine");
        assert!(older.cancel(&handle).is_some());
        assert!(!older.cancelled(&handle, &Answer::json_of(204, &Value::Null)));
        assert_eq!(older.start(&stems("x")).unwrap_err().class, Class::Rejected);
    }
}
