//! `MiniMax` Music. There is no job: the answer to an order contains the recording's URL.
//!
//! Sources: platform.minimax.io as read in November 2026; `minimax-mcp` 0.0.19.
//!
//! ```text
//! POST /v1/music_generation  {model, prompt, lyrics, audio_setting, output_format: "url"}
//!                            → {data: {status: 2, audio: URL}, base_resp}
//! ```
//!
//! Up to version 2.0 lyrics are required: if there are none, the description is sung. From 2.5 on
//! the model writes them (`lyrics_optimizer`), or makes an instrumental (`is_instrumental`).

use serde_json::{Map, Value, json};

use super::parse_body;
use crate::error::{ErrorClass, ProviderError};
use crate::limits::{ModelLimits, MusicLimits};
use crate::order::{Order, SongSpec, check_length};
use crate::port::{AdapterStep, Call, JobOutput, OutputSource};
use crate::response::{ProviderResponse, required_text};

/// Longest description and lyrics in characters.
const MAX_PROMPT_CHARS: usize = 2_000;
const MAX_LYRICS_CHARS: usize = 3_500;
/// Maximum size of an answer, in bytes, in case it contains the recording itself.
const MAX_BYTES: u64 = 80_000_000;

pub(super) fn limits(model: &str) -> Option<ModelLimits> {
    let mut fields = vec!["lyrics"];
    fields.extend(writes_lyrics(model).then_some("make_instrumental"));
    model
        .starts_with("music-")
        .then(|| ModelLimits::Music(MusicLimits::songs(fields, None)))
}

/// Whether the model needs no lyrics: from version 2.5 on.
fn writes_lyrics(model: &str) -> bool {
    let version = model.trim_start_matches("music-");
    let digits = version.split(['-', '_']).next().unwrap_or_default();
    digits.parse::<f32>().is_ok_and(|version| version >= 2.45)
}

pub(super) fn start(order: &Order, song: &SongSpec) -> Result<Call, ProviderError> {
    let description = song.description();
    check_length("the description", &description, MAX_PROMPT_CHARS)?;
    if let Some(lyrics) = song.lyrics() {
        check_length("the lyrics", lyrics, MAX_LYRICS_CHARS)?;
    }
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| body.insert(name.to_owned(), value);
    put("model", json!(order.model));
    put("prompt", json!(description));
    match song.lyrics() {
        Some(lyrics) => put("lyrics", json!(lyrics)),
        None if song.is_instrumental() => put("is_instrumental", json!(true)),
        None if writes_lyrics(&order.model) => put("lyrics_optimizer", json!(true)),
        None => put("lyrics", json!(description)),
    };
    let audio = json!({"sample_rate": 44_100, "bitrate": 256_000, "format": "mp3"});
    put("audio_setting", audio);
    put("output_format", json!("url"));
    Ok(
        Call::post("song", "/v1/music_generation", Value::Object(body))
            .mark_submission()
            .with_long_timeout(MAX_BYTES),
    )
}

pub(super) fn read_song(
    order: &Order,
    song: &SongSpec,
    answer: &ProviderResponse,
) -> Result<AdapterStep, ProviderError> {
    let body = parse_body(answer)?;
    let audio = required_text(&body, "/data/audio")?;
    // A URL was requested, but the answer may contain the recording itself, in hex.
    let source = if audio.starts_with("https://") || audio.starts_with("http://") {
        OutputSource::Address(audio)
    } else {
        OutputSource::Bytes(from_hex(&audio)?.into())
    };
    AdapterStep::done(vec![JobOutput::song(song, &order.model, source)])
}

fn from_hex(text: &str) -> Result<Vec<u8>, ProviderError> {
    let hex_error = || {
        ProviderError::new(
            ErrorClass::Failed,
            "the audio in the response is not valid hex",
        )
    };
    let digit = |byte: u8| {
        let digit = char::from(byte).to_digit(16).ok_or_else(hex_error)?;
        u8::try_from(digit).map_err(|_| hex_error())
    };
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(hex_error());
    }
    pairs
        .map(|pair| Ok(digit(pair[0])? * 16 + digit(pair[1])?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_models_write_the_lyrics() {
        for (model, expected) in [
            ("music-1.5", false),
            ("music-2.0", false),
            ("music-2.5", true),
            ("music-2.6-free", true),
            ("music-3.0", true),
        ] {
            assert_eq!(writes_lyrics(model), expected, "{model}");
        }
    }

    #[test]
    fn a_recording_may_come_as_hex() {
        assert_eq!(from_hex("4944330a").unwrap(), b"ID3\n");
        assert!(from_hex("494").is_err() && from_hex("zz").is_err());
    }
}
