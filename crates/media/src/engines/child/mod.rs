//! Engines in a child of this program (`mediagate engine`): memory corruption in an encoder or a
//! decoder can only crash the child, never the gateway itself.
//!
//! `launcher` starts children. The parent (`parent_side`) makes the files that the child may write
//! (`result_files`) and writes a `ChildOrder` to the child's standard input. The child
//! (`child_side`) limits its resources, gives up the rights that the order does not need
//! (`confinement`, `allowed_calls`), runs the job, fills the files and writes `ChildMessage`s to
//! standard output, one per line. The last of them contains the outcome. File names follow from the
//! job and are not sent. The parent kills a child that takes too long (`job_clock`), and checks what
//! it left (`result_checks`). `confinement_proof` shows, before a gateway starts, that its children
//! are confined. `untrusted_media` is the parent's side for untrusted input: pictures,
//! recordings, credentials. A child that examines films examines several, because starting it costs
//! more than examining one.

#[cfg(target_os = "linux")]
mod allowed_calls;
mod child_side;
mod confinement;
mod confinement_proof;
mod job_clock;
mod launcher;
mod own_model_files;
mod parent_side;
mod result_checks;
mod result_files;
#[cfg(feature = "c2pa")]
mod signing;
#[cfg(test)]
mod tests;
mod untrusted_media;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::engines::clip::{CoverStyle, UnreadableRecording};
use crate::engines::film_scan::FilmScan;
use crate::engines::recording_scan::RecordingScan;
use crate::engines::retouch::RetouchOptions;
use crate::origin::{VerifiedCredentials, WatermarkPayload};
use mediagate_model::ids::ClipId;
use mediagate_model::music::RecordingNotes;
use mediagate_model::provenance::PerceptualFingerprint;
use mediagate_model::task::{StemsJob, VideoJob};

pub use child_side::serve;
pub use confinement::{ConfinementError, ConfinementWall};
pub use confinement_proof::prove_confinement;
pub use job_clock::{ChildClocks, ChildWork};
pub use launcher::ChildLauncher;
pub use parent_side::{ScannedFilm, make_video, scan_films, separate};
#[cfg(feature = "c2pa")]
pub use signing::{SignOrder, sign};
pub use untrusted_media::{check, clip_of, probe_picture, verify};

#[derive(Debug, Serialize, Deserialize)]
struct ChildOrder {
    job: ChildJob,
    /// Contains the files that the child may write. The parent has made them.
    folder: PathBuf,
    limits: ChildLimits,
    /// Process id of the parent.
    parent: u32,
    /// Whether a refused system call ends the child. Tests use this to prove that a job needs no
    /// call that is refused.
    #[serde(default)]
    is_strict: bool,
}

#[derive(Debug, Serialize, Deserialize)]
enum ChildJob {
    /// Decodes a picture for a film.
    Pixels { file: PathBuf },
    Video {
        job: VideoJob,
        picture: Option<RawPicture>,
        retouch: RetouchOptions,
    },
    /// Examines stored films.
    ScanFilms { films: Vec<PathBuf> },
    Stems {
        job: StemsJob,
        source: PathBuf,
        model: Option<OwnModel>,
        mark: Option<WatermarkPayload>,
    },
    /// Identifies a picture, and decodes it completely if `decodes`.
    Picture { file: PathBuf, decodes: bool },
    /// Converts a recording, or the sum of several, to a clip.
    Clip(ClipSources),
    /// Checks the provenance of a file. The keys of watermarks stay with the parent.
    Check { file: PathBuf, certificates: String },
    /// Verifies a file's credentials.
    Verify { file: PathBuf, certificates: String },
    #[cfg(feature = "c2pa")]
    Sign(SignOrder, signing::PublicSigner),
    /// Attempts what a confined child cannot do.
    Confinement(confinement_proof::ForbiddenAttempts),
}

/// A decoded picture in a file: rows of red, green, blue bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct RawPicture {
    file: PathBuf,
    width: u32,
    height: u32,
}

/// Recordings that become one clip.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClipSources {
    /// The id, from which the cover is drawn.
    pub clip: ClipId,
    pub sources: Vec<PathBuf>,
    pub most_seconds: u32,
    pub picture: CoverStyle,
}

/// The facts about a picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PictureFacts {
    /// The usual extension of its file's name.
    pub extension: String,
    /// In pixels, with orientation applied.
    pub width: u32,
    pub height: u32,
}

/// Why a picture cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadPicture {
    pub is_too_large: bool,
    /// The message for the task's owner.
    pub message: String,
}

/// The findings about a checked file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCheck {
    /// The verification of its credentials, if it has any that this program can verify.
    pub verified: Option<Result<VerifiedCredentials, String>>,
    pub looked: FilmScan,
    pub heard: Option<RecordingScan>,
}

/// An operator's model, and where to find it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OwnModel {
    /// The models folder.
    pub folder: PathBuf,
    /// The ONNX Runtime library, if not the default one.
    pub library: Option<PathBuf>,
    pub name: String,
}

/// Resource limits of a child; `None` is unlimited.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct ChildLimits {
    /// Address space in bytes.
    pub memory: Option<u64>,
    /// CPU seconds of all threads together.
    pub cpu: Option<u64>,
    /// Maximum size of a file that it writes, in bytes.
    pub file: Option<u64>,
}

impl ChildLimits {
    /// The limits for built-in engines: more than twice what any job needs.
    pub const ENGINES: Self = Self {
        memory: Some(4 << 30),
        cpu: Some(3600),
        file: Some(4 << 30),
    };

    /// The limits for examining films.
    const FILM_SCANS: Self = Self {
        memory: Some(2 << 30),
        cpu: Some(20),
        file: Some(1 << 30),
    };

    /// The limits for untrusted media: what the decoders' own limits allow, plus a margin.
    const MEDIA: Self = Self {
        memory: Some(2 << 30),
        cpu: Some(120),
        file: Some(2 << 30),
    };

    /// The limits for the operator's models, whose needs are unknown.
    const OWN_MODELS: Self = Self {
        memory: None,
        cpu: None,
        file: Some(4 << 30),
    };
}

/// A message from the child.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum ChildMessage {
    /// The child is confined and is about to read its input. The first message, unless it is
    /// [`Unconfined`](Self::Unconfined).
    Started,
    /// The child cannot confine itself, and has read nothing but its order.
    Unconfined(ConfinementError),
    /// Percent. Sent several times a second.
    Progress(u8),
    /// The picture is in [`PIXELS`].
    Pixels {
        width: u32,
        height: u32,
    },
    /// The video is in [`VIDEO`], [`POSTER`] and [`SHEET`].
    Video {
        width: u32,
        height: u32,
        milliseconds: u64,
        direction: Vec<String>,
        not_understood: Vec<String>,
        fingerprint: PerceptualFingerprint,
        is_marked: bool,
    },
    /// The findings about the next film, and the size of its poster, which is the next one in
    /// [`STILLS`].
    FilmScanned(FilmScan, Option<u64>),
    /// All films were examined.
    AllScanned,
    /// The clips, in the job's order, are in [`flac`] and [`cover`] files.
    Clips(Vec<ClipFacts>),
    /// The child will need this many bytes, and waits for a line on its input.
    Needs(u64),
    Picture(PictureFacts),
    BadPicture(BadPicture),
    /// A recording cannot be read.
    Unreadable(UnreadableRecording),
    /// What was collected for the search for watermarks is in [`FRAMES`] and [`SOUND`].
    Checked(Box<FileCheck>),
    Verified(Result<VerifiedCredentials, String>),
    Attempted(confinement_proof::AttemptReport),
    /// Bytes that are to be signed; the child waits for a line on its input.
    #[cfg(feature = "c2pa")]
    ToSign(Vec<u8>),
    /// A request for a time stamp; the child waits in the same way.
    #[cfg(feature = "c2pa")]
    ToStamp(Vec<u8>),
    /// The file is in [`SIGNED`].
    #[cfg(feature = "c2pa")]
    Signed(Result<(), String>),
    /// The source cannot be used.
    Source(String),
    /// The engine failed.
    Broken(String),
}

/// The facts about a clip that only its samples show.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct ClipFacts {
    milliseconds: u64,
    fingerprint: PerceptualFingerprint,
    is_marked: bool,
    notes: Option<RecordingNotes>,
}

impl ChildMessage {
    /// Whether more messages follow.
    const fn is_interim(&self) -> bool {
        match self {
            Self::Started | Self::FilmScanned(..) | Self::Needs(_) => true,
            #[cfg(feature = "c2pa")]
            Self::ToSign(_) | Self::ToStamp(_) => true,
            _ => false,
        }
    }
}

#[cfg(feature = "c2pa")]
const SIGNED: &str = "signed";
const PIXELS: &str = "pixels";
const FRAMES: &str = "frames";
const SOUND: &str = "sound";
const VIDEO: &str = "video.mp4";
const POSTER: &str = "poster.jpg";
const SHEET: &str = "sheet.jpg";
/// Posters in one file, one after the other: a file for each would cost more than the poster.
const STILLS: &str = "stills";

fn flac(index: usize) -> String {
    format!("{index}.flac")
}

fn cover(index: usize) -> String {
    format!("{index}.png")
}

fn cover_large(index: usize) -> String {
    format!("{index}-large.png")
}
