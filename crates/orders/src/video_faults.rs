//! The demands of an order for a video, and the faults: those that a model does not meet.

use crate::frame_shape::FrameShape;
use crate::limits::{PicturePurpose, VideoLimits};
use crate::order::{Choice, VideoOptions};

/// What an order demands of a model.
#[derive(Debug, Clone, Copy)]
pub struct VideoDemand<'a> {
    pub prompt: &'a str,
    pub options: &'a VideoOptions,
    /// `None` for the model's default, as in the next two fields.
    pub seconds: Option<f64>,
    pub size: Option<(u32, u32)>,
    /// A frame without pixels, instead of a size.
    pub shape: FrameShape,
    /// How many pictures have no role in the order: frames, or references if the model takes only
    /// those.
    pub frames: usize,
    /// Whether the order names a last frame.
    pub has_last_frame: bool,
    /// How many reference pictures the order names.
    pub references: usize,
}

impl VideoDemand<'_> {
    /// Whether it has any picture.
    pub const fn has_pictures(&self) -> bool {
        self.frames + self.references > 0 || self.has_last_frame
    }
}

/// A part of an order that a model does not offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VideoFault {
    /// The length.
    Seconds,
    /// The size.
    Size,
    /// The resolution, at this aspect ratio.
    Resolution,
    /// The aspect ratio.
    AspectRatio,
    /// A choice between sound and none.
    Audio,
    /// A visible label.
    Label,
    /// A negative prompt.
    NegativePrompt,
    /// A seed.
    Seed,
    /// A prompt of this length.
    Prompt,
    /// This many pictures.
    Frames,
    /// A last frame.
    LastFrame,
    /// A last frame beside none or several other pictures.
    LastFrameAlone,
    /// This many reference pictures. `free` is the position of the first one that is too much.
    References { free: usize },
    /// Reference pictures together with frames.
    ReferencesAndFrames,
    /// An order without a picture.
    NoPicture,
}

impl VideoLimits {
    /// What the model does not offer of an order. The order fits if that is nothing.
    pub fn faults(&self, demand: &VideoDemand<'_>) -> Vec<VideoFault> {
        let options = demand.options;
        let chooses_sound = options.audio.and_then(Choice::asked).is_some();
        let chooses_seed = options.seed.and_then(Choice::asked).is_some();
        let chooses_negative = options.negative_prompt.is_some();
        let is_too_long = demand.prompt.chars().count() > self.max_prompt;
        let found = [
            (!self.offers_length(demand.seconds)).then_some(VideoFault::Seconds),
            self.frame_fault(demand),
            (chooses_sound && self.audio.is_none()).then_some(VideoFault::Audio),
            (options.label && !self.label).then_some(VideoFault::Label),
            (chooses_negative && !self.negative_prompt).then_some(VideoFault::NegativePrompt),
            (chooses_seed && !self.seed).then_some(VideoFault::Seed),
            is_too_long.then_some(VideoFault::Prompt),
        ];
        let pictures = self.picture_faults(demand);
        found.into_iter().flatten().chain(pictures).collect()
    }

    fn offers_length(&self, seconds: Option<f64>) -> bool {
        seconds.is_none_or(|seconds| {
            let is_whole = self.fractions || seconds.fract() == 0.0;
            is_whole && self.durations.contains(seconds)
        })
    }

    fn frame_fault(&self, demand: &VideoDemand<'_>) -> Option<VideoFault> {
        if let Some(size) = demand.size {
            return (!self.sizes.contains(&size)).then_some(VideoFault::Size);
        }
        let is_offered = |shape: FrameShape| {
            shape.is_unspecified() || shape.best_match(&self.sizes, None).is_some()
        };
        if is_offered(demand.shape) {
            return None;
        }
        // Determines which of the two fields cannot be satisfied.
        let shape_alone = FrameShape {
            resolution: None,
            ..demand.shape
        };
        Some(if is_offered(shape_alone) {
            VideoFault::Resolution
        } else {
            VideoFault::AspectRatio
        })
    }

    fn picture_faults(&self, demand: &VideoDemand<'_>) -> Vec<VideoFault> {
        let pictures = &self.pictures;
        let share_slots = pictures.purpose == PicturePurpose::References;
        let mut faults = Vec::new();
        if demand.frames > pictures.max {
            faults.push(VideoFault::Frames);
        }
        if demand.has_last_frame && !pictures.takes_last_frame() {
            faults.push(VideoFault::LastFrame);
        } else if demand.has_last_frame && demand.frames != 1 {
            faults.push(VideoFault::LastFrameAlone);
        }
        let taken = if share_slots { demand.frames } else { 0 };
        let free = pictures.most_references().saturating_sub(taken);
        if demand.references > free {
            faults.push(VideoFault::References { free });
        } else if demand.references > 0
            && !share_slots
            && (demand.frames > 0 || demand.has_last_frame)
        {
            faults.push(VideoFault::ReferencesAndFrames);
        }
        if pictures.needed && !demand.has_pictures() {
            faults.push(VideoFault::NoPicture);
        }
        faults
    }
}
