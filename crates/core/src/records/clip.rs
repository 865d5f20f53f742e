//! Clips as callers see them: alone and in a task, or in a persona.

use std::borrow::Cow;

use serde::Serialize;
use utoipa::ToSchema;

use crate::records::Links;
use crate::records::music::{ClipOperation, RecordMetadata, VERSION};
use crate::records::provenance::ProvenanceView;
use crate::records::status_words;
use mediagate_model::account::Account;
use mediagate_model::media::MediaType;
use mediagate_model::music::{Clip, ClipOrigin, ClipUpstream};

/// Defines a record of a clip: the fields that all such records have, around those that only this
/// one has. Flattened structs would give another order, and a looser schema.
macro_rules! clip_record {
    (
        $(#[$about:meta])* $name:ident, metadata: $metadata:ty,
        within { $($(#[$within_about:meta])* $within:ident: $within_type:ty,)* }
        last { $($(#[$last_about:meta])* $last:ident: $last_type:ty,)* }
    ) => {
        $(#[$about])*
        #[derive(Debug, Serialize, ToSchema)]
        pub struct $name {
            /// The clip's id.
            pub id: String,
            /// Always `song_schema`.
            pub entity_type: &'static str,
            /// URL of the provider's video of the clip. Empty if there is none.
            pub video_url: String,
            /// URL of the audio as 24-bit FLAC. Empty until the clip is complete and after the file
            /// was removed.
            pub audio_url: String,
            /// URL of the cover. Empty until the clip is complete and after the file was removed.
            pub image_url: String,
            /// URL of the large cover. Empty until the clip is complete and after the file was
            /// removed.
            pub image_large_url: String,
            /// Version of the model.
            pub major_model_version: String,
            /// The model. Empty for an upload.
            pub model_name: String,
            /// What the clip is and how it was made.
            pub metadata: $metadata,
            /// Always false.
            pub is_liked: bool,
            /// The account's id.
            pub user_id: String,
            /// The account's name.
            pub display_name: String,
            /// The account's handle.
            pub handle: String,
            /// Always false.
            pub is_handle_updated: bool,
            /// URL of the account's image.
            pub avatar_image_url: String,
            /// Whether the clip is in the trash.
            pub is_trashed: bool,
            /// Always 0.
            pub flag_count: u32,
            $($(#[$within_about])* pub $within: $within_type,)*
            /// Time of creation, RFC 3339.
            pub created_at: String,
            /// `queued`, `streaming`, `complete` or `error`.
            pub status: &'static str,
            /// Title. Empty if the key may not read the clip.
            pub title: String,
            /// Always 0.
            pub play_count: u32,
            /// Always 0.
            pub upvote_count: u32,
            /// Always false.
            pub is_public: bool,
            /// Always false.
            pub allow_comments: bool,
            $($(#[$last_about])* pub $last: $last_type,)*
        }

        impl $name {
            fn build(
                (clip, account, links): (&Clip, &Account, &Links),
                metadata: $metadata,
                $($within: $within_type,)*
                $($last: $last_type,)*
            ) -> Self {
                let [audio_url, image_url, image_large_url] = links.made_clip_urls(clip);
                let is_upload = clip.origin == ClipOrigin::Upload;
                let version = if is_upload { "" } else { VERSION };
                Self {
                    id: clip.id.to_string(),
                    entity_type: "song_schema",
                    video_url: upstream_field(clip, |upstream| &upstream.video_url),
                    audio_url,
                    image_url,
                    image_large_url,
                    major_model_version: version.into(),
                    model_name: clip.model.clone(),
                    metadata,
                    is_liked: false,
                    user_id: account.id.to_string(),
                    display_name: account.display_name.clone(),
                    handle: account.handle.clone(),
                    is_handle_updated: false,
                    avatar_image_url: links.made_media(account.avatar, MediaType::Png, None),
                    is_trashed: clip.is_trashed,
                    flag_count: 0,
                    $($within,)*
                    created_at: clip.created_at.rfc3339(),
                    status: status_words::clip(clip.state),
                    title: links.made_title(clip),
                    play_count: 0,
                    upvote_count: 0,
                    is_public: false,
                    allow_comments: false,
                    $($last,)*
                }
            }
        }
    };
}

clip_record! {
    /// A clip, in a task record or alone.
    ClipRecord, metadata: RecordMetadata,
    within {}
    last {
        /// Empty, or a note if the media was removed.
        more: String,
        /// Provenance information in the audio file; for an upload or a song, as it was received.
        /// Absent until the clip is complete.
        #[serde(skip_serializing_if = "Option::is_none")]
        provenance: Option<ProvenanceView>,
    }
}

clip_record! {
    /// A clip in a persona.
    PersonaClip, metadata: PersonaClipMetadata,
    within {
        /// Always empty.
        display_tags: String,
    }
    last {}
}

/// Metadata of a persona's clip.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the documented fields")]
pub struct PersonaClipMetadata {
    /// Style, if a hosted provider made the clip; otherwise empty.
    pub tags: String,
    /// Prompt, if a hosted provider made the clip; otherwise empty.
    pub prompt: String,
    /// `gen` or `upload`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Measured length, in whole seconds.
    pub duration: u64,
    /// Always false.
    pub refund_credits: bool,
    /// Always false.
    pub stream: bool,
    /// Always true.
    pub can_remix: bool,
    /// Whether the clip was made from another clip.
    pub is_remix: bool,
    /// Always 0.
    pub priority: i64,
}

/// A field that a hosted provider reported for a clip; empty if none made it.
fn upstream_field(clip: &Clip, field: fn(&ClipUpstream) -> &String) -> String {
    clip.upstream
        .as_ref()
        .map(|upstream| field(upstream).clone())
        .unwrap_or_default()
}

/// A clip as a reader may see it. To one who may not read it, it only shows that it exists and of
/// what kind it is: neither its files nor its words.
fn visible_clip(clip: &Clip, is_readable: bool) -> Cow<'_, Clip> {
    if is_readable {
        return Cow::Borrowed(clip);
    }
    Cow::Owned(Clip {
        title: String::new(),
        media: None,
        upstream: None,
        provenance: None,
        notes: None,
        ..clip.clone()
    })
}

impl ClipRecord {
    /// A clip that the reader's own request makes, or that the reader may read.
    pub fn new(
        clip: &Clip,
        operation: ClipOperation<'_>,
        account: &Account,
        links: &Links,
    ) -> Self {
        let clip: &Clip = &visible_clip(clip, links.shows_made());
        let more = if clip.media_removed {
            "media removed: it expired"
        } else {
            ""
        };
        Self::build(
            (clip, account, links),
            RecordMetadata::of_clip(clip, operation),
            more.into(),
            clip.provenance.as_ref().map(ProvenanceView::new),
        )
    }
}

impl PersonaClip {
    /// A clip that a persona was made from. To make the persona is not to read the clip.
    pub fn new(
        clip: &Clip,
        operation: ClipOperation<'_>,
        account: &Account,
        links: &Links,
    ) -> Self {
        let clip: &Clip = &visible_clip(clip, links.shows_everything());
        let is_upload = clip.origin == ClipOrigin::Upload;
        let milliseconds = clip.media.map_or(0, |media| media.milliseconds);
        let metadata = PersonaClipMetadata {
            tags: upstream_field(clip, |upstream| &upstream.tags),
            prompt: upstream_field(clip, |upstream| &upstream.prompt),
            kind: if is_upload { "upload" } else { "gen" },
            duration: (milliseconds + 500) / 1000,
            refund_credits: false,
            stream: false,
            can_remix: true,
            is_remix: operation.is_remix(clip),
            priority: 0,
        };
        Self::build((clip, account, links), metadata, String::new())
    }
}
