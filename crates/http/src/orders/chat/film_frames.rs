//! Frames of a film: the first one and the last one, from the messages, from `video` or from the top
//! level of a chat.

use super::{ChatRequest, PARAMS, list_at_one_level};
use crate::fields::BodyFields;
use crate::orders::field_aliases::{NamedPictures, add_first_frame, last_frame};
use crate::orders::inputs::{KeyframePictures, keyframe_pictures};
use mediagate_core::domain::video::RequestedPicture;

/// The frames of a film. The first one is among the pictures of the messages.
pub(super) struct FilmFrames {
    pub(super) end_picture: Option<RequestedPicture>,
    /// Whether the first frame is a keyframe.
    pub(super) has_first_frame: bool,
}

/// Adds the first frame to the pictures of the messages, and finds the last one. `seconds` is the
/// length of the film, if the request has one.
pub(super) fn film_frames(
    body: &BodyFields<'_>,
    request: &mut ChatRequest,
    seconds: Option<f64>,
) -> FilmFrames {
    let keyframes = keyframes(body, request, seconds);
    let in_video = |(name, pictures): NamedPictures| (format!("video.{name}"), pictures);
    let mut first_frames: Vec<NamedPictures> = request.aliases.take_first_frames().collect();
    let outer_end = request.end_image.take();
    let outer_end = outer_end.map(|picture| ("end_image".to_owned(), vec![picture]));
    let mut last_frames: Vec<NamedPictures> = outer_end.into_iter().collect();
    last_frames.extend(request.aliases.take_last_frames());
    let mut end_image = None;
    if let Some(video) = &mut request.video {
        first_frames.extend(video.aliases.take_first_frames().map(in_video));
        last_frames.extend(video.aliases.take_last_frames().map(in_video));
        end_image = video.end_image.take();
    }
    let has_first_frame = keyframes.first.is_some();
    first_frames.extend(keyframes.first);
    last_frames.extend(keyframes.last);
    let messages = request.messages.as_mut();
    let pictures = messages.map(|chat_prompt| &mut chat_prompt.pictures);
    // Done even without valid messages, so that mistakes in these fields are reported too.
    add_first_frame(
        body,
        &PARAMS,
        pictures.unwrap_or(&mut Vec::new()),
        first_frames,
    );
    FilmFrames {
        end_picture: last_frame(body, &PARAMS, end_image, last_frames),
        has_first_frame,
    }
}

/// The keyframes of a chat.
fn keyframes(
    body: &BodyFields<'_>,
    request: &mut ChatRequest,
    seconds: Option<f64>,
) -> KeyframePictures {
    let video = request.video.as_mut();
    let nested = video.and_then(|video| video.inputs.keyframes.take());
    let outer = request.inputs.keyframes.take();
    let (keyframes, _) = list_at_one_level(body, "keyframes", outer, nested);
    keyframe_pictures(body, keyframes, seconds)
}
