//! `MiniMax` v2: the H3 family. The format is nearly that of `modelark`.
//!
//! ```text
//! POST /v2/video_generation             {task_id}
//! GET  /v2/query/video_generation/{id}  {task: {status: queued │ running │ succeeded │ failed │ cancelled │ expired}}
//! DELETE /v2/video_generation/{id}      cancels a queued task, is refused for a running one,
//!                                       removes the record of an ended one:
//!                                       {action: cancelled │ deleted}
//! ```
//!
//! A task can be polled for seven days, and its result's URL is new each time. According to the
//! provider's page, media are passed by URL; according to a reseller's page about the same request,
//! `data:` URLs work. So a picture is sent by its URL if it has one, otherwise as a `data:` URL.
//!
//! Unknown: the body of an error (both usual forms are read) and the longest prompt. Four seconds
//! are documented for the family but not for every model in it, so the minimum here is five.

use http::Method;
use serde_json::{Map, Value, json};

use super::{FAILURES, PACE, parse_body, parse_poll, refusals};
use crate::adapters::ark_tasks::{WORDS, content};
use crate::catalogue::ProtocolCatalogue;
use crate::error::{ErrorDescription, ProviderError};
use crate::frame_size;
use crate::limits::{Durations, ModelLimits, SourcePictureLimits, VideoLimits};
use crate::order::{MediaKind, Order};
use crate::port::jobs::{JobApi, video_at};
use crate::port::{Adapter, AdapterStep, Call, CallContext, JobHandle, PollPace, RefusalRule};
use crate::response::{ProviderResponse, required_text, text_at};

static JOB: JobApi = JobApi {
    id: "/task_id",
    path: "/v2/query/video_generation/{id}",
    cancel: Some((Method::DELETE, "/v2/video_generation/{id}")),
    headers: &[],
    submission_body: parse_body,
    poll_body: parse_poll,
    status: "/task/status",
    words: &WORDS,
    progress: |_| None,
    outputs: |_, body| video_at(body, "/task/content/url"),
    failure: |body| {
        FAILURES.error(ErrorDescription::at(
            body,
            "/task/error/code",
            "/task/error/message",
        ))
    },
    lost_message: "the provider stopped processing the job",
};

#[derive(Debug)]
pub(super) struct MiniMaxV2Adapter {
    pub(super) catalogue: ProtocolCatalogue,
}

impl Adapter for MiniMaxV2Adapter {
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        let unknown = VideoLimits {
            sizes: vec![(1366, 768), (768, 1366), (768, 768)],
            durations: Durations::range(5, 15),
            default_seconds: 5,
            pictures: SourcePictureLimits::frames(2),
            max_prompt: 2000,
            ..VideoLimits::default()
        };
        (kind == MediaKind::Video).then(|| ModelLimits::Video(self.catalogue.video(model, unknown)))
    }

    fn fault_of_model(&self, _: MediaKind, model: &str) -> Option<String> {
        let is_v1_model = model.contains("Hailuo") || model.contains("2V-01");
        is_v1_model.then(|| format!("{model} is served by version 1; use api = \"v1\""))
    }

    fn can_express_size(&self, _: &str, size: (u32, u32)) -> bool {
        matches!(size.0.min(size.1), 768 | 1440)
    }

    fn pace(&self) -> PollPace {
        PACE
    }

    fn job(&self) -> Option<&JobApi> {
        Some(&JOB)
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        refusals()
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        let video = order.video()?;
        let is_2k = video.size.0.min(video.size.1) >= 1080;
        let mut fields = Map::new();
        fields.insert("model".into(), json!(order.model));
        fields.insert(
            "resolution".into(),
            json!(if is_2k { "2K" } else { "768P" }),
        );
        fields.insert("duration".into(), json!(video.seconds));
        // A video from frames has their shape.
        if video.frames([(), ()]).next().is_none() {
            fields.insert("ratio".into(), json!(frame_size::ratio(video.size)));
        }
        fields.insert("content".into(), Value::Array(content(video)));
        let call = Call::post("submit", "/v2/video_generation", Value::Object(fields));
        Ok(call.mark_submission())
    }

    fn read_submission(
        &self,
        _: &Order,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let body = parse_body(answer)?;
        let id = id_in(&body).map_or_else(|| required_text(&body, JOB.id), Ok)?;
        Ok(AdapterStep::submitted(json!({"id": id})))
    }

    fn named_job(
        &self,
        _: &Order,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Option<JobHandle> {
        Some(JobHandle(json!({"id": id_in(&answer.json().ok()?)?})))
    }

    fn confirms_cancellation(&self, _: &JobHandle, answer: &ProviderResponse) -> bool {
        let action = parse_body(answer).ok().and_then(|body| {
            let pointers = ["/action", "/task/action"];
            pointers.iter().find_map(|pointer| text_at(&body, pointer))
        });
        // For a task that has ended, the same call deletes the record, which is also a success.
        action.is_some_and(|action| action.starts_with("cancel"))
    }
}

/// The job's id, in any of the places shown on the provider's pages.
fn id_in(body: &Value) -> Option<String> {
    let mut pointers = ["/task_id", "/task/id", "/id"].iter();
    pointers.find_map(|pointer| text_at(body, pointer))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::adapters::tests::{adapter, picture, video};
    use crate::error::ErrorClass;
    use crate::order::{PictureRole, SourcePicture, WorkSpec};
    use crate::port::RequestBody;

    fn v2() -> Arc<dyn Adapter> {
        adapter("minimax", &json!({"api": "v2"}))
    }

    fn body_of(order: &Order) -> Value {
        match v2().start(order).unwrap().body {
            RequestBody::Json(body) => body,
            other => panic!("not JSON: {other:?}"),
        }
    }

    #[test]
    fn the_request_has_the_documented_fields() {
        let mut order = video("MiniMax-H3");
        let text = json!({"type": "text", "text": "a lighthouse in a storm"});
        assert_eq!(
            body_of(&order),
            json!({"model": "MiniMax-H3", "content": [text], "resolution": "768P",
                   "duration": 5, "ratio": "16:9"})
        );
        if let WorkSpec::Video(video) = &mut order.work {
            video.size = (2560, 1440);
            for role in [PictureRole::FirstFrame, PictureRole::LastFrame] {
                let file = picture();
                video.pictures.push(SourcePicture { role, file });
            }
        }
        let body = body_of(&order);
        assert_eq!(
            (&body["resolution"], body.get("ratio")),
            (&json!("2K"), None)
        );
        let url = json!({"url": picture().data_url()});
        let frame = |role| json!({"type": "image_url", "image_url": url, "role": role});
        let content = json!([text, frame("first_frame"), frame("last_frame")]);
        assert_eq!(body["content"], content);
    }

    #[test]
    fn only_a_queued_task_is_called_off() {
        let handle = JobHandle(json!({"id": "424010985738629"}));
        let call = v2().cancel(&handle).unwrap();
        assert_eq!(call.method, Method::DELETE);
        let confirms = |status, body: Value| {
            v2().confirms_cancellation(&handle, &ProviderResponse::from_json(status, &body))
        };
        assert!(confirms(200, json!({"action": "cancelled"})));
        assert!(confirms(200, json!({"task_id": "1", "action": "cancel"})));
        assert!(!confirms(200, json!({"action": "deleted"})));
        assert!(!confirms(200, json!({})));
        assert!(!confirms(
            400,
            json!({"error": {"message": "task is running (2013)"}})
        ));
    }

    #[test]
    fn a_status_500_can_mean_an_unknown_task() {
        let handle = JobHandle(json!({"id": "424010985738629"}));
        let context = v2().poll(&handle).unwrap().context();
        let class = |message: &str| {
            let body = json!({"type": "error", "error": {"type": "server_error",
                "message": message, "http_code": "500"}});
            let answer = ProviderResponse::from_json(500, &body);
            v2().read_poll(&handle, &context, &answer)
                .unwrap_err()
                .class
        };
        assert_eq!(class("task not found"), ErrorClass::Missing);
        assert_eq!(class("internal error (1000)"), ErrorClass::Unclear);
    }

    #[test]
    fn every_status_word() {
        let handle = JobHandle(json!({"id": "424010985738629"}));
        let context = v2().poll(&handle).unwrap().context();
        let poll = |task: Value| {
            let answer = ProviderResponse::from_json(200, &json!({"task": task}));
            v2().read_poll(&handle, &context, &answer)
        };
        for word in ["queued", "running"] {
            let step = poll(json!({"status": word})).unwrap();
            assert!(matches!(
                step,
                AdapterStep::Running {
                    unknown_status: None,
                    ..
                }
            ));
        }
        let step = poll(json!({"status": "pondering"})).unwrap();
        assert!(matches!(
            step,
            AdapterStep::Running {
                unknown_status: Some(_),
                ..
            }
        ));
        let done = json!({"status": "succeeded", "content": {"url": "https://x.example/v.mp4"}});
        assert!(matches!(poll(done), Ok(AdapterStep::Done { outputs }) if outputs.len() == 1));
        let class = |task| poll(task).unwrap_err().class;
        assert_eq!(
            class(json!({"status": "succeeded", "content": {}})),
            ErrorClass::Failed
        );
        assert_eq!(class(json!({"status": "cancelled"})), ErrorClass::Lost);
        assert_eq!(class(json!({"status": "expired"})), ErrorClass::Lost);
        let failed =
            |code: &str| json!({"status": "failed", "error": {"code": code, "message": "no"}});
        assert_eq!(class(failed("1027")), ErrorClass::Refused);
        assert_eq!(class(failed("1000")), ErrorClass::Failed);
        let gone = json!({"base_resp": {"status_code": 2013, "status_msg": "invalid task_id"}});
        let error = v2().read_poll(&handle, &context, &ProviderResponse::from_json(200, &gone));
        assert_eq!(error.unwrap_err().class, ErrorClass::Missing);
    }

    #[test]
    fn the_id_is_read_wherever_it_is() {
        let order = video("MiniMax-H3");
        let context = v2().start(&order).unwrap().context();
        for body in [
            json!({"task_id": "7"}),
            json!({"task": {"id": "7"}}),
            json!({"id": "7"}),
        ] {
            let step =
                v2().read_submission(&order, &context, &ProviderResponse::from_json(200, &body));
            assert!(
                matches!(step, Ok(AdapterStep::Submitted { handle, .. }) if handle.text("id") == "7")
            );
        }
    }
}
