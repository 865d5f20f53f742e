//! Decoded RGB pictures, and their JPEG files.

use image::codecs::jpeg::JpegEncoder;
use image::{ExtendedColorType, ImageEncoder};

/// An upright, opaque picture: rows of red, green, blue bytes from the top left, no padding.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    width: u32,
    height: u32,
    rgb: Vec<u8>,
}

/// An encoder refused a picture, with its message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the picture could not be written: {0}")]
pub struct WriteError(String);

impl Picture {
    /// `None` if a side is zero or `rgb` is not exactly `width * height * 3` bytes.
    pub fn from_rgb(width: u32, height: u32, rgb: Vec<u8>) -> Option<Self> {
        let expected = u64::from(width) * u64::from(height) * 3;
        (expected > 0 && rgb.len() as u64 == expected).then_some(Self { width, height, rgb })
    }

    /// A picture of decoded pixels, whose number fits the size.
    pub(super) fn from_decoded(width: u32, height: u32, rgb: Vec<u8>) -> Self {
        Self { width, height, rgb }
    }

    pub fn width(&self) -> u32 {
        self.width
    }

    pub fn height(&self) -> u32 {
        self.height
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    /// The pixels: red, green, blue, row by row from the top left.
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// Encodes a JPEG file; `quality` from 1 to 100.
    pub fn to_jpeg(&self, quality: u8) -> Result<Vec<u8>, WriteError> {
        let mut out = Vec::new();
        JpegEncoder::new_with_quality(&mut out, quality.clamp(1, 100))
            .write_image(&self.rgb, self.width, self.height, ExtendedColorType::Rgb8)
            .map_err(|error| WriteError(error.to_string()))?;
        Ok(out)
    }
}

impl std::fmt::Debug for Picture {
    /// Size only: a dump of the pixels would be useless.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Picture({}x{})", self.width, self.height)
    }
}
