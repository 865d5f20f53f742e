//! The submissions of the music API: one endpoint for all of its tasks.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use utoipa::openapi::schema::{AnyOfBuilder, Object};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::callback::CallbackFields;
use super::separation::SeparationFields;
use super::song::{SongDescription, SongFields};
use super::terms::TermsFields;
use super::{ApiOrder, OrderEndpoint, QuotableOrder, separation, song};
use crate::fields::request::{SchemaList, merge_objects, reference};
use crate::fields::types::OptionalText;
use crate::fields::{self, BodyFields, refuse_unknown, request};
use mediagate_core::app::App;
use mediagate_core::domain::music::SeparationOrder;
use mediagate_core::domain::order_terms::OrderTerms;
use mediagate_core::domain::quotes::QuotedOrder;
use mediagate_core::domain::songs::SongOrder;
use mediagate_core::records::music::GEN_STEM;
use mediagate_model::account::Scope;
use mediagate_model::error::{Error, ErrorCode};

/// Longest title in characters.
pub(super) const MAX_TITLE: usize = 200;
const GENERATE: &str = "generate";
const EXTEND: &str = "extend";

request! {
    /// The task to run.
    pub struct SubmitTask {
        /// The music task. `gen_stem` separates a clip. The other tasks depend on the configured
        /// providers. Default: `generate`, which creates a song, if a field describes the song.
        task: OptionalText<64>,
    }
}

/// A submission of any music task.
pub struct SubmitRequest;

impl SubmitRequest {
    fn separation() -> Object {
        let parts = [
            SubmitTask::object(),
            SeparationFields::object(),
            CallbackFields::object(),
            TermsFields::object(),
        ];
        merge_objects("A separation of a clip.", parts)
    }

    fn song() -> Object {
        let parts = [
            SubmitTask::object(),
            SongFields::object(),
            SongDescription::object(),
            CallbackFields::object(),
            TermsFields::object(),
        ];
        let description = "A song, or another music task of a provider. Providers of the music API \
                           itself get fields that are not listed, too. For others such a field is \
                           refused if it says what is made.";
        merge_objects(description, parts)
    }
}

impl PartialSchema for SubmitRequest {
    fn schema() -> RefOr<Schema> {
        let kinds = AnyOfBuilder::new().item(reference("SubmitSeparation"));
        kinds.item(reference("SubmitSong")).into()
    }
}

impl ToSchema for SubmitRequest {
    fn schemas(schemas: &mut SchemaList) {
        schemas.push(("SubmitSeparation".into(), Self::separation().into()));
        schemas.push(("SubmitSong".into(), Self::song().into()));
    }
}

/// The declared fields of a separation, and those of songs: clients of this API send the same body
/// for every task.
pub(super) static KNOWN_FIELDS: LazyLock<Object> =
    LazyLock::new(|| merge_objects("", [SubmitRequest::separation(), SubmitRequest::song()]));

/// A parsed submission.
#[derive(Debug)]
pub enum MusicOrder {
    /// Separate a clip.
    Separation(SeparationOrder),
    /// Another task of the music API.
    Song(SongOrder),
}

impl MusicOrder {
    pub fn terms_mut(&mut self) -> &mut OrderTerms {
        match self {
            Self::Separation(order) => &mut order.terms,
            Self::Song(order) => &mut order.terms,
        }
    }

    /// The caller's id of its end user.
    pub fn user(&self) -> Option<&str> {
        match self {
            Self::Separation(order) => order.user.as_deref(),
            Self::Song(order) => order.user.as_deref(),
        }
    }
}

impl ApiOrder for MusicOrder {
    const ENDPOINT: OrderEndpoint = OrderEndpoint {
        path: "/submit/music",
        is_branded: true,
        scope: Scope::MusicCreate,
    };
    type RequestBody = SubmitRequest;

    fn read(body: &Value) -> Result<Self, Error> {
        fields::read(body, |body| match task_of(body) {
            Some(task) if task != GEN_STEM => {
                let makes_song = [GENERATE, EXTEND].contains(&task.as_str());
                // Only for songs are these fields checked. For other tasks they are passed to the
                // provider unchecked.
                let words = makes_song.then(|| SongDescription::read(body));
                Some(Self::Song(song::order(body, task, words.as_ref())))
            }
            task => {
                // The fields of a separation are read even without a task, so that all faults are
                // found.
                refuse_unknown(body, &KNOWN_FIELDS);
                let separation = separation::order(body, SeparationFields::read(body));
                task.and(separation).map(Self::Separation)
            }
        })
    }

    fn identity(&self, _: &App) -> Option<Value> {
        Some(match self {
            Self::Separation(order) => separation_identity(order),
            Self::Song(order) => song_identity(order),
        })
    }
}

/// The identity of a separation; fields that are only stored are not part of it.
fn separation_identity(order: &SeparationOrder) -> Value {
    let identity = json!({
        "model": order.model,
        "source": order.source,
        "source_task": order.source_task,
        "stem_task": order.stem_task,
        "group_name": order.group_name,
        "title": order.title,
        "callback": order.callback.as_ref().map(|callback| &callback.url),
    });
    with_user(identity, order.user.as_deref())
}

/// The identity of a song. Its provider gets the fields as they were sent.
fn song_identity(order: &SongOrder) -> Value {
    let identity = json!({
        "model": order.model,
        "task": order.task,
        "fields": order.fields,
        "persona": order.persona,
        "callback": order.callback.as_ref().map(|callback| &callback.url),
    });
    with_user(identity, order.user.as_deref())
}

/// Adds the end user. An order without one keeps the identity that versions before end users give
/// it: its repetition may reach a process of another version.
fn with_user(mut identity: Value, user: Option<&str>) -> Value {
    if let Some(user) = user {
        identity["user"] = user.into();
    }
    identity
}

impl QuotableOrder for MusicOrder {
    fn quote_subject(self) -> QuotedOrder {
        match self {
            Self::Separation(order) => QuotedOrder::Separation(order),
            Self::Song(order) => QuotedOrder::Song(Box::new(order)),
        }
    }
}

/// The requested task.
fn task_of(body: &BodyFields<'_>) -> Option<String> {
    let requested = if is_absent(body, "task") {
        if !song::describes_song(body.members()) {
            let message = "This field is required.";
            body.fault("task", ErrorCode::MissingField, message);
            return None;
        }
        GENERATE.to_owned()
    } else {
        SubmitTask::read(body).task?
    };
    // Clients of this API send `generate` for `extend` too, and name the clip to extend.
    let extends_clip = requested == GENERATE && !is_absent(body, "continue_clip_id");
    Some(if extends_clip {
        EXTEND.to_owned()
    } else {
        requested
    })
}

/// Whether a field is absent. Clients of this API send an empty text for an absent field.
pub(super) fn is_absent(body: &BodyFields<'_>, name: &str) -> bool {
    is_nothing(body.members().get(name))
}

/// Whether a value is missing, `null` or an empty text, which all mean an absent field.
pub(super) fn is_nothing(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value.is_null() || value.as_str() == Some(""))
}

/// Members of a submission, by name.
pub(super) type SubmissionMembers = Map<String, Value>;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use mediagate_model::task::SeparationMode;

    const ID: &str = "0193a000-0000-7000-8000-000000000020";

    #[test]
    fn requests_of_clients_of_this_api_are_read() {
        let body = json!({"task": "gen_stem", "generation_type": "TEXT", "title": "", "mv": "chirp-auk", "prompt": "",
            "make_instrumental": true, "task_id": "", "continue_clip_id": ID, "continue_at": null,
            "stem_type_id": 91.0, "stem_type_group_name": "Twelve", "stem_task": "twelve"});
        let MusicOrder::Separation(order) = MusicOrder::read(&body).unwrap() else {
            panic!("not a separation");
        };
        assert_eq!(order.stem_task, SeparationMode::Twelve);
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
                json!({"gpt_description_prompt": "description rain", "task": ""}),
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
            let MusicOrder::Song(order) = MusicOrder::read(&body).unwrap() else {
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
            assert_eq!(
                MusicOrder::read(&body).unwrap_err().param(),
                Some(param),
                "{body}"
            );
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
            let error = MusicOrder::read(&body).unwrap_err();
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
