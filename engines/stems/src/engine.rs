//! The separation of one block at the analysis rate: estimates of vocals, drums and bass.
//!
//! It wires the stages together: transform, cues, shares, Wiener filter, inverse transform. It
//! does not handle other rates, long clips, or the exact sums that come afterwards.

use dsp::Complex32;

use crate::parallel::{CancelCheck, WorkCancelled, map, run_both};
use crate::shares::StemShares;
use crate::spleeter::VoiceNets;
use crate::stem::STEMS;
use crate::stft::{ChannelSpectra, MAIN, Stft};
use crate::two_pass::PassNets;
use crate::voice_blend::blend_voice;
use crate::wiener::WienerFilter;

/// The stems that are estimated; the others follow by subtraction.
pub(crate) const ESTIMATED: usize = 3;

/// The peak to which a clip is scaled, so that cues mean the same for quiet and loud ones.
pub(crate) const SCALE: f32 = 0.9;

/// The part of each stem that the filter assumes to come from all directions. The second pass's
/// cues use 0.05, which here would cost the test songs 0.02 dB.
const DIFFUSE_SHARE: f32 = 0.01;

/// Channels of each estimated stem; a stem that is not requested has none.
pub(crate) type StemEstimates = [Vec<Vec<f32>>; ESTIMATED];

/// Separates `channels` of equal length, scaled to about full scale. One and two channels go
/// through the Wiener filter; more are split by the shares of their stereo fold-down. `nets` also
/// estimate the voice, if there are any.
pub(crate) fn separate(
    channels: &[Vec<f32>],
    requested: [bool; ESTIMATED],
    nets: Option<&VoiceNets>,
    stop: CancelCheck<'_>,
    report: &mut dyn FnMut(f32),
) -> Result<StemEstimates, WorkCancelled> {
    let stft = Stft::new(MAIN);
    let sound = fold_down(channels);
    let (left, right) = run_both(
        || stft.spectra(&sound[0], stop),
        || stft.spectra(&sound[1], stop),
    )?;
    let spectra = [left, right];
    report(0.05);
    let own_part = if nets.is_some() { 0.45 } else { 0.75 };
    let mut shares =
        PassNets::from_shipped_weights().stem_shares(&sound, &spectra, stop, &mut |part| {
            report(0.05 + own_part * part);
        })?;
    if let Some(nets) = nets {
        let heard = nets.voice_shares(&spectra, shares.frames(), stop)?;
        blend_voice(&mut shares, &heard, &spectra, stop)?;
        report(0.8);
    }
    let spatial = match channels.len() {
        1 | 2 => Some(shares.spatial_filter(&spectra, DIFFUSE_SHARE, stop)?),
        _ => None,
    };
    report(0.85);
    let splitter = ShareSplitter {
        stft: &stft,
        channels,
        spectra: &spectra,
        shares: &shares,
        spatial,
    };
    let estimates = splitter.run(requested, stop)?;
    report(1.0);
    Ok(estimates)
}

const MAIN_BINS: usize = MAIN.size / 2 + 1;

/// Turns shares into sound, a run of frames at a time.
struct ShareSplitter<'a> {
    stft: &'a Stft,
    channels: &'a [Vec<f32>],
    spectra: &'a [ChannelSpectra; 2],
    shares: &'a StemShares,
    spatial: Option<WienerFilter>,
}

/// Frames in one run. A fixed number, so that sums of overlapping frames are added in the same
/// order whatever the number of threads.
const RUN: usize = 64;

impl ShareSplitter<'_> {
    fn run(
        &self,
        requested: [bool; ESTIMATED],
        stop: CancelCheck<'_>,
    ) -> Result<StemEstimates, WorkCancelled> {
        let samples = self.channels.first().map_or(0, Vec::len);
        let frames = MAIN.frames(samples);
        let stems: Vec<usize> = (0..ESTIMATED).filter(|s| requested[*s]).collect();
        let runs = map(frames.div_ceil(RUN), stop, |run| {
            self.frames(run * RUN..frames.min((run + 1) * RUN), &stems)
        })?;
        let mut estimates = StemEstimates::default();
        for (i, &stem) in stems.iter().enumerate() {
            for channel in 0..self.channels.len() {
                stop.check()?;
                let mut sum = vec![0.0; self.stft.output_samples(frames)];
                for (run, parts) in runs.iter().enumerate() {
                    let part = &parts[i * self.channels.len() + channel];
                    let start = run * RUN * MAIN.hop;
                    sum[start..].iter_mut().zip(part).for_each(|(x, y)| *x += y);
                }
                estimates[stem].push(self.stft.finish(&sum, samples));
            }
        }
        Ok(estimates)
    }

    /// The sound of some frames: for each stem and channel, the result of overlap-add.
    fn frames(&self, range: std::ops::Range<usize>, stems: &[usize]) -> Vec<Vec<f32>> {
        let channel_count = self.channels.len();
        let mut sounds =
            vec![vec![0.0; self.stft.output_samples(range.len())]; stems.len() * channel_count];
        let mut split = vec![vec![Complex32::default(); MAIN_BINS]; STEMS * channel_count];
        for (index, t) in range.enumerate() {
            match &self.spatial {
                Some(wiener) => self.split_spatially(wiener, t, &mut split),
                None => self.split_by_shares(t, &mut split),
            }
            for (i, stem) in stems.iter().enumerate() {
                for c in 0..channel_count {
                    let spectrum = &mut split[stem * channel_count + c];
                    self.stft
                        .overlap_add(spectrum, index, &mut sounds[i * channel_count + c]);
                }
            }
        }
        sounds
    }

    fn split_spatially(&self, wiener: &WienerFilter, t: usize, split: &mut [Vec<Complex32>]) {
        let channel_count = self.channels.len();
        let [left, right] = self.spectra;
        let (left, right) = (left.row(t), right.row(t));
        let shares: [&[f32]; STEMS] = std::array::from_fn(|stem| self.shares.stem(t, stem));
        for k in 0..MAIN_BINS {
            let stems = wiener.filter(k, [left[k], right[k]], shares.map(|s| s[k]));
            for (stem, bins) in stems.iter().enumerate() {
                for (c, value) in bins.iter().enumerate().take(channel_count) {
                    split[stem * channel_count + c][k] = *value;
                }
            }
        }
    }

    fn split_by_shares(&self, t: usize, split: &mut [Vec<Complex32>]) {
        let channel_count = self.channels.len();
        let mut spectrum = vec![Complex32::default(); MAIN_BINS];
        for (c, channel) in self.channels.iter().enumerate() {
            self.stft.frame(channel, t, &mut spectrum);
            for stem in 0..STEMS {
                let out = &mut split[stem * channel_count + c];
                for ((out, x), share) in
                    out.iter_mut().zip(&spectrum).zip(self.shares.stem(t, stem))
                {
                    // Shares are real numbers, so every stem keeps the phase of the mix.
                    *out = x * share;
                }
            }
        }
    }
}

/// More than two channels folded into two, attenuated just enough to stay within full scale.
pub(crate) fn to_stereo(channels: &[Vec<f32>]) -> Vec<Vec<f32>> {
    // All channels at full scale give the largest sum that a side can reach.
    let loudest = fold_down(&vec![vec![1.0]; channels.len()]);
    let mut stereo = fold_down(channels);
    for (side, loudest) in stereo.iter_mut().zip(loudest) {
        let gain = 1.0 / loudest.iter().copied().fold(1.0, f32::max);
        for x in side {
            *x *= gain;
        }
    }
    stereo.into()
}

/// Two channels to analyse. Files order their channels front left, front right, centre, low
/// frequencies, then rear and side, left before right. Files of fewer than six channels have no low
/// frequencies.
fn fold_down(channels: &[Vec<f32>]) -> [Vec<f32>; 2] {
    // 0.71 is the -3 dB with which ITU-R BS.775 mixes the centre and the surrounds into stereo.
    let centre = [0.71, 0.71];
    let gains: &[[f32; 2]] = match channels.len() {
        0..=2 => &[[1.0, 0.0], [0.0, 1.0]],
        3 => &[[1.0, 0.0], [0.0, 1.0], centre],
        4 => &[[1.0, 0.0], [0.0, 1.0], [0.71, 0.0], [0.0, 0.71]],
        5 => &[[1.0, 0.0], [0.0, 1.0], centre, [0.71, 0.0], [0.0, 0.71]],
        7 => &[
            [1.0, 0.0],
            [0.0, 1.0],
            centre,
            [0.5, 0.5],
            centre,
            [0.71, 0.0],
            [0.0, 0.71],
        ],
        _ => &[
            [1.0, 0.0],
            [0.0, 1.0],
            centre,
            [0.5, 0.5],
            [0.71, 0.0],
            [0.0, 0.71],
            [0.71, 0.0],
            [0.0, 0.71],
        ],
    };
    std::array::from_fn(|side| match channels {
        [] => Vec::new(),
        [mono] => mono.clone(),
        _ => {
            let mut sum = vec![0.0; channels[0].len()];
            for (channel, gain) in channels.iter().zip(gains) {
                sum.iter_mut()
                    .zip(channel)
                    .for_each(|(s, x)| *s += gain[side] * x);
            }
            sum
        }
    })
}
