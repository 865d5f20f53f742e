//! Songs, and whatever else a provider of the music dialect does.

use utoipa::openapi::{RefOr, Schema};

use super::callback::CallbackFields;
use super::music::{SubmissionMembers, TITLE, is_absent, is_nothing};
use crate::fields::types::{BooleanField, IdField, NumberField, OptionalText, TextField, texts};
use crate::fields::{BodyFields, FieldType, request};
use mediagate_core::domain::songs::SongOrder;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::{ClipId, PersonaId};

/// Longest text of a song in characters.
const WORDS: usize = 10_000;
/// Most clips of a list.
const CLIPS: usize = 20;
/// Most members of a submission for a provider.
const MEMBERS: usize = 100;
/// Members that this gateway settles itself; all others reach the provider.
const OWN: [&str; 7] = [
    "task",
    "mv",
    "task_id",
    "persona_id",
    "callback_url",
    "notify_hook",
    "webhook_url",
];

request! {
    /// A task for a provider, beside its name.
    pub(super) struct SongFields {
        /// The clip to extend, which makes `generate` an `extend`, or to work on.
        continue_clip_id: IdField<ClipId>,
        /// The clip to sing anew.
        cover_clip_id: IdField<ClipId>,
        /// The clip whose artist sings.
        artist_clip_id: IdField<ClipId>,
        /// Clips whose style is taken up.
        playlist_clip_ids: ClipIds,
        /// Clips to make one of.
        mashup_clip_ids: ClipIds,
        /// Who sings.
        persona_id: IdField<PersonaId>,
        /// The music model; `chirp-*` names are taken too.
        mv: OptionalText<200>,
        /// Name for people.
        title: OptionalText<TITLE>,
        /// Kept; `TEXT` is what clients send.
        generation_type: TextField<64>,
        /// Whether a song has no words.
        make_instrumental: BooleanField,
        .. members
    }
}

request! {
    /// What a song is made of; read for `generate` and `extend`.
    #[expect(dead_code, reason = "some fields are only checked")]
    pub(super) struct SongWords {
        /// A song's words, where something else says what it is like; else a description.
        prompt: TextField<WORDS>,
        /// What a song is about.
        gpt_description_prompt: TextField<WORDS>,
        /// A song's words.
        lyrics: TextField<WORDS>,
        /// A song's style.
        tags: TextField<WORDS>,
        /// What a song shall not sound like.
        negative_tags: TextField<WORDS>,
        /// A song's length, where the model lets it be chosen.
        seconds: NumberField<1, 3600>,
        /// Where the clip that is extended goes on, in seconds.
        continue_at: NumberField<0, 36_000>,
    }
}

/// Whether something says what a song is to be.
pub(super) fn says_what(members: &SubmissionMembers) -> bool {
    let words = ["prompt", "gpt_description_prompt", "lyrics", "tags"];
    words.iter().any(|name| !is_nothing(members.get(*name)))
}

pub(super) fn order(body: &BodyFields<'_>, task: String, words: Option<&SongWords>) -> SongOrder {
    let goes_on_at = words.and_then(|words| words.continue_at);
    if goes_on_at.is_some() && is_absent(body, "continue_clip_id") {
        let message = "Goes with continue_clip_id, the clip that is extended.";
        body.fault("continue_at", ErrorCode::InvalidValue, message);
    }
    let request = SongFields::read(body);
    let mut members = request.members;
    if members.len() > MEMBERS {
        let message = format!("A submission has at most {MEMBERS} fields.");
        body.fault("", ErrorCode::InvalidValue, message);
    }
    members.retain(|name, value| !OWN.contains(&name.as_str()) && !value.is_null());
    let single = [
        ("continue_clip_id", request.continue_clip_id),
        ("cover_clip_id", request.cover_clip_id),
        ("artist_clip_id", request.artist_clip_id),
    ];
    let single = single
        .into_iter()
        .filter_map(|(name, id)| Some((name.to_owned(), id?)));
    let lists = [request.playlist_clip_ids, request.mashup_clip_ids];
    SongOrder {
        model: request.mv,
        task,
        title: request.title.unwrap_or_default(),
        generation_type: request.generation_type.unwrap_or_default(),
        make_instrumental: request.make_instrumental.unwrap_or(false),
        fields: members,
        clips: single
            .chain(lists.into_iter().flatten().flatten())
            .collect(),
        persona: request.persona_id,
        callback: CallbackFields::read(body).callback(body),
    }
}

/// Ids of clips, each with its place.
pub(super) struct ClipIds;

impl FieldType for ClipIds {
    type Value = Vec<(String, ClipId)>;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<Vec<(String, ClipId)>> {
        let mut clips = Vec::new();
        for (index, id) in body.array(name, CLIPS)?.iter().enumerate() {
            let param = format!("{name}[{index}]");
            if let Some(id) = id.as_str().and_then(|id| id.parse().ok()) {
                clips.push((param, id));
            } else {
                let message = "Must be the id of a clip.";
                body.fault_at(param, ErrorCode::InvalidValue, message);
            }
        }
        Some(clips)
    }

    fn schema() -> RefOr<Schema> {
        texts(CLIPS).into()
    }
}
