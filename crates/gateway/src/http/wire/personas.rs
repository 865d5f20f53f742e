//! Personas.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::error::Error;
use crate::model::account::Account;
use crate::model::media::MediaType;
use crate::model::music::{Clip, ClipOrigin, Persona};
use crate::records::Base;
use crate::records::words;

/// The default name of the field that carries the brand.
pub const BRAND_FIELD: &str = "is_service_persona";

/// A persona.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the documented fields")]
pub struct PersonaRecord {
    /// The persona's id.
    pub id: String,
    /// Display name.
    pub name: String,
    /// The caller's description.
    pub description: String,
    /// URL of its picture.
    pub image_s3_id: String,
    /// The clip it is made from.
    pub root_clip_id: String,
    /// The root clip.
    pub clip: PersonaClip,
    /// The account's name.
    pub user_display_name: String,
    /// The account's handle.
    pub user_handle: String,
    /// The account's picture.
    pub user_image_url: String,
    /// All its clips, the root first.
    pub persona_clips: Vec<PersonaClipItem>,
    /// Always false; the field's name is configurable.
    pub is_service_persona: bool,
    /// Whether it was deleted.
    pub is_trashed: bool,
    /// Always true: others cannot see it.
    pub is_owned: bool,
    /// Whether its owner wants it public.
    pub is_public: bool,
    /// Whether the operator approved that.
    pub is_public_approved: bool,
    /// Always false.
    pub is_loved: bool,
    /// Always 0.
    pub upvote_count: u32,
    /// Number of its clips.
    pub clip_count: usize,
}

/// A clip of a persona with its position.
#[derive(Debug, Serialize, ToSchema)]
pub struct PersonaClipItem {
    /// The clip.
    pub clip: PersonaClip,
    /// Counts from 0.
    pub id: usize,
}

/// A clip in a persona.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the documented fields")]
pub struct PersonaClip {
    /// The clip's id.
    pub id: String,
    /// Always `song_schema`.
    pub entity_type: &'static str,
    /// Always empty: clips have no video.
    pub video_url: String,
    /// 24-bit FLAC; empty once removed.
    pub audio_url: String,
    /// Cover; empty once removed.
    pub image_url: String,
    /// Large cover; empty once removed.
    pub image_large_url: String,
    /// Version of the model.
    pub major_model_version: String,
    /// The model; empty for an upload.
    pub model_name: String,
    /// What it is.
    pub metadata: PersonaClipMetadata,
    /// Always false.
    pub is_liked: bool,
    /// The account.
    pub user_id: String,
    /// The account's name.
    pub display_name: String,
    /// The account's handle.
    pub handle: String,
    /// Always false.
    pub is_handle_updated: bool,
    /// The account's picture.
    pub avatar_image_url: String,
    /// Whether it is in the trash.
    pub is_trashed: bool,
    /// Always 0.
    pub flag_count: u32,
    /// Always empty.
    pub display_tags: String,
    /// RFC 3339.
    pub created_at: String,
    /// `queued`, `streaming`, `complete` or `error`.
    pub status: &'static str,
    /// Title.
    pub title: String,
    /// Always 0.
    pub play_count: u32,
    /// Always 0.
    pub upvote_count: u32,
    /// Always false.
    pub is_public: bool,
    /// Always false.
    pub allow_comments: bool,
}

/// What a persona's clip is.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the documented fields")]
pub struct PersonaClipMetadata {
    /// Always empty.
    pub tags: String,
    /// Always empty.
    pub prompt: String,
    /// `gen`, or `upload`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Measured length in whole seconds.
    pub duration: u64,
    /// Always false.
    pub refund_credits: bool,
    /// Always false.
    pub stream: bool,
    /// Always true.
    pub can_remix: bool,
    /// Whether it was made from another clip.
    pub is_remix: bool,
    /// Always 0.
    pub priority: i64,
}

impl PersonaClip {
    fn new(clip: &Clip, account: &Account, base: &Base) -> Self {
        let is_upload = clip.origin == ClipOrigin::Upload;
        let [audio_url, image_url, image_large_url] = base.files(clip);
        Self {
            id: clip.id.to_string(),
            entity_type: "song_schema",
            video_url: clip
                .upstream
                .as_ref()
                .map_or_else(String::new, |upstream| upstream.video_url.clone()),
            audio_url,
            image_url,
            image_large_url,
            major_model_version: if is_upload {
                String::new()
            } else {
                "v1".into()
            },
            model_name: clip.model.clone(),
            metadata: PersonaClipMetadata {
                tags: clip
                    .upstream
                    .as_ref()
                    .map_or_else(String::new, |upstream| upstream.tags.clone()),
                prompt: clip
                    .upstream
                    .as_ref()
                    .map_or_else(String::new, |upstream| upstream.prompt.clone()),
                kind: if is_upload { "upload" } else { "gen" },
                duration: clip
                    .media
                    .map_or(0, |media| (media.milliseconds + 500) / 1000),
                refund_credits: false,
                stream: false,
                can_remix: true,
                is_remix: !is_upload,
                priority: 0,
            },
            is_liked: false,
            user_id: account.id.to_string(),
            display_name: account.display_name.clone(),
            handle: account.handle.clone(),
            is_handle_updated: false,
            avatar_image_url: base.media(account.avatar, MediaType::Png, None),
            is_trashed: clip.is_trashed,
            flag_count: 0,
            display_tags: String::new(),
            created_at: clip.created_at.rfc3339(),
            status: words::clip(clip.state),
            title: clip.title.clone(),
            play_count: 0,
            upvote_count: 0,
            is_public: false,
            allow_comments: false,
        }
    }
}

impl PersonaRecord {
    /// A persona and its clips, the root first; `None` without clips.
    pub fn new(persona: &Persona, clips: &[Clip], account: &Account, base: &Base) -> Option<Self> {
        let root = clips.iter().find(|clip| clip.id == persona.root_clip)?;
        let items = clips.iter().enumerate();
        Some(Self {
            id: persona.id.to_string(),
            name: persona.name.clone(),
            description: persona.description.clone(),
            image_s3_id: base.media(persona.image, MediaType::Png, None),
            root_clip_id: persona.root_clip.to_string(),
            clip: PersonaClip::new(root, account, base),
            user_display_name: account.display_name.clone(),
            user_handle: account.handle.clone(),
            user_image_url: base.media(account.avatar, MediaType::Png, None),
            persona_clips: items
                .map(|(id, clip)| PersonaClipItem {
                    clip: PersonaClip::new(clip, account, base),
                    id,
                })
                .collect(),
            is_service_persona: false,
            is_trashed: false,
            is_owned: true,
            is_public: persona.is_public,
            is_public_approved: persona.is_public_approved,
            is_loved: false,
            upvote_count: 0,
            clip_count: clips.len(),
        })
    }

    /// The record as JSON, with the brand field under its configured name.
    pub fn branded(&self, brand_field: &str) -> Result<Value, Error> {
        let value = serde_json::to_value(self).map_err(Error::internal)?;
        let Value::Object(fields) = value else {
            return Ok(value);
        };
        let renamed: Map<String, Value> = fields
            .into_iter()
            .map(|(name, value)| {
                if name == BRAND_FIELD {
                    (brand_field.to_owned(), value)
                } else {
                    (name, value)
                }
            })
            .collect();
        Ok(Value::Object(renamed))
    }
}
