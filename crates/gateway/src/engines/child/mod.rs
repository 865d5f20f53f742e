//! Engines in a child of this program (`mediagate engine`), for jobs with which a
//! process died: the child is all that the next death ends.
//!
//! The parent (`outside`) writes an `Order` to the child's standard input; the
//! child (`inside`) limits itself, does the job, leaves what it made in a folder of
//! its own and says `Word`s on standard output, one a line, the last of them how it
//! ended. Names of files follow from the job and are never told.

mod inside;
mod outside;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::task::{StemsJob, VideoJob};

pub use inside::serve;
pub use outside::{Place, make_video, separate};

/// What a child is to do.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    job: Job,
    /// Where it leaves what it made.
    folder: PathBuf,
    limits: Limits,
    /// The process that waits for it.
    parent: u32,
}

#[derive(Debug, Serialize, Deserialize)]
enum Job {
    Video {
        job: VideoJob,
        picture: Option<PathBuf>,
    },
    Stems {
        job: StemsJob,
        source: PathBuf,
        model: Option<OwnModel>,
    },
}

/// A model of the operator, and where it is found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OwnModel {
    /// The models folder.
    pub folder: PathBuf,
    /// The library that runs it, where it is not the usual one.
    pub library: Option<PathBuf>,
    /// The model's name.
    pub name: String,
}

/// What a child may use; `None` is as much as it wants.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Limits {
    /// Address space in bytes.
    pub memory: Option<u64>,
    /// Seconds of all its threads together.
    pub cpu: Option<u64>,
}

impl Limits {
    /// For the engines of this program: more than twice what any job takes.
    pub const ENGINES: Self = Self {
        memory: Some(4 << 30),
        cpu: Some(3600),
    };

    /// For models of the operator, of which nobody else knows what they take.
    const OWN_MODELS: Self = Self {
        memory: None,
        cpu: None,
    };
}

/// What a child says.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Word {
    /// How far it is, in percent. Said several times a second.
    Progress(u8),
    /// It made a video: [`VIDEO`], [`POSTER`] and [`SHEET`].
    Video {
        width: u32,
        height: u32,
        milliseconds: u64,
        direction: Vec<String>,
    },
    /// It made clips, in the job's order: [`flac`] and [`cover`] of each.
    Clips(Vec<Clip>),
    /// The source cannot be used.
    Source(String),
    /// The engine failed.
    Broken(String),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Clip {
    size_bytes: u64,
    sha256: String,
    milliseconds: u64,
}

const VIDEO: &str = "video.mp4";
const POSTER: &str = "poster.jpg";
const SHEET: &str = "sheet.jpg";

fn flac(number: usize) -> String {
    format!("{number}.flac")
}

fn cover(number: usize) -> String {
    format!("{number}.png")
}

fn cover_large(number: usize) -> String {
    format!("{number}-large.png")
}
