//! A song in the fields of the music API, and its conversion for providers that need separate
//! description and lyrics.

use serde_json::{Map, Value};

use super::SourceRecording;
use crate::error::{ErrorClass, ProviderError};

/// A song, described with the fields of the music API, which `suno-family` providers have too. Ids
/// in it are the provider's own.
#[derive(Debug, Clone)]
pub struct SongSpec {
    /// The operation, such as `generate`, `extend` or `cover`.
    pub task: String,
    /// The other fields as the caller sent them.
    pub fields: Map<String, Value>,
    /// The recordings of the clips that fields name, by field. A recording that the provider has is
    /// referred to by its id; any other has to be uploaded first, and the field gets its new id.
    pub uploads: Vec<(String, SourceRecording)>,
}

impl SongSpec {
    /// The text of a field, if it is not empty.
    pub fn text(&self, field: &str) -> Option<&str> {
        let text = self.fields.get(field).and_then(Value::as_str);
        text.map(str::trim).filter(|text| !text.is_empty())
    }

    /// Whether it is instrumental.
    pub fn is_instrumental(&self) -> bool {
        self.fields.get("make_instrumental") == Some(&Value::Bool(true))
    }

    /// The requested length.
    pub fn seconds(&self) -> Option<f64> {
        self.fields.get("seconds").and_then(Value::as_f64)
    }

    /// The lyrics. They are in `prompt` if another field describes the song, as in the API's
    /// custom mode.
    pub fn lyrics(&self) -> Option<&str> {
        if self.is_instrumental() {
            return None;
        }
        let separate_description = self.text("gpt_description_prompt").or(self.text("tags"));
        let lyrics_in_prompt = || {
            self.text("prompt")
                .filter(|_| separate_description.is_some())
        };
        self.text("lyrics").or_else(lyrics_in_prompt)
    }

    /// The description and the style of the song; also `prompt` if it does not contain the lyrics.
    pub fn description(&self) -> String {
        let lyrics = self.lyrics();
        let prompt = self.text("prompt").filter(|text| lyrics != Some(text));
        let texts = [
            self.text("gpt_description_prompt"),
            prompt,
            self.text("tags"),
        ];
        let mut parts: Vec<&str> = texts.into_iter().flatten().collect();
        parts.dedup();
        parts.join(", ")
    }
}

/// Refuses a text that is longer than its provider takes. It is never cut: the caller would pay for
/// a song without the rest of it.
pub fn check_length(name: &str, text: &str, max_chars: usize) -> Result<(), ProviderError> {
    if text.chars().count() <= max_chars {
        return Ok(());
    }
    let message = format!("{name} may have at most {max_chars} characters for this model");
    Err(ProviderError::new(ErrorClass::Rejected, message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prompt_is_words_or_a_description() {
        for (fields, description, lyrics) in [
            (json!({"prompt": "slow blues"}), "slow blues", None),
            (
                json!({"prompt": "[Verse] rain", "tags": "blues"}),
                "blues",
                Some("[Verse] rain"),
            ),
            (
                json!({"gpt_description_prompt": "about rain", "prompt": ""}),
                "about rain",
                None,
            ),
            (
                json!({"prompt": "slow blues", "lyrics": "[Verse] rain"}),
                "slow blues",
                Some("[Verse] rain"),
            ),
            (
                json!({"prompt": "slow", "tags": "blues", "make_instrumental": true}),
                "slow, blues",
                None,
            ),
        ] {
            let song = SongSpec {
                task: "generate".into(),
                fields: fields.as_object().cloned().unwrap(),
                uploads: Vec::new(),
            };
            assert_eq!(song.description(), description, "{fields}");
            assert_eq!(song.lyrics(), lyrics, "{fields}");
        }
    }
}
