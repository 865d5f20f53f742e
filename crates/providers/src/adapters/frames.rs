//! The pictures of an order as a list of parts that say what they are for.

use serde_json::{Value, json};

use crate::order::{File, Video};

/// The prompt, the first and the last frame, and the references, as `ModelArk`
/// and version 2 of `MiniMax` take them.
pub(super) fn content(video: &Video) -> Vec<Value> {
    let part = |(role, file): (&str, &File)| {
        let url = json!({"url": file.url_or_data()});
        json!({"type": "image_url", "image_url": url, "role": role})
    };
    let text = json!({"type": "text", "text": video.prompt});
    let frames = video.frames(["first_frame", "last_frame"]);
    let references = video.references().map(|file| ("reference_image", file));
    let pictures = frames.chain(references).map(part);
    std::iter::once(text).chain(pictures).collect()
}
