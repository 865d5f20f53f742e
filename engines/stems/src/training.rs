//! Training samples for the nets: the cues of songs whose stems are known.
//!
//! The cues come from the same code that separates, so that weights and cues can never disagree.
//! Nothing in here runs in a separation; `examples/train` is its only user.

use crate::cues::{CueRow, EstimateCues, MixCues};
use crate::engine::SCALE;
use crate::nets::{self, ShareNet};
use crate::parallel::{CancelCheck, WorkCancelled, run_both};
use crate::stem::STEMS;
use crate::stft::{ChannelSpectra, MAIN, Stft};
use crate::two_pass::first_pass;

/// Left and right at 44.1 kHz, of equal length.
pub type StereoTrack = [Vec<f32>; 2];

/// The sizes of both nets' layers, from cues to shares.
pub const SIZES: [&[usize]; 2] = [nets::FIRST_NET_SIZES, nets::SECOND_NET_SIZES];

/// How many numbers a net of these sizes has: for each layer a row of weights for each output,
/// then the biases.
pub const fn parameter_count(sizes: &[usize]) -> usize {
    nets::parameter_count(sizes)
}

/// Some of a song's bins, and the song's total energy of each stem.
pub struct BinSample {
    /// The cues, bin by bin, each from -1 to 1 as -32767 to 32767.
    pub cues: Vec<i16>,
    /// The ideal shares: the stems' part of the mix's power, for each bin.
    pub targets: Vec<[f32; STEMS]>,
    /// The part of the song's power that each bin represents. Summed over the draw, weight times
    /// squared difference from the target is the energy of the error in the song.
    pub weights: Vec<f32>,
    /// The energy of each stem in the song.
    pub energies: [f64; STEMS],
    /// The energy of the remaining error if every share is ideal.
    pub residual: [f64; STEMS],
}

/// Draws `count` bins of a song, those with more power more often, with the first pass's cues or,
/// if the `first` net is given, the second's. `phase` in 0..1 shifts the drawing.
pub fn draw(
    stems: &[StereoTrack; STEMS],
    first: Option<&[f32]>,
    count: usize,
    phase: f64,
) -> BinSample {
    let never_cancelled = || false;
    // INVARIANT: only a cancellation ends the work early, and there is none here.
    try_draw(stems, first, count, phase, CancelCheck(&never_cancelled)).unwrap_or_else(
        |WorkCancelled| BinSample {
            cues: Vec::new(),
            targets: Vec::new(),
            weights: Vec::new(),
            energies: [0.0; STEMS],
            residual: [0.0; STEMS],
        },
    )
}

fn try_draw(
    stems: &[StereoTrack; STEMS],
    first: Option<&[f32]>,
    count: usize,
    phase: f64,
    stop: CancelCheck<'_>,
) -> Result<BinSample, WorkCancelled> {
    let mix = sum(stems);
    let peak = mix
        .iter()
        .flatten()
        .fold(0.0f32, |peak, x| peak.max(x.abs()));
    let gain = SCALE / peak.max(1e-9);
    let stft = Stft::new(MAIN);
    let spectra = |sound: &StereoTrack| {
        let scaled = sound
            .each_ref()
            .map(|c| c.iter().map(|x| x * gain).collect::<Vec<_>>());
        let [left, right] = &scaled;
        let (left, right) = run_both(|| stft.spectra(left, stop), || stft.spectra(right, stop))?;
        Ok((scaled, [left, right]))
    };
    let (mix, mixed) = spectra(&mix)?;
    let mut truth = Vec::new();
    for stem in stems {
        truth.push(spectra(stem)?.1);
    }
    let cues = MixCues::measure(&mix, &mixed, stop, &mut |_| ())?;
    let mut sampler = BinSampler::new(&mixed, &truth, cues.frames(), count, phase);
    match first {
        None => {
            let mut row = CueRow::new(nets::FIRST_NET_SIZES[0]);
            for t in 0..cues.frames() {
                sampler.sample_frame(t, &mut row, &mut |row| cues.fill(t, row));
            }
        }
        Some(net) => {
            let first_shares = first_pass(&ShareNet::new(nets::FIRST_NET_SIZES, net), &cues, stop)?;
            let second = EstimateCues::measure(&cues, &first_shares, &mixed, stop, &mut |_| ())?;
            let mut row = CueRow::new(nets::SECOND_NET_SIZES[0]);
            for t in 0..cues.frames() {
                sampler.sample_frame(t, &mut row, &mut |row| second.fill(t, row));
            }
        }
    }
    Ok(sampler.sample)
}

fn sum(stems: &[StereoTrack; STEMS]) -> StereoTrack {
    std::array::from_fn(|c| {
        let mut mix = stems[0][c].clone();
        for stem in &stems[1..] {
            mix.iter_mut().zip(&stem[c]).for_each(|(x, y)| *x += y);
        }
        mix
    })
}

/// A bin's weight in the draw is its power raised to this exponent. 0 would give all bins the same
/// weight, 1 nearly all of it to the loudest.
const POWER_EXPONENT: f32 = 0.55;

struct BinSampler<'a> {
    mixed: &'a [ChannelSpectra; 2],
    truth: &'a [[ChannelSpectra; 2]],
    /// The weight per draw, and what is left until the next one.
    step: f64,
    until_next_draw: f64,
    sample: BinSample,
}

impl<'a> BinSampler<'a> {
    #[expect(clippy::cast_precision_loss, reason = "a count of bins")]
    fn new(
        mixed: &'a [ChannelSpectra; 2],
        truth: &'a [[ChannelSpectra; 2]],
        frames: usize,
        count: usize,
        phase: f64,
    ) -> Self {
        let mut total = 0.0;
        for t in 0..frames {
            total += (0..MAIN.bins())
                .map(|k| bin_weight(power(mixed, t, k)))
                .sum::<f64>();
        }
        let step = (total / count as f64).max(1e-30);
        Self {
            mixed,
            truth,
            step,
            until_next_draw: step * phase,
            sample: BinSample {
                cues: Vec::new(),
                targets: Vec::with_capacity(count),
                weights: Vec::with_capacity(count),
                energies: [0.0; STEMS],
                residual: [0.0; STEMS],
            },
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "numbers that a net learns from"
    )]
    fn sample_frame(&mut self, t: usize, row: &mut CueRow, fill: &mut dyn FnMut(&mut CueRow)) {
        let mut filled = false;
        for k in 0..MAIN.bins() {
            let power = power(self.mixed, t, k);
            let targets: [f64; STEMS] =
                std::array::from_fn(|stem| self.measure_target(t, k, stem, power));
            let weight = bin_weight(power);
            // Bins are drawn at equal steps of accumulated weight and not randomly, so no part of
            // the song is missed.
            self.until_next_draw -= weight;
            if self.until_next_draw > 0.0 || power < 1e-18 {
                continue;
            }
            if !filled {
                fill(row);
                filled = true;
            }
            // A bin with more weight than one step is drawn once and counted accordingly.
            let times = 1.0 + (-self.until_next_draw / self.step).floor();
            self.until_next_draw += times * self.step;
            let cues =
                (0..row.count()).map(|cue| (row.cue(cue)[k].clamp(-1.0, 1.0) * 32_767.0) as i16);
            self.sample.cues.extend(cues);
            self.sample.targets.push(targets.map(|x| x as f32));
            self.sample
                .weights
                .push((times * self.step * power / weight) as f32);
        }
    }

    /// The ideal share of a stem in a bin. Also adds to the energies.
    fn measure_target(&mut self, t: usize, k: usize, stem: usize, power: f64) -> f64 {
        let mut inner_product = 0.0;
        let mut energy = 0.0;
        for side in 0..2 {
            let (s, x) = (self.truth[stem][side].row(t)[k], self.mixed[side].row(t)[k]);
            inner_product += f64::from(s.re * x.re + s.im * x.im);
            energy += f64::from(s.norm_sqr());
        }
        // The projection of the stem on the mix is the share with the least error. Stems that
        // cancel each other put it far outside 0 to 1, where no net can reach it.
        let target = (inner_product / (power + 1e-20)).clamp(-0.5, 1.5);
        self.sample.energies[stem] += energy;
        self.sample.residual[stem] +=
            (energy - 2.0 * target * inner_product + target * target * power).max(0.0);
        target
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "no more precision is needed"
)]
fn bin_weight(power: f64) -> f64 {
    f64::from((power as f32).powf(POWER_EXPONENT))
}

fn power(spectra: &[ChannelSpectra; 2], t: usize, k: usize) -> f64 {
    f64::from(spectra[0].row(t)[k].norm_sqr() + spectra[1].row(t)[k].norm_sqr())
}
