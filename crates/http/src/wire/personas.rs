//! Personas.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema as _, ToSchema};

use mediagate_core::records::Links;
use mediagate_core::records::clip::PersonaClip;
use mediagate_core::records::music::ClipOperation;
use mediagate_model::account::Account;
use mediagate_model::error::Error;
use mediagate_model::media::MediaType;
use mediagate_model::music::{Clip, Persona};

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
    /// URL of the persona's image.
    pub image_s3_id: String,
    /// Id of the clip that the persona is made from.
    pub root_clip_id: String,
    /// The root clip. A key that may not read clips gets no URLs, title, prompt and style of it.
    pub clip: PersonaClip,
    /// The account's name.
    pub user_display_name: String,
    /// The account's handle.
    pub user_handle: String,
    /// URL of the account's image.
    pub user_image_url: String,
    /// All clips of the persona, root clip first.
    pub persona_clips: Vec<PersonaClipItem>,
    /// Always false. The operator can configure the name of this field.
    pub is_service_persona: bool,
    /// Whether the persona was deleted.
    pub is_trashed: bool,
    /// Always true: other accounts cannot see the persona.
    pub is_owned: bool,
    /// Whether the owner wants the persona to be public.
    pub is_public: bool,
    /// Whether the operator approved it as public.
    pub is_public_approved: bool,
    /// Always false.
    pub is_loved: bool,
    /// Always 0.
    pub upvote_count: u32,
    /// Number of clips.
    pub clip_count: usize,
}

/// A clip of a persona and its position.
#[derive(Debug, Serialize, ToSchema)]
pub struct PersonaClipItem {
    /// The clip.
    pub clip: PersonaClip,
    /// Position, starting at 0.
    pub id: usize,
}

impl PersonaRecord {
    /// Whether personas have a field of this name besides that of the brand, which would replace it.
    pub fn has_field(name: &str) -> bool {
        let RefOr::T(Schema::Object(record)) = Self::schema() else {
            return false;
        };
        name != BRAND_FIELD && record.properties.contains_key(name)
    }

    /// A persona and its clips, each with the operation that made it; `None` if its root clip is
    /// missing.
    pub fn new(
        persona: &Persona,
        clips: &[(&Clip, ClipOperation<'_>)],
        account: &Account,
        links: &Links,
    ) -> Option<Self> {
        let record = |(clip, operation): &(&Clip, ClipOperation<'_>)| {
            PersonaClip::new(clip, *operation, account, links)
        };
        let root = clips
            .iter()
            .find(|(clip, _)| clip.id == persona.root_clip)?;
        let items = clips.iter().enumerate();
        Some(Self {
            id: persona.id.to_string(),
            name: persona.name.clone(),
            description: persona.description.clone(),
            image_s3_id: links.made_media(persona.image, MediaType::Png, None),
            root_clip_id: persona.root_clip.to_string(),
            clip: record(root),
            user_display_name: account.display_name.clone(),
            user_handle: account.handle.clone(),
            user_image_url: links.made_media(account.avatar, MediaType::Png, None),
            persona_clips: items
                .map(|(id, clip)| PersonaClipItem {
                    clip: record(clip),
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
    pub fn to_json_with_brand(&self, brand_field: &str) -> Result<Value, Error> {
        let value = serde_json::to_value(self).map_err(Error::internal)?;
        let Value::Object(fields) = value else {
            return Ok(value);
        };
        // serde fixes field names at compile time; this one is a setting.
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
