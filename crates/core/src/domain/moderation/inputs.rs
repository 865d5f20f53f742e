//! Inputs of an order that moderation sees: its texts and pictures, with the fields that contain
//! them.

use serde_json::{Map, Value};

use crate::domain::music::SeparationOrder;
use crate::domain::personas::NewPersona;
use crate::domain::pictures::SpooledPicture;
use crate::domain::songs::SongOrder;
use crate::domain::video::VideoOrder;

/// Maximum number of texts of an order that are checked one by one; the rest counts as one text.
const MAX_TEXTS: usize = 20;

/// A text or a picture of an order.
#[derive(Debug, Clone)]
pub struct OrderInput {
    /// The field that contains it.
    pub param: String,
    pub content: InputContent,
}

#[derive(Debug, Clone)]
pub enum InputContent {
    Text(String),
    Picture(SpooledPicture),
}

impl OrderInput {
    pub(super) fn text(&self) -> Option<&str> {
        match &self.content {
            InputContent::Text(text) => Some(text),
            InputContent::Picture(_) => None,
        }
    }

    pub(super) fn picture(&self) -> Option<&SpooledPicture> {
        match &self.content {
            InputContent::Text(_) => None,
            InputContent::Picture(picture) => Some(picture),
        }
    }

    /// What makes two inputs the same.
    pub(super) fn identity(&self) -> [&str; 2] {
        let content: &str = match &self.content {
            InputContent::Text(text) => text,
            InputContent::Picture(picture) => picture.sha256(),
        };
        [&self.param, content]
    }
}

/// The texts with their fields.
pub(super) fn texts(inputs: &[OrderInput]) -> Vec<(String, String)> {
    let texts = inputs.iter().filter_map(|input| {
        let text = input.text()?;
        Some((input.param.clone(), text.to_owned()))
    });
    texts.collect()
}

/// A text of a field; `None` if it is blank.
pub(super) fn text_input(param: &str, text: &str) -> Option<OrderInput> {
    (!text.trim().is_empty()).then(|| OrderInput {
        param: param.to_owned(),
        content: InputContent::Text(text.to_owned()),
    })
}

/// The inputs of a video. `pictures` are those that the order names, in its order.
pub fn of_video(order: &VideoOrder, pictures: &[SpooledPicture]) -> Vec<OrderInput> {
    let (params, options) = (&order.params, &order.options);
    let mut inputs = Vec::new();
    inputs.extend(text_input(params.prompt, &order.prompt));
    let negative_prompt = options.negative_prompt.as_deref().unwrap_or_default();
    inputs.extend(text_input(params.negative_prompt, negative_prompt));
    // Providers with a chat API get the earlier messages too. They count as one text.
    let messages = options.conversation.iter();
    let messages: Vec<&str> = messages.map(|message| message.text.as_str()).collect();
    inputs.extend(text_input(params.prompt, &messages.join("\n\n")));
    collect_texts(
        params.provider_options,
        &options.provider_options,
        &mut inputs,
    );
    let mut inputs = limit_texts(inputs);
    let named = order.every_picture().zip(pictures);
    inputs.extend(named.map(|((_, param), picture)| OrderInput {
        param: param.clone(),
        content: InputContent::Picture(picture.clone()),
    }));
    inputs
}

/// The inputs of a song.
pub fn of_song(order: &SongOrder) -> Vec<OrderInput> {
    let clips = order.clips.iter().map(|(name, _)| name.as_str());
    // Ids of other objects are no texts.
    let ids: Vec<&str> = clips.chain(["persona_id"]).collect();
    let mut inputs = of_fields(&order.fields, &ids);
    if !order.fields.contains_key("title") {
        inputs.extend(text_input("title", &order.title));
    }
    inputs
}

/// The inputs of a separation.
pub fn of_separation(order: &SeparationOrder) -> Vec<OrderInput> {
    let title = order.title.as_deref().unwrap_or_default();
    text_input("title", title).into_iter().collect()
}

/// The inputs of a persona.
pub fn of_persona(new: &NewPersona) -> Vec<OrderInput> {
    let texts = [("name", &new.name), ("description", &new.description)];
    let texts = texts.into_iter();
    texts
        .filter_map(|(param, text)| text_input(param, text))
        .collect()
}

/// The texts in the fields of a music order, without those of these names.
fn of_fields(fields: &Map<String, Value>, without: &[&str]) -> Vec<OrderInput> {
    let mut inputs = Vec::new();
    for (name, value) in fields {
        if !without.contains(&name.as_str()) {
            collect(name, value, &mut inputs);
        }
    }
    limit_texts(inputs)
}

fn collect_texts(prefix: &str, fields: &Map<String, Value>, inputs: &mut Vec<OrderInput>) {
    for (name, value) in fields {
        collect(&format!("{prefix}.{name}"), value, inputs);
    }
}

/// Adds the texts in a value. The depth of a body is limited.
fn collect(param: &str, value: &Value, inputs: &mut Vec<OrderInput>) {
    match value {
        Value::String(text) => inputs.extend(text_input(param, text)),
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                collect(&format!("{param}[{number}]"), item, inputs);
            }
        }
        Value::Object(fields) => collect_texts(param, fields, inputs),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Joins the texts that are too many to be checked one by one.
fn limit_texts(mut inputs: Vec<OrderInput>) -> Vec<OrderInput> {
    if inputs.len() <= MAX_TEXTS {
        return inputs;
    }
    let rest = inputs.split_off(MAX_TEXTS - 1);
    let texts: Vec<&str> = rest.iter().filter_map(OrderInput::text).collect();
    let param = rest.first().map_or("", |input| input.param.as_str());
    inputs.extend(text_input(param, &texts.join("\n\n")));
    inputs
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_text_of_a_music_order_has_its_field() {
        let fields = json!({
            "prompt": "rain",
            "tags": ["slow", " "],
            "style": {"mood": "blue", "tempo": 90},
            "continue_clip_id": "clip",
        });
        let inputs = of_fields(fields.as_object().unwrap(), &["continue_clip_id"]);
        let mut found = texts(&inputs);
        found.sort();
        let expected = [
            ("prompt", "rain"),
            ("style.mood", "blue"),
            ("tags[0]", "slow"),
        ];
        let expected = expected.map(|(param, text)| (param.to_owned(), text.to_owned()));
        assert_eq!(found, expected);
    }

    #[test]
    fn many_texts_are_joined() {
        let items: Vec<String> = (0..100).map(|number| format!("word{number}")).collect();
        let fields = json!({"tags": items});
        let inputs = of_fields(fields.as_object().unwrap(), &[]);
        assert_eq!(inputs.len(), MAX_TEXTS);
        let last = inputs.last().unwrap().text().unwrap();
        assert!(
            last.contains("word19\n\n") && last.ends_with("word99"),
            "{last}"
        );
    }
}
