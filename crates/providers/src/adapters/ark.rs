//! What `ModelArk` and version 2 of `MiniMax`, which is made after it, have in common.

use serde_json::{Value, json};

use crate::order::{File, Video};
use crate::port::jobs::status::Status;

/// How their tasks stand.
pub(super) const WORDS: [(&str, Status); 6] = [
    ("queued", Status::Queued),
    ("running", Status::Running),
    ("succeeded", Status::Done),
    ("failed", Status::FAILED),
    ("cancelled", Status::LOST),
    ("expired", Status::LOST),
];

/// The prompt, the first and the last frame, and the references, as parts that say
/// what they are for.
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
