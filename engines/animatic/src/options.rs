//! Options: size, length and frame rate of the video.
//!
//! An explicit option overrides the prompt, which overrides the picture, which overrides the
//! default. An explicit value out of range is refused by name; a length in the prompt is clamped,
//! because prose is not a contract.

use crate::direction::{Direction, FrameShape};
use crate::limits::{MAX_SECONDS, MIN_SECONDS};

/// Supported sizes, `(width, height)`, all even, as H.264 with 4:2:0 colour requires.
pub const SIZES: &[(u32, u32)] = &[
    // 16:9 and 9:16
    (854, 480),
    (960, 540),
    (1280, 720),
    (1920, 1080),
    (480, 854),
    (540, 960),
    (720, 1280),
    (1080, 1920),
    // 7:4 and 4:7, which clients of hosted video models use
    (1792, 1024),
    (1024, 1792),
    // 1:1
    (480, 480),
    (720, 720),
    (1024, 1024),
    (1080, 1080),
    // 4:3 and 3:4
    (640, 480),
    (960, 720),
    (1440, 1080),
    (480, 640),
    (720, 960),
    (1080, 1440),
    // 21:9
    (1120, 480),
    (1680, 720),
    (2520, 1080),
];

/// Supported frame rates.
pub const FPS: &[u32] = &[24, 25, 30];

/// What to make. [`RenderOptions::check`] validates it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RenderOptions {
    /// Width in pixels; with `height` one of [`SIZES`].
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Length in seconds, [`MIN_SECONDS`] to [`MAX_SECONDS`]; the video has the nearest whole
    /// number of frames.
    pub seconds: f64,
    /// Frames per second, one of [`FPS`].
    pub fps: u32,
    /// Seed for the drawn scene and the shake of a handheld camera.
    pub seed: u64,
}

/// What the caller set explicitly, and the size of the picture.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RequestedOptions {
    /// Width and height in pixels.
    pub size: Option<(u32, u32)>,
    /// Length in seconds.
    pub seconds: Option<f64>,
    /// Frames per second.
    pub fps: Option<u32>,
    /// 0 if `None`.
    pub seed: Option<u64>,
    /// The size of the source picture, whose shape is the default.
    pub picture: Option<(u32, u32)>,
}

/// An invalid option. [`OptionsError::field`] names it.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum OptionsError {
    /// The size is not one of [`SIZES`].
    #[error(
        "size {width}x{height} is not offered; choose one of {}",
        offered_sizes()
    )]
    Size { width: u32, height: u32 },
    /// The length is out of range, or not a number.
    #[error("seconds must be from {MIN_SECONDS} to {MAX_SECONDS}, not {value}")]
    Seconds { value: f64 },
    /// The frame rate is not one of [`FPS`].
    #[error("fps must be 24, 25 or 30, not {value}")]
    Fps { value: u32 },
}

impl RenderOptions {
    /// Decides every option, with the precedence explicit, prompt, picture, default.
    pub fn resolve(
        requested: &RequestedOptions,
        direction: &Direction,
    ) -> Result<Self, OptionsError> {
        let shape = direction
            .shape
            .or_else(|| requested.picture.map(FrameShape::nearest))
            .unwrap_or(FrameShape::Wide);
        let (width, height) = requested.size.unwrap_or_else(|| default_size(shape));
        let from_prompt = direction.seconds.map(|s| s.clamp(MIN_SECONDS, MAX_SECONDS));
        let options = Self {
            width,
            height,
            seconds: requested.seconds.or(from_prompt).unwrap_or(DEFAULT_SECONDS),
            fps: requested.fps.unwrap_or(DEFAULT_FPS),
            seed: requested.seed.unwrap_or(0),
        };
        options.check()?;
        Ok(options)
    }

    /// Validates each option.
    pub fn check(&self) -> Result<(), OptionsError> {
        if !SIZES.contains(&(self.width, self.height)) {
            return Err(OptionsError::Size {
                width: self.width,
                height: self.height,
            });
        }
        // Written so that NaN is rejected too.
        if !(MIN_SECONDS..=MAX_SECONDS).contains(&self.seconds) {
            return Err(OptionsError::Seconds {
                value: self.seconds,
            });
        }
        if !FPS.contains(&self.fps) {
            return Err(OptionsError::Fps { value: self.fps });
        }
        Ok(())
    }

    /// The number of frames in the video.
    pub fn frames(&self) -> u32 {
        // In range by `check`: at most 20 s of 30 frames. The clamp keeps an unchecked value sane.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to 1..=600 first"
        )]
        let frames = (self.seconds * f64::from(self.fps))
            .round()
            .clamp(1.0, 600.0) as u32;
        frames
    }
}

impl RenderOptions {
    /// Limit of the video track: 8 Mbit/s at 1280x720 and 30 frames per second, in proportion for
    /// others. Most videos stay far below.
    pub fn max_video_bytes(&self) -> u64 {
        let pixels = u64::from(self.width) * u64::from(self.height) * u64::from(self.frames());
        pixels * MILLIBITS_PER_PIXEL / 8000
    }
}

impl OptionsError {
    /// The invalid option: `size`, `seconds` or `fps`.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Size { .. } => "size",
            Self::Seconds { .. } => "seconds",
            Self::Fps { .. } => "fps",
        }
    }
}

fn default_size(shape: FrameShape) -> (u32, u32) {
    match shape {
        FrameShape::Wide => (1280, 720),
        FrameShape::Vertical => (720, 1280),
        FrameShape::Square => (720, 720),
        FrameShape::Classic => (960, 720),
        FrameShape::ClassicVertical => (720, 960),
        FrameShape::Cinema => (1680, 720),
    }
}

fn offered_sizes() -> String {
    let names: Vec<String> = SIZES.iter().map(|(w, h)| format!("{w}x{h}")).collect();
    names.join(", ")
}

// 8 Mbit/s over 1280 * 720 * 30 pixels a second is 0.289 bits a pixel.
const MILLIBITS_PER_PIXEL: u64 = 290;
const DEFAULT_SECONDS: f64 = 5.0;
const DEFAULT_FPS: u32 = 30;

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(requested: RequestedOptions, prompt: &str) -> Result<RenderOptions, OptionsError> {
        RenderOptions::resolve(&requested, &Direction::parse(prompt))
    }

    #[test]
    fn explicit_beats_prompt_beats_picture_beats_default() {
        let plain = resolve(RequestedOptions::default(), "a cat").unwrap();
        assert_eq!(
            (plain.width, plain.height, plain.fps, plain.seed),
            (1280, 720, 30, 0)
        );
        assert!((plain.seconds - 5.0).abs() < 1e-9);

        let tall = RequestedOptions {
            picture: Some((3000, 4000)),
            ..RequestedOptions::default()
        };
        let by_picture = resolve(tall, "a cat").unwrap();
        assert_eq!((by_picture.width, by_picture.height), (720, 960));

        let by_prompt = resolve(tall, "a cat, 16:9, 8 seconds").unwrap();
        assert_eq!((by_prompt.width, by_prompt.height), (1280, 720));
        assert_eq!(by_prompt.frames(), 240);

        let requested = RequestedOptions {
            size: Some((480, 480)),
            seconds: Some(2.0),
            fps: Some(24),
            ..tall
        };
        let explicit = resolve(requested, "a cat, 16:9, 8 seconds").unwrap();
        assert_eq!(
            (explicit.width, explicit.height, explicit.frames()),
            (480, 480, 48)
        );
    }

    #[test]
    fn a_long_prompt_length_is_cut_and_a_long_explicit_one_refused() {
        let cut = resolve(RequestedOptions::default(), "90 seconds of fog").unwrap();
        assert!((cut.seconds - MAX_SECONDS).abs() < 1e-9);
        let refused = resolve(
            RequestedOptions {
                seconds: Some(90.0),
                ..RequestedOptions::default()
            },
            "",
        )
        .unwrap_err();
        assert_eq!(refused.field(), "seconds");
        let nan = resolve(
            RequestedOptions {
                seconds: Some(f64::NAN),
                ..RequestedOptions::default()
            },
            "",
        )
        .unwrap_err();
        assert_eq!(nan.field(), "seconds");
    }

    #[test]
    fn size_and_rate_outside_the_offer_are_named() {
        let size = resolve(
            RequestedOptions {
                size: Some((1281, 720)),
                ..RequestedOptions::default()
            },
            "",
        )
        .unwrap_err();
        assert_eq!(size.field(), "size");
        assert!(size.to_string().contains("1280x720"));
        let fps = resolve(
            RequestedOptions {
                fps: Some(60),
                ..RequestedOptions::default()
            },
            "",
        )
        .unwrap_err();
        assert_eq!(fps.field(), "fps");
    }

    #[test]
    fn every_size_is_even_and_listed_once() {
        for (i, size) in SIZES.iter().enumerate() {
            assert!(size.0 % 2 == 0 && size.1 % 2 == 0, "{size:?}");
            assert!(!SIZES[..i].contains(size), "{size:?} twice");
        }
    }
}
