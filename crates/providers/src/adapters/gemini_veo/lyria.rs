//! Songs by Lyria, which the Interactions API offers besides the video models.
//!
//! Sources: ai.google.dev/gemini-api/docs/music-generation (a stored copy), read on 2026-11-23; the
//! types of `google-genai` 3.4.0.
//!
//! ```text
//! POST /v1/interactions   {model, input: text}
//!                         → {id, status, steps: [{content: [{type: audio, mime_type, data │ uri}]}]}
//! ```
//!
//! As in the guide, requests have no `background`, so the answer is the song itself. An unfinished
//! interaction is nevertheless polled. Everything is in the text: there is no field for lyrics,
//! length or a negative prompt.

use serde_json::{Value, json};

use super::{MAX_MEDIA_BYTES, interactions};
use crate::error::ProviderError;
use crate::limits::{ModelLimits, MusicLimits};
use crate::order::{Order, SongSpec};
use crate::port::{AdapterStep, Call, ClipFacts, JobHandle};
use crate::response::required_text;

pub(super) fn is_lyria_model(model: &str) -> bool {
    model.trim_start_matches("models/").starts_with("lyria-3")
}

pub(super) fn limits() -> ModelLimits {
    ModelLimits::Music(MusicLimits::songs(
        vec!["lyrics", "make_instrumental"],
        None,
    ))
}

pub(super) fn start(order: &Order, song: &SongSpec) -> Call {
    let mut parts = vec![song.description()];
    if song.is_instrumental() {
        parts.push("Instrumental only, no vocals.".into());
    }
    parts.extend(song.lyrics().map(|lyrics| format!("Lyrics:\n{lyrics}")));
    parts.retain(|part| !part.is_empty());
    let body = json!({"model": order.model, "input": parts.join("\n\n")});
    Call::post("submit", "/v1/interactions", body)
        .mark_submission()
        .with_long_timeout(MAX_MEDIA_BYTES)
}

/// Reads the answer to an order: the song, or a job that makes it.
pub(super) fn read_submission(
    order: &Order,
    song: &SongSpec,
    body: &Value,
) -> Result<AdapterStep, ProviderError> {
    let mut handle = JobHandle(json!({"song": ClipFacts::from_song(song, &order.model)}));
    match interactions::read_poll(&handle, body) {
        Ok(AdapterStep::Running { .. }) => {
            handle.0["id"] = json!(required_text(body, "/id")?);
            Ok(AdapterStep::submitted(handle.0))
        }
        step => step,
    }
}
