//! Sound: a quiet bed of weather, water or place under a video, made from noise.
//!
//! No recording is played: every voice is filtered noise and decaying tones (a classic subtractive
//! synthesiser; see A. Farnell, *Designing Sound*, 2010, for the models), steered by slow random
//! walks, so nothing repeats however long it lasts. [`Ambience`] names the voices; `voices` holds
//! them, `dsp` their parts, `loudness` brings the sum to a quiet level and `aac` encodes it.
//!
//! This module knows nothing of prompts, pictures or files. The same kinds, length and seed give
//! the same samples.

pub(crate) mod aac;

mod dsp;
mod kinds;
mod loudness;
mod voice;
mod voices;

pub use kinds::Ambience;
pub(crate) use voice::RATE;
use voice::StereoSample;

/// Synthesises `samples` stereo samples of the kinds together, −26 LUFS loud, faded at both ends.
/// Silence when no kind is given.
pub(crate) fn synthesise(kinds: &[Ambience], samples: usize, seed: u64) -> Vec<StereoSample> {
    let mut kinds = kinds.to_vec();
    // Sums of floats depend on their order. Sorted, the same kinds give the same samples.
    kinds.sort_unstable();
    kinds.dedup();
    let mut mix = vec![[0.0; 2]; samples];
    for kind in kinds {
        let mut voice = voices::voice(kind, seed);
        let mut track: Vec<StereoSample> = (0..samples).map(|_| voice.next()).collect();
        // All kinds get the same loudness before they are summed.
        loudness::level(&mut track, LOUDNESS);
        for (sum, sample) in mix.iter_mut().zip(track) {
            *sum = [sum[0] + sample[0], sum[1] + sample[1]];
        }
    }
    loudness::level(&mut mix, LOUDNESS);
    loudness::limit(&mut mix);
    fade(&mut mix);
    mix
}

/// Raises the sound from silence and lets it fall back, so that nothing clicks.
fn fade(track: &mut [StereoSample]) {
    // In a film of a second, two full fades would meet.
    let length = FADE.min(track.len() / 4);
    let ends = track.len() - length;
    for i in 0..length {
        #[expect(clippy::cast_precision_loss, reason = "less than a second of samples")]
        let phase = i as f32 / length as f32 * std::f32::consts::FRAC_PI_2;
        let (rise, fall) = (phase.sin().powi(2), phase.cos().powi(2));
        track[i] = track[i].map(|s| s * rise);
        track[ends + i] = track[ends + i].map(|s| s * fall);
    }
    if let Some(last) = track.last_mut() {
        *last = [0.0; 2];
    }
}

/// In LUFS. A bed, not a performance: broadcast speech is at −23.
const LOUDNESS: f64 = -26.0;

/// Six tenths of a second.
const FADE: usize = RATE as usize * 6 / 10;

#[cfg(test)]
mod tests;
