//! What can be measured about each time-frequency bin that hints at the source that made it.
//!
//! Thirty-one numbers a bin, all from classical work on separation, all scaled to about -1..1:
//! where it lies in frequency, where it sits in the stereo image (`stereo`), whether it is a line
//! in time or in frequency (`harmonic`), how it comes and goes (`change`), whether it comes back
//! (`repeat`), and whether it belongs to the sung melody or the bass line (`pitch`). This module
//! measures and never judges: what the numbers mean for the stems is up to [`crate::shares`].

mod change;
#[cfg(test)]
mod fixed;
mod harmonic;
mod pitch;
mod repeat;
mod second;
mod stereo;

pub(crate) use second::{COUNT as SECOND_COUNT, Second};

use crate::parallel::{Stop, Stopped, both};
use crate::plane::Plane;
use crate::stft::{MAIN, RATE, Spectra};

/// How many cues there are.
pub(crate) const COUNT: usize = 31;

/// The place of each cue in a bin's numbers. The order is fixed.
pub(crate) mod at {
    /// The first of nine Gaussian bumps over the logarithm of the frequency.
    pub(crate) const BUMPS: usize = 0;
    /// Likeness of left and right, -1..1; 1 is the centre (Avendano 2003).
    pub(crate) const CENTRE: usize = 9;
    /// Share of the difference signal, 0..1.
    pub(crate) const SIDE: usize = 10;
    /// Harmonic share at the main resolution (`FitzGerald` 2010).
    pub(crate) const MID: usize = 11;
    /// Harmonic share with a short window: singing still is a line in there.
    pub(crate) const SHORT: usize = 12;
    /// Harmonic share with a long window: only steady tones are lines in there.
    pub(crate) const LONG: usize = 13;
    /// How much louder the bin is than three frames before.
    pub(crate) const RISE: usize = 14;
    /// How much louder the bin is than three frames later.
    pub(crate) const FALL: usize = 15;
    /// How far it stands out among its neighbours in frequency.
    pub(crate) const PEAK_F: usize = 16;
    /// How far it stands out among its neighbours in time.
    pub(crate) const PEAK_T: usize = 17;
    /// Its level within its frame.
    pub(crate) const LEVEL: usize = 18;
    /// The frame's level within the sound.
    pub(crate) const FRAME_LEVEL: usize = 19;
    /// How much of an attack the frame is.
    pub(crate) const FRAME_ONSET: usize = 20;
    /// Whether the frame is brighter than usual.
    pub(crate) const FRAME_TILT: usize = 21;
    /// How much of the bin comes back at similar moments (Rafii & Pardo 2012).
    pub(crate) const REPEAT: usize = 22;
    /// The same for the percussive part alone.
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

/// All cues of one stretch of sound; rows are computed when asked for, to keep memory small.
pub(crate) struct Cues {
    bumps: Vec<f32>,
    amplitude: Plane,
    stereo: stereo::Image,
    harmonic: harmonic::Shares,
    change: change::Change,
    repeat: repeat::Repetition,
    melody: pitch::Line,
    melody2: pitch::Line,
    bass: pitch::Line,
}

impl Cues {
    /// Measures everything that needs more than one frame. `report` hears the finished part.
    pub(crate) fn measure(
        sound: &[Vec<f32>; 2],
        spectra: &[Spectra; 2],
        stop: Stop<'_>,
        report: &mut dyn FnMut(f32),
    ) -> Result<Self, Stopped> {
        let frames = MAIN.frames(sound[0].len());
        let amplitude = Plane::build(frames, MAIN.bins(), stop, |t, row| {
            for ((a, l), r) in row.iter_mut().zip(spectra[0].row(t)).zip(spectra[1].row(t)) {
                *a = (l.norm_sqr() + r.norm_sqr()).sqrt();
            }
        })?;
        let stereo = stereo::Image::measure(spectra, &amplitude, stop)?;
        report(0.1);
        let harmonic = harmonic::Shares::measure(sound, &amplitude, stop)?;
        report(0.5);
        let change = change::Change::measure(&amplitude, stop)?;
        report(0.6);
        let repeat = repeat::Repetition::measure(&amplitude, &harmonic.mid, stop)?;
        report(0.8);
        let ((melody, melody2), bass) = both(
            || {
                pitch::melodies(
                    &amplitude,
                    &stereo.centre,
                    &harmonic.short,
                    &repeat.all,
                    stop,
                )
            },
            || pitch::bass(&amplitude, &stereo.centre, &harmonic.long, stop),
        )?;
        report(1.0);
        let bumps = position_bumps();
        Ok(Self {
            bumps,
            amplitude,
            stereo,
            harmonic,
            change,
            repeat,
            melody,
            melody2,
            bass,
        })
    }

    /// The number of frames.
    pub(crate) fn frames(&self) -> usize {
        self.amplitude.rows()
    }

    /// Writes the cues of frame `t`.
    pub(crate) fn fill(&self, t: usize, row: &mut Row) {
        let bumps = at::BUMPS * MAIN.bins();
        row.values[bumps..bumps + self.bumps.len()].copy_from_slice(&self.bumps);
        row.put(at::CENTRE, self.stereo.centre.row(t));
        let sides = row.cue_mut(at::SIDE).iter_mut();
        sides
            .zip(self.stereo.centre.row(t))
            .for_each(|(side, centre)| *side = stereo::side(*centre));
        row.put(at::MID, self.harmonic.mid.row(t));
        row.put(at::SHORT, self.harmonic.short.row(t));
        row.put(at::LONG, self.harmonic.long.row(t));
        self.change.fill(t, row);
        row.put(at::REPEAT, self.repeat.all.row(t));
        row.put(at::REPEAT_P, self.repeat.percussive.row(t));
        self.fill_lines(t, row);
    }

    fn fill_lines(&self, t: usize, row: &mut Row) {
        self.melody.lobes(t, row.cue_mut(at::MELODY));
        self.melody2.lobes(t, row.cue_mut(at::MELODY2));
        self.bass.lobes(t, row.cue_mut(at::BASS));
        let voiced = self.melody.strength(t);
        row.cue_mut(at::VOICED).fill(voiced);
        row.cue_mut(at::BASS_ON).fill(self.bass.strength(t));
        for k in 0..MAIN.bins() {
            let melody = row.cue(at::MELODY)[k];
            let centre = row.cue(at::CENTRE)[k].clamp(0.0, 1.0);
            row.cue_mut(at::MELODY_C)[k] = melody * centre;
            let between = if voiced > 0.0 {
                (1.0 - melody) * pitch::above_bass(k)
            } else {
                0.0
            };
            row.cue_mut(at::BETWEEN)[k] = between;
        }
    }
}

/// The cues of one frame, cue by cue and bin by bin within.
pub(crate) struct Row {
    values: Vec<f32>,
}

impl Row {
    /// Room for one frame of so many cues.
    pub(crate) fn new(cues: usize) -> Self {
        Self {
            values: vec![0.0; cues * MAIN.bins()],
        }
    }

    /// How many cues there are.
    pub(crate) fn count(&self) -> usize {
        self.values.len() / self.bins()
    }

    /// How many bins each cue has.
    #[expect(clippy::unused_self, reason = "a row's width is the row's to tell")]
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

    fn put(&mut self, cue: usize, values: &[f32]) {
        self.cue_mut(cue).copy_from_slice(values);
    }
}

/// The frequency of a bin of the main resolution, in Hz.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub(crate) fn hertz(bin: usize) -> f32 {
    bin as f32 * RATE as f32 / MAIN.size as f32
}

/// Nine bumps over octaves above 20 Hz: smooth coordinates for "where in the spectrum".
fn position_bumps() -> Vec<f32> {
    const CENTRES: [f32; 9] = [0.8, 1.8, 2.8, 3.8, 4.8, 5.8, 7.0, 8.3, 9.6];
    CENTRES
        .iter()
        .flat_map(|centre| {
            (0..MAIN.bins()).map(move |k| {
                let octave = (hertz(k).max(20.0) / 20.0).log2();
                (-0.5 * ((octave - centre) / 0.6).powi(2)).exp()
            })
        })
        .collect()
}
