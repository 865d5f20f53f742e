//! Perceptual fingerprints as they are stored, and the index keys that find them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use provenance::fingerprint::PrintMatch;
use provenance::fingerprint::sound::SoundPrint;
use provenance::fingerprint::video::VideoPrint;

use mediagate_model::provenance::PerceptualFingerprint;

/// Seconds of a recording that its fingerprint covers.
pub const FINGERPRINT_SECONDS: usize = 60;
/// How many frames of a stored film, and how many words of a stored recording, are in the index.
const INDEX_FRAMES: usize = 12;
const INDEX_WORDS: usize = 64;
/// The same numbers for a film or recording that is looked up.
const QUERY_FRAMES: usize = 24;
const QUERY_WORDS: usize = 128;
/// Keys of recordings are greater than those of films.
const SOUND_KEY_FLAG: i64 = 1 << 40;

/// The fingerprint of a stored film.
pub fn stored_video(print: &VideoPrint) -> PerceptualFingerprint {
    video(print, INDEX_FRAMES)
}

/// The fingerprint of a film that is looked up.
pub fn query_video(print: &VideoPrint) -> PerceptualFingerprint {
    video(print, QUERY_FRAMES)
}

fn video(print: &VideoPrint, frames: usize) -> PerceptualFingerprint {
    if print.seconds() == 0 {
        return PerceptualFingerprint::default();
    }
    let keys = print.keys(frames).into_iter();
    PerceptualFingerprint {
        video: Some(BASE64.encode(print.to_bytes())),
        sound: None,
        keys: keys.map(i64::from).collect(),
    }
}

/// Compares a stored film or recording with one that is looked up; `None` if they are not similar.
pub fn compare(
    stored: &PerceptualFingerprint,
    query: &PerceptualFingerprint,
) -> Option<(&'static str, PrintMatch)> {
    let bytes = |text: &Option<String>| BASE64.decode(text.as_deref()?).ok();
    let video = |text| VideoPrint::from_bytes(&bytes(text)?).ok();
    let sound = |text| SoundPrint::from_bytes(&bytes(text)?).ok();
    if let (Some(stored), Some(query)) = (video(&stored.video), video(&query.video))
        && let Some(matched) = stored.match_within_threshold(&query)
    {
        return Some(("video", matched));
    }
    let (stored, query) = (sound(&stored.sound)?, sound(&query.sound)?);
    Some(("sound", stored.match_within_threshold(&query)?))
}

/// Fingerprints the beginning of a recording.
pub struct FingerprintRecorder {
    rate: u32,
    mono: Vec<f32>,
}

impl FingerprintRecorder {
    pub fn new(rate: u32) -> Self {
        Self {
            rate,
            mono: Vec::new(),
        }
    }

    /// Adds the next samples of every channel.
    pub fn push(&mut self, samples: &[Vec<f32>]) {
        let remaining = (self.rate as usize * FINGERPRINT_SECONDS).saturating_sub(self.mono.len());
        let count = samples.first().map_or(0, Vec::len).min(remaining);
        let from = self.mono.len();
        self.mono.resize(from + count, 0.0);
        for channel in samples {
            for (sum, sample) in self.mono.iter_mut().skip(from).zip(channel) {
                *sum += sample;
            }
        }
    }

    /// The fingerprint of a stored recording.
    pub fn stored_fingerprint(&self) -> PerceptualFingerprint {
        self.fingerprint_with(INDEX_WORDS)
    }

    /// The fingerprint of a recording that is looked up.
    pub fn query_fingerprint(&self) -> PerceptualFingerprint {
        self.fingerprint_with(QUERY_WORDS)
    }

    fn fingerprint_with(&self, words: usize) -> PerceptualFingerprint {
        let Ok(print) = SoundPrint::from_mono(&self.mono, self.rate) else {
            return PerceptualFingerprint::default();
        };
        if print.words().is_empty() {
            return PerceptualFingerprint::default();
        }
        let keys = print.keys(words).into_iter();
        PerceptualFingerprint {
            video: None,
            sound: Some(BASE64.encode(print.to_bytes())),
            keys: keys.map(|word| SOUND_KEY_FLAG | i64::from(word)).collect(),
        }
    }
}
