//! Long clips in blocks of about a minute, at any rate, so that memory stays flat.
//!
//! A block is cut out, brought to the analysis rate, separated, brought back, and cross-faded into
//! its neighbours over five seconds. The estimates need not sum to anything: the caller subtracts.

use crate::engine::{self, ESTIMATED, SCALE};
use crate::parallel::{Stop, Stopped};
use crate::resample::resample;
use crate::separate::finite;
use crate::stft::RATE;
use crate::{Audio, Control, Stem};

pub(crate) use crate::engine::Estimates;

/// Length of a block and of the overlap with the next, in seconds.
const BLOCK_SECONDS: usize = 60;
const OVERLAP_SECONDS: usize = 5;

/// Estimates vocals, drums and bass as far as `wanted` needs them, at the mix's own rate.
#[expect(clippy::cast_precision_loss, reason = "a handful of blocks")]
pub(crate) fn estimate(
    mix: &Audio,
    wanted: &[Stem],
    control: Control<'_>,
) -> Result<Estimates, Stopped> {
    let needed = needed(wanted);
    let mut estimates: Estimates = std::array::from_fn(|stem| {
        let count = if needed[stem] {
            mix.channels().len()
        } else {
            0
        };
        vec![vec![0.0; mix.frames()]; count]
    });
    let Control {
        progress,
        cancelled,
    } = control;
    let (stop, peak) = (Stop(cancelled), mix.peak());
    let blocks = cut(mix.frames(), mix.rate() as usize);
    for (i, block) in blocks.iter().enumerate() {
        stop.check()?;
        let mut report = |part: f32| progress((i as f32 + part.min(0.99)) / blocks.len() as f32);
        // Nothing in this clip, or nothing that single precision could scale.
        if peak < 1e-25 {
            continue;
        }
        let parts = one(mix, block, SCALE / peak, needed, stop, &mut report)?;
        for (estimate, part) in estimates.iter_mut().zip(&parts) {
            for (estimate, part) in estimate.iter_mut().zip(part) {
                block.add(part, estimate);
            }
        }
    }
    progress(1.0);
    Ok(estimates)
}

fn needed(wanted: &[Stem]) -> [bool; ESTIMATED] {
    let has = |stem| wanted.contains(&stem);
    let other = has(Stem::Other);
    [
        has(Stem::Vocals) || has(Stem::Instrumental) || other,
        has(Stem::Drums) || other,
        has(Stem::Bass) || other,
    ]
}

fn one(
    mix: &Audio,
    block: &Block,
    gain: f32,
    needed: [bool; ESTIMATED],
    stop: Stop<'_>,
    report: &mut dyn FnMut(f32),
) -> Result<Estimates, Stopped> {
    let length = block.end - block.start;
    let cut: Vec<Vec<f32>> = mix
        .channels()
        .iter()
        .map(|c| {
            c[block.start..block.end]
                .iter()
                .map(|x| finite(*x) * gain)
                .collect()
        })
        .collect();
    let rate = mix.rate();
    let frames = length as u64 * u64::from(RATE) / u64::from(rate);
    // One channel at a time, to hear of a cancellation between them.
    let convert = |channel: &Vec<f32>, from: u32, to: u32, frames: usize| {
        stop.check()?;
        Ok(resample(channel, from, to, frames))
    };
    let frames = usize::try_from(frames).unwrap_or(usize::MAX).max(1);
    let analysed = cut
        .iter()
        .map(|c| convert(c, rate, RATE, frames))
        .collect::<Result<Vec<_>, _>>()?;
    let parts = engine::separate(&analysed, needed, stop, report)?;
    let mut back = Estimates::default();
    for (back, part) in back.iter_mut().zip(parts) {
        for channel in &part {
            let mut channel = convert(channel, RATE, rate, length)?;
            for x in &mut channel {
                *x = finite(*x / gain);
            }
            back.push(channel);
        }
    }
    Ok(back)
}

/// A stretch of the clip and how much of each end it shares with its neighbours, in samples.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    start: usize,
    end: usize,
    fade_in: usize,
    fade_out: usize,
}

impl Block {
    /// Adds this block's part with straight fades; two neighbours' weights sum to one.
    #[expect(clippy::cast_precision_loss, reason = "a fade of a few seconds")]
    fn add(&self, part: &[f32], to: &mut [f32]) {
        let length = self.end - self.start;
        for (i, (x, to)) in part.iter().zip(&mut to[self.start..self.end]).enumerate() {
            let weight = if i < self.fade_in {
                (i as f32 + 0.5) / self.fade_in as f32
            } else if length - i <= self.fade_out {
                (length as f32 - i as f32 - 0.5) / self.fade_out as f32
            } else {
                1.0
            };
            *to += weight * x;
        }
    }
}

/// Blocks of equal length; a clip that is only a little longer than one block is one block.
fn cut(frames: usize, rate: usize) -> Vec<Block> {
    let (block, overlap) = (BLOCK_SECONDS * rate, OVERLAP_SECONDS * rate);
    if frames <= block + overlap {
        return vec![Block {
            start: 0,
            end: frames,
            fade_in: 0,
            fade_out: 0,
        }];
    }
    let count = (frames - overlap).div_ceil(block - overlap);
    let step = (frames - overlap).div_ceil(count);
    (0..count)
        .map(|i| Block {
            start: i * step,
            end: frames.min((i + 1) * step + overlap),
            fade_in: if i == 0 { 0 } else { overlap },
            fade_out: if i + 1 == count { 0 } else { overlap },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_the_clip_once() {
        for frames in [1, 500, 6_500, 6_501, 12_345, 90_000] {
            let blocks = cut(frames, 100);
            let mut sum = vec![0.0; frames];
            for block in &blocks {
                assert!(block.end - block.start <= 6_500);
                block.add(&vec![1.0; block.end - block.start], &mut sum);
            }
            assert!(sum.iter().all(|x| (x - 1.0).abs() < 1e-4), "{frames}");
        }
    }

    #[test]
    fn only_what_is_wanted_is_computed() {
        assert_eq!(needed(&[Stem::Instrumental]), [true, false, false]);
        assert_eq!(needed(&[Stem::Other]), [true; 3]);
        assert_eq!(needed(&[Stem::Bass]), [false, false, true]);
    }
}
