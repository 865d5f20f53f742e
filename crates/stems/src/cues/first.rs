//! The first pass: cues measured on the mix.

use super::row::{Row, at, hertz};
use super::{change, harmonic, pitch, repeat, stereo};
use crate::parallel::{Stop, Stopped, both};
use crate::plane::Plane;
use crate::stft::{MAIN, Spectra};

/// All cues of one stretch of sound. Rows are computed on demand, to save memory.
pub(crate) struct Cues {
    bumps: Vec<f32>,
    pub(super) amplitude: Plane,
    stereo: stereo::Image,
    harmonic: harmonic::Shares,
    pub(super) change: change::Change,
    repeat: repeat::Repetition,
    melody: pitch::Line,
    melody2: pitch::Line,
    bass: pitch::Line,
}

impl Cues {
    /// Measures everything that needs more than one frame. `report` gets the finished part, 0 to 1.
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

    pub(crate) fn frames(&self) -> usize {
        self.amplitude.rows()
    }

    /// Writes the cues of frame `t`.
    pub(crate) fn fill(&self, t: usize, row: &mut Row) {
        for (i, bump) in self.bumps.chunks(MAIN.bins()).enumerate() {
            row.put(at::BUMPS + i, bump);
        }
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
