//! Formats and limits of pictures, and the errors of decoding.

use super::foreign;

/// Limits of [`decode`](super::decode()).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureLimits {
    /// Maximum number of pixels, in millions.
    pub max_megapixels: u32,
    /// Longest side, in pixels: rejects strips that are small by area but useless as a frame.
    pub max_side: u32,
    /// Maximum memory for decoding, in bytes, including the decoded pixels.
    pub max_memory_bytes: u64,
}

impl Default for PictureLimits {
    /// 50 megapixels, 30 000 pixels a side, 512 MB.
    fn default() -> Self {
        Self {
            max_megapixels: 50,
            max_side: 30_000,
            max_memory_bytes: 512 << 20,
        }
    }
}

/// Supported formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PictureFormat {
    /// JPEG, baseline and progressive; grey, colour and CMYK.
    Jpeg,
    /// PNG at every depth.
    Png,
    /// WebP, lossy and lossless; the first frame of an animated one.
    WebP,
    /// GIF; the first frame.
    Gif,
    /// Windows bitmap.
    Bmp,
    /// TIFF; the first page.
    Tiff,
}

impl PictureFormat {
    /// The media type, as in `Content-Type`.
    pub fn mime(self) -> &'static str {
        self.describe().0
    }

    /// The usual file name extension, without the dot.
    pub fn extension(self) -> &'static str {
        self.describe().1
    }

    fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::Jpeg => ("image/jpeg", "jpg"),
            Self::Png => ("image/png", "png"),
            Self::WebP => ("image/webp", "webp"),
            Self::Gif => ("image/gif", "gif"),
            Self::Bmp => ("image/bmp", "bmp"),
            Self::Tiff => ("image/tiff", "tiff"),
        }
    }

    pub(super) fn detect(bytes: &[u8]) -> Result<(Self, image::ImageFormat), PictureError> {
        if bytes.is_empty() {
            return Err(PictureError::Empty);
        }
        if let Some((name, instead)) = foreign::name(bytes) {
            return Err(PictureError::Foreign { name, instead });
        }
        let guess = image::guess_format(bytes).map_err(|_| PictureError::UnknownFormat)?;
        let format = match guess {
            image::ImageFormat::Jpeg => Self::Jpeg,
            image::ImageFormat::Png => Self::Png,
            image::ImageFormat::WebP => Self::WebP,
            image::ImageFormat::Gif => Self::Gif,
            image::ImageFormat::Bmp => Self::Bmp,
            image::ImageFormat::Tiff => Self::Tiff,
            other => {
                return Err(PictureError::Unsupported {
                    variant: other.to_mime_type().to_owned(),
                });
            }
        };
        Ok((format, guess))
    }
}

/// Why a picture cannot be used. The messages are for its sender.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PictureError {
    /// No bytes at all.
    #[error("the image is empty (0 bytes)")]
    Empty,
    /// Not a known format.
    #[error("the image format is unknown; send JPEG, PNG, WebP, GIF, BMP or TIFF")]
    UnknownFormat,
    /// Something else, or a variety that cannot be decoded correctly.
    #[error("this is {name}: send {instead}")]
    Foreign {
        /// With its article: "an HEIC photo".
        name: &'static str,
        /// What to send instead.
        instead: &'static str,
    },
    /// A known format, but an unsupported variety.
    #[error("this variant of the format is not supported: {variant}")]
    Unsupported {
        /// The variety, in a few words.
        variant: String,
    },
    /// The bytes are invalid.
    #[error("the image is damaged: {reason}")]
    Damaged {
        /// The decoder's reason.
        reason: String,
    },
    /// More pixels than allowed.
    #[error("the image has {megapixels} megapixels; the limit is {limit}")]
    TooLarge {
        /// The picture's size in megapixels, rounded up.
        megapixels: u32,
        /// In megapixels.
        limit: u32,
    },
    /// A side longer than allowed.
    #[error("the image is {side} pixels on its longer side; the limit is {limit}")]
    TooLong {
        /// The longer side, in pixels.
        side: u32,
        /// In pixels.
        limit: u32,
    },
    /// More scans than a picture of its size can reasonably have.
    #[error(
        "the image has {scans} scans of {megapixels} megapixels; the limit is {limit} at that size"
    )]
    TooManyScans {
        /// Passes over all its pixels.
        scans: u64,
        /// The picture's size in megapixels, rounded up.
        megapixels: u32,
        /// Maximum number of scans at this size.
        limit: u64,
    },
    /// Decoding would need more memory than allowed.
    #[error("the picture needs more than {limit_mb} MB of memory to decode")]
    TooMuchMemory {
        /// In megabytes.
        limit_mb: u64,
    },
}

/// This many pixels in megapixels, rounded up.
pub(super) fn megapixels(pixels: u64) -> u32 {
    u32::try_from(pixels.div_ceil(1_000_000)).unwrap_or(u32::MAX)
}

pub(super) fn check_size(
    width: u32,
    height: u32,
    limits: &PictureLimits,
) -> Result<(), PictureError> {
    if width == 0 || height == 0 {
        return Err(PictureError::Damaged {
            reason: "it has no pixels".to_owned(),
        });
    }
    let pixels = u64::from(width) * u64::from(height);
    if pixels > u64::from(limits.max_megapixels) * 1_000_000 {
        return Err(PictureError::TooLarge {
            megapixels: megapixels(pixels),
            limit: limits.max_megapixels,
        });
    }
    let side = width.max(height);
    if side > limits.max_side {
        return Err(PictureError::TooLong {
            side,
            limit: limits.max_side,
        });
    }
    Ok(())
}
