//! The fields that the API promises, by name and JSON type.

use serde_json::Value;

/// The JSON types that fields are promised in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    S,
    I,
    B,
    O,
    A,
}
use Kind::{A, B, I, O, S};

type Fields = &'static [(&'static str, Kind)];

#[rustfmt::skip]
pub(crate) const CHAT: Fields = &[
    ("id", S), ("object", S), ("created", I), ("model", S), ("system_fingerprint", S), ("choices", A), ("usage", O),
];

#[rustfmt::skip]
pub(crate) const USAGE: Fields = &[
    ("completion_tokens", I), ("completion_tokens_details", O), ("prompt_tokens", I), ("prompt_tokens_details", O),
    ("total_tokens", I),
];

#[rustfmt::skip]
pub(crate) const TASK_RECORD: Fields = &[
    ("id", S), ("clips", A), ("metadata", O), ("major_model_version", S), ("status", S), ("created_at", S),
    ("batch_size", I),
];

#[rustfmt::skip]
pub(crate) const CLIP: Fields = &[
    ("id", S), ("entity_type", S), ("video_url", S), ("audio_url", S), ("major_model_version", S), ("model_name", S),
    ("metadata", O), ("is_liked", B), ("user_id", S), ("display_name", S), ("handle", S), ("is_handle_updated", B),
    ("avatar_image_url", S), ("is_trashed", B), ("flag_count", I), ("created_at", S), ("status", S), ("title", S),
    ("play_count", I), ("upvote_count", I), ("is_public", B), ("allow_comments", B), ("more", S),
];

#[rustfmt::skip]
pub(crate) const METADATA: Fields = &[
    ("prompt", S), ("history", A), ("stem_from_id", S), ("stem_task", S), ("stem_type_id", I),
    ("stem_type_group_name", S), ("edited_clip_id", S), ("type", S), ("stream", B), ("infill", B), ("task", S),
    ("can_remix", B), ("is_remix", B), ("priority", I),
];

#[rustfmt::skip]
pub(crate) const HISTORY: Fields = &[
    ("id", S), ("type", S), ("source", S), ("infill", B), ("stem_type_id", I), ("stem_type_group_name", S),
    ("stem_task", S), ("stem_from_id", S),
];

/// The field that carries the brand is checked where its name is known.
#[rustfmt::skip]
pub(crate) const PERSONA: Fields = &[
    ("id", S), ("name", S), ("description", S), ("image_s3_id", S), ("root_clip_id", S), ("clip", O),
    ("user_display_name", S), ("user_handle", S), ("user_image_url", S), ("persona_clips", A), ("is_trashed", B),
    ("is_owned", B), ("is_public", B), ("is_public_approved", B), ("is_loved", B), ("upvote_count", I),
    ("clip_count", I),
];

#[rustfmt::skip]
pub(crate) const PERSONA_CLIP: Fields = &[
    ("id", S), ("entity_type", S), ("video_url", S), ("audio_url", S), ("image_url", S), ("image_large_url", S),
    ("major_model_version", S), ("model_name", S), ("metadata", O), ("is_liked", B), ("user_id", S),
    ("display_name", S), ("handle", S), ("is_handle_updated", B), ("avatar_image_url", S), ("is_trashed", B),
    ("flag_count", I), ("display_tags", S), ("created_at", S), ("status", S), ("title", S), ("play_count", I),
    ("upvote_count", I), ("is_public", B), ("allow_comments", B),
];

#[rustfmt::skip]
pub(crate) const PERSONA_CLIP_METADATA: Fields = &[
    ("tags", S), ("prompt", S), ("type", S), ("duration", I), ("refund_credits", B), ("stream", B), ("can_remix", B),
    ("is_remix", B), ("priority", I),
];

/// Asserts that every field is there, in its type, and never null. `extra` names
/// further fields that are allowed.
#[track_caller]
pub(crate) fn assert_fields(value: &Value, fields: Fields, extra: &[&str]) {
    let object = value
        .as_object()
        .unwrap_or_else(|| panic!("no object: {value}"));
    for (name, kind) in fields {
        let fits = object.get(*name).is_some_and(|field| match kind {
            S => field.is_string(),
            I => field.is_i64() || field.is_u64(),
            B => field.is_boolean(),
            O => field.is_object(),
            A => field.is_array(),
        });
        assert!(fits, "{name} should be {kind:?} in {value:#}");
    }
    for name in object.keys() {
        let is_expected =
            fields.iter().any(|(field, _)| field == name) || extra.contains(&name.as_str());
        assert!(is_expected, "{name} is not promised: {value:#}");
    }
}

/// Asserts that nothing anywhere in a record is null.
#[track_caller]
pub(crate) fn assert_no_null(value: &Value) {
    match value {
        Value::Null => panic!("a null"),
        Value::Array(items) => items.iter().for_each(|item| assert_no_null(item)),
        Value::Object(fields) => {
            for (name, field) in fields {
                assert!(!field.is_null(), "{name} is null");
                assert_no_null(field);
            }
        }
        _ => {}
    }
}

/// A clip as task records and the clip endpoints show it.
#[track_caller]
pub(crate) fn assert_clip(clip: &Value) {
    assert_no_null(clip);
    assert_fields(clip, CLIP, &["image_url", "image_large_url", "provenance"]);
    assert_metadata(&clip["metadata"]);
    assert_time(&clip["created_at"]);
}

/// The metadata of a task record or a clip in it.
#[track_caller]
pub(crate) fn assert_metadata(metadata: &Value) {
    let extra = [
        "duration",
        "generation_type",
        "make_instrumental",
        "error_type",
        "error_message",
        "damage",
        "gain_db",
    ];
    assert_fields(metadata, METADATA, &extra);
    for entry in metadata["history"].as_array().unwrap() {
        assert_fields(entry, HISTORY, &[]);
    }
}

/// A whole music task record.
#[track_caller]
pub(crate) fn assert_task_record(record: &Value) {
    assert_no_null(record);
    assert_fields(record, TASK_RECORD, &[]);
    assert_metadata(&record["metadata"]);
    assert_time(&record["created_at"]);
    for clip in record["clips"].as_array().unwrap() {
        assert_clip(clip);
    }
}

/// A whole persona record whose brand is in `brand_field`.
#[track_caller]
pub(crate) fn assert_persona(persona: &Value, brand_field: &str) {
    assert_no_null(persona);
    assert_fields(persona, PERSONA, &[brand_field]);
    assert!(persona[brand_field].is_boolean());
    assert_persona_clip(&persona["clip"]);
    let items = persona["persona_clips"].as_array().unwrap();
    for item in items {
        assert_fields(item, &[("clip", O), ("id", I)], &[]);
        assert_persona_clip(&item["clip"]);
    }
    assert_eq!(persona["clip_count"], items.len());
    assert_eq!(persona["clip"]["id"], persona["root_clip_id"]);
}

#[track_caller]
fn assert_persona_clip(clip: &Value) {
    assert_fields(clip, PERSONA_CLIP, &[]);
    assert_fields(&clip["metadata"], PERSONA_CLIP_METADATA, &[]);
    assert_time(&clip["created_at"]);
}

/// RFC 3339 in UTC with milliseconds.
#[track_caller]
pub(crate) fn assert_time(value: &Value) {
    let text = value.as_str().unwrap();
    assert!(text.parse::<jiff::Timestamp>().is_ok(), "{text}");
    assert!(text.len() == 24 && text.ends_with('Z'), "{text}");
}
