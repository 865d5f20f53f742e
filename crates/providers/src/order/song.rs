//! A song as the music dialect describes it, and what that means to providers
//! that ask for a description and the words apart.

use serde_json::{Map, Value};

use super::SourceRecording;

/// A song by the fields of the music dialect. Ids in it are the provider's own.
#[derive(Debug, Clone)]
pub struct SongSpec {
    /// The operation, such as `generate`, `extend` or `cover`.
    pub task: String,
    /// The other fields as the caller sent them.
    pub fields: Map<String, Value>,
    /// The recordings of the clips that fields name, by field. One that the
    /// provider has goes by its id there; any other has to be given first, and
    /// the field holds the id that it then gets.
    pub uploads: Vec<(String, SourceRecording)>,
}

impl SongSpec {
    /// A field of text that is not empty.
    pub fn text(&self, field: &str) -> Option<&str> {
        let text = self.fields.get(field).and_then(Value::as_str);
        text.map(str::trim).filter(|text| !text.is_empty())
    }

    /// Whether nobody shall sing.
    pub fn is_instrumental(&self) -> bool {
        self.fields.get("make_instrumental") == Some(&Value::Bool(true))
    }

    /// How long it shall be.
    pub fn seconds(&self) -> Option<f64> {
        self.fields.get("seconds").and_then(Value::as_f64)
    }

    /// The words that are sung. `prompt` holds them where something else says
    /// what the song is like, as in the dialect's custom mode.
    pub fn lyrics(&self) -> Option<&str> {
        if self.is_instrumental() {
            return None;
        }
        let described = self.text("gpt_description_prompt").or(self.text("tags"));
        let in_prompt = || self.text("prompt").filter(|_| described.is_some());
        self.text("lyrics").or_else(in_prompt)
    }

    /// What the song is like: the description and the style; `prompt` where it
    /// does not hold the words.
    pub fn description(&self) -> String {
        let lyrics = self.lyrics();
        let prompt = self.text("prompt").filter(|text| lyrics != Some(text));
        let said = [
            self.text("gpt_description_prompt"),
            prompt,
            self.text("tags"),
        ];
        let mut parts: Vec<&str> = said.into_iter().flatten().collect();
        parts.dedup();
        parts.join(", ")
    }
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
