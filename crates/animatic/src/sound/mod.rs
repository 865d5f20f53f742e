//! Sound: a quiet bed of weather, water or place under a video, made from noise.
//!
//! No recording is played: every voice is filtered noise and decaying tones (a classic subtractive
//! synthesiser; see A. Farnell, *Designing Sound*, 2010, for the models), steered by slow random
//! walks, so nothing repeats however long it lasts. [`Ambience`] names the voices; `voices` holds
//! them, `dsp` their parts, `loudness` brings the sum to a gentle level and `aac` packs it.
//!
//! It knows nothing of prompts, pictures or files. The same kinds, length and seed give the same
//! samples.

pub(crate) mod aac;

mod dsp;
mod loudness;
mod voices;

/// A kind of ambience. Several may sound together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Ambience {
    /// Gusts over open land.
    Wind,
    /// Steady rain on leaves and stone.
    Rain,
    /// Thunder, rolling in every few seconds.
    Thunder,
    /// Waves that break and run back.
    Sea,
    /// A brook.
    Stream,
    /// Leaves and songbirds.
    Birds,
    /// Crickets of a warm night.
    Crickets,
    /// A crackling fire.
    Fire,
    /// Distant traffic.
    City,
    /// The nothing of a quiet room.
    RoomTone,
}

impl Ambience {
    /// Every kind.
    pub const ALL: &[Self] = &[
        Self::Wind,
        Self::Rain,
        Self::Thunder,
        Self::Sea,
        Self::Stream,
        Self::Birds,
        Self::Crickets,
        Self::Fire,
        Self::City,
        Self::RoomTone,
    ];

    /// The kind's name in a sentence or on a command line: `wind`, `room tone`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wind => "wind",
            Self::Rain => "rain",
            Self::Thunder => "thunder",
            Self::Sea => "sea",
            Self::Stream => "stream",
            Self::Birds => "birds",
            Self::Crickets => "crickets",
            Self::Fire => "fire",
            Self::City => "city",
            Self::RoomTone => "room tone",
        }
    }

    /// The kind of that [`Ambience::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// Samples per second of everything in this module.
pub(crate) const RATE: u32 = 48_000;

/// [`RATE`] for the formulas of filters.
const RATE_HZ: f32 = 48_000.0;

/// A left and a right sample.
type Stereo = [f32; 2];

/// A voice that can go on for ever.
trait Voice {
    /// The next sample, about −20 dB on average: `loudness` sets the final level.
    fn next(&mut self) -> Stereo;
}

/// Synthesises `samples` stereo samples of the kinds together, −26 LUFS loud, faded at both ends.
/// Silence when no kind is given.
pub(crate) fn synthesise(kinds: &[Ambience], samples: usize, seed: u64) -> Vec<Stereo> {
    let mut kinds = kinds.to_vec();
    kinds.sort_unstable();
    kinds.dedup();
    let mut mix = vec![[0.0; 2]; samples];
    for kind in kinds {
        let mut voice = voices::voice(kind, seed);
        let mut track: Vec<Stereo> = (0..samples).map(|_| voice.next()).collect();
        // Each is heard as loud as the others before they are summed.
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
fn fade(track: &mut [Stereo]) {
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

/// A bed, not a performance: broadcast speech is −23.
const LOUDNESS: f64 = -26.0;

/// Six tenths of a second.
const FADE: usize = RATE as usize * 6 / 10;

#[cfg(test)]
mod tests;
