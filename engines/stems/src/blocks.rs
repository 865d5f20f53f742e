//! The block separator: separates long clips of any rate in blocks of 24 seconds, so that memory
//! stays constant.
//!
//! Each block is cut out, resampled to the analysis rate, separated, resampled back, and
//! cross-faded with its neighbours over three seconds. Every block has the full length, even if
//! less of it is used: the cues compare moments, and more moments give better cues. The estimates
//! need not sum to the mix: the last step subtracts them from it, sample by sample, to get the
//! remainders.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::audio::finite;
use crate::engine::{self, ESTIMATED, SCALE, StemEstimates};
use crate::error::check_offered;
use crate::parallel::{CancelCheck, WorkCancelled};
use crate::spleeter::VoiceNets;
use crate::stft::RATE;
use crate::{ClipShape, SeparateError, SeparationControl, SeparationEngine, Stem, StemSink};
use dsp::resample;

/// Length of a block and of the overlap with the next, in seconds.
const BLOCK_SECONDS: usize = 24;
const OVERLAP_SECONDS: usize = 3;

/// Separates a clip that arrives and leaves piece by piece, in memory that does not grow with its
/// length.
///
/// ```
/// use stems::{Audio, SeparationControl, SeparationEngine as _, BlockSeparator, ClipShape, Stem};
///
/// let mix = Audio::new(44_100, vec![vec![0.1; 4_410]; 2])?;
/// let mut separator = BlockSeparator::new(ClipShape::measure(&mix), &[Stem::Drums])?;
/// let mut drums = 0;
/// let mut write = |_stem: usize, channels: &[Vec<f32>]| {
///     drums += channels[0].len();
///     true
/// };
/// let mut control = SeparationControl::default();
/// separator.push(mix.channels(), &mut control, &mut write)?;
/// separator.finish(&mut control, &mut write)?;
/// assert_eq!(drums, 4_410);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BlockSeparator {
    shape: ClipShape,
    stems: Vec<Stem>,
    nets: Option<Arc<VoiceNets>>,
    needed: [bool; ESTIMATED],
    blocks: VecDeque<ClipBlock>,
    count: usize,
    /// The mix from the start of the next block to the last sample received.
    mix: Vec<Vec<f32>>,
    /// What the last block contributes to the next, already weighted.
    tails: StemEstimates,
}

impl BlockSeparator {
    /// Prepares to make these stems.
    pub fn new(shape: ClipShape, stems: &[Stem]) -> Result<Self, SeparateError> {
        shape.check()?;
        check_offered(stems, &Stem::BUILT_IN)?;
        let needed = needed_estimates(stems);
        let blocks = cut(shape.frames, shape.rate as usize);
        Ok(Self {
            shape,
            stems: stems.to_vec(),
            nets: None,
            needed,
            count: blocks.len(),
            blocks: blocks.into(),
            mix: vec![Vec::new(); shape.channels],
            tails: needed
                .map(|is_needed| vec![Vec::new(); if is_needed { shape.channels } else { 0 }]),
        })
    }

    /// Also estimates the voice by these nets.
    #[must_use]
    pub fn with_nets(mut self, nets: Arc<VoiceNets>) -> Self {
        self.nets = Some(nets);
        self
    }

    /// Separates the next block once all of it has arrived.
    #[expect(clippy::cast_precision_loss, reason = "a handful of blocks")]
    fn separate_next_block(
        &mut self,
        control: &mut SeparationControl<'_>,
        write: &mut StemSink<'_>,
    ) -> Result<(), SeparateError> {
        let is_complete = |block: &ClipBlock| self.mix[0].len() >= block.end - block.start;
        if !self.blocks.front().is_some_and(is_complete) {
            return Ok(());
        }
        let Some(block) = self.blocks.pop_front() else {
            return Ok(());
        };
        let number = self.count - self.blocks.len() - 1;
        let stop = CancelCheck(control.cancelled);
        stop.check()?;
        let mut report = |part: f32| {
            // 1 is left to `finish`: the block's stems are not written yet.
            (control.progress)((number as f32 + part.min(0.99)) / self.count as f32);
        };
        // Silent, or too quiet to scale in single precision.
        let mut parts = if self.shape.peak < 1e-25 {
            let silence = vec![vec![0.0; block.end - block.start]; self.shape.channels];
            self.needed.map(|is_needed| {
                if is_needed {
                    silence.clone()
                } else {
                    Vec::new()
                }
            })
        } else {
            let nets = self.nets.as_deref();
            estimate(&self.mix, self.shape, self.needed, nets, stop, &mut report)?
        };
        // The analysed block is cut to the part that is used. The previous block's tail is added to
        // its beginning, and its own tail is kept for the next block.
        let lead = block.from - block.start;
        let finished = block.to - block.from - block.fade_out;
        for (part, tail) in parts
            .iter_mut()
            .flatten()
            .zip(self.tails.iter_mut().flatten())
        {
            part.drain(..lead);
            part.truncate(block.to - block.from);
            block.fade(part);
            part.iter_mut().zip(tail.iter()).for_each(|(x, y)| *x += y);
            tail.clear();
            tail.extend(part.drain(finished..));
        }
        self.write(&parts, lead..lead + finished, write)?;
        // The next block begins inside this one, so only what lies before its start is dropped.
        let next = self.blocks.front().map_or(block.end, |next| next.start);
        self.mix.iter_mut().for_each(|c| {
            c.drain(..next - block.start);
        });
        Ok(())
    }

    /// Writes every requested stem. A remainder is the mix in `range` without some of `parts`.
    fn write(
        &self,
        parts: &StemEstimates,
        range: Range<usize>,
        write: &mut StemSink<'_>,
    ) -> Result<(), SeparateError> {
        let [vocals, drums, bass] = parts;
        // The remainder is computed from the mix itself, at the clip's own rate and level. Every
        // error of analysis, scaling and resampling ends up in it, so the sum stays the mix.
        let without = |parts: &[&Vec<Vec<f32>>]| -> Vec<Vec<f32>> {
            let channels = self.mix.iter().enumerate().map(|(c, mix)| {
                let mut remainder = mix[range.clone()].to_vec();
                for part in parts {
                    remainder
                        .iter_mut()
                        .zip(&part[c])
                        .for_each(|(x, y)| *x -= y);
                }
                remainder
            });
            channels.collect()
        };
        for (number, stem) in self.stems.iter().enumerate() {
            let should_continue = match stem {
                Stem::Vocals => write(number, vocals),
                Stem::Drums => write(number, drums),
                Stem::Bass => write(number, bass),
                Stem::Other => write(number, &without(&[vocals, drums, bass])),
                // INVARIANT: the only other stem that `new` accepts is the instrumental.
                _ => write(number, &without(&[vocals])),
            };
            if !should_continue {
                return Err(SeparateError::Cancelled);
            }
        }
        Ok(())
    }
}

impl SeparationEngine for BlockSeparator {
    fn push(
        &mut self,
        samples: &[Vec<f32>],
        control: &mut SeparationControl<'_>,
        write: &mut StemSink<'_>,
    ) -> Result<(), SeparateError> {
        let available = samples.first().map_or(0, Vec::len);
        let mut start = 0;
        while start < available {
            let Some(block) = self.blocks.front() else {
                break;
            };
            let missing = block.end - block.start - self.mix[0].len();
            let end = available.min(start + missing);
            for (mix, channel) in self.mix.iter_mut().zip(samples) {
                mix.extend(channel[start..end].iter().map(|&x| finite(x)));
            }
            start = end;
            self.separate_next_block(control, write)?;
        }
        Ok(())
    }

    fn finish(
        &mut self,
        control: &mut SeparationControl<'_>,
        write: &mut StemSink<'_>,
    ) -> Result<(), SeparateError> {
        while let Some(block) = self.blocks.front() {
            let length = block.end - block.start;
            self.mix.iter_mut().for_each(|c| c.resize(length, 0.0));
            self.separate_next_block(control, write)?;
        }
        (control.progress)(1.0);
        Ok(())
    }
}

fn needed_estimates(stems: &[Stem]) -> [bool; ESTIMATED] {
    // `other` is the remainder of all three, so it needs all of them.
    let is_wanted = |stem| stems.contains(&stem);
    let other = is_wanted(Stem::Other);
    [
        is_wanted(Stem::Vocals) || is_wanted(Stem::Instrumental) || other,
        is_wanted(Stem::Drums) || other,
        is_wanted(Stem::Bass) || other,
    ]
}

/// Estimates of one block, at the clip's rate.
fn estimate(
    mix: &[Vec<f32>],
    shape: ClipShape,
    needed: [bool; ESTIMATED],
    nets: Option<&VoiceNets>,
    stop: CancelCheck<'_>,
    report: &mut dyn FnMut(f32),
) -> Result<StemEstimates, WorkCancelled> {
    // The clip's peak and not the block's: quiet passages keep their level relative to loud ones,
    // as in the songs that the nets learned from.
    let (rate, gain) = (shape.rate, SCALE / shape.peak);
    let length = mix.first().map_or(0, Vec::len);
    let scaled = mix.iter().map(|c| c.iter().map(|x| x * gain).collect());
    let scaled: Vec<Vec<f32>> = scaled.collect();
    let frames = length as u64 * u64::from(RATE) / u64::from(rate);
    // One channel at a time, with a check for cancellation before each.
    let convert = |channel: &Vec<f32>, from: u32, to: u32, frames: usize| {
        stop.check()?;
        Ok(resample(channel, from, to, frames))
    };
    let frames = usize::try_from(frames).unwrap_or(usize::MAX).max(1);
    let analysed = scaled
        .iter()
        .map(|c| convert(c, rate, RATE, frames))
        .collect::<Result<Vec<_>, _>>()?;
    drop(scaled);
    let parts = engine::separate(&analysed, needed, nets, stop, report)?;
    let mut estimates = StemEstimates::default();
    for (estimate, part) in estimates.iter_mut().zip(parts) {
        for channel in &part {
            let mut channel = convert(channel, RATE, rate, length)?;
            for x in &mut channel {
                *x = finite(*x / gain);
            }
            estimate.push(channel);
        }
    }
    Ok(estimates)
}

/// A stretch of the clip, in samples.
#[derive(Debug, PartialEq, Eq)]
struct ClipBlock {
    /// Start of what is analysed.
    start: usize,
    end: usize,
    /// Start of the part that is used, and how much of each end overlaps with the neighbours.
    from: usize,
    to: usize,
    fade_in: usize,
    fade_out: usize,
}

impl ClipBlock {
    /// Linear fades at both ends; two neighbours' weights sum to one.
    #[expect(clippy::cast_precision_loss, reason = "a fade of a few seconds")]
    fn fade(&self, part: &mut [f32]) {
        // Linear, because both blocks estimate the same sound. With equal power, the sum would be
        // too loud in the middle of the fade.
        let length = part.len();
        for (i, x) in part[..self.fade_in].iter_mut().enumerate() {
            *x *= (i as f32 + 0.5) / self.fade_in as f32;
        }
        for (i, x) in part[length - self.fade_out..].iter_mut().rev().enumerate() {
            *x *= (i as f32 + 0.5) / self.fade_out as f32;
        }
    }
}

/// Cuts a clip into blocks of equal length, of which equal parts are used; a clip only a little
/// longer than a block is one block.
fn cut(frames: usize, rate: usize) -> Vec<ClipBlock> {
    let (block, overlap) = (BLOCK_SECONDS * rate, OVERLAP_SECONDS * rate);
    if frames <= block + overlap {
        return vec![ClipBlock {
            start: 0,
            end: frames,
            from: 0,
            to: frames,
            fade_in: 0,
            fade_out: 0,
        }];
    }
    let count = (frames - overlap).div_ceil(block - overlap);
    let step = (frames - overlap).div_ceil(count);
    (0..count)
        .map(|i| {
            let (from, to) = (i * step, frames.min((i + 1) * step + overlap));
            // The rest of the fixed length is context, half of it on each side where the clip has
            // that much.
            let context = block - (to - from);
            let start = from.saturating_sub(context / 2).min(frames - block);
            ClipBlock {
                start,
                end: start + block,
                from,
                to,
                fade_in: if i == 0 { 0 } else { overlap },
                fade_out: if i + 1 == count { 0 } else { overlap },
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_the_clip_once() {
        for frames in [1, 500, 2_700, 2_701, 4_500, 4_501, 12_345, 90_000] {
            let blocks = cut(frames, 100);
            let mut sum = vec![0.0; frames];
            for block in &blocks {
                assert!(block.start <= block.from && block.to <= block.end);
                let length = if frames <= 2_700 { frames } else { 2_400 };
                assert_eq!(
                    (block.end - block.start, block.end <= frames),
                    (length, true)
                );
                let mut part = vec![1.0; block.to - block.from];
                block.fade(&mut part);
                sum[block.from..]
                    .iter_mut()
                    .zip(&part)
                    .for_each(|(s, x)| *s += x);
            }
            assert!(sum.iter().all(|x: &f32| (x - 1.0).abs() < 1e-4), "{frames}");
        }
    }

    #[test]
    fn only_the_needed_estimates_are_computed() {
        assert_eq!(
            needed_estimates(&[Stem::Instrumental]),
            [true, false, false]
        );
        assert_eq!(needed_estimates(&[Stem::Other]), [true; 3]);
        assert_eq!(needed_estimates(&[Stem::Bass]), [false, false, true]);
    }
}
