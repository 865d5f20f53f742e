//! Songs by `ElevenLabs` Music. As with stems there is no job: the answer is
//! the recording.
//!
//! Source: `compose` of the `elevenlabs` SDK 2.78 (Python), November 2026.
//!
//! ```text
//! POST /v1/music?output_format=…   {prompt, model_id, music_length_ms, force_instrumental} → audio
//! ```
//!
//! Everything is in the prompt: there is no field for lyrics.

use http::Method;
use serde_json::{Map, Value, json};

use crate::error::ProviderError;
use crate::limits::MusicLimits;
use crate::order::{Order, SongSpec, check_length};
use crate::port::{AdapterStep, Call, JobOutput, OutputSource, RequestBody};
use crate::response::ProviderResponse;

/// Longest prompt in characters (the API reference).
const MAX_PROMPT_CHARS: usize = 4_100;
/// More than the bytes of ten minutes at 192 kbit/s.
const MAX_BYTES: u64 = 40_000_000;

pub(super) fn is_song_model(model: &str) -> bool {
    model.starts_with("music_")
}

pub(super) fn limits() -> MusicLimits {
    MusicLimits::songs(
        vec!["lyrics", "make_instrumental", "seconds"],
        Some((3, 600)),
    )
}

pub(super) fn start(
    order: &Order,
    song: &SongSpec,
    output_format: &str,
) -> Result<Call, ProviderError> {
    let mut prompt = song.description();
    if let Some(lyrics) = song.lyrics() {
        prompt = format!("{prompt}\n\nLyrics:\n{lyrics}");
    }
    let prompt = prompt.trim();
    check_length("the description with the lyrics", prompt, MAX_PROMPT_CHARS)?;
    let mut body = Map::new();
    body.insert("prompt".into(), json!(prompt));
    body.insert("model_id".into(), json!(order.model));
    if let Some(seconds) = song.seconds() {
        let milliseconds = json!(milliseconds(seconds));
        body.insert("music_length_ms".into(), milliseconds);
    }
    if song.is_instrumental() {
        body.insert("force_instrumental".into(), json!(true));
    }
    Ok(Call::new("song", Method::POST, "/v1/music")
        .with_query("output_format", output_format)
        .with_body(RequestBody::Json(Value::Object(body)))
        .mark_submission()
        .with_long_timeout(MAX_BYTES))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a song's length is small and positive"
)]
fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).round() as u64
}

/// Reads the recording that an answer consists of.
pub(super) fn read_song(
    order: &Order,
    song: &SongSpec,
    answer: &ProviderResponse,
) -> Result<AdapterStep, ProviderError> {
    // With a success status, this proves nothing about the order, so it is unclear and not failed.
    let is_json = answer.body.first() == Some(&b'{');
    if answer.body.is_empty() || is_json {
        return Err(ProviderError::unreadable(
            "the provider's response is not an audio file",
        ));
    }
    let source = OutputSource::Bytes(answer.body.clone());
    AdapterStep::done(vec![JobOutput::song(song, &order.model, source)])
}
