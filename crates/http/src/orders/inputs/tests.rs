//! Tests of references, keyframes and shots in each of their places.

use serde_json::json;

use super::*;
use crate::orders::ApiOrder as _;
use crate::orders::chat::ChatOrder;
use mediagate_core::domain::video::VideoOrder;
use mediagate_model::error::Error;
use mediagate_model::error::ErrorCode::{
    InvalidType, InvalidValue, MissingField, UnsupportedValue,
};

const A: &str = "https://x/a.png";
const B: &str = "https://x/b.png";

/// Reads the fields in each place: in a video request, in a chat request, and in its `video`.
fn everywhere(fields: &Value) -> [Result<VideoOrder, Error>; 3] {
    let with_fields = |mut body: Value| {
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": "a lake"}]});
    let mut nested = chat.clone();
    nested["video"] = fields.clone();
    let read = |body: &Value| ChatOrder::read(body).map(|chat| chat.order);
    [
        VideoOrder::read(&with_fields(json!({"prompt": "a lake"}))),
        read(&with_fields(chat)),
        read(&nested),
    ]
}

/// The field of the first fault and its code, in each place. In `video` it is the same field.
fn fault(fields: &Value) -> (String, ErrorCode) {
    let [video, chat, nested] = everywhere(fields).map(|order| {
        let error = order.unwrap_err();
        (error.param().unwrap().to_owned(), error.code())
    });
    assert_eq!(video, chat, "{fields}");
    assert_eq!(nested.0, format!("video.{}", video.0), "{fields}");
    assert_eq!(nested.1, video.1, "{fields}");
    video
}

fn address(url: &str) -> PictureSource {
    PictureSource::Address(url.to_owned())
}

#[test]
fn references_are_the_long_form_of_reference_images() {
    let id = AssetId::new();
    let references = json!([{"type": "image", "url": A, "role": null},
        {"type": "image", "id": id.to_string()}]);
    for order in everywhere(&json!({"references": references})) {
        let order = order.unwrap();
        assert_eq!(order.references[0].0, address(A));
        assert_eq!(order.references[1].0, PictureSource::Stored(id));
        assert!(order.references[1].1.ends_with("references[1].id"));
        assert!(order.params.references.ends_with("references"));
        assert!(!order.has_first_frame && order.pictures.is_empty());
    }
    for none in [json!(null), json!([])] {
        for order in everywhere(&json!({"references": none})) {
            assert!(order.unwrap().references.is_empty());
        }
    }
    let long_form = json!([{"type": "image", "url": A}]);
    for order in everywhere(&json!({"references": long_form, "reference_images": [A]})) {
        assert_eq!(order.unwrap().references.len(), 1);
    }
    let differing = fault(&json!({"references": long_form, "reference_images": [B]}));
    assert_eq!(differing, ("references".to_owned(), InvalidValue));
}

#[test]
fn a_fault_of_a_reference_names_it() {
    for (references, param, code) in [
        (json!({}), "references", InvalidType),
        (json!([A]), "references[0]", InvalidType),
        (json!([{"url": A}]), "references[0].type", MissingField),
        (
            json!([{"type": "image"}]),
            "references[0].url",
            MissingField,
        ),
        (
            json!([{"type": "image", "url": 1}]),
            "references[0].url",
            InvalidType,
        ),
        (
            json!([{"type": "image", "url": ""}]),
            "references[0].url",
            InvalidValue,
        ),
        (
            json!([{"type": "image", "url": A}, {"type": "image", "id": "cat"}]),
            "references[1].id",
            InvalidValue,
        ),
        (
            json!([{"type": "image", "url": A, "id": AssetId::new().to_string()}]),
            "references[0].id",
            InvalidValue,
        ),
        (
            json!([{"type": "image", "url": A}, {"type": "video", "url": B}]),
            "references[1].type",
            UnsupportedValue,
        ),
        (
            json!([{"type": "audio", "url": B}]),
            "references[0].type",
            UnsupportedValue,
        ),
        (
            json!([{"type": "smell", "url": B}]),
            "references[0].type",
            InvalidValue,
        ),
        (
            json!([{"type": "image", "url": A, "role": "style"}]),
            "references[0].role",
            UnsupportedValue,
        ),
        (
            json!([{"type": "image", "url": A, "name": "x".repeat(101)}]),
            "references[0].name",
            InvalidValue,
        ),
        (
            json!([{"type": "image", "url": A, "weight": 1}]),
            "references[0].weight",
            UnsupportedValue,
        ),
        (
            json!(vec![json!({"type": "image", "url": A}); MAX_REFERENCES + 1]),
            "references",
            InvalidValue,
        ),
    ] {
        let found = fault(&json!({"references": references}));
        assert_eq!(found, (param.to_owned(), code), "{references}");
    }
}

#[test]
fn keyframes_are_the_first_frame_and_the_last_one() {
    let keyframe = |url: &str, at: Value| json!({"url": url, "at": at});
    for (first, last) in [
        (json!("first"), json!("last")),
        (json!(0), json!(4)),
        (json!("0.0"), json!("4.0")),
    ] {
        let keyframes = json!([keyframe(B, last), keyframe(A, first)]);
        for order in everywhere(&json!({"keyframes": keyframes, "seconds": "4"})) {
            let order = order.unwrap();
            assert_eq!(order.pictures[0].0, address(A));
            assert!(order.pictures[0].1.ends_with("keyframes[1].url"));
            assert_eq!(order.end_picture.unwrap().0, address(B));
            assert!(order.has_first_frame);
        }
    }
    let last = json!([keyframe(A, json!("last"))]);
    for order in everywhere(&json!({"keyframes": last, "end_image": A})) {
        assert!(!order.unwrap().has_first_frame);
    }
    // Two images for one frame name our own field of that frame.
    for ([video, chat, nested], ours) in [
        (
            everywhere(&json!({"keyframes": last, "end_image": B})),
            ["end_image", "video.end_image", "video.end_image"],
        ),
        (
            everywhere(&json!({"keyframes": [keyframe(A, json!(0))], "image": B})),
            ["input_reference", "messages", "messages"],
        ),
    ] {
        for (order, ours) in [video, chat, nested].into_iter().zip(ours) {
            let error = order.unwrap_err();
            assert_eq!(error.param(), Some(ours));
            assert_eq!(error.code(), InvalidValue);
        }
    }
}

#[test]
fn a_fault_of_a_keyframe_names_it() {
    for (keyframes, param, code) in [
        (json!([{"url": A}]), "keyframes[0].at", MissingField),
        (json!([{"at": "first"}]), "keyframes[0].url", MissingField),
        (
            json!([{"url": A, "at": true}]),
            "keyframes[0].at",
            InvalidType,
        ),
        (
            json!([{"url": A, "at": "middle"}]),
            "keyframes[0].at",
            UnsupportedValue,
        ),
        (
            json!([{"url": A, "at": "NaN"}]),
            "keyframes[0].at",
            UnsupportedValue,
        ),
        (
            json!([{"url": A, "at": 0}, {"url": B, "at": 1.5}]),
            "keyframes[1].at",
            UnsupportedValue,
        ),
        (
            json!([{"url": A, "at": -1}]),
            "keyframes[0].at",
            UnsupportedValue,
        ),
        (
            json!([{"url": A, "at": 0}, {"url": B, "at": "first"}]),
            "keyframes[1].at",
            InvalidValue,
        ),
    ] {
        let found = fault(&json!({"keyframes": keyframes}));
        assert_eq!(found, (param.to_owned(), code), "{keyframes}");
    }
}

#[test]
fn only_a_shot_that_is_the_whole_video_is_taken() {
    let shot = |prompt: &str, seconds: Value| json!({"prompt": prompt, "seconds": seconds});
    for fields in [
        json!({"shots": [shot("a lake", json!(4))]}),
        json!({"shots": [shot(" a lake ", json!("4"))], "seconds": 4}),
    ] {
        for order in everywhere(&fields) {
            assert_eq!(order.unwrap().seconds, Some(4.0), "{fields}");
        }
    }
    for order in everywhere(&json!({"shots": [], "seconds": 4})) {
        assert_eq!(order.unwrap().seconds, Some(4.0));
    }
    for (shots, param, code) in [
        (
            json!([shot("a lake", json!(2)), shot("a sea", json!(2))]),
            "shots",
            UnsupportedValue,
        ),
        (json!([shot("a sea", json!(4))]), "shots", UnsupportedValue),
        (json!([shot("a lake", json!(3))]), "shots", UnsupportedValue),
        (json!([{"seconds": 4}]), "shots[0].prompt", MissingField),
        (
            json!([shot("a lake", json!("soon"))]),
            "shots[0].seconds",
            InvalidValue,
        ),
        (json!(["a lake"]), "shots[0]", InvalidType),
    ] {
        let found = fault(&json!({"shots": shots, "seconds": 4}));
        assert_eq!(found, (param.to_owned(), code), "{shots}");
    }
}

#[test]
fn a_list_is_set_at_one_level() {
    let keyframes = json!([{"url": A, "at": "first"}]);
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}],
        "keyframes": keyframes, "video": {"keyframes": keyframes}});
    let error = ChatOrder::read(&body).unwrap_err();
    assert_eq!(error.param(), Some("keyframes"));
}
