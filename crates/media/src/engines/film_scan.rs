//! Scan of a film for its fingerprint and a poster, and of its frames for a watermark.
//!
//! The decoder is C++ and the film is untrusted, so the scan runs in a child process
//! ([`child`](super::child)).

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use animatic::playback;
use provenance::fingerprint::video::VideoPrint;
use provenance::watermark::VideoDetector;
use serde::{Deserialize, Serialize};

use crate::engines::{EngineControl, fingerprints};
use mediagate_model::provenance::PerceptualFingerprint;

/// Frames in which the watermark is looked for.
const WATERMARK_FRAMES: u32 = 240;
/// From 1 to 100.
const POSTER_QUALITY: u8 = 82;

/// Why a film is examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScanPurpose {
    /// To check an unknown film: two minutes at 25 frames a second, and the watermark.
    Check,
    /// To register a stored film: its beginning, and its first frame as a poster.
    Keep,
}

impl ScanPurpose {
    const fn frames(self) -> u32 {
        match self {
            Self::Check => 3000,
            Self::Keep => 300,
        }
    }

    /// Frames of the fingerprint, one for each second.
    const fn seconds(self) -> usize {
        match self {
            Self::Check => usize::MAX,
            Self::Keep => 5,
        }
    }
}

/// The results of a scan.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilmScan {
    /// The fingerprint for the registry, with the keys of a stored film.
    pub kept: PerceptualFingerprint,
    /// The fingerprint to search for.
    pub asked: PerceptualFingerprint,
    /// Key id and media id of a watermark. The scan has no keys, so it leaves this out.
    pub mark: Option<(u32, u64)>,
    /// Why the film could not be examined completely, in words for people.
    pub why: Option<String>,
}

impl FilmScan {
    pub fn nothing(why: impl Into<String>) -> Self {
        Self {
            why: Some(why.into()),
            ..Self::default()
        }
    }
}

/// A scanned film.
pub struct ScannedFrames {
    pub scan: FilmScan,
    /// JPEG.
    pub poster: Option<Vec<u8>>,
    /// The frames of a film that is checked, in which a watermark can be looked for.
    pub detector: Option<VideoDetector>,
}

/// Whether the film can be scanned at all. Decodes nothing, so it needs no child process.
pub fn can_be_scanned(file: &Path) -> Result<(), String> {
    let file = File::open(file).map_err(|error| error.to_string())?;
    playback::check_playable(BufReader::new(file)).map_err(|error| error.to_string())
}

/// Decodes the film. Blocks until it is done or stopped.
pub fn scan_film(
    file: &Path,
    purpose: ScanPurpose,
    engine_control: &EngineControl,
) -> ScannedFrames {
    let file = match File::open(file) {
        Ok(file) => BufReader::new(file),
        Err(error) => {
            return ScannedFrames {
                scan: FilmScan::nothing(error.to_string()),
                poster: None,
                detector: None,
            };
        }
    };
    let mut print = VideoPrint::default();
    let (mut detector, mut poster): (Option<VideoDetector>, _) = (None, None);
    let mut seconds = 0.0;
    let mut visit = |frame: playback::DecodedFrame<'_>| {
        if frame.number == 0 {
            match purpose {
                ScanPurpose::Check => detector = VideoDetector::new(frame.width, frame.height).ok(),
                ScanPurpose::Keep => poster = frame.picture(),
            }
        }
        if frame.number < WATERMARK_FRAMES
            && let Some(detector) = &mut detector
        {
            // A frame of another size does not belong to the marked film.
            let _ = detector.add(frame.luma, frame.stride);
        }
        // One frame a second, so that films of different rates can be compared.
        if f64::from(frame.number) >= seconds * frame.frames_per_second {
            seconds += 1.0;
            // A frame that is too small is ignored.
            let _ = print.add(frame.luma, frame.width, frame.height, frame.stride);
        }
        print.seconds() < purpose.seconds() && !engine_control.is_stopped()
    };
    let result = playback::play(file, purpose.frames(), &mut visit);
    let scan = FilmScan {
        kept: fingerprints::stored_video(&print),
        asked: fingerprints::query_video(&print),
        mark: None,
        why: result.err().map(|error| error.to_string()),
    };
    let poster = poster.and_then(|picture| picture.to_jpeg(POSTER_QUALITY).ok());
    ScannedFrames {
        scan,
        poster,
        detector,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use animatic::{Direction, RenderControl, RenderOptions, RenderRequest, RequestedOptions};

    use super::*;

    fn film() -> Vec<u8> {
        let prompt = "a lake";
        let requested = RequestedOptions {
            size: Some((480, 480)),
            seconds: Some(1.0),
            ..RequestedOptions::default()
        };
        let options = RenderOptions::resolve(&requested, &Direction::parse(prompt)).unwrap();
        let request = RenderRequest {
            picture: None,
            prompt,
            options,
        };
        animatic::make(&request, &mut RenderControl::unattended())
            .unwrap()
            .mp4
    }

    fn scan_bytes(file: &[u8]) -> (FilmScan, Option<Vec<u8>>) {
        let mut on_disk = tempfile::NamedTempFile::new().unwrap();
        on_disk.write_all(file).unwrap();
        let control = EngineControl::default();
        let scanned = scan_film(on_disk.path(), ScanPurpose::Keep, &control);
        (scanned.scan, scanned.poster)
    }

    #[test]
    fn a_stored_film_has_a_fingerprint_and_a_poster_and_a_broken_one_has_neither() {
        let film = film();
        let (scan, poster) = scan_bytes(&film);
        assert_eq!(poster.unwrap()[..2], [0xff, 0xd8]);
        assert!(scan.why.is_none() && !scan.kept.keys.is_empty());
        let (scan, poster) = scan_bytes(b"no film");
        assert!(scan.why.is_some() && scan.kept.video.is_none() && poster.is_none());
        // Whatever byte is damaged, the worst result is that nothing is found.
        for offset in (0..film.len()).step_by(film.len() / 100) {
            let mut broken = film.clone();
            broken[offset] ^= 0xff;
            drop(scan_bytes(&broken));
            drop(scan_bytes(&film[..offset]));
        }
    }
}
