//! `MiniMax` v1: the Hailuo models and their predecessors.
//!
//! ```text
//! POST /v1/video_generation                   {task_id, base_resp}
//! GET  /v1/query/video_generation?task_id=    {status: Preparing │ Queueing │ Processing │ Success │ Fail, file_id}
//! GET  /v1/files/retrieve?file_id=            {file: {download_url}}
//! ```
//!
//! Commonly known but not documented: which of the older models take which pictures, and that 1080P
//! is limited to six seconds. A video from text is 16:9, one from a picture has the picture's
//! shape: there is no field for the shape.

use serde_json::{Map, Value, json};

use super::{FAILURES, PACE, code_of, parse_body, parse_poll, refusals};
use crate::catalogue::ProtocolCatalogue;
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::limits::{Durations, ModelLimits, SourcePictureLimits, VideoLimits};
use crate::order::{MediaKind, Order};
use crate::port::jobs::video_at;
use crate::port::{Adapter, AdapterStep, Call, CallContext, JobHandle, PollPace, RefusalRule};
use crate::response::{ProviderResponse, required_text, text_at};

#[derive(Debug)]
pub(super) struct MiniMaxV1Adapter {
    pub(super) catalogue: ProtocolCatalogue,
}

impl Adapter for MiniMaxV1Adapter {
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        let unknown = VideoLimits {
            sizes: vec![(1366, 768)],
            durations: Durations::Only(vec![6]),
            default_seconds: 6,
            pictures: SourcePictureLimits::frames(1),
            max_prompt: 2000,
            ..VideoLimits::default()
        };
        (kind == MediaKind::Video).then(|| ModelLimits::Video(self.catalogue.video(model, unknown)))
    }

    fn fault_of_model(&self, _: MediaKind, model: &str) -> Option<String> {
        let is_v2_model = model.starts_with("MiniMax-H3");
        is_v2_model.then(|| format!("{model} is served by version 2; use api = \"v2\""))
    }

    fn can_express_size(&self, _: &str, size: (u32, u32)) -> bool {
        matches!(size.0.min(size.1), 512 | 720 | 768 | 1080)
    }

    fn pace(&self) -> PollPace {
        PACE
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        refusals()
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        let video = order.video()?;
        let resolution = match video.size.0.min(video.size.1) {
            1080.. => "1080P",
            768.. => "768P",
            720.. => "720P",
            _ => "512P",
        };
        // Limits have separate sizes and lengths, so they cannot express this.
        if resolution == "1080P" && video.seconds > 6 {
            let message = "this model supports 1080P only for six seconds";
            return Err(ProviderError::new(ErrorClass::Rejected, message));
        }
        let mut fields = Map::new();
        fields.insert("model".into(), json!(order.model));
        fields.insert("prompt".into(), json!(video.prompt));
        fields.insert("duration".into(), json!(video.seconds));
        fields.insert("resolution".into(), json!(resolution));
        for (name, file) in video.frames(["first_frame_image", "last_frame_image"]) {
            fields.insert(name.into(), json!(file.url_or_data()));
        }
        if let Some(file) = video.references().next() {
            let subject = json!([{"type": "character", "image": [file.url_or_data()]}]);
            fields.insert("subject_reference".into(), subject);
        }
        let call = Call::post("submit", "/v1/video_generation", Value::Object(fields));
        Ok(call.mark_submission())
    }

    fn read_submission(
        &self,
        _: &Order,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let body = parse_body(answer)?;
        Ok(AdapterStep::submitted(
            json!({"id": required_text(&body, "/task_id")?}),
        ))
    }

    fn named_job(
        &self,
        _: &Order,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Option<JobHandle> {
        // Not by `read_submission`, as usual: that reads an id only if there is no error code.
        let id = text_at(&answer.json().ok()?, "/task_id")?;
        Some(JobHandle(json!({"id": id})))
    }

    fn poll(&self, handle: &JobHandle) -> Result<Call, ProviderError> {
        let call = Call::get("poll", "/v1/query/video_generation");
        Ok(call.with_query("task_id", handle.text("id")))
    }

    fn read_poll(
        &self,
        _: &JobHandle,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        // The answer about a failed task may contain the task's error code, which is then not an
        // error of the poll.
        let raw_body = answer.json().unwrap_or(Value::Null);
        if text_at(&raw_body, "/status").as_deref() == Some("Fail") {
            let message = text_at(&raw_body, "/base_resp/status_msg");
            let code = code_of(&raw_body);
            let message = message.filter(|_| code.is_some());
            return Err(FAILURES.error(ErrorDescription { code, message }));
        }
        let body = parse_poll(answer)?;
        if context.stage == "file" {
            return AdapterStep::done(video_at(&body, "/file/download_url")?);
        }
        match required_text(&body, "/status")?.as_str() {
            "Preparing" | "Queueing" | "Processing" => Ok(AdapterStep::running(None)),
            "Success" => match text_at(&body, "/file_id") {
                Some(file) => {
                    let call = Call::get("file", "/v1/files/retrieve");
                    Ok(AdapterStep::next(call.with_query("file_id", file)))
                }
                None => AdapterStep::done(Vec::new()),
            },
            word => Ok(AdapterStep::unknown(word)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::adapters::tests::{adapter, picture, video};
    use crate::order::{PictureRole, SourcePicture, WorkSpec};
    use crate::port::{CallEffect, CallTarget, RequestBody};

    fn v1() -> Arc<dyn Adapter> {
        adapter("minimax", &json!({}))
    }

    fn body_of(order: &Order) -> Value {
        let call = v1().start(order).unwrap();
        assert_eq!(call.target, CallTarget::Path("/v1/video_generation".into()));
        assert_eq!(call.effect, CallEffect::Submission);
        match call.body {
            RequestBody::Json(body) => body,
            other => panic!("not JSON: {other:?}"),
        }
    }

    fn order_with(model: &str, size: (u32, u32), roles: &[PictureRole]) -> Order {
        let mut order = video(model);
        if let WorkSpec::Video(video) = &mut order.work {
            (video.size, video.seconds) = (size, 6);
            for role in roles {
                let (role, file) = (*role, picture());
                video.pictures.push(SourcePicture { role, file });
            }
        }
        order
    }

    #[test]
    fn the_request_has_the_documented_fields() {
        let body = body_of(&order_with("MiniMax-Hailuo-2.3", (1366, 768), &[]));
        assert_eq!(
            body,
            json!({"model": "MiniMax-Hailuo-2.3", "prompt": "a lighthouse in a storm",
                   "duration": 6, "resolution": "768P"})
        );
        let roles = [PictureRole::FirstFrame, PictureRole::LastFrame];
        let body = body_of(&order_with("MiniMax-Hailuo-02", (1920, 1080), &roles));
        let data = picture().data_url();
        assert_eq!(body["resolution"], "1080P");
        assert_eq!(body["first_frame_image"], json!(data));
        assert_eq!(body["last_frame_image"], json!(data));
        let body = body_of(&order_with(
            "S2V-01",
            (1280, 720),
            &[PictureRole::Reference],
        ));
        assert_eq!(body["resolution"], "720P");
        let subject = json!([{"type": "character", "image": [data]}]);
        assert_eq!(body["subject_reference"], subject);
        let mut order = order_with("MiniMax-Hailuo-02", (1920, 1080), &[]);
        if let WorkSpec::Video(video) = &mut order.work {
            video.seconds = 10;
        }
        assert_eq!(v1().start(&order).unwrap_err().class, ErrorClass::Rejected);
    }

    #[test]
    fn limits_by_model() {
        let limits = |model: &str| match v1().limits(MediaKind::Video, model) {
            Some(ModelLimits::Video(limits)) => limits,
            other => panic!("{other:?}"),
        };
        assert_eq!(limits("MiniMax-Hailuo-02").pictures.max, 2);
        assert!(limits("MiniMax-Hailuo-2.3-Fast").pictures.needed);
        assert_eq!(limits("T2V-01-Director").pictures.max, 0);
        assert!(limits("I2V-01-live").pictures.needed);
        assert_eq!(
            limits("S2V-01").pictures.purpose,
            crate::PicturePurpose::References
        );
        assert_eq!(limits("S2V-01").durations, Durations::Only(vec![6]));
        assert!(v1().limits(MediaKind::Music, "x").is_none());
    }

    #[test]
    fn every_status_word() {
        let handle = JobHandle(json!({"id": "176843862716480"}));
        let context = v1().poll(&handle).unwrap().context();
        let success = json!({"status_code": 0, "status_msg": "success"});
        let polled = |body: &Value| {
            v1().read_poll(&handle, &context, &ProviderResponse::from_json(200, body))
        };
        for word in ["Preparing", "Queueing", "Processing"] {
            let step = polled(&json!({"status": word, "base_resp": success})).unwrap();
            assert!(matches!(
                step,
                AdapterStep::Running {
                    unknown_status: None,
                    ..
                }
            ));
        }
        // The word used in callbacks, which polls do not return.
        let step = polled(&json!({"status": "success", "base_resp": success})).unwrap();
        assert!(matches!(
            step,
            AdapterStep::Running {
                unknown_status: Some(_),
                ..
            }
        ));
        let done = json!({"status": "Success", "file_id": 205_258, "base_resp": success});
        let Ok(AdapterStep::Next(call)) = polled(&done) else {
            panic!("no second hop");
        };
        assert_eq!(call.query, [("file_id".to_owned(), "205258".to_owned())]);
        let file = |body: &Value| {
            v1().read_poll(
                &handle,
                &call.context(),
                &ProviderResponse::from_json(200, body),
            )
        };
        let with_url =
            json!({"file": {"download_url": "https://x.example/v.mp4"}, "base_resp": success});
        assert!(matches!(file(&with_url), Ok(AdapterStep::Done { outputs }) if outputs.len() == 1));
        let class = |step: Result<AdapterStep, ProviderError>| step.unwrap_err().class;
        let no_address = json!({"file": {}, "base_resp": success});
        assert_eq!(class(file(&no_address)), ErrorClass::Failed);
        let no_file = json!({"status": "Success", "file_id": "", "base_resp": success});
        assert_eq!(class(polled(&no_file)), ErrorClass::Failed);
        assert_eq!(
            class(polled(&json!({"status": "Fail", "base_resp": success}))),
            ErrorClass::Failed
        );
        let base_resp = |code: u32| json!({"status_code": code, "status_msg": "no"});
        let refused = json!({"status": "Fail", "base_resp": base_resp(1027)});
        assert_eq!(class(polled(&refused)), ErrorClass::Refused);
        let gone = json!({"task_id": "", "status": "", "base_resp": base_resp(2013)});
        assert_eq!(class(polled(&gone)), ErrorClass::Missing);
        let unknown = json!({"base_resp": base_resp(7777)});
        assert_eq!(class(polled(&unknown)), ErrorClass::Unclear);
        let rate_limited = json!({"base_resp": base_resp(1002)});
        assert_eq!(class(polled(&rate_limited)), ErrorClass::RateLimited);
        assert_eq!(
            class(polled(&json!({"base_resp": success}))),
            ErrorClass::Unclear
        );
    }
}
