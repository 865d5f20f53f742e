//! Orders to a provider: complete, typed, with their media.

mod song;
mod video_options;

use std::fmt;

use bytes::Bytes;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::error::{ErrorClass, ProviderError};

pub use song::SongSpec;
pub use song::check_length;
pub use video_options::{Choice, VideoOptions};

/// The kind of media that an order makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MediaKind {
    /// Makes a video.
    Video,
    /// Works on music.
    Music,
}

impl MediaKind {
    /// `video` or `music`, in settings, records and databases.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Video => "video",
            Self::Music => "music",
        }
    }
}

impl fmt::Display for MediaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for MediaKind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Video, Self::Music]
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or(())
    }
}

/// An order to a provider.
#[derive(Debug, Clone)]
pub struct Order {
    /// Identifies this one submission; it is sent to providers that deduplicate by such a key.
    pub idempotency_key: String,
    /// The provider's own name of the model.
    pub model: String,
    /// What is to be made.
    pub work: WorkSpec,
    /// Fields that the operator adds to the body of the call that submits the order. They override
    /// those of the protocol.
    pub extra: Map<String, Value>,
}

impl Order {
    /// Whether it contains pictures or recordings.
    pub const fn has_files(&self) -> bool {
        match &self.work {
            WorkSpec::Video(video) => !video.pictures.is_empty(),
            WorkSpec::Song(song) => !song.uploads.is_empty(),
            WorkSpec::Stems(_) | WorkSpec::Persona(_) => true,
        }
    }

    /// Whether it contains pictures or recordings that the provider does not fetch from a URL of
    /// their own. No list shows which ones a job was made from.
    pub fn has_inline_files(&self) -> bool {
        let is_inline = |file: &MediaFile| file.url.is_none();
        match &self.work {
            WorkSpec::Video(video) => {
                let mut pictures = video.pictures.iter();
                pictures.any(|picture| is_inline(&picture.file))
            }
            WorkSpec::Song(song) => {
                let mut uploads = song.uploads.iter();
                uploads.any(|(_, recording)| is_inline(&recording.file))
            }
            WorkSpec::Stems(stems) => is_inline(&stems.source.file),
            WorkSpec::Persona(_) => true,
        }
    }

    /// A digest of what every list of jobs shows of an order: the model and the prompt. A list may
    /// not tell jobs of orders apart that have the same one. `None` if the fields that the operator
    /// adds may replace these.
    pub fn likeness(&self) -> Option<String> {
        if replaces_content(&self.extra) {
            return None;
        }
        let prompt = match &self.work {
            WorkSpec::Video(video) => video.prompt.as_str(),
            WorkSpec::Song(_) | WorkSpec::Stems(_) | WorkSpec::Persona(_) => "",
        };
        let mut digest = Sha256::new();
        for part in [self.work.kind().name(), &self.model, prompt] {
            digest.update(part.as_bytes());
            digest.update([0]);
        }
        let digest = <[u8; 32]>::from(digest.finalize());
        let beginning = u128::from_be_bytes(*digest.first_chunk()?);
        Some(format!("{beginning:032x}"))
    }

    /// The video, for a provider that makes nothing else.
    pub fn video(&self) -> Result<&VideoSpec, ProviderError> {
        match &self.work {
            WorkSpec::Video(video) => Ok(video),
            _ => Err(unsupported_work("this provider supports only videos")),
        }
    }

    /// The separation, for a provider that does nothing else.
    pub fn stems(&self) -> Result<&SeparationSpec, ProviderError> {
        match &self.work {
            WorkSpec::Stems(stems) => Ok(stems),
            _ => Err(unsupported_work(
                "this provider supports only stem separation",
            )),
        }
    }
}

/// Whether a field of this name, at any depth, is the prompt or the model.
fn replaces_content(fields: &Map<String, Value>) -> bool {
    fields.iter().any(|(name, value)| {
        let is_content = ["prompt", "model"].contains(&name.as_str());
        is_content || value.as_object().is_some_and(replaces_content)
    })
}

fn unsupported_work(message: &str) -> ProviderError {
    ProviderError::new(ErrorClass::Rejected, message)
}

/// What is to be made.
#[derive(Debug, Clone)]
pub enum WorkSpec {
    /// A video.
    Video(VideoSpec),
    /// The stems of a recording.
    Stems(SeparationSpec),
    /// A song, by the fields of the music API.
    Song(SongSpec),
    /// A persona.
    Persona(PersonaSpec),
}

impl WorkSpec {
    /// The kind of media.
    pub const fn kind(&self) -> MediaKind {
        match self {
            Self::Video(_) => MediaKind::Video,
            Self::Stems(_) | Self::Song(_) | Self::Persona(_) => MediaKind::Music,
        }
    }
}

/// A video. Everything is within the limits of [`crate::VideoLimits`].
#[derive(Debug, Clone)]
pub struct VideoSpec {
    /// What the video should show.
    pub prompt: String,
    /// What the caller chose. `audio` is `None` unless the request to the provider has to say
    /// whether the video has sound.
    pub options: VideoOptions,
    /// Source pictures: the first frame, then the last frame or references.
    pub pictures: Vec<SourcePicture>,
    /// Length in seconds.
    pub seconds: u32,
    /// Width and height in pixels.
    pub size: (u32, u32),
}

impl VideoSpec {
    /// The random seed, if the caller chose one.
    pub fn seed(&self) -> Option<u64> {
        self.options.seed.and_then(Choice::asked)
    }

    /// Whether the video has sound, if the request to the provider has to say so.
    pub fn audio(&self) -> Option<bool> {
        self.options.audio.map(Choice::value)
    }

    /// The picture in this role.
    pub fn picture(&self, role: PictureRole) -> Option<&MediaFile> {
        let picture = self.pictures.iter().find(|picture| picture.role == role);
        picture.map(|picture| &picture.file)
    }

    /// The first and the last frame, if present, each paired with its name from `names`.
    pub fn frames<N>(&self, names: [N; 2]) -> impl Iterator<Item = (N, &MediaFile)> {
        let roles = [PictureRole::FirstFrame, PictureRole::LastFrame];
        let named_roles = names.into_iter().zip(roles);
        named_roles.filter_map(|(name, role)| Some((name, self.picture(role)?)))
    }

    /// The pictures that are neither first nor last frame.
    pub fn references(&self) -> impl Iterator<Item = &MediaFile> {
        let pictures = self.pictures.iter();
        pictures
            .filter(|picture| picture.role == PictureRole::Reference)
            .map(|picture| &picture.file)
    }
}

/// An earlier message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationMessage {
    /// `system`, `user`, `assistant`, …
    pub role: String,
    /// The message.
    pub text: String,
}

/// What a picture is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PictureRole {
    /// The video begins with it.
    FirstFrame,
    /// The video ends with it.
    LastFrame,
    /// The video shows the picture's subject.
    Reference,
}

/// A source picture.
#[derive(Debug, Clone)]
pub struct SourcePicture {
    /// What it is for.
    pub role: PictureRole,
    /// The picture.
    pub file: MediaFile,
}

/// A file to send to a provider.
#[derive(Clone)]
pub struct MediaFile {
    /// Its name, with an extension that fits.
    pub name: String,
    /// The file's media type.
    pub mime: &'static str,
    /// The file's content.
    pub bytes: Bytes,
    /// An https URL from which anyone may fetch it for a few hours, if this gateway can be
    /// reached from outside.
    pub url: Option<String>,
}

impl MediaFile {
    /// The content in base64, without a prefix.
    pub fn base64(&self) -> String {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(&self.bytes)
    }

    /// The content as a `data:` URL.
    pub fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.mime, self.base64())
    }

    /// Its URL if it has one, otherwise a `data:` URL.
    pub fn url_or_data(&self) -> String {
        self.url.clone().unwrap_or_else(|| self.data_url())
    }
}

impl fmt::Debug for MediaFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({}, {} bytes)",
            self.name,
            self.mime,
            self.bytes.len()
        )
    }
}

/// A recording to be separated.
#[derive(Debug, Clone)]
pub struct SeparationSpec {
    /// The recording.
    pub source: SourceRecording,
    /// The requested stems, all of which the model can separate.
    pub targets: Vec<StemTarget>,
    /// Whether every group is requested, instead of one and the rest.
    pub full: bool,
    /// Display name.
    pub title: String,
}

impl SeparationSpec {
    /// The one group that is requested besides the rest; `None` for a full split.
    pub fn single_group(&self) -> Option<StemGroup> {
        if self.full {
            return None;
        }
        self.targets.iter().find_map(|target| match target {
            StemTarget::Only(group) | StemTarget::Without(group) => Some(*group),
            StemTarget::Other => None,
        })
    }
}

/// A recording that the gateway stores, and of which a provider may have a copy.
#[derive(Debug, Clone)]
pub struct SourceRecording {
    /// The recording.
    pub file: MediaFile,
    /// Its length in milliseconds.
    pub milliseconds: u64,
    /// Its identity at the provider that made it.
    pub upstream: Option<UpstreamClip>,
}

/// The ids of a clip at the provider that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamClip {
    /// The clip.
    pub clip_id: String,
    /// The task that it came from.
    pub task_id: Option<String>,
}

/// A persona made from clips of the provider.
#[derive(Debug, Clone)]
pub struct PersonaSpec {
    /// The clip that it is made from.
    pub root_clip: String,
    /// The provider's job that made this clip.
    pub root_job: Option<String>,
    /// All its clips, the root first.
    pub clips: Vec<String>,
    /// Display name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Whether it is public.
    pub is_public: bool,
}

/// The instrument groups of the music API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StemGroup {
    Vocals,
    BackingVocals,
    Drums,
    Bass,
    Guitar,
    Keyboard,
    Percussion,
    Strings,
    Synth,
    Fx,
    Brass,
    Woodwinds,
}

impl StemGroup {
    /// Every group, in the order of a full split.
    pub const ALL: &[Self] = &[
        Self::Vocals,
        Self::BackingVocals,
        Self::Drums,
        Self::Bass,
        Self::Guitar,
        Self::Keyboard,
        Self::Percussion,
        Self::Strings,
        Self::Synth,
        Self::Fx,
        Self::Brass,
        Self::Woodwinds,
    ];

    /// The name that callers see.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vocals => "Vocals",
            Self::BackingVocals => "Backing_Vocals",
            Self::Drums => "Drums",
            Self::Bass => "Bass",
            Self::Guitar => "Guitar",
            Self::Keyboard => "Keyboard",
            Self::Percussion => "Percussion",
            Self::Strings => "Strings",
            Self::Synth => "Synth",
            Self::Fx => "FX",
            Self::Brass => "Brass",
            Self::Woodwinds => "Woodwinds",
        }
    }

    /// Reads a name. Case is ignored; `_`, space and `-` are equivalent.
    pub fn from_name(text: &str) -> Option<Self> {
        let normalized = normalize_name(text);
        Self::ALL
            .iter()
            .copied()
            .find(|group| normalize_name(group.name()) == normalized)
    }
}

impl fmt::Display for StemGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Normalises a name for comparison.
pub fn normalize_name(name: &str) -> String {
    name.trim().to_lowercase().replace(['_', '-'], " ")
}

/// The content of one clip of a separation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StemTarget {
    /// This group.
    Only(StemGroup),
    /// Everything but this group.
    Without(StemGroup),
    /// The remainder of the mix without any of the groups.
    Other,
}

impl StemTarget {
    /// The name in `metadata.stem_type_group_name` and in the clip's title.
    pub fn name(self) -> String {
        match self {
            Self::Only(group) => group.name().to_owned(),
            Self::Without(StemGroup::Vocals) => "Instrumental".to_owned(),
            Self::Without(group) => format!("No {}", group.name()),
            Self::Other => "Other".to_owned(),
        }
    }
}
