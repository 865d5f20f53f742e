//! Cues of the second pass, measured on the first pass's estimates.
//!
//! This is one round of backfitting: an estimate of every stem allows more measurements, namely how
//! much of each stem there is around a bin, the voice's pitch in the voice alone, repetition in the
//! voice and in the rest separately, and how well a bin's stereo position fits each stem's position
//! at that frequency. The first pass cannot measure these, because the stems mask each other in the
//! mix.

use super::mix_cues::MixCues;
use super::row::CueRow;
use super::{harmonic, pitch, repeat};
use crate::parallel::{CancelCheck, WorkCancelled, run_both};
use crate::plane::{SpectralPlane, running_mean};
use crate::shares::StemShares;
use crate::stem::STEMS;
use crate::stft::{ChannelSpectra, MAIN};
use crate::wiener::WienerFilter;

/// Number of cues in the second pass, including the first's.
pub(crate) const COUNT: usize = index::SIDES + 2 * NEIGHBOURS.len();

/// Indices of the second pass's own cues; the first pass's come before.
mod index {
    use crate::cues::row::{COUNT, at};
    use crate::stem::STEMS;

    /// The first pass's four shares.
    pub(super) const SHARES: usize = COUNT;
    /// Local means of the shares of vocals, drums, bass: over time, over frequency, over frames.
    pub(super) const OVER_TIME: usize = SHARES + STEMS;
    pub(super) const OVER_BINS: usize = OVER_TIME + 3;
    pub(super) const OVER_FRAMES: usize = OVER_BINS + 3;
    /// Harmonics and strength of the pitches in the voice and in the bass.
    pub(super) const VOICE: usize = OVER_FRAMES + 3;
    pub(super) const VOICE_ON: usize = VOICE + 1;
    pub(super) const BASS: usize = VOICE + 2;
    pub(super) const BASS_ON: usize = VOICE + 3;
    /// The repeating parts of the voice, of everything else, and of the drums.
    pub(super) const REPEAT_V: usize = VOICE + 4;
    pub(super) const REPEAT_I: usize = VOICE + 5;
    pub(super) const REPEAT_D: usize = VOICE + 6;
    /// Harmonic share of everything but drums, and the sustained part of the bass.
    pub(super) const HARMONIC: usize = VOICE + 7;
    pub(super) const SUSTAIN: usize = VOICE + 8;
    /// How likely the bin's stereo image is under each stem's usual one.
    pub(super) const POSITIONS: usize = VOICE + 9;
    /// The neighbouring bins' levels.
    pub(super) const SIDES: usize = POSITIONS + STEMS;

    const _: () = assert!(at::BASS_ON + 1 == SHARES);
}

/// Offsets of neighbours, in bins or frames.
const NEIGHBOURS: [isize; 4] = [-2, -1, 1, 2];

/// Stems whose neighbourhoods are measured: vocals, drums and bass. The share of the rest follows
/// from theirs.
const MEASURED_STEMS: usize = 3;

pub(crate) struct EstimateCues<'a> {
    first: &'a MixCues,
    shares: &'a StemShares,
    spectra: &'a [ChannelSpectra; 2],
    /// Per frame: each measured stem's part of its energy, smoothed over half a second.
    frames: Vec<[f32; MEASURED_STEMS]>,
    voice: pitch::PitchLine,
    bass: pitch::PitchLine,
    repeat_v: SpectralPlane,
    repeat_i: SpectralPlane,
    repeat_d: SpectralPlane,
    harmonic: SpectralPlane,
    sustain: SpectralPlane,
    positions: WienerFilter,
}

impl<'a> EstimateCues<'a> {
    /// Measures everything that needs more than one frame. `report` gets the finished part, 0 to 1.
    pub(crate) fn measure(
        first: &'a MixCues,
        shares: &'a StemShares,
        spectra: &'a [ChannelSpectra; 2],
        stop: CancelCheck<'_>,
        report: &mut dyn FnMut(f32),
    ) -> Result<Self, WorkCancelled> {
        let amplitude = &first.amplitude;
        let part = |share: &(dyn Fn(usize, usize) -> f32 + Sync)| {
            SpectralPlane::build(amplitude.rows(), amplitude.width(), stop, |t, row| {
                for (k, (out, a)) in row.iter_mut().zip(amplitude.row(t)).enumerate() {
                    *out = a * share(t, k);
                }
            })
        };
        let bass = part(&|t, k| shares.stem(t, 2)[k])?;
        let sustained = bass.median_over_time(9, stop)?;
        let sustain = SpectralPlane::build(amplitude.rows(), amplitude.width(), stop, |t, row| {
            for ((out, m), a) in row.iter_mut().zip(sustained.row(t)).zip(amplitude.row(t)) {
                *out = m.min(*a) / (a + EPS);
            }
        })?;
        // A plane of one block takes 8 MB, so each is dropped as soon as nothing needs it.
        drop(sustained);
        report(0.1);
        // Most bins of an estimated voice are nearly empty. Without a floor, the ratio of two tiny
        // numbers would count as repetition.
        let floor = 1e-4 * amplitude.max() + EPS;
        let ((voice, bass_line), repeat_v) = {
            let plane = part(&|t, k| shares.stem(t, 0)[k])?;
            let tracked = run_both(
                || pitch::pitch_in_voice(&plane, stop),
                || pitch::pitch_in_bass(&bass, stop),
            )?;
            (tracked, repeat::repeating(&plane, 15, 43, floor, stop)?)
        };
        drop(bass);
        report(0.5);
        let repeat_i = repeat::repeating(
            &part(&|t, k| 1.0 - shares.stem(t, 0)[k])?,
            15,
            43,
            EPS,
            stop,
        )?;
        let repeat_d = repeat::repeating(&part(&|t, k| shares.stem(t, 1)[k])?, 9, 21, EPS, stop)?;
        report(0.8);
        let harmonic = harmonic::share(&part(&|t, k| 1.0 - shares.stem(t, 1)[k])?, 17, 31, stop)?;
        let positions = shares.spatial_filter(spectra, DIFFUSE_SHARE, stop)?;
        report(1.0);
        Ok(Self {
            first,
            shares,
            spectra,
            frames: frame_parts(amplitude, shares),
            voice,
            bass: bass_line,
            repeat_v,
            repeat_i,
            repeat_d,
            harmonic,
            sustain,
            positions,
        })
    }

    /// Writes the cues of frame `t`, including the first pass's.
    pub(crate) fn fill(&self, t: usize, row: &mut CueRow) {
        self.first.fill(t, row);
        for stem in 0..STEMS {
            row.put(index::SHARES + stem, self.shares.stem(t, stem));
        }
        self.fill_neighbourhood(t, row);
        for stem in 0..MEASURED_STEMS {
            row.cue_mut(index::OVER_FRAMES + stem)
                .fill(self.frames[t][stem]);
        }
        self.voice.write_lobes(t, row.cue_mut(index::VOICE));
        row.cue_mut(index::VOICE_ON).fill(self.voice.strength(t));
        self.bass.write_lobes(t, row.cue_mut(index::BASS));
        row.cue_mut(index::BASS_ON).fill(self.bass.strength(t));
        row.put(index::REPEAT_V, self.repeat_v.row(t));
        let (voice, drums) = (self.shares.stem(t, 0), self.shares.stem(t, 1));
        for k in 0..MAIN.bins() {
            row.cue_mut(index::REPEAT_I)[k] = self.repeat_i.row(t)[k] * (1.0 - voice[k]);
            row.cue_mut(index::REPEAT_D)[k] = self.repeat_d.row(t)[k] * drums[k];
        }
        row.put(index::HARMONIC, self.harmonic.row(t));
        row.put(index::SUSTAIN, self.sustain.row(t));
        self.fill_positions(t, row);
        self.fill_sides(t, row);
    }

    /// Each stem's share of the power in the nine frames and the nine bins around each bin: a
    /// single bin's share is noisy, and stems come in patches.
    fn fill_neighbourhood(&self, t: usize, row: &mut CueRow) {
        let bins = MAIN.bins();
        let neighbourhood = self.first.amplitude.near(t, REACH);
        let mut power = vec![EPS; bins];
        let mut parts = vec![vec![0.0; bins]; MEASURED_STEMS];
        for t in neighbourhood {
            let amplitude = self.first.amplitude.row(t);
            power
                .iter_mut()
                .zip(amplitude)
                .for_each(|(p, a)| *p += a * a);
            for (stem, part) in parts.iter_mut().enumerate() {
                let shares = self.shares.stem(t, stem);
                for ((part, a), share) in part.iter_mut().zip(amplitude).zip(shares) {
                    *part += a * a * share;
                }
            }
        }
        for (stem, part) in parts.iter().enumerate() {
            let out = row.cue_mut(index::OVER_TIME + stem);
            out.iter_mut()
                .zip(part)
                .zip(&power)
                .for_each(|((out, x), p)| *out = x / p);
        }
        let bin_powers: Vec<f32> = self.first.amplitude.row(t).iter().map(|a| a * a).collect();
        running_mean(&bin_powers, 2 * REACH + 1, &mut power);
        let mut weighted = vec![0.0; bins];
        for stem in 0..MEASURED_STEMS {
            let shares = self.shares.stem(t, stem);
            weighted
                .iter_mut()
                .zip(&bin_powers)
                .zip(shares)
                .for_each(|((w, p), s)| *w = p * s);
            let out = row.cue_mut(index::OVER_BINS + stem);
            running_mean(&weighted, 2 * REACH + 1, out);
            out.iter_mut()
                .zip(&power)
                .for_each(|(out, p)| *out /= p + EPS);
        }
    }

    fn fill_positions(&self, t: usize, row: &mut CueRow) {
        let (left, right) = (self.spectra[0].row(t), self.spectra[1].row(t));
        for k in 0..MAIN.bins() {
            let likelihoods = self.positions.likelihoods(k, [left[k], right[k]]);
            // Only the differences between stems matter. The mean of the four shows how untypical
            // the bin is for all of them.
            let mean = likelihoods.iter().sum::<f32>() * 0.25;
            for (stem, likelihood) in likelihoods.iter().enumerate() {
                let x = (likelihood - mean) * 0.25;
                row.cue_mut(index::POSITIONS + stem)[k] = x / (1.0 + x.abs());
            }
        }
    }

    /// Level differences to the neighbours.
    fn fill_sides(&self, t: usize, row: &mut CueRow) {
        let log = &self.first.change.log;
        let levels = log.row(t);
        let last = levels.len().cast_signed() - 1;
        for (i, offset) in NEIGHBOURS.into_iter().enumerate() {
            let neighbour = log.row_near(t.cast_signed() + offset);
            let out = row.cue_mut(index::SIDES + i);
            out.iter_mut()
                .zip(neighbour)
                .zip(levels)
                .for_each(|((out, x), y)| *out = squash(x - y));
            let out = row.cue_mut(index::SIDES + NEIGHBOURS.len() + i);
            for (k, out) in out.iter_mut().enumerate() {
                let neighbour = (k.cast_signed() + offset).clamp(0, last).cast_unsigned();
                *out = squash(levels[neighbour] - levels[k]);
            }
        }
    }
}

/// The part of each stem assumed to come from all directions.
const DIFFUSE_SHARE: f32 = 0.05;

const EPS: f32 = 1e-10;
const REACH: usize = 4;

/// Keeps a difference of logarithms within -1..1; cheaper than the hyperbolic tangent.
fn squash(x: f32) -> f32 {
    let x = x * 0.5;
    x / (1.0 + x.abs())
}

/// The square root of each measured stem's part of a frame's energy, averaged over the 21 frames
/// around it.
fn frame_parts(amplitude: &SpectralPlane, shares: &StemShares) -> Vec<[f32; MEASURED_STEMS]> {
    let frames = amplitude.rows();
    let mut smooth = vec![[0.0; MEASURED_STEMS]; frames];
    for stem in 0..MEASURED_STEMS {
        let parts: Vec<f32> = (0..frames)
            .map(|t| {
                let (mut part, mut total) = (0.0, EPS);
                for (a, share) in amplitude.row(t).iter().zip(shares.stem(t, stem)) {
                    part += a * a * share;
                    total += a * a;
                }
                (part / total).sqrt()
            })
            .collect();
        let mut out = vec![0.0; frames];
        running_mean(&parts, 21, &mut out);
        smooth.iter_mut().zip(out).for_each(|(s, x)| s[stem] = x);
    }
    smooth
}
