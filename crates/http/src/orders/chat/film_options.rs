//! Film options: what a chat may set in `video` or, like clients of other services, at its top level.

use super::{ChatRequest, PARAMS, list_at_one_level};
use crate::fields::BodyFields;
use crate::orders::field_aliases::single_value;
use crate::orders::inputs::single_references;
use mediagate_core::domain::video::{FrameShape, ParamNames, RequestedPicture};
use mediagate_model::error::ErrorCode;
use mediagate_model::task::{Choice, VideoOptions};

/// Options that may be set in `video` or at the top level, and the names of the fields that set
/// them.
pub(super) struct FilmOptions {
    pub(super) size: Option<(u32, u32)>,
    pub(super) frame: FrameShape,
    pub(super) options: VideoOptions,
    pub(super) references: Vec<RequestedPicture>,
    pub(super) params: ParamNames,
}

/// The options of a film, except its seed: `seed` at the top level belongs to the chat API, and
/// clients set it for models that have none.
pub(super) fn film_options(body: &BodyFields<'_>, request: &mut ChatRequest) -> FilmOptions {
    let (references_param, references) = references(body, request);
    let video = request.video.as_ref();
    let nested = video.map(|video| &video.aliases);
    let (size_param, size) = single_value(
        body,
        PARAMS.size,
        [
            (PARAMS.size, video.and_then(|video| video.size)),
            ("size", request.size),
        ],
    );
    let (resolution_param, resolution) = single_value(
        body,
        PARAMS.resolution,
        [
            (PARAMS.resolution, video.and_then(|video| video.resolution)),
            ("resolution", request.resolution),
        ],
    );
    let nested_ratio = video.and_then(|video| video.aspect_ratio);
    let (aspect_ratio_param, aspect_ratio) = single_value(
        body,
        PARAMS.aspect_ratio,
        [
            (PARAMS.aspect_ratio, nested_ratio),
            (
                "video.aspectRatio",
                nested.and_then(|nested| nested.aspectRatio),
            ),
            ("aspect_ratio", request.aspect_ratio),
            ("aspectRatio", request.aliases.aspectRatio),
        ],
    );
    let nested_sound = nested.and_then(|nested| nested.generate_audio);
    let (audio_param, audio) = single_value(
        body,
        PARAMS.audio,
        [
            (PARAMS.audio, video.and_then(|video| video.audio)),
            ("video.generate_audio", nested_sound),
            ("audio", request.audio),
            ("generate_audio", request.aliases.generate_audio),
        ],
    );
    let (label_param, label) = single_value(
        body,
        PARAMS.label,
        [
            (PARAMS.label, video.and_then(|video| video.label)),
            ("label", request.label),
        ],
    );
    let nested_prompt = video.and_then(|video| video.negative_prompt.clone());
    let (negative_prompt_param, negative_prompt) = single_value(
        body,
        PARAMS.negative_prompt,
        [
            (PARAMS.negative_prompt, nested_prompt),
            ("negative_prompt", request.negative_prompt.take()),
        ],
    );
    let shape_params = [
        resolution.map(|_| resolution_param),
        aspect_ratio.map(|_| aspect_ratio_param),
    ];
    let shape_params = shape_params.into_iter().flatten();
    check_shape(body, size.map(|_| size_param), shape_params);
    FilmOptions {
        size,
        frame: FrameShape {
            resolution,
            aspect_ratio,
        },
        options: VideoOptions {
            audio: audio.map(Choice::Asked),
            label: label.unwrap_or(false),
            negative_prompt,
            ..VideoOptions::default()
        },
        references,
        params: ParamNames {
            size: size_param,
            resolution: resolution_param,
            aspect_ratio: aspect_ratio_param,
            audio: audio_param,
            label: label_param,
            negative_prompt: negative_prompt_param,
            references: references_param,
            ..PARAMS
        },
    }
}

/// Checks that the size is not set at one level and the shape at the other. Within a level, the
/// fields of the shape check it.
fn check_shape(
    body: &BodyFields<'_>,
    size_param: Option<&str>,
    shape_params: impl Iterator<Item = &'static str>,
) {
    let is_nested = |param: &str| param.starts_with("video.");
    for param in shape_params {
        if size_param.is_some_and(|size| is_nested(size) != is_nested(param)) {
            let message = "Set either size, or resolution and aspect_ratio.";
            body.fault(param, ErrorCode::InvalidValue, message);
        }
    }
}

/// The references, and the field that sets them.
fn references(
    body: &BodyFields<'_>,
    request: &mut ChatRequest,
) -> (&'static str, Vec<RequestedPicture>) {
    let mut video = request.video.as_mut();
    let nested = video
        .as_mut()
        .and_then(|video| video.inputs.references.take());
    let nested_short = video.and_then(|video| video.reference_images.take());
    let outer = request.inputs.references.take();
    let outer_short = request.reference_images.take();
    let (long, is_in_video) = list_at_one_level(body, "references", outer, nested);
    let long_name = if is_in_video {
        "video.references"
    } else {
        "references"
    };
    let (short, is_in_video) =
        list_at_one_level(body, "reference_images", outer_short, nested_short);
    let short_name = if is_in_video {
        PARAMS.references
    } else {
        "reference_images"
    };
    single_references(body, (long_name, long), (short_name, short))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::orders::ApiOrder as _;
    use crate::orders::chat::ChatOrder;
    use mediagate_model::task::Choice;

    #[test]
    fn options_of_a_film_are_taken_at_the_top_level_too() {
        let with_fields = |fields: Value| {
            let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]});
            body.as_object_mut()
                .unwrap()
                .extend(fields.as_object().unwrap().clone());
            ChatOrder::read(&body)
        };
        let order = with_fields(json!({"size": "640x480", "audio": false, "label": "ai",
            "negative_prompt": "rain", "end_image": "https://x/a.png",
            "reference_images": ["https://x/b.png"], "num_videos": 3}));
        let order = order.unwrap().order;
        assert_eq!(
            (order.size, order.options.audio, order.options.label),
            (Some((640, 480)), Some(Choice::Asked(false)), true)
        );
        assert_eq!(order.options.negative_prompt.as_deref(), Some("rain"));
        assert_eq!(order.end_picture.unwrap().1, "end_image");
        assert_eq!((order.references.len(), order.count), (1, 3));
        assert_eq!(
            (order.params.size, order.params.references),
            ("size", "reference_images")
        );
        let order = with_fields(json!({"resolution": "720p", "video": {"aspect_ratio": "9:16"}}));
        let order = order.unwrap().order;
        assert_eq!(
            (order.frame.resolution, order.frame.aspect_ratio),
            (Some(720), Some((9, 16)))
        );
        assert_eq!(
            (order.params.resolution, order.params.aspect_ratio),
            ("resolution", "video.aspect_ratio")
        );
        // These are fields of the chat API itself.
        let standard = json!({"seed": 7, "modalities": ["text", "audio"],
            "audio": {"voice": "alloy", "format": "wav"}});
        let order = with_fields(standard).unwrap().order;
        assert_eq!((order.options.seed, order.options.audio), (None, None));
        for (fields, param) in [
            (
                json!({"size": "1x1", "video": {"size": "2x2"}}),
                "video.size",
            ),
            (
                json!({"size": "1x1", "video": {"resolution": "720p"}}),
                "video.resolution",
            ),
            (
                json!({"aspectRatio": "1:1", "video": {"size": "2x2"}}),
                "aspectRatio",
            ),
            (json!({"size": "huge"}), "size"),
            (json!({"audio": "no"}), "audio"),
            (
                json!({"end_image": "https://x/a.png", "video": {"end_image": "https://x/b.png"}}),
                "video.end_image",
            ),
            (
                json!({"reference_images": ["https://x/a.png"], "video": {"reference_images": ["https://x/a.png"]}}),
                "reference_images",
            ),
            (json!({"n": 2, "num_videos": 3}), "n"),
            (json!({"num_videos": 5}), "num_videos"),
            (json!({"fps": 24}), "fps"),
        ] {
            let error = with_fields(fields.clone()).unwrap_err();
            assert_eq!(error.param(), Some(param), "{fields}");
        }
    }
}
