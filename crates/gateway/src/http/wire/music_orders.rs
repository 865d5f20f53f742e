//! The requests of the music dialect: submissions, uploads by address, batches.

use serde_json::Value;
use utoipa::ToSchema;

use crate::domain::music::Separation;
use crate::domain::songs::SongOrder;
use crate::error::{Error, ErrorCode};
use crate::http::wire::fields::{self, Fields};
use crate::http::wire::music::{GEN_STEM, STEM_TYPE};
use crate::ids::{ClipId, TaskId};
use crate::model::task::StemTask;

/// Longest title in characters.
const TITLE: usize = 200;

/// The body of a submission, for the documentation.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "documents what the reader below takes")]
pub struct SubmitRequest {
    /// What to do: `gen_stem` separates a clip; other tasks are those that a configured provider does. Left out,
    /// it is `generate`, a song, where a field says what to make.
    task: Option<String>,
    /// The clip to separate, required for `gen_stem`; or to extend, which makes `generate` an `extend`.
    continue_clip_id: Option<String>,
    /// Where the clip that is extended goes on, in seconds.
    continue_at: Option<f64>,
    /// A song's words, where something else says what it is like; else a description.
    prompt: Option<String>,
    /// What a song is about.
    gpt_description_prompt: Option<String>,
    /// A song's words.
    lyrics: Option<String>,
    /// A song's style.
    tags: Option<String>,
    /// What a song shall not sound like.
    negative_tags: Option<String>,
    /// A song's length, where the model lets it be chosen.
    seconds: Option<f64>,
    /// Who sings.
    persona_id: Option<String>,
    /// The task that the clip came from; checked when given.
    task_id: Option<String>,
    /// `two` (default) makes the wanted track and the rest, `twelve` every group the model can tell apart.
    stem_task: Option<String>,
    /// The wanted track, `Vocals` by default; `Two` and `Twelve` name no single track.
    stem_type_group_name: Option<String>,
    /// 91 when given.
    stem_type_id: Option<i64>,
    /// The music model; `chirp-*` names are taken too.
    mv: Option<String>,
    /// Name for people; the clip's by default.
    title: Option<String>,
    /// Kept; `TEXT` is what clients send.
    generation_type: Option<String>,
    /// Whether a song has no words; kept for other tasks.
    make_instrumental: Option<bool>,
}

/// A submission that was read.
#[derive(Debug)]
pub enum MusicOrder {
    /// Separate a clip.
    Separation(Separation),
    /// Another task of the dialect.
    Song(SongOrder),
}

/// Reads a submission.
pub fn read(body: &Value) -> Result<MusicOrder, Error> {
    fields::read(body, |fields| match task_of(fields) {
        Some(task) if task != GEN_STEM => song(body, fields, task).map(MusicOrder::Song),
        task => {
            let separation = separation(fields);
            task.and(separation).map(MusicOrder::Separation)
        }
    })
}

/// What a song is made of; one of them without a task asks for one.
const OF_SONGS: [&str; 4] = ["prompt", "gpt_description_prompt", "lyrics", "tags"];
/// Longest of these in characters.
const WORDS: usize = 10_000;
const GENERATE: &str = "generate";
const EXTEND: &str = "extend";

/// The task that is meant.
fn task_of(fields: &Fields<'_>) -> Option<String> {
    let said = if is_absent(fields.value("task")) {
        let is_song = OF_SONGS.iter().any(|name| !is_absent(fields.value(name)));
        if !is_song {
            let message = "This field is required.";
            fields.fault("task", ErrorCode::MissingField, message);
            return None;
        }
        GENERATE.to_owned()
    } else {
        fields.string("task", 64)?
    };
    let goes_on = said == GENERATE && !is_absent(fields.value("continue_clip_id"));
    Some(if goes_on { EXTEND.to_owned() } else { said })
}

/// Checks what the dialect says of a song.
fn check_song(fields: &Fields<'_>) {
    for name in OF_SONGS.into_iter().chain(["negative_tags"]) {
        fields.string(name, WORDS);
    }
    fields.number("seconds", 1.0..=3600.0);
    let at = fields.number("continue_at", 0.0..=36_000.0);
    if at.is_some() && is_absent(fields.value("continue_clip_id")) {
        let message = "Goes with continue_clip_id, the clip that is extended.";
        fields.fault("continue_at", ErrorCode::InvalidValue, message);
    }
}

/// Fields that name one clip, and those that name several.
const CLIP_FIELDS: [&str; 3] = ["continue_clip_id", "cover_clip_id", "artist_clip_id"];
const CLIP_LISTS: [&str; 2] = ["playlist_clip_ids", "mashup_clip_ids"];
/// Fields that this gateway settles itself.
const OWN_FIELDS: [&str; 5] = ["task", "mv", "task_id", "notify_hook", "persona_id"];
/// Most members of a submission for a provider.
const MEMBERS: usize = 100;

fn song(body: &Value, fields: &Fields<'_>, task: String) -> Option<SongOrder> {
    if [GENERATE, EXTEND].contains(&task.as_str()) {
        check_song(fields);
    }
    let mut clips: Vec<(String, ClipId)> = Vec::new();
    for name in CLIP_FIELDS {
        if !is_absent(fields.value(name)) {
            clips.extend(fields.id(name).map(|id| (name.to_owned(), id)));
        }
    }
    for name in CLIP_LISTS {
        for (index, id) in fields.array(name, 20).into_iter().flatten().enumerate() {
            let param = format!("{name}[{index}]");
            match id.as_str().and_then(|id| id.parse().ok()) {
                Some(id) => clips.push((param, id)),
                None => {
                    fields.fault_at(param, ErrorCode::InvalidValue, "Must be the id of a clip.");
                }
            }
        }
    }
    let mut others = body.as_object()?.clone();
    if others.len() > MEMBERS {
        let message = format!("A submission has at most {MEMBERS} fields.");
        fields.fault("", ErrorCode::InvalidValue, message);
    }
    others.retain(|name, value| !OWN_FIELDS.contains(&name.as_str()) && !value.is_null());
    let persona = if is_absent(fields.value("persona_id")) {
        None
    } else {
        fields.id("persona_id")
    };
    Some(SongOrder {
        model: fields.filled_string("mv", 200),
        task,
        title: fields.filled_string("title", TITLE).unwrap_or_default(),
        generation_type: fields.string("generation_type", 64).unwrap_or_default(),
        make_instrumental: fields.boolean("make_instrumental").unwrap_or(false),
        fields: others,
        clips,
        persona,
    })
}

fn separation(body: &Fields<'_>) -> Option<Separation> {
    let source = if is_absent(body.value("continue_clip_id")) {
        body.fault(
            "continue_clip_id",
            ErrorCode::MissingField,
            "This field is required for gen_stem.",
        );
        None
    } else {
        body.id("continue_clip_id")
    };
    let stem_task = match body.filled_string("stem_task", 64).as_deref() {
        None | Some("two") => StemTask::Two,
        Some("twelve") => StemTask::Twelve,
        Some(_) => {
            body.fault(
                "stem_task",
                ErrorCode::InvalidValue,
                "Must be \"two\" or \"twelve\".",
            );
            StemTask::Two
        }
    };
    if body
        .integer("stem_type_id", i64::MIN..=i64::MAX)
        .is_some_and(|id| id != STEM_TYPE)
    {
        let message =
            format!("Must be {STEM_TYPE} or left out; the track is named by stem_type_group_name.");
        body.fault("stem_type_id", ErrorCode::InvalidValue, message);
    }
    let separation = |source| Separation {
        model: body.filled_string("mv", 200),
        source,
        source_task: body.id("task_id"),
        stem_task,
        group_name: body.filled_string("stem_type_group_name", 64),
        title: body.filled_string("title", TITLE),
        generation_type: body.string("generation_type", 64).unwrap_or_default(),
        make_instrumental: body.boolean("make_instrumental").unwrap_or(false),
    };
    // Read in any case, so that all faults are found.
    let separation = separation(source.unwrap_or_else(ClipId::new));
    source.map(|_| separation)
}

/// An empty string in an optional id means absent, as this family's clients send it.
fn is_absent(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value.as_str() == Some(""))
}

/// The body of an upload by address.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "documents what the reader below takes")]
pub struct UploadRequest {
    /// An http or https address of WAV, FLAC, MP3, AAC/M4A or OGG/Vorbis.
    url: String,
    /// Name for people.
    title: Option<String>,
}

/// Reads the body of an upload by address: the address and the title.
pub fn read_upload(body: &Value) -> Result<(String, Option<String>), Error> {
    fields::read(body, |body| {
        body.require("url");
        let url = body.string("url", 8_000);
        if url.as_deref() == Some("") {
            body.fault("url", ErrorCode::InvalidValue, "Must not be empty.");
        }
        let title = body.filled_string("title", TITLE);
        url.map(|url| (url, title))
    })
}

/// Reads the title of an upload by form.
pub fn read_title(title: &str) -> Result<Option<String>, Error> {
    fields::check_text(title, TITLE)
        .map_err(|why| Error::at(ErrorCode::InvalidValue, "title", why))?;
    Ok(Some(title.to_owned()).filter(|title| !title.is_empty()))
}

/// The body of a batch look-up.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "documents what the reader below takes")]
pub struct FetchRequest {
    /// Ids of tasks, at most 100.
    ids: Vec<String>,
}

/// Reads the body of a batch look-up. Ids that are none are left out, as
/// unknown ones are.
pub fn read_fetch(body: &Value) -> Result<Vec<TaskId>, Error> {
    fields::read(body, |body| {
        body.require("ids");
        let ids = body.array("ids", 100)?;
        let mut known = Vec::new();
        for (index, id) in ids.iter().enumerate() {
            match id {
                Value::String(id) => known.extend(id.parse::<TaskId>().ok()),
                _ => body.fault_at(
                    format!("ids[{index}]"),
                    ErrorCode::InvalidType,
                    "Must be a string.",
                ),
            }
        }
        Some(known)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ID: &str = "0193a000-0000-7000-8000-000000000020";

    #[test]
    fn the_requests_of_this_familys_clients_are_read() {
        let body = json!({"task": "gen_stem", "generation_type": "TEXT", "title": "", "mv": "chirp-auk", "prompt": "",
            "make_instrumental": true, "task_id": "", "continue_clip_id": ID, "continue_at": null,
            "stem_type_id": 91.0, "stem_type_group_name": "Twelve", "stem_task": "twelve"});
        let MusicOrder::Separation(order) = read(&body).unwrap() else {
            panic!("not a separation");
        };
        assert_eq!(order.stem_task, StemTask::Twelve);
        assert_eq!((order.title, order.source_task), (None, None));
        assert_eq!(order.group_name.as_deref(), Some("Twelve"));
    }

    #[test]
    fn a_song_needs_no_task() {
        for (body, task) in [
            (
                json!({"prompt": "[Verse] rain", "tags": "blues"}),
                "generate",
            ),
            (
                json!({"gpt_description_prompt": "about rain", "task": ""}),
                "generate",
            ),
            (
                json!({"lyrics": "rain", "make_instrumental": false}),
                "generate",
            ),
            (
                json!({"tags": "blues", "continue_clip_id": ID, "continue_at": 12.5}),
                "extend",
            ),
            (
                json!({"task": "generate", "prompt": "x", "continue_clip_id": ID}),
                "extend",
            ),
            (
                json!({"task": "cover", "prompt": "x", "cover_clip_id": ID}),
                "cover",
            ),
        ] {
            let MusicOrder::Song(order) = read(&body).unwrap() else {
                panic!("not a song: {body}");
            };
            assert_eq!(order.task, task, "{body}");
        }
        for (body, param) in [
            (json!({"prompt": "", "title": "x"}), "task"),
            (json!({"prompt": 1}), "prompt"),
            (json!({"prompt": "x", "seconds": "long"}), "seconds"),
            (json!({"prompt": "x", "continue_at": 3}), "continue_at"),
            (
                json!({"prompt": "x", "continue_clip_id": "y"}),
                "continue_clip_id",
            ),
            (json!({"lyrics": "x".repeat(10_001)}), "lyrics"),
        ] {
            assert_eq!(read(&body).unwrap_err().param(), Some(param), "{body}");
        }
    }

    #[test]
    fn every_fault_names_its_field() {
        let cases = [
            ("task", json!(null), "task"),
            ("task", json!(1), "task"),
            ("continue_clip_id", json!(null), "continue_clip_id"),
            ("continue_clip_id", json!(""), "continue_clip_id"),
            ("continue_clip_id", json!("x"), "continue_clip_id"),
            ("continue_clip_id", json!(7), "continue_clip_id"),
            ("task_id", json!("x"), "task_id"),
            ("stem_task", json!("three"), "stem_task"),
            ("stem_task", json!(2), "stem_task"),
            ("stem_type_id", json!(90), "stem_type_id"),
            ("stem_type_id", json!("91"), "stem_type_id"),
            ("stem_type_group_name", json!(1), "stem_type_group_name"),
            ("mv", json!([]), "mv"),
            ("title", json!("x".repeat(201)), "title"),
            ("generation_type", json!(1), "generation_type"),
            ("make_instrumental", json!("yes"), "make_instrumental"),
        ];
        for (field, value, param) in cases {
            let mut body = json!({"task": "gen_stem", "continue_clip_id": ID});
            body[field] = value;
            let error = read(&body).unwrap_err();
            let Error::Invalid(faults) = &error else {
                panic!("{error}")
            };
            assert_eq!(
                faults
                    .iter()
                    .map(|fault| fault.param.as_str())
                    .collect::<Vec<_>>(),
                [param],
                "{body}"
            );
        }
    }
}
