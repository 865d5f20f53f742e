//! The segment stitcher: cuts a stereo sound into overlapping segments and joins the results.
//!
//! Segments are weighted by a window, added, and divided by the sum of the windows. The sound
//! arrives and leaves in pieces; only the samples that a segment may still need are kept.

use super::stereo::StereoSound;

/// How a sound of known length is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentPlan {
    /// Samples in a segment.
    pub(super) segment: usize,
    /// Samples from the start of one segment to the start of the next.
    pub(super) step: usize,
    /// Silence before the sound, which is cut off again.
    pub(super) lead: usize,
    /// The sound with silence before and after it.
    pub(super) total: usize,
    /// The sound.
    pub(super) frames: usize,
    pub(super) fade: SegmentFade,
}

/// How segments are weighted, and the position of a short last one in its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SegmentFade {
    /// Not at all; at the start.
    None,
    /// A symmetric Hann window of the short one's own length; at the start.
    Hann,
    /// The first part of a triangle; in the middle, with more of the sound before it.
    Triangle,
}

impl SegmentPlan {
    /// How many segments there are.
    pub(super) fn count(&self) -> usize {
        self.total.div_ceil(self.step)
    }

    /// Where segment `number` starts, in the padded sound.
    fn start(&self, number: usize) -> usize {
        number * self.step
    }

    /// How many of the segment's samples are in the padded sound.
    fn covered_samples(&self, number: usize) -> usize {
        self.segment.min(self.total - self.start(number))
    }

    /// How many of its samples precede those.
    fn leading_samples(&self, number: usize) -> usize {
        match self.fade {
            SegmentFade::None | SegmentFade::Hann => 0,
            // Demucs puts a short last segment into the middle and fills both ends with the sound
            // around it.
            SegmentFade::Triangle => (self.segment - self.covered_samples(number)) / 2,
        }
    }

    /// The position of the segment's first sample in the sound itself. Below zero there is silence.
    fn input_start(&self, number: usize) -> isize {
        self.start(number).cast_signed()
            - self.leading_samples(number).cast_signed()
            - self.lead.cast_signed()
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "segments are short, and weights single precision"
    )]
    fn weight(&self, number: usize) -> Vec<f32> {
        let covered = self.covered_samples(number);
        match self.fade {
            SegmentFade::None => vec![1.0; covered],
            SegmentFade::Hann if covered == 1 => vec![1.0],
            SegmentFade::Hann => {
                let radians_per_sample = std::f64::consts::TAU / (covered - 1) as f64;
                let hann = |i: usize| (0.5 - 0.5 * (radians_per_sample * i as f64).cos()) as f32;
                (0..covered).map(hann).collect()
            }
            SegmentFade::Triangle => {
                let half = (self.segment - self.segment / 2) as f32;
                let height = |i: usize| (i + 1).min(self.segment - i) as f32 / half;
                (0..covered).map(height).collect()
            }
        }
    }
}

/// Samples from the start of one segment to the next, which overlap by this fraction.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "segments are short, and the overlap is below 1"
)]
pub(super) fn step(segment: usize, overlap: f64) -> usize {
    (((1.0 - overlap) * segment as f64) as usize).max(1)
}

/// The state of the work on one sound.
pub(super) struct SegmentStitcher {
    plan: SegmentPlan,
    /// The next segment's number.
    next: usize,
    /// The sound from sample `sound_start` on.
    sound: StereoSound,
    sound_start: usize,
    /// Weighted sums of each stem's channels from the next segment's start on.
    sums: Vec<StereoSound>,
    weights: Vec<f32>,
}

impl SegmentStitcher {
    pub(super) fn new(plan: SegmentPlan, stems: usize) -> Self {
        Self {
            plan,
            next: 0,
            sound: StereoSound::default(),
            sound_start: 0,
            sums: vec![StereoSound::default(); stems],
            weights: Vec::new(),
        }
    }

    /// The buffer for the next samples; it must not get more samples than planned.
    pub(super) fn input_buffer(&mut self) -> &mut StereoSound {
        &mut self.sound
    }

    /// The next segment, if all of it has arrived.
    pub(super) fn segment(&self) -> Option<StereoSound> {
        if self.next == self.plan.count() {
            return None;
        }
        let start = self.plan.input_start(self.next);
        let end = start + self.plan.segment.cast_signed();
        let clamp_to_sound =
            |position: isize| position.max(0).cast_unsigned().min(self.plan.frames);
        let (first, last) = (clamp_to_sound(start), clamp_to_sound(end));
        if self.sound_start + self.sound[0].len() < last {
            return None;
        }
        let silence = (first.cast_signed() - start)
            .cast_unsigned()
            .min(self.plan.segment);
        Some(std::array::from_fn(|side| {
            let mut segment = vec![0.0; silence];
            segment.extend_from_slice(
                &self.sound[side][first - self.sound_start..last - self.sound_start],
            );
            segment.resize(self.plan.segment, 0.0);
            segment
        }))
    }

    /// Adds the results of the segment last returned, and returns the samples that no later segment
    /// changes.
    pub(super) fn add(&mut self, stems: &[StereoSound]) -> Vec<StereoSound> {
        let plan = self.plan;
        let (covered, before) = (
            plan.covered_samples(self.next),
            plan.leading_samples(self.next),
        );
        let weight = plan.weight(self.next);
        add(&mut self.weights, &weight, &vec![1.0; covered]);
        for (sums, result) in self.sums.iter_mut().zip(stems) {
            for (sum, result) in sums.iter_mut().zip(result) {
                add(sum, &weight, &result[before..before + covered]);
            }
        }
        let start = plan.start(self.next);
        self.next += 1;
        let end = if self.next == plan.count() {
            plan.total
        } else {
            plan.start(self.next)
        };
        // The padding around the sound is cut off.
        let clamp_to_sound = |position: usize| position.clamp(plan.lead, plan.lead + plan.frames);
        let from = clamp_to_sound(start).saturating_sub(start);
        let to = clamp_to_sound(end).saturating_sub(start);
        let finished = self.sums.iter().map(|sums| {
            std::array::from_fn(|side| {
                let values = sums[side][..end - start].iter().zip(&self.weights);
                // The weight is zero only in the padding, at the zero ends of a Hann window.
                let divided = values.map(|(x, w)| if *w > 0.0 { x / w } else { 0.0 });
                divided.skip(from).take(to - from).collect()
            })
        });
        let finished = finished.collect();
        let used = end - start;
        self.weights.drain(..used);
        for sum in self.sums.iter_mut().flatten() {
            sum.drain(..used);
        }
        self.drop_unneeded();
        finished
    }

    /// Drops the sound that no segment needs any more.
    fn drop_unneeded(&mut self) {
        if self.next == self.plan.count() {
            return;
        }
        let first_needed = self.plan.input_start(self.next).max(0).cast_unsigned();
        let end = self.sound_start + self.sound[0].len();
        let unneeded = first_needed.clamp(self.sound_start, end) - self.sound_start;
        for side in &mut self.sound {
            side.drain(..unneeded);
        }
        self.sound_start += unneeded;
    }
}

/// Adds weighted values to a sum that may not reach that far yet.
fn add(sum: &mut Vec<f32>, weight: &[f32], values: &[f32]) {
    if sum.len() < values.len() {
        sum.resize(values.len(), 0.0);
    }
    for ((sum, w), x) in sum.iter_mut().zip(weight).zip(values) {
        *sum += w * x;
    }
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "made-up signals are short")]
mod tests {
    use super::*;

    fn plan(
        fade: SegmentFade,
        segment: usize,
        step: usize,
        lead: usize,
        frames: usize,
    ) -> SegmentPlan {
        let total = if lead == 0 { frames } else { frames + 3 * lead };
        SegmentPlan {
            segment,
            step,
            lead,
            total,
            frames,
            fade,
        }
    }

    #[test]
    fn untouched_segments_give_the_sound_back() {
        for frames in [1, 2, 5, 99, 100, 101, 175, 1_000] {
            for plan in [
                plan(SegmentFade::None, 100, 100, 0, frames),
                plan(SegmentFade::Hann, 100, 75, 20, frames),
                plan(SegmentFade::Triangle, 100, 75, 0, frames),
                plan(SegmentFade::Triangle, 101, 30, 0, frames),
            ] {
                let sound: Vec<f32> = (0..frames).map(|i| (i as f32).sin()).collect();
                let mut stitcher = SegmentStitcher::new(plan, 1);
                let mut stitched = Vec::new();
                for piece in sound.chunks(7) {
                    stitcher
                        .input_buffer()
                        .iter_mut()
                        .for_each(|side| side.extend_from_slice(piece));
                    while let Some(segment) = stitcher.segment() {
                        assert_eq!(segment[0].len(), plan.segment);
                        let [finished] = &stitcher.add(&[segment])[..] else {
                            unreachable!()
                        };
                        stitched.extend_from_slice(&finished[1]);
                    }
                }
                let is_close = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
                assert_eq!(stitched.len(), frames, "{plan:?}");
                assert!(stitched.iter().zip(&sound).all(is_close), "{plan:?}");
            }
        }
    }

    #[test]
    fn windows_are_the_published_ones() {
        let plan = plan(SegmentFade::Triangle, 5, 3, 0, 7);
        assert_eq!(plan.weight(0), [1.0, 2.0, 3.0, 2.0, 1.0].map(|x| x / 3.0));
        assert_eq!(
            (
                plan.count(),
                plan.covered_samples(2),
                plan.leading_samples(2)
            ),
            (3, 1, 2)
        );
        assert_eq!(plan.input_start(2), 4);
        let plan = SegmentPlan {
            fade: SegmentFade::Hann,
            ..plan
        };
        assert_eq!(plan.weight(0), [0.0, 0.5, 1.0, 0.5, 0.0]);
    }
}
