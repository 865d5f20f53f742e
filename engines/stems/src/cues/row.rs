//! The cue row: one frame's cues, by their indices.

use crate::stft::{MAIN, RATE};

pub(crate) const COUNT: usize = 31;

/// The index of each cue in a row. The order is fixed.
pub(crate) mod at {
    /// The first of nine Gaussian bumps over the logarithm of the frequency.
    pub(crate) const BUMPS: usize = 0;
    /// Likeness of left and right, -1..1; 1 is the centre (Avendano 2003).
    pub(crate) const CENTRE: usize = 9;
    /// Share of the difference signal, 0..1.
    pub(crate) const SIDE: usize = 10;
    /// Harmonic share at the main resolution (`FitzGerald` 2010).
    pub(crate) const MID: usize = 11;
    /// Harmonic share with a short window: singing is still a line here.
    pub(crate) const SHORT: usize = 12;
    /// Harmonic share with a long window: only steady tones are lines here.
    pub(crate) const LONG: usize = 13;
    /// How much louder the bin is than three frames before.
    pub(crate) const RISE: usize = 14;
    /// How much louder the bin is than three frames later.
    pub(crate) const FALL: usize = 15;
    /// How far the bin stands out among its neighbours in frequency.
    pub(crate) const PEAK_F: usize = 16;
    /// How far the bin stands out among its neighbours in time.
    pub(crate) const PEAK_T: usize = 17;
    /// The bin's level within its frame.
    pub(crate) const LEVEL: usize = 18;
    /// The frame's level within the sound.
    pub(crate) const FRAME_LEVEL: usize = 19;
    /// How much of an attack the frame is.
    pub(crate) const FRAME_ONSET: usize = 20;
    /// Whether the frame is brighter than usual.
    pub(crate) const FRAME_TILT: usize = 21;
    /// How much of the bin comes back at similar moments (Rafii & Pardo 2012).
    pub(crate) const REPEAT: usize = 22;
    /// `REPEAT` for the percussive part alone.
    pub(crate) const REPEAT_P: usize = 23;
    /// Closeness to a harmonic of the melody.
    pub(crate) const MELODY: usize = 24;
    /// Strength of the melody in this frame.
    pub(crate) const VOICED: usize = 25;
    /// `MELODY` where the bin is in the centre.
    pub(crate) const MELODY_C: usize = 26;
    /// Between the melody's harmonics while there is a melody.
    pub(crate) const BETWEEN: usize = 27;
    /// Closeness to a second melody's harmonics.
    pub(crate) const MELODY2: usize = 28;
    /// Closeness to a harmonic of the bass line.
    pub(crate) const BASS: usize = 29;
    /// Strength of the bass line in this frame.
    pub(crate) const BASS_ON: usize = 30;
}

/// The cues of one frame, cue by cue and bin by bin within.
pub(crate) struct CueRow {
    values: Vec<f32>,
}

impl CueRow {
    /// Zeros for one frame with `cues` cues.
    pub(crate) fn new(cues: usize) -> Self {
        Self {
            values: vec![0.0; cues * MAIN.bins()],
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.values.len() / self.bins()
    }

    #[expect(clippy::unused_self, reason = "callers ask a row for its width")]
    pub(crate) fn bins(&self) -> usize {
        MAIN.bins()
    }

    /// All bins of one cue, see [`at`].
    pub(crate) fn cue(&self, cue: usize) -> &[f32] {
        &self.values[cue * MAIN.bins()..(cue + 1) * MAIN.bins()]
    }

    pub(crate) fn cue_mut(&mut self, cue: usize) -> &mut [f32] {
        &mut self.values[cue * MAIN.bins()..(cue + 1) * MAIN.bins()]
    }

    pub(super) fn put(&mut self, cue: usize, values: &[f32]) {
        self.cue_mut(cue).copy_from_slice(values);
    }
}

/// The frequency of a bin of the main resolution, in Hz.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub(crate) fn hertz(bin: usize) -> f32 {
    bin as f32 * RATE as f32 / MAIN.size as f32
}
