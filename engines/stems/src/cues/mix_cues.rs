//! Cues of the first pass, measured on the mix.

use super::row::{CueRow, at, hertz};
use super::{change, harmonic, pitch, repeat, stereo};
use crate::parallel::{CancelCheck, WorkCancelled, run_both};
use crate::plane::SpectralPlane;
use crate::stft::{ChannelSpectra, MAIN};

/// All cues of one stretch of sound. Rows are computed on demand, to save memory.
pub(crate) struct MixCues {
    bumps: Vec<f32>,
    pub(super) amplitude: SpectralPlane,
    stereo: stereo::StereoImage,
    harmonic: harmonic::HarmonicShares,
    pub(super) change: change::ChangeCues,
    repeat: repeat::RepetitionCues,
    melody: pitch::PitchLine,
    melody2: pitch::PitchLine,
    bass: pitch::PitchLine,
}

impl MixCues {
    /// Measures everything that needs more than one frame. `report` gets the finished part, 0 to 1.
    pub(crate) fn measure(
        sound: &[Vec<f32>; 2],
        spectra: &[ChannelSpectra; 2],
        stop: CancelCheck<'_>,
        report: &mut dyn FnMut(f32),
    ) -> Result<Self, WorkCancelled> {
        let frames = MAIN.frames(sound[0].len());
        // The root of both channels' power. A mono sum would lose what is out of phase between the
        // channels.
        let amplitude = SpectralPlane::build(frames, MAIN.bins(), stop, |t, row| {
            for ((a, l), r) in row.iter_mut().zip(spectra[0].row(t)).zip(spectra[1].row(t)) {
                *a = (l.norm_sqr() + r.norm_sqr()).sqrt();
            }
        })?;
        let stereo = stereo::StereoImage::measure(spectra, &amplitude, stop)?;
        report(0.1);
        let harmonic = harmonic::HarmonicShares::measure(sound, &amplitude, stop)?;
        report(0.5);
        let change = change::ChangeCues::measure(&amplitude, stop)?;
        report(0.6);
        let repeat = repeat::RepetitionCues::measure(&amplitude, &harmonic.mid, stop)?;
        report(0.8);
        // Pitch comes last, because it is tracked in a first estimate of the voice, which needs the
        // cues above.
        let ((melody, melody2), bass) = run_both(
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
    pub(crate) fn fill(&self, t: usize, row: &mut CueRow) {
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

    fn fill_lines(&self, t: usize, row: &mut CueRow) {
        self.melody.write_lobes(t, row.cue_mut(at::MELODY));
        self.melody2.write_lobes(t, row.cue_mut(at::MELODY2));
        self.bass.write_lobes(t, row.cue_mut(at::BASS));
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
