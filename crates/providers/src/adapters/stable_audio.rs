//! Stable Audio 2.5 and 3, models that several providers host: music without vocals, of up to 190
//! and 380 seconds.
//!
//! Sources: fal.ai/models/fal-ai/stable-audio-25/text-to-audio/llms.txt and the schema of version
//! a61ac8ed on replicate.com, both stored copies, read on 2026-11-23. They differ only in the name
//! of the field for the length. Version 3: fal.ai/models/fal-ai/stable-audio-3/medium/text-to-audio
//! /llms.txt, a stored copy, read on 2026-11-28.

use serde_json::{Map, Value, json};

use crate::limits::{ModelLimits, MusicLimits};
use crate::order::SongSpec;

/// Whether this is a provider's name for the model: `stable-audio-25` at fal, `stable-audio-2.5` at
/// Replicate.
pub(super) fn is_stable_audio(model: &str) -> bool {
    model.contains("stable-audio-2") || is_third_version(model)
}

/// Whether this is a name of version 3.
pub(super) fn is_third_version(model: &str) -> bool {
    model.contains("stable-audio-3")
}

/// The model's limits. Its music is always instrumental.
pub(super) fn limits(model: &str) -> ModelLimits {
    let longest = if is_third_version(model) { 380 } else { 190 };
    let fields = vec!["make_instrumental", "seconds"];
    ModelLimits::Music(MusicLimits::songs(fields, Some((1, longest))))
}

/// The model's input; `duration_field` is the field for the length in whole seconds.
pub(super) fn input(song: &SongSpec, duration_field: &str) -> Map<String, Value> {
    // The model does not sing lyrics, so all texts describe the music.
    let texts = ["gpt_description_prompt", "prompt", "tags"].map(|field| song.text(field));
    let texts: Vec<&str> = texts.into_iter().flatten().collect();
    let mut input = Map::from_iter([("prompt".to_owned(), json!(texts.join(", ")))]);
    if let Some(seconds) = song.seconds() {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 1 to 380"
        )]
        let seconds = seconds.round() as u64;
        input.insert(duration_field.to_owned(), json!(seconds));
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_is_built_from_all_texts() {
        for (fields, input_) in [
            (
                json!({"prompt": "slow", "tags": "blues", "make_instrumental": true}),
                json!({"prompt": "slow, blues"}),
            ),
            (
                json!({"gpt_description_prompt": "rain", "seconds": 59.6}),
                json!({"prompt": "rain", "length": 60}),
            ),
        ] {
            let song = SongSpec {
                task: "generate".into(),
                fields: fields.as_object().cloned().unwrap(),
                uploads: Vec::new(),
            };
            assert_eq!(Value::Object(input(&song, "length")), input_, "{fields}");
        }
    }
}
