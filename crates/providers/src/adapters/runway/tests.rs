//! Tests of the `runway` adapter.

use super::*;
use crate::adapters::tests::{adapter, picture, stems, video};
use crate::order::SourcePicture;
use crate::order::{Choice, PictureRole, WorkSpec};
use crate::port::CallEffect;
use crate::port::{CallTarget, FormPart, JobHandle, RequestBody};

fn runway() -> Arc<dyn Adapter> {
    adapter("runway", &json!({}))
}

fn with_picture(role: PictureRole, bytes: usize, mut order: Order) -> Order {
    if let WorkSpec::Video(video) = &mut order.work {
        let mut file = picture();
        if bytes > 0 {
            file.bytes = vec![0; bytes].into();
        }
        video.pictures.push(SourcePicture { role, file });
    }
    order
}

fn body(call: &Call) -> &Value {
    match &call.body {
        RequestBody::Json(body) => body,
        other => panic!("not JSON: {other:?}"),
    }
}

fn next_step(status: u16, body: &Value) -> Result<AdapterStep, ProviderError> {
    let handle = JobHandle(json!({"id": "t"}));
    let context = runway().poll(&handle).unwrap().context();
    runway().read_poll(
        &handle,
        &context,
        &ProviderResponse::from_json(status, body),
    )
}

#[test]
fn a_picture_decides_the_path() {
    let mut order = video("gen4.5");
    if let WorkSpec::Video(video) = &mut order.work {
        video.options.seed = Some(Choice::Asked((1 << 32) + 7));
    }
    let call = runway().start(&order).unwrap();
    assert_eq!(call.target, CallTarget::Path("/v1/text_to_video".into()));
    assert_eq!(call.effect, CallEffect::Submission);
    assert_eq!(
        body(&call),
        &json!({"model": "gen4.5", "promptText": "a lighthouse in a storm", "duration": 5,
                "ratio": "1280:720", "seed": 7})
    );
    assert!(
        call.headers
            .contains(&("X-Runway-Version".into(), VERSION.into()))
    );
    let order = with_picture(PictureRole::FirstFrame, 0, order);
    let call = runway().start(&order).unwrap();
    assert_eq!(call.target, CallTarget::Path("/v1/image_to_video".into()));
    let picture = &body(&call)["promptImage"][0];
    assert_eq!(picture["position"], "first");
    assert!(
        picture["uri"]
            .as_str()
            .unwrap()
            .starts_with("data:image/png;base64,")
    );
    let order = with_picture(PictureRole::FirstFrame, 0, video("kling2.5_turbo_pro"));
    let call = runway().start(&order).unwrap();
    assert_eq!(body(&call).get("ratio"), None);
}

#[test]
fn large_pictures_are_uploaded_one_by_one() {
    let order = with_picture(PictureRole::FirstFrame, 4_000_000, video("veo3.1"));
    let order = with_picture(PictureRole::LastFrame, 4_000_000, order);
    let mut call = runway().start(&order).unwrap();
    for uri in ["runway://1", "runway://2"] {
        assert_eq!(
            (call.stage.as_ref(), call.effect),
            ("slot", CallEffect::Free)
        );
        let slot =
            json!({"uploadUrl": "https://up.example/x", "fields": {"key": "k"}, "runwayUri": uri});
        let answer = ProviderResponse::from_json(200, &slot);
        let AdapterStep::Next(upload) = runway()
            .read_submission(&order, &call.context(), &answer)
            .unwrap()
        else {
            panic!("no upload");
        };
        assert!(!upload.with_credential && upload.headers.is_empty());
        let RequestBody::Multipart(parts) = &upload.body else {
            panic!("not multipart");
        };
        assert!(matches!(parts.last(), Some(FormPart::File { name, .. }) if name == "file"));
        assert_eq!(parts.len(), 2);
        let refused = ProviderResponse::from_json(403, &Value::Null);
        let error = runway()
            .read_submission(&order, &upload.context(), &refused)
            .unwrap_err();
        assert_eq!(error.class, ErrorClass::Unavailable);
        let answer = ProviderResponse::from_json(204, &Value::Null);
        let AdapterStep::Next(then) = runway()
            .read_submission(&order, &upload.context(), &answer)
            .unwrap()
        else {
            panic!("no call");
        };
        call = *then;
    }
    assert_eq!(call.effect, CallEffect::Submission);
    assert_eq!(
        body(&call)["promptImage"],
        json!([{"uri": "runway://1", "position": "first"}, {"uri": "runway://2", "position": "last"}])
    );
}

#[test]
fn answers_to_a_submission_are_classified() {
    let order = video("gen4.5");
    let context = runway().start(&order).unwrap().context();
    let answered = |status, body: &Value| {
        runway().read_submission(&order, &context, &ProviderResponse::from_json(status, body))
    };
    assert!(matches!(
        answered(200, &json!({"id": "t"})),
        Ok(AdapterStep::Submitted { handle, .. }) if handle.text("id") == "t"
    ));
    let error_body = json!({"error": "no"});
    for (status, class) in [
        (200, ErrorClass::Unclear),
        (400, ErrorClass::Rejected),
        (401, ErrorClass::Credentials),
        (404, ErrorClass::Rejected),
        (408, ErrorClass::Unclear),
        (429, ErrorClass::RateLimited),
        (500, ErrorClass::Unclear),
        (502, ErrorClass::Unclear),
        (503, ErrorClass::Unavailable),
    ] {
        assert_eq!(
            answered(status, &error_body).unwrap_err().class,
            class,
            "{status}"
        );
    }
    let poor = json!({"error": "You do not have enough credits to run this task."});
    assert_eq!(answered(400, &poor).unwrap_err().class, ErrorClass::Account);
}

#[test]
fn every_status_word() {
    let running = |body: Value| match next_step(200, &body) {
        Ok(AdapterStep::Running {
            progress,
            unknown_status,
            ..
        }) => (progress, unknown_status),
        other => panic!("{other:?}"),
    };
    assert_eq!(running(json!({"status": "PENDING"})), (None, None));
    assert_eq!(running(json!({"status": "THROTTLED"})), (None, None));
    let half = json!({"status": "RUNNING", "progress": 0.5});
    assert_eq!(running(half), (Some(50), None));
    let unknown = json!({"status": "PONDERING"});
    assert_eq!(running(unknown), (None, Some("PONDERING".into())));
    let done = json!({"status": "SUCCEEDED", "output": ["https://x.example/a.mp4"]});
    assert!(
        matches!(next_step(200, &done), Ok(AdapterStep::Done { outputs }) if outputs.len() == 1)
    );
    let class = |status, body: Value| next_step(status, &body).unwrap_err().class;
    assert_eq!(
        class(200, json!({"status": "SUCCEEDED", "output": []})),
        ErrorClass::Failed
    );
    assert_eq!(class(200, json!({"status": "CANCELLED"})), ErrorClass::Lost);
    assert_eq!(
        class(404, json!({"error": "no such task"})),
        ErrorClass::Missing
    );
    assert_eq!(
        class(429, json!({"error": "slow down"})),
        ErrorClass::RateLimited
    );
    assert_eq!(class(200, json!({})), ErrorClass::Unclear);
    for (code, class) in [
        ("SAFETY.INPUT.TEXT", ErrorClass::Refused),
        ("INPUT_PREPROCESSING.SAFETY.TEXT", ErrorClass::Refused),
        ("INPUT_PREPROCESSING.INTERNAL", ErrorClass::Failed),
        ("INTERNAL.BAD_OUTPUT.CODE01", ErrorClass::Failed),
    ] {
        let body = json!({"status": "FAILED", "failure": "no", "failureCode": code});
        let error = next_step(200, &body).unwrap_err();
        assert_eq!((error.class, error.code.as_deref()), (class, Some(code)));
    }
}

#[test]
fn stems_and_overlong_prompts_are_rejected() {
    assert_eq!(
        runway().start(&stems("x")).unwrap_err().class,
        ErrorClass::Rejected
    );
    let mut order = video("gen4.5");
    if let WorkSpec::Video(video) = &mut order.work {
        // 600 characters, 1200 UTF-16 units.
        video.prompt = "🗼".repeat(600);
    }
    assert_eq!(
        runway().start(&order).unwrap_err().class,
        ErrorClass::Rejected
    );
}

#[test]
fn each_model_gets_its_size_in_its_own_form() {
    let sized = |model: &str, size: (u32, u32), with: bool| {
        let mut order = video(model);
        if let WorkSpec::Video(video) = &mut order.work {
            video.size = size;
        }
        if with {
            order = with_picture(PictureRole::FirstFrame, 0, order);
        }
        let call = runway().start(&order).unwrap();
        let text = |name: &str| body(&call)[name].as_str().map(str::to_owned);
        (text("ratio"), text("resolution"))
    };
    let expected_fields = |ratio: &str, resolution: &str| {
        let word = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        (word(ratio), word(resolution))
    };
    let (hd, full_hd, uhd) = ((1280, 720), (1920, 1080), (3840, 2160));
    for (model, size, with, ratio, resolution) in [
        ("kling3.0_4k", uhd, false, "3840:2160", ""),
        ("klingO3_4k", uhd, true, "3840:2160", ""),
        ("hailuo3", (1366, 768), false, "16:9", "768P"),
        ("hailuo3", (2560, 1440), true, "", "2K"),
        ("h3_max", (854, 480), false, "", "480p"),
        ("grok_imagine_1_5", full_hd, false, "16:9", "1080p"),
        ("grok_imagine_1_5", hd, true, "", "720p"),
        ("kling_4", full_hd, false, "1920:1080", ""),
        ("kling_4", hd, true, "auto_720p", ""),
        ("kling_4", (1440, 1440), true, "auto_1080p", ""),
        ("happyhorse_1_0", full_hd, false, "1920:1080", ""),
        ("happyhorse_1_0", full_hd, true, "", "1080p"),
        ("wan3", hd, false, "1280:720", ""),
        ("seedance2_5", hd, false, "1280:720", ""),
        ("seedance2_5", hd, true, "", ""),
    ] {
        assert_eq!(
            sized(model, size, with),
            expected_fields(ratio, resolution),
            "{model}"
        );
    }
}

#[test]
fn a_rejection_names_the_faulty_field() {
    let body = json!({"error": "Validation of body failed",
        "issues": [{"path": ["ratio"], "message": "Invalid enum value"}]});
    let order = video("gen4.5");
    let context = runway().start(&order).unwrap().context();
    let error = runway()
        .read_submission(&order, &context, &ProviderResponse::from_json(400, &body))
        .unwrap_err();
    assert_eq!(
        error.message,
        "Validation of body failed: ratio: Invalid enum value"
    );
}
