//! Inputs of Replicate's models: each has its own fields, and refuses others.

use serde_json::{Map, Value};

use crate::site::SimulatedRequest;

/// Maximum length of a file within a request, in characters.
const MAX_INLINE: usize = 360_000;

pub(super) fn veo(input: &Map<String, Value>) -> Option<String> {
    members(
        input,
        &[
            "prompt",
            "image",
            "last_frame",
            "duration",
            "resolution",
            "aspect_ratio",
            "negative_prompt",
            "seed",
            "generate_audio",
            "reference_images",
        ],
    )
    .or_else(|| number(input, "duration", &[4, 6, 8]))
    .or_else(|| flag(input, "generate_audio"))
    .or_else(|| word(input, "resolution", &["720p", "1080p"]))
    .or_else(|| word(input, "aspect_ratio", &["16:9", "9:16"]))
}

pub(super) fn seedance(input: &Map<String, Value>) -> Option<String> {
    let lengths: Vec<u64> = (4..=15).collect();
    let shapes = ["16:9", "9:16", "1:1", "4:3", "3:4", "21:9"];
    let has = |name: &str| input.contains_key(name);
    let member_error = members(
        input,
        &[
            "prompt",
            "image",
            "last_frame_image",
            "reference_images",
            "duration",
            "resolution",
            "aspect_ratio",
            "generate_audio",
            "seed",
        ],
    );
    member_error
        .or_else(|| number(input, "duration", &lengths))
        .or_else(|| word(input, "resolution", &["480p", "720p"]))
        .or_else(|| word(input, "aspect_ratio", &shapes))
        .or_else(|| flag(input, "generate_audio"))
        .or_else(|| {
            let mixed = has("reference_images") && (has("image") || has("last_frame_image"));
            let no_first = has("last_frame_image") && !has("image");
            (mixed || no_first).then(|| "- input: these pictures do not go together".into())
        })
}

pub(super) fn kling(input: &Map<String, Value>) -> Option<String> {
    members(
        input,
        &[
            "prompt",
            "start_image",
            "end_image",
            "duration",
            "aspect_ratio",
            "negative_prompt",
        ],
    )
    .or_else(|| number(input, "duration", &[5, 10]))
    .or_else(|| word(input, "aspect_ratio", &["16:9", "9:16", "1:1"]))
}

pub(super) fn stable_audio(input: &Map<String, Value>) -> Option<String> {
    let lengths: Vec<u64> = (1..=190).collect();
    members(input, &["prompt", "duration", "steps", "cfg_scale", "seed"])
        .or_else(|| number(input, "duration", &lengths))
}

pub(super) fn demucs(input: &Map<String, Value>) -> Option<String> {
    let allowed = [
        "audio",
        "model_name",
        "stem",
        "clip_mode",
        "shifts",
        "overlap",
        "mp3_bitrate",
        "float32",
        "output_format",
    ];
    let unknown = input.keys().find(|name| !allowed.contains(&name.as_str()));
    let stems = ["vocals", "bass", "drums", "guitar", "piano", "other"];
    unknown
        .map(|name| format!("- input: Additional property {name} is not allowed"))
        .or_else(|| (!input.contains_key("audio")).then(|| "- input: audio is required".into()))
        .or_else(|| {
            word(
                input,
                "model_name",
                &["htdemucs", "htdemucs_ft", "htdemucs_6s"],
            )
        })
        .or_else(|| word(input, "output_format", &["mp3", "wav", "flac"]))
        .or_else(|| word(input, "stem", &stems))
}

fn members(input: &Map<String, Value>, allowed: &[&str]) -> Option<String> {
    if input.get("prompt").and_then(Value::as_str).is_none() {
        return Some("- input: prompt is required".into());
    }
    // A misspelt input must fail here. If it were ignored, no test would notice it.
    let unknown = input
        .keys()
        .find(|name| !allowed.contains(&name.as_str()))?;
    Some(format!(
        "- input: Additional property {unknown} is not allowed"
    ))
}

fn number(input: &Map<String, Value>, name: &str, allowed: &[u64]) -> Option<String> {
    let value = input.get(name)?;
    let fits = value
        .as_u64()
        .is_some_and(|number| allowed.contains(&number));
    (!fits).then(|| format!("- input.{name}: must be one of {allowed:?}"))
}

fn flag(input: &Map<String, Value>, name: &str) -> Option<String> {
    let value = input.get(name)?;
    (!value.is_boolean()).then(|| format!("- input.{name}: must be a boolean"))
}

fn word(input: &Map<String, Value>, name: &str, allowed: &[&str]) -> Option<String> {
    let value = input.get(name)?;
    let fits = value.as_str().is_some_and(|word| allowed.contains(&word));
    (!fits).then(|| format!("- input.{name}: must be one of {allowed:?}"))
}

/// Files are URLs, small data URLs, or files uploaded before.
pub(super) fn files(request: &SimulatedRequest, input: &Map<String, Value>) -> Option<String> {
    let files_url = format!("{}/v1/files/", request.base);
    for name in ["image", "last_frame", "start_image", "end_image", "audio"] {
        let Some(value) = input.get(name) else {
            continue;
        };
        let text = value.as_str().unwrap_or_default();
        // Replicate accepts about 256 kB inline, which base64 makes a third longer. Larger files
        // have to be uploaded first.
        let fits = if text.starts_with(&files_url) {
            request.world.file(text).is_some()
        } else if text.starts_with("data:") {
            text.len() <= MAX_INLINE && text.contains(";base64,")
        } else {
            text.starts_with("https://")
        };
        if !fits {
            return Some(format!("- input.{name}: Does not match format 'uri'"));
        }
    }
    None
}
