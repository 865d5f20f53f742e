//! Film quality: one quantiser for a whole film, and the other settings of its encoder.
//!
//! Quality is constant and the size has a ceiling. The encoder's own rate control is for networks:
//! it answers a hard passage with coarser frames, which are visible as a pulse, or drops frames. A
//! file needs neither: every frame has the same quantiser. It is the coarsest one that looks as
//! good as any finer one or, if the film then exceeds the ceiling, a coarser one that keeps it
//! below.

use crate::options::RenderOptions;
use h264::I420Frame;
use h264::{Encoder, EncoderError, PYRAMID, StreamFormat};

/// The quantiser of H.264, fixed for the whole film.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quality(u8);

impl Quality {
    /// The best quality below [`Self::BEST`] that seems to keep a film under its ceiling, from a
    /// few consecutive frames in its middle.
    pub(crate) fn measure(
        sample: &[I420Frame],
        options: &RenderOptions,
    ) -> Result<Self, EncoderError> {
        // The best quality is known to be too large, otherwise this would not be called. The worst
        // is accepted in any case.
        let (mut too_large, mut fits) = (Self::BEST.0, Self::WORST.0);
        while fits - too_large > 1 {
            let middle = u8::midpoint(too_large, fits);
            if Self(middle).seems_to_fit(sample, options)? {
                fits = middle;
            } else {
                too_large = middle;
            }
        }
        Ok(Self(fits))
    }

    /// Whether a film of such frames would stay under the ceiling.
    fn seems_to_fit(
        self,
        sample: &[I420Frame],
        options: &RenderOptions,
    ) -> Result<bool, EncoderError> {
        // A new encoder begins with a key frame. Key frames are counted apart, because the film has
        // few of them and they are much larger than the others.
        let mut encoder = Encoder::new(format(options), self.0)?;
        let mut packet = Vec::new();
        let mut key_bytes = 0;
        for (i, frame) in sample.iter().enumerate() {
            encoder.encode(frame, &mut packet)?;
            if i == 0 {
                key_bytes = packet.len();
            }
        }
        let others = sample.len().saturating_sub(1).max(1);
        #[expect(clippy::cast_precision_loss, reason = "a few megabytes at most")]
        let (key, other, ceiling) = (
            key_bytes as f64,
            (packet.len() - key_bytes) as f64 / others as f64,
            options.max_video_bytes() as f64,
        );
        let frames = f64::from(options.frames());
        let keys = (frames / f64::from(group_length(options))).ceil();
        Ok(keys * key + (frames - keys) * other <= ceiling * SIZE_MARGIN)
    }

    /// One step coarser, about an eighth fewer bits; `None` at the end of the scale.
    pub(crate) fn coarser(self) -> Option<Self> {
        (self < Self::WORST).then_some(Self(self.0 + 1))
    }

    /// The quantiser of H.264, 0 to 51.
    pub(crate) fn quantiser(self) -> u8 {
        self.0
    }

    /// Finer quantisers do not look better.
    pub(crate) const BEST: Self = Self(31);

    /// The end of the scale: even white noise takes a hundredth of the ceiling.
    const WORST: Self = Self(51);
}

/// What the frames of a film have in common.
pub(crate) fn format(options: &RenderOptions) -> StreamFormat {
    let bits = options.max_video_bytes() * 8 * u64::from(options.fps) / u64::from(options.frames());
    StreamFormat {
        width: options.width,
        height: options.height,
        fps: options.fps,
        group: group_length(options),
        bits_per_second: u32::try_from(bits).unwrap_or(u32::MAX),
    }
}

/// A guess from a few frames aims below the ceiling: exceeding it means encoding again.
const SIZE_MARGIN: f64 = 0.94;

/// Frames from one key frame to the next: whole pyramids, in groups about equally long.
pub(crate) fn group_length(options: &RenderOptions) -> u32 {
    let longest = LONGEST_GROUP_SECONDS.0 * options.fps / LONGEST_GROUP_SECONDS.1;
    // Equal groups, instead of full ones and a short rest: a key frame near the end would cost its
    // bytes for a few frames.
    let groups = options.frames().div_ceil(longest / PYRAMID * PYRAMID);
    options.frames().div_ceil(groups).next_multiple_of(PYRAMID)
}

/// Maximum seconds from key frame to key frame, as a fraction. A key frame takes as many bytes as
/// half a second of motion, but seeking must decode from the last one.
const LONGEST_GROUP_SECONDS: (u32, u32) = (16, 3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_falls_step_by_step_to_the_end_of_the_scale() {
        let mut quality = Some(Quality::BEST);
        let mut steps = 0;
        while let Some(next) = quality {
            quality = next.coarser();
            assert!(quality.is_none_or(|coarser| coarser > next));
            steps += 1;
        }
        assert_eq!(steps, u32::from(Quality::WORST.0 - Quality::BEST.0) + 1);
    }

    #[test]
    fn groups_are_whole_pyramids_of_five_seconds_or_so() {
        let lengths = [
            (5.0, 30, 152),
            (5.0, 25, 128),
            (1.0, 24, 24),
            (10.0, 30, 152),
            (20.0, 30, 152),
            (20.0, 24, 120),
        ];
        for (seconds, fps, length) in lengths {
            let options = RenderOptions {
                width: 480,
                height: 480,
                seconds,
                fps,
                seed: 0,
            };
            assert_eq!(group_length(&options), length, "{seconds} s at {fps}");
        }
    }
}
