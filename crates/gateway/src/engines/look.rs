//! Looks at a film for what it is known by: its fingerprint, and a watermark of this deployment.
//!
//! The decoder is C++ and the film may be anybody's: [`child::look`](super::child::look) runs it in
//! a process of its own.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use animatic::playback;
use provenance::fingerprint::video::VideoPrint;
use provenance::watermark::Detector;
use serde::{Deserialize, Serialize};

use crate::engines::{Watch, likeness};
use crate::model::provenance::Likeness;
use crate::origin::WatermarkKey;

/// Frames that are decoded: two minutes at 25 a second.
const MOST_FRAMES: u32 = 3000;
/// Frames in which the watermark is looked for.
const SEARCHED: u32 = 240;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looked {
    /// For the registry, with the keys of a film that is kept.
    pub kept: Likeness,
    /// For a search.
    pub asked: Likeness,
    /// Key id and media id of a watermark.
    pub mark: Option<(u32, u64)>,
    /// Why nothing, or not everything, could be looked at; for people.
    pub why: Option<String>,
}

impl Looked {
    pub fn nothing(why: impl Into<String>) -> Self {
        Self {
            why: Some(why.into()),
            ..Self::default()
        }
    }
}

/// Whether looking is worth a process: decodes nothing.
pub fn can_be_tried(file: &Path) -> Result<(), String> {
    let file = File::open(file).map_err(|error| error.to_string())?;
    playback::can_be_tried(BufReader::new(file)).map_err(|error| error.to_string())
}

/// Decodes the film. Blocks until it is done or stopped.
pub fn look(file: &Path, keys: &[WatermarkKey], watch: &Watch) -> Looked {
    let file = match File::open(file) {
        Ok(file) => BufReader::new(file),
        Err(error) => return Looked::nothing(error.to_string()),
    };
    let mut print = VideoPrint::default();
    let mut detector: Option<Detector> = None;
    let mut seconds = 0.0;
    let mut visit = |luma: playback::Luma<'_>| {
        if luma.number == 0 {
            detector = Detector::new(luma.width, luma.height).ok();
        }
        if luma.number < SEARCHED
            && let Some(detector) = &mut detector
        {
            // A frame of another size is no part of what was marked.
            let _ = detector.add(luma.bytes, luma.stride);
        }
        if f64::from(luma.number) >= seconds * luma.per_second {
            seconds += 1.0;
            // A frame that is too small says nothing.
            let _ = print.add(luma.bytes, luma.width, luma.height, luma.stride);
        }
        !watch.is_stopped()
    };
    let played = playback::play(file, MOST_FRAMES, &mut visit);
    let mark = detector.and_then(|detector| {
        let keys = keys.iter().filter_map(WatermarkKey::key);
        let mut found = keys.filter_map(|key| detector.read(&key));
        found.next().map(|found| (found.key_id, found.media_id))
    });
    Looked {
        kept: likeness::of_video(&print),
        asked: likeness::of_asked_video(&print),
        mark,
        why: played.err().map(|error| error.to_string()),
    }
}
