//! The model separator, piece by piece: rates, channels, levels, and the exact sums.
//!
//! The model's estimates need not sum to the mix: the last step subtracts them from it, sample by
//! sample, to get the remainder.

use std::ops::Range;
use std::sync::Arc;

use super::formulas::StemFormula;
use super::model::SeparationModel;
use super::stitch::SegmentStitcher;
use crate::audio::finite;
use crate::error::check_offered;
use crate::parallel::CancelCheck;
use crate::separate::collect_stems;
use crate::stft::RATE;
use crate::{Audio, ClipShape, SeparateError, SeparationControl, SeparationEngine, Stem, StemSink};
use dsp::RateConverter;

/// Separates a clip piece by piece with a model; like [`BlockSeparator`](crate::BlockSeparator) for
/// the built-in engine. Memory does not grow with the clip.
pub struct ModelSeparator {
    model: Arc<SeparationModel>,
    shape: ClipShape,
    formulas: Vec<StemFormula>,
    lanes: Vec<ChannelLane>,
    /// Segments of all lanes, and how many are done.
    segment_count: usize,
    segments_done: usize,
    received: usize,
    /// The mix from the first sample that is not written yet.
    mix: Vec<Vec<f32>>,
    /// Estimates of the same stretch as far as they are complete, by estimate and channel.
    estimates: Vec<Vec<Vec<f32>>>,
}

/// How much of the input of [`ModelSeparator::push`] is processed at a time, in seconds.
const PIECE_SECONDS: usize = 4;

impl ModelSeparator {
    /// Prepares to make these `stems`, which must be among those that the model offers.
    pub fn new(
        model: Arc<SeparationModel>,
        shape: ClipShape,
        stems: &[Stem],
    ) -> Result<Self, SeparateError> {
        shape.check()?;
        check_offered(stems, model.offered())?;
        let formulas = stems
            .iter()
            .filter_map(|stem| model.formulas.formula(*stem));
        let formulas: Vec<StemFormula> = formulas.collect();
        let estimates = model.formulas.estimates.len();
        // The clip is silent, or too quiet to scale in single precision, or no stems are requested.
        let is_idle = shape.peak < 1e-25 || shape.frames == 0 || stems.is_empty();
        let pairs = (0..shape.channels).step_by(2);
        let pairs = pairs.map(|first| first..shape.channels.min(first + 2));
        let lane = |channels| ChannelLane::new(&model, shape, channels);
        let lanes: Vec<ChannelLane> = if is_idle {
            Vec::new()
        } else {
            pairs.map(lane).collect()
        };
        Ok(Self {
            shape,
            formulas,
            segment_count: lanes.iter().map(|lane| lane.segment_count).sum(),
            lanes,
            segments_done: 0,
            received: 0,
            mix: vec![Vec::new(); shape.channels],
            estimates: vec![vec![Vec::new(); shape.channels]; estimates],
            model,
        })
    }

    fn push_piece(
        &mut self,
        piece: &[Vec<f32>],
        control: &mut SeparationControl<'_>,
        write: &mut StemSink<'_>,
    ) -> Result<(), SeparateError> {
        let stop = CancelCheck(control.cancelled);
        stop.check()?;
        let length = piece.first().map_or(0, Vec::len);
        self.received += length;
        // The converters are flushed with the last piece, so the clip's length must be known
        // beforehand.
        let is_last = self.received == self.shape.frames;
        for (mix, channel) in self.mix.iter_mut().zip(piece) {
            mix.extend_from_slice(channel);
        }
        if self.lanes.is_empty() {
            let estimates = self.estimates.iter_mut().flatten();
            estimates.for_each(|channel| channel.resize(self.mix[0].len(), 0.0));
        }
        for lane in &mut self.lanes {
            lane.push(piece, is_last);
            while lane.process_segment(&self.model, &mut self.estimates, stop)? {
                self.segments_done += 1;
                #[expect(clippy::cast_precision_loss, reason = "a few thousand segments")]
                let part = self.segments_done as f32 / self.segment_count as f32;
                (control.progress)(part.min(0.99));
            }
        }
        self.write(write)
    }

    /// Writes the part of every requested stem for which all its estimates are complete.
    fn write(&mut self, write: &mut StemSink<'_>) -> Result<(), SeparateError> {
        let finished = self.estimates.iter().flatten().map(Vec::len).min();
        let finished = finished.unwrap_or(0).min(self.mix[0].len());
        if finished == 0 {
            return Ok(());
        }
        for (number, formula) in self.formulas.iter().enumerate() {
            let channels: Vec<Vec<f32>> = (0..self.shape.channels)
                .map(|c| match formula {
                    StemFormula::Estimate(i) => self.estimates[*i][c][..finished].to_vec(),
                    StemFormula::Without(indices) => {
                        // Subtracted at the clip's own rate, as the last step: the sum is the mix,
                        // whatever the model returned.
                        let mut remainder = self.mix[c][..finished].to_vec();
                        for i in indices {
                            let part = remainder.iter_mut().zip(&self.estimates[*i][c]);
                            part.for_each(|(x, y)| *x -= y);
                        }
                        remainder
                    }
                })
                .collect();
            if !write(number, &channels) {
                return Err(SeparateError::Cancelled);
            }
        }
        for channel in self
            .mix
            .iter_mut()
            .chain(self.estimates.iter_mut().flatten())
        {
            channel.drain(..finished);
        }
        Ok(())
    }
}

impl SeparationEngine for ModelSeparator {
    fn push(
        &mut self,
        samples: &[Vec<f32>],
        control: &mut SeparationControl<'_>,
        write: &mut StemSink<'_>,
    ) -> Result<(), SeparateError> {
        let available = samples.first().map_or(0, Vec::len);
        let available = available.min(self.shape.frames - self.received);
        let size = PIECE_SECONDS * self.shape.rate as usize;
        for start in (0..available).step_by(size) {
            let end = available.min(start + size);
            let piece = samples
                .iter()
                .map(|c| c[start..end].iter().map(|x| finite(*x)).collect());
            self.push_piece(&piece.collect::<Vec<_>>(), control, write)?;
        }
        Ok(())
    }

    fn finish(
        &mut self,
        control: &mut SeparationControl<'_>,
        write: &mut StemSink<'_>,
    ) -> Result<(), SeparateError> {
        while self.received < self.shape.frames {
            let missing = self.shape.frames - self.received;
            let size = missing.min(PIECE_SECONDS * self.shape.rate as usize);
            let silence = vec![vec![0.0; size]; self.shape.channels];
            self.push_piece(&silence, control, write)?;
        }
        (control.progress)(1.0);
        Ok(())
    }
}

/// One or two channels going through the model, which needs two.
struct ChannelLane {
    channels: Range<usize>,
    /// The value to subtract, and the factor to multiply by afterwards.
    scale: (f32, f32),
    to_model: Vec<RateConverter>,
    stitcher: SegmentStitcher,
    /// How many segments there are.
    segment_count: usize,
    segments_done: usize,
    /// A converter for each estimate and channel.
    from_model: Vec<Vec<RateConverter>>,
}

impl ChannelLane {
    fn new(model: &SeparationModel, shape: ClipShape, channels: Range<usize>) -> Self {
        let frames = shape.frames as u64 * u64::from(RATE);
        let frames = frames.div_ceil(u64::from(shape.rate));
        let frames = usize::try_from(frames).unwrap_or(usize::MAX);
        let plan = model.plan(frames);
        let stems = model.formulas.estimates.len();
        let converters = |from, to, frames| {
            let lane_channels = channels.clone();
            lane_channels
                .map(|_| RateConverter::new(from, to, frames))
                .collect::<Vec<_>>()
        };
        Self {
            scale: model.scale(shape),
            to_model: converters(shape.rate, RATE, frames),
            stitcher: SegmentStitcher::new(plan, stems),
            segment_count: plan.count(),
            segments_done: 0,
            from_model: (0..stems)
                .map(|_| converters(RATE, shape.rate, shape.frames))
                .collect(),
            channels,
        }
    }

    /// Takes the next samples of all channels of the clip, and with `is_last` its end.
    fn push(&mut self, piece: &[Vec<f32>], is_last: bool) {
        let (offset, gain) = self.scale;
        let input = self.stitcher.input_buffer();
        let is_mono = self.to_model.len() == 1;
        for (i, converter) in self.to_model.iter_mut().enumerate() {
            let start = input[i].len();
            if let Some(channel) = piece.get(self.channels.start + i) {
                converter.push(channel, &mut input[i]);
            }
            if is_last {
                converter.finish(&mut input[i]);
            }
            input[i][start..]
                .iter_mut()
                .for_each(|x| *x = (*x - offset) * gain);
        }
        if is_mono {
            // The model needs two channels, so a mono clip is used for both.
            let [left, right] = input;
            let copied = right.len();
            right.extend_from_slice(&left[copied..]);
        }
    }

    /// Processes one segment, if all of it has arrived.
    fn process_segment(
        &mut self,
        model: &SeparationModel,
        estimates: &mut [Vec<Vec<f32>>],
        stop: CancelCheck<'_>,
    ) -> Result<bool, SeparateError> {
        let Some(segment) = self.stitcher.segment() else {
            return Ok(false);
        };
        let results = model.segment(&segment, stop)?;
        let finished = self.stitcher.add(&results);
        self.segments_done += 1;
        let (offset, gain) = self.scale;
        for (number, mut sides) in finished.into_iter().enumerate() {
            // Both sides got the same mono channel, so the mean of their results is the estimate.
            if let [left, right] = &mut sides
                && self.channels.len() == 1
            {
                left.iter_mut()
                    .zip(right)
                    .for_each(|(x, y)| *x = 0.5 * (*x + *y));
            }
            let converters = self.from_model[number].iter_mut();
            for ((i, converter), mut side) in converters.enumerate().zip(sides) {
                for x in &mut side {
                    // As in the published code, every stem gets the whole offset. Sums with a
                    // remainder stay exact, because the remainder is the mix without the estimates.
                    *x = finite(*x / gain + offset);
                }
                let out = &mut estimates[number][self.channels.start + i];
                converter.push(&side, out);
                if self.segments_done == self.segment_count {
                    converter.finish(out);
                }
            }
        }
        Ok(true)
    }
}

impl SeparationModel {
    /// Separates `mix` and returns its `stems` in the requested order, like
    /// [`separate`](crate::separate()). Channels beyond two are separated pair by pair.
    pub fn separate(
        self: &Arc<Self>,
        mix: &Audio,
        stems: &[Stem],
        control: SeparationControl<'_>,
    ) -> Result<Vec<(Stem, Audio)>, SeparateError> {
        let mut control = control;
        let mut separator = ModelSeparator::new(Arc::clone(self), ClipShape::measure(mix), stems)?;
        collect_stems(mix, stems, |write| {
            separator.push(mix.channels(), &mut control, write)?;
            separator.finish(&mut control, write)
        })
    }
}
