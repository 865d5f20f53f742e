//! Tests of the optional settings besides prompt, size and length: each is sent to the providers
//! that support it, in the format of their SDKs and pages, and offered nowhere else.

use serde_json::{Value, json};

use super::tests::{adapter, picture, video};
use crate::limits::ModelLimits;
use crate::order::{Choice, MediaKind, Order, PictureRole, SourcePicture, VideoSpec, WorkSpec};
use crate::port::{Adapter, RequestBody};

/// Models for which sound can be chosen: the default, the place of the choice in the request, and
/// its values without and with sound.
const AUDIO: [(&str, &str, bool, &str, [Value; 2]); 15] = [
    ("fal", "fal-ai/vidu/q3/text-to-video", true, "/audio", ONOFF),
    (
        "dashscope",
        "wan3.0-video",
        true,
        "/parameters/audio",
        ONOFF,
    ),
    ("fal", "fal-ai/veo3.1", true, "/generate_audio", ONOFF),
    (
        "fal",
        "fal-ai/kling-video/v2.6/pro/text-to-video",
        true,
        "/generate_audio",
        ONOFF,
    ),
    (
        "fal",
        "fal-ai/kling-video/o3/pro/text-to-video",
        false,
        "/generate_audio",
        ONOFF,
    ),
    (
        "fal",
        "fal-ai/pixverse/v6/text-to-video",
        false,
        "/generate_audio_switch",
        ONOFF,
    ),
    (
        "replicate",
        "google/veo-3",
        true,
        "/input/generate_audio",
        ONOFF,
    ),
    (
        "replicate",
        "bytedance/seedance-2.0",
        true,
        "/input/generate_audio",
        ONOFF,
    ),
    ("runway", "veo3.1", true, "/audio", ONOFF),
    ("runway", "seedance2", true, "/audio", ONOFF),
    ("runway", "kling3.0_pro", true, "/audio", ONOFF),
    (
        "modelark",
        "seedance-1-5-pro-251215",
        true,
        "/generate_audio",
        ONOFF,
    ),
    (
        "modelark",
        "dreamina-seedance-2-0-260128",
        true,
        "/generate_audio",
        ONOFF,
    ),
    (
        "gemini-veo",
        "veo-3.1-generate-001",
        true,
        "/parameters/generateAudio",
        ONOFF,
    ),
    (
        "kling",
        "kling-v2-6",
        false,
        "/sound",
        [Value::Null, Value::Null],
    ),
];
const ONOFF: [Value; 2] = [Value::Bool(false), Value::Bool(true)];

/// Models with reference pictures: how many, and the place of the second one in the request.
const REFERENCES: [(&str, &str, usize, &str); 11] = [
    ("dashscope", "wan3.0-video", 10, "/input/media/1/url"),
    (
        "fal",
        "fal-ai/kling-video/o3/pro/text-to-video",
        3,
        "/image_urls/1",
    ),
    (
        "fal",
        "fal-ai/kling-video/o3/pro/reference-to-video",
        3,
        "/image_urls/1",
    ),
    (
        "replicate",
        "bytedance/seedance-2.0",
        9,
        "/input/reference_images/1",
    ),
    (
        "replicate",
        "google/veo-3.1",
        3,
        "/input/reference_images/1",
    ),
    ("runway", "seedance2", 9, "/references/1/uri"),
    (
        "modelark",
        "dreamina-seedance-2-0-260128",
        9,
        "/content/2/image_url/url",
    ),
    ("minimax", "MiniMax-H3", 9, "/content/2/image_url/url"),
    ("xai", "grok-imagine-video", 7, "/reference_images/1/url"),
    (
        "gemini-veo",
        "veo-3.1-generate-001",
        3,
        "/instances/0/referenceImages/1/image/bytesBase64Encoded",
    ),
    (
        "gemini-veo",
        "gemini-omni-1.1-flash",
        3,
        "/input/0/content/2/data",
    ),
];

fn adapter_for(protocol: &str, model: &str) -> std::sync::Arc<dyn Adapter> {
    let options = match (protocol, model) {
        ("gemini-veo", "veo-3.1-generate-001") => json!({"api": "vertex", "project": "p"}),
        ("minimax", _) => json!({"api": "v2"}),
        _ => json!({}),
    };
    adapter(protocol, &options)
}

fn limits(adapter: &dyn Adapter, model: &str) -> crate::limits::VideoLimits {
    match adapter.limits(MediaKind::Video, model) {
        Some(ModelLimits::Video(limits)) => limits,
        other => panic!("{model}: {other:?}"),
    }
}

fn order_with(model: &str, change: impl FnOnce(&mut VideoSpec)) -> Order {
    let mut order = video(model);
    if let WorkSpec::Video(video) = &mut order.work {
        change(video);
    }
    order
}

/// The body of the first call.
fn body(adapter: &dyn Adapter, order: &Order) -> Value {
    match adapter.start(order).unwrap().body {
        RequestBody::Json(body) => body,
        other => panic!("{other:?}"),
    }
}

#[test]
fn sound_is_chosen_where_the_model_can_choose() {
    for (protocol, model, default, pointer, values) in AUDIO {
        let adapter = adapter_for(protocol, model);
        let audio = limits(&*adapter, model).audio;
        assert_eq!(audio, Some(default), "{protocol} {model}");
        let values = if protocol == "kling" {
            [json!("off"), json!("on")]
        } else {
            values
        };
        for (on, value) in [false, true].into_iter().zip(values) {
            let body = body(
                &*adapter,
                &order_with(model, |video| video.options.audio = Some(Choice::Asked(on))),
            );
            assert_eq!(
                body.pointer(pointer),
                Some(&value),
                "{protocol} {model}: {body}"
            );
        }
    }
    for (protocol, model) in [
        ("fal", "fal-ai/sora-2/text-to-video/pro"),
        ("replicate", "openai/sora-2"),
        ("runway", "gen4.5"),
        ("modelark", "seedance-1-0-pro-250528"),
        ("gemini-veo", "gemini-omni-1.1-flash"),
        ("kling", "kling-v2-5-turbo"),
        ("xai", "grok-imagine-video"),
        ("openai-videos", "sora-2"),
    ] {
        let adapter = adapter_for(protocol, model);
        assert_eq!(limits(&*adapter, model).audio, None, "{protocol} {model}");
    }
}

#[test]
fn references_go_where_they_are_taken() {
    for (protocol, model, max_references, pointer) in REFERENCES {
        let adapter = adapter_for(protocol, model);
        let offered = limits(&*adapter, model).pictures.most_references();
        assert_eq!(offered, max_references, "{protocol} {model}");
        let order = order_with(model, |video| {
            let reference = SourcePicture {
                role: PictureRole::Reference,
                file: picture(),
            };
            video.pictures = vec![reference.clone(), reference];
        });
        let body = body(&*adapter, &order);
        let sent = body.pointer(pointer).and_then(Value::as_str);
        let base64 = picture().base64();
        assert!(
            sent.is_some_and(|sent| sent.ends_with(&base64)),
            "{protocol} {model}: {body}"
        );
    }
}

#[test]
fn references_change_the_endpoint_where_it_is_another() {
    let reference = SourcePicture {
        role: PictureRole::Reference,
        file: picture(),
    };
    let model = "fal-ai/kling-video/o3/pro/text-to-video";
    let order = order_with(model, |video| video.pictures = vec![reference.clone()]);
    let call = adapter_for("fal", model).start(&order).unwrap();
    let path = format!("{:?}", call.target);
    assert!(path.contains("o3/pro/reference-to-video"), "{path}");
    // The endpoint for references makes only eight seconds. The model offers other lengths too, so
    // references are not offered.
    let veo = limits(&*adapter_for("fal", "fal-ai/veo3.1"), "fal-ai/veo3.1");
    assert_eq!(veo.pictures.most_references(), 0);
    let order = order_with("seedance2", |video| video.pictures = vec![reference]);
    let call = adapter_for("runway", "seedance2").start(&order).unwrap();
    assert!(format!("{:?}", call.target).contains("text_to_video"));
}
