//! Songs, and all other tasks of providers with the same music API.

use utoipa::openapi::{RefOr, Schema};

use super::callback::CallbackFields;
use super::music::{KNOWN_FIELDS, MAX_TITLE, SubmissionMembers, is_absent, is_nothing};
use super::terms::{self, TermsFields};
use crate::fields::types::{BooleanField, IdField, NumberField, OptionalText, TextField, texts};
use crate::fields::{BodyFields, FieldType, request, unknown_faults};
use mediagate_core::domain::songs::SongOrder;
use mediagate_model::attribution::MAX_USER;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::{ClipId, PersonaId};

/// Longest text of a song in characters.
const MAX_TEXT: usize = 10_000;
/// Longest name or id in characters.
const MAX_NAME: usize = 200;
/// Maximum number of clips in a list.
const MAX_CLIPS: usize = 20;
/// Maximum number of members of a submission for a provider.
const MAX_MEMBERS: usize = 100;
/// Members that this gateway handles itself; all others are passed to the provider.
const GATEWAY_MEMBERS: [&str; 7] = [
    "task",
    "mv",
    "task_id",
    "persona_id",
    "callback_url",
    "notify_hook",
    "webhook_url",
];

request! {
    /// The fields of a music task at a provider.
    pub(super) struct SongFields {
        /// Id of the clip to extend or to process. With this field, `generate` becomes `extend`.
        continue_clip_id: IdField<ClipId>,
        /// Id of the clip to cover.
        cover_clip_id: IdField<ClipId>,
        /// Id of the clip whose artist sings.
        artist_clip_id: IdField<ClipId>,
        /// Ids of clips whose style is used.
        playlist_clip_ids: ClipIds,
        /// Ids of the clips to combine into one.
        mashup_clip_ids: ClipIds,
        /// Id of the persona that sings.
        persona_id: IdField<PersonaId>,
        /// The music model. `chirp-*` names are also accepted.
        mv: OptionalText<200>,
        /// Title.
        title: OptionalText<MAX_TITLE>,
        /// Stored with the task. Clients usually send `TEXT`.
        generation_type: TextField<64>,
        /// Whether to create an instrumental song without lyrics.
        make_instrumental: BooleanField,
        /// Length in seconds, if the model supports it.
        seconds: NumberField<1, 3600>,
        /// Your id of the end user.
        user: OptionalText<MAX_USER>,
        .. members
    }
}

request! {
    /// The description of a song, for `generate` and `extend`.
    #[expect(dead_code, reason = "some fields are only checked")]
    pub(super) struct SongDescription {
        /// Lyrics, if another field describes the song; otherwise a description.
        prompt: TextField<MAX_TEXT>,
        /// Description of the song.
        gpt_description_prompt: TextField<MAX_TEXT>,
        /// Lyrics.
        lyrics: TextField<MAX_TEXT>,
        /// Style.
        tags: TextField<MAX_TEXT>,
        /// Styles to avoid.
        negative_tags: TextField<MAX_TEXT>,
        /// Position in the clip from which to extend it, in seconds.
        continue_at: NumberField<0, 36_000>,
    }
}

/// Whether any field describes the song.
pub(super) fn describes_song(members: &SubmissionMembers) -> bool {
    let fields = ["prompt", "gpt_description_prompt", "lyrics", "tags"];
    fields.iter().any(|name| !is_nothing(members.get(*name)))
}

pub(super) fn order(
    body: &BodyFields<'_>,
    task: String,
    description: Option<&SongDescription>,
) -> SongOrder {
    let continue_at = description.and_then(|description| description.continue_at);
    if continue_at.is_some() && is_absent(body, "continue_clip_id") {
        let message = "Requires continue_clip_id, the clip to extend.";
        body.fault("continue_at", ErrorCode::InvalidValue, message);
    }
    check_separation_fields(body);
    let request = SongFields::read(body);
    let mut members = request.members;
    if members.len() > MAX_MEMBERS {
        let message = format!("A request can have at most {MAX_MEMBERS} fields.");
        body.fault("", ErrorCode::InvalidValue, message);
    }
    // The rest reaches the provider as it is, because providers know more fields than are listed
    // here.
    let is_ours = |name: &str| GATEWAY_MEMBERS.contains(&name) || terms::NAMES.contains(&name);
    members.retain(|name, value| !is_ours(name) && !value.is_null());
    let single_clips = [
        ("continue_clip_id", request.continue_clip_id),
        ("cover_clip_id", request.cover_clip_id),
        ("artist_clip_id", request.artist_clip_id),
    ];
    let single_clips = single_clips
        .into_iter()
        .filter_map(|(name, id)| Some((name.to_owned(), id?)));
    let lists = [request.playlist_clip_ids, request.mashup_clip_ids];
    SongOrder {
        model: request.mv,
        task,
        title: request.title.unwrap_or_default(),
        generation_type: request.generation_type.unwrap_or_default(),
        make_instrumental: request.make_instrumental.unwrap_or(false),
        seconds: request.seconds,
        fields: members,
        // Providers of the music API itself know more fields than are listed here.
        unknown_fields: unknown_faults(body, &KNOWN_FIELDS),
        clips: single_clips
            .chain(lists.into_iter().flatten().flatten())
            .collect(),
        persona: request.persona_id,
        callback: CallbackFields::read(body).single_callback(body),
        terms: TermsFields::read(body).into_terms(),
        user: request.user,
    }
}

/// Checks the types of the fields that only a separation uses. Clients of this API send the same
/// body for every task.
fn check_separation_fields(body: &BodyFields<'_>) {
    for name in ["task_id", "stem_task", "stem_type_group_name"] {
        body.filled_string(name, MAX_NAME);
    }
    body.integer("stem_type_id", i64::MIN..=i64::MAX);
}

/// Ids of clips, each with its path in the body.
pub(super) struct ClipIds;

impl FieldType for ClipIds {
    type Value = Vec<(String, ClipId)>;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<Vec<(String, ClipId)>> {
        let mut clips = Vec::new();
        for (index, id) in body.array(name, MAX_CLIPS)?.iter().enumerate() {
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
        texts(MAX_CLIPS).into()
    }
}
