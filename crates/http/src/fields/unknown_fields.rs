//! Unknown fields of an order: refused if they say what is made, ignored otherwise.
//!
//! Callers send additional fields of other APIs, and most of them change nothing. A picture, a sound
//! or a length under a name that nobody declared does: without it, the caller pays for something
//! else. New names appear every month, so a rule recognizes them instead of a list: a value that is
//! or contains a URL, or a name with a word of what is sold here.

use serde_json::Value;
use utoipa::openapi::schema::Object;

use super::BodyFields;
use mediagate_model::error::{ErrorCode, FieldError};

/// The words of what is sold here, each with the plural that is sent.
const PRODUCT_WORDS: [&str; 33] = [
    "frame",
    "frames",
    "image",
    "images",
    "picture",
    "pictures",
    "video",
    "videos",
    "audio",
    "audios",
    "sound",
    "sounds",
    "reference",
    "references",
    "duration",
    "durations",
    "second",
    "seconds",
    "length",
    "lengths",
    "ratio",
    "ratios",
    "orientation",
    "width",
    "height",
    "size",
    "sizes",
    "resolution",
    "resolutions",
    "keyframe",
    "keyframes",
    "shot",
    "shots",
];

/// Words that other services join to those without a separator, as in `lastframe`.
const JOINED_WORDS: [&str; 17] = [
    "first", "last", "start", "end", "init", "input", "source", "generate", "enable", "with", "no",
    "aspect", "url", "urls", "uri", "max", "num",
];

/// Members of the chat API that may contain URLs and say nothing about a video: schemas of tools,
/// notes of the caller.
const HARMLESS: [&str; 4] = ["tools", "functions", "metadata", "web_search_options"];

/// Which of our fields says what an unknown one wants to say: the first line whose words the name
/// contains and whose field the request has.
const NEAREST: [(&[&str], &[&str]); 11] = [
    (&["keyframe", "keyframes"], &["keyframes", "frame_images"]),
    (&["shot", "shots"], &["shots"]),
    (
        &["last", "end", "tail", "final"],
        &["end_image", "frame_images"],
    ),
    (
        &["reference", "references"],
        &["reference_images", "input_references"],
    ),
    (
        &["audio", "sound", "sounds"],
        &["audio", "generate_audio", "url"],
    ),
    (&["ratio", "ratios", "orientation"], &["aspect_ratio"]),
    (&["width", "height", "size", "sizes"], &["size"]),
    (&["resolution", "resolutions"], &["resolution"]),
    (
        &["duration", "seconds", "second", "length", "num"],
        &["seconds", "duration"],
    ),
    (
        &["callback", "webhook", "hook", "notify"],
        &["callback_url"],
    ),
    (
        &[
            "frame", "frames", "image", "images", "picture", "pictures", "video", "videos",
        ],
        &["input_reference", "image", "frame_images"],
    ),
];

/// Longest name in a message: the caller's can be as long as its body.
const MAX_SHOWN: usize = 100;

/// Records a fault for each member that `declared` does not have and that says what is made.
pub fn refuse_unknown(body: &BodyFields<'_>, declared: &Object) {
    for fault in unknown_faults(body, declared) {
        body.fault_at(fault.param, fault.code, fault.message);
    }
}

/// A fault for each member that `declared` does not have and that says what is made. They are not
/// recorded: a provider may know these members.
pub fn unknown_faults(body: &BodyFields<'_>, declared: &Object) -> Vec<FieldError> {
    let is_declared = |name: &str| declared.properties.contains_key(name);
    let mut faults = Vec::new();
    for (name, value) in body.members() {
        if is_declared(name) || HARMLESS.contains(&name.as_str()) || is_absent(value) {
            continue;
        }
        let words = words(name);
        let reason = if holds_url(value) {
            "contains a URL"
        } else if words.iter().any(|word| is_product_word(word)) {
            "says what is made"
        } else {
            continue;
        };
        let advice = nearest(&words, &is_declared).map_or_else(
            || format!("The known fields are: {}.", known_fields(declared)),
            |ours| format!("The nearest known field is {ours}."),
        );
        let shown: String = name.chars().take(MAX_SHOWN).collect();
        faults.push(FieldError {
            code: ErrorCode::UnsupportedValue,
            param: body.path(&shown),
            message: format!("Unknown field that {reason}, so it is not ignored. {advice}"),
        });
    }
    faults
}

/// Whether a value says nothing: null, or empty as in a form that was not filled in.
fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.iter().all(is_absent),
        Value::Object(members) => members.values().all(is_absent),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether a value is or contains an http, https or `data:` URL. The depth of a body is bounded when
/// it is received.
fn holds_url(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            let text = text.trim_start().as_bytes();
            let schemes: [&[u8]; 3] = [b"http://", b"https://", b"data:"];
            schemes.iter().any(|scheme| {
                let start = text.get(..scheme.len());
                start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            })
        }
        Value::Array(items) => items.iter().any(holds_url),
        Value::Object(members) => members.values().any(holds_url),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The words of a name, in lower case: `firstFrameURL`, `first-frame_url` and `first_frame.url` have
/// the same.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut previous = ' ';
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        let is_letter = character.is_alphabetic();
        // A capital after a small letter, and the last capital before one, as in `URLList`.
        let is_start = character.is_uppercase()
            && (previous.is_lowercase()
                || characters.peek().is_some_and(|next| next.is_lowercase()));
        if !is_letter || is_start {
            words.push(String::new());
        }
        if is_letter && let Some(word) = words.last_mut() {
            word.extend(character.to_lowercase());
        }
        previous = character;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a word is one of what is sold here, alone or joined to another one or to a usual one.
fn is_product_word(word: &str) -> bool {
    let is_product = |word: &str| PRODUCT_WORDS.contains(&word);
    let mut others = JOINED_WORDS.iter().chain(&PRODUCT_WORDS);
    is_product(word)
        || others.any(|other| {
            let is_rest = |rest: Option<&str>| rest.is_some_and(is_product);
            is_rest(word.strip_prefix(other)) || is_rest(word.strip_suffix(other))
        })
}

fn nearest(words: &[String], is_declared: &impl Fn(&str) -> bool) -> Option<&'static str> {
    let fits = |(theirs, _): &&(&[&str], &[&str])| {
        let mut theirs = theirs.iter();
        theirs.any(|their| {
            let mut words = words.iter();
            words.any(|word| word == their || (is_product_word(word) && word.contains(their)))
        })
    };
    let ours = NEAREST.iter().filter(fits);
    ours.flat_map(|(_, ours)| ours.iter().copied())
        .find(|ours| is_declared(ours))
}

fn known_fields(declared: &Object) -> String {
    let names: Vec<&str> = declared.properties.keys().map(String::as_str).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::read;
    use super::*;
    use crate::orders::chat::ChatRequest;
    use crate::orders::videos::VideoRequest;
    use mediagate_model::error::Error;

    /// The faults of a body of a video request: the fields and the messages.
    fn faults(body: &Value) -> Vec<(String, String)> {
        let result = read(body, |body| {
            refuse_unknown(body, &VideoRequest::object());
            Some(())
        });
        match result {
            Ok(()) => Vec::new(),
            Err(Error::Invalid(faults)) => faults
                .into_iter()
                .map(|fault| (fault.param, fault.message))
                .collect(),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn what_says_what_is_made_is_refused_with_the_nearest_field() {
        for (name, value, nearest) in [
            ("last_frame", json!("x"), "end_image"),
            ("lastFrame", json!({"id": 7}), "end_image"),
            ("firstFrameURL", json!("a"), "input_reference"),
            ("image_urls", json!(["https://x/a.png"]), "input_reference"),
            (
                "input_references",
                json!([{"type": "image_url", "image_url": {"url": "https://x/a.png"}}]),
                "reference_images",
            ),
            (
                "videos",
                json!(["data:video/mp4;base64,AA=="]),
                "input_reference",
            ),
            ("generateAudio", json!(false), "audio"),
            ("sound", json!(false), "audio"),
            ("with_audio", json!(false), "audio"),
            ("videolength", json!(9), "seconds"),
            ("orientation", json!("portrait"), "aspect_ratio"),
            ("output-width", json!(9), "size"),
            ("video_resolution", json!("4k"), "resolution"),
            ("webhook", json!("HTTPS://x/hook"), "callback_url"),
            ("key_frames", json!([{"id": "a"}]), "input_reference"),
            ("lastKeyframe", json!({"id": "a"}), "keyframes"),
            ("multi_shots", json!(true), "shots"),
        ] {
            let found = faults(&json!({"prompt": "x", name: value}));
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!(found[0].0, name);
            let expected = format!("The nearest known field is {nearest}.");
            assert!(found[0].1.ends_with(&expected), "{name}: {}", found[0].1);
        }
        let found = faults(&json!({"style": {"of": ["http://x/a"]}}));
        assert!(found[0].1.contains("negative_prompt"), "{found:?}");
    }

    #[test]
    fn other_fields_are_ignored() {
        for body in [
            json!({"temperature": 1, "user_id": "u", "generation_id": 7, "configuration": {}, "framework": "x"}),
            json!({"metadata": {"page": "https://x"}, "tools": [{"$schema": "http://json-schema.org"}]}),
            json!({"last_frame": null, "images_list": [], "sound_url": " ", "reference": {"url": ""}}),
            json!({"style": "see https://x", "note": "datatypes"}),
        ] {
            assert_eq!(faults(&body), [], "{body}");
        }
    }

    #[test]
    fn declared_fields_are_never_unknown() {
        for object in [VideoRequest::object(), ChatRequest::object()] {
            let members = object
                .properties
                .keys()
                .map(|name| (name.clone(), json!("https://x")));
            let body = Value::Object(members.collect());
            let result = read(&body, |body| {
                refuse_unknown(body, &object);
                Some(())
            });
            assert!(result.is_ok());
        }
    }

    proptest! {
        /// Whatever stands around a word of what is sold, in each of the usual ways to write a name.
        #[test]
        fn generated_names_are_refused(
            before in "[a-z]{0,8}", word in 0..PRODUCT_WORDS.len(), after in "[a-z]{0,8}", style in 0..4,
        ) {
            let word = PRODUCT_WORDS[word];
            let capital = |text: &str| {
                let mut text = text.to_owned();
                if let Some(first) = text.get_mut(..1) {
                    first.make_ascii_uppercase();
                }
                text
            };
            let name = match style {
                0 => [before.as_str(), word, after.as_str()].join("_"),
                1 => format!("{before}{}{}", capital(word), capital(&after)),
                2 => [before.as_str(), word, after.as_str()].join("-"),
                _ => [before.as_str(), word, after.as_str()].join(".").to_uppercase(),
            };
            prop_assume!(!VideoRequest::object().properties.contains_key(&name));
            prop_assert_eq!(faults(&json!({ name.as_str(): true })).len(), 1, "{}", name);
        }

        #[test]
        fn generated_names_with_a_url_are_refused(name in "[a-z]{9,20}", depth in 0..5) {
            let mut value = json!("https://example.com/a.bin");
            for level in 0..depth {
                value = if level % 2 == 0 { json!([value]) } else { json!({"of": value}) };
            }
            prop_assert_eq!(faults(&json!({ name.as_str(): value })).len(), 1);
        }
    }
}
