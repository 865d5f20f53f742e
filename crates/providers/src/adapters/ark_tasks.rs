//! The task format of `ModelArk`, which version 2 of `MiniMax` imitates.

use serde_json::{Value, json};

use crate::order::{MediaFile, VideoSpec};
use crate::port::jobs::status::JobStatus;

/// The words for the states of their tasks.
pub(super) const WORDS: [(&str, JobStatus); 6] = [
    ("queued", JobStatus::Queued),
    ("running", JobStatus::Running),
    ("succeeded", JobStatus::Done),
    ("failed", JobStatus::FAILED),
    ("cancelled", JobStatus::LOST),
    ("expired", JobStatus::LOST),
];

/// The prompt, the first and the last frame, and the references, as parts with their roles.
pub(super) fn content(video: &VideoSpec) -> Vec<Value> {
    let part = |(role, file): (&str, &MediaFile)| {
        let url = json!({"url": file.url_or_data()});
        json!({"type": "image_url", "image_url": url, "role": role})
    };
    let text = json!({"type": "text", "text": video.prompt});
    let frames = video.frames(["first_frame", "last_frame"]);
    let references = video.references().map(|file| ("reference_image", file));
    let pictures = frames.chain(references).map(part);
    std::iter::once(text).chain(pictures).collect()
}
