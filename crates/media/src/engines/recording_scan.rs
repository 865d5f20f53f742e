//! Scan of a recording's beginning for its fingerprint, and of its sound for a watermark.

use std::path::Path;

use provenance::watermark::sound::SoundDetector;
use serde::{Deserialize, Serialize};
use stems::DecodeLimits;

use crate::engines::clip;
use crate::engines::fingerprints::{FINGERPRINT_SECONDS, FingerprintRecorder};
use mediagate_model::provenance::PerceptualFingerprint;

/// Seconds of a recording in which the watermark is looked for.
const SEARCHED_SECONDS: usize = 180;
/// Maximum length of a recording.
const MAX_SECONDS: u32 = 3600;

/// The fingerprint and watermark of a recording.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingScan {
    pub likeness: PerceptualFingerprint,
    /// Key id and media id of a watermark. The scan has no keys, so it leaves this out.
    pub mark: Option<(u32, u64)>,
}

/// Scans the beginning of a recording; `None` if the file is not a recording. Also returns the
/// sound in which a watermark can be looked for, if sound of its rate can have one.
pub fn scan_recording(
    file: &Path,
    is_running: &dyn Fn() -> bool,
) -> Option<(RecordingScan, Option<SoundDetector>)> {
    let limits = DecodeLimits {
        max_seconds: MAX_SECONDS,
        ..DecodeLimits::default()
    };
    let (recording, scan) = clip::open(file, &limits, is_running).ok()?;
    let mut recorder = FingerprintRecorder::new(scan.shape.rate);
    let mut detector = SoundDetector::new(scan.shape.rate).ok();
    let seconds = detector
        .as_ref()
        .map_or(FINGERPRINT_SECONDS, |_| SEARCHED_SECONDS);
    let max_frames = scan.shape.rate as usize * seconds;
    let mut frames = 0;
    // An error after the scanned part does not matter.
    drop(stems::decode::replay(
        &recording,
        &limits,
        &scan,
        &mut |samples| {
            recorder.push(samples);
            if let Some(detector) = &mut detector {
                detector.push_samples(samples);
            }
            frames += samples.first().map_or(0, Vec::len);
            frames < max_frames && is_running()
        },
    ));
    let fingerprint = Some(recorder.query_fingerprint()).filter(|print| print.sound.is_some())?;
    let scan = RecordingScan {
        likeness: fingerprint,
        mark: None,
    };
    Some((scan, detector))
}
