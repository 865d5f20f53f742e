//! Decoding of untrusted pictures.
//!
//! Every limit is checked before memory for the pixels is allocated.

use std::error::Error;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::metadata::Orientation;
use image::{ColorType, DynamicImage, ImageDecoder, ImageError, ImageReader};

use super::background_fill::{self, BackgroundFill};
use super::colour::{self, PixelLayout};
use super::decode_cost;
use super::deep_png;
use super::limits::{PictureError, PictureFormat, PictureLimits, check_size, megapixels};
use super::png_gamma;
use super::rgb_picture::Picture;

/// What is known about a picture before it is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureInfo {
    /// Detected from the bytes.
    pub format: PictureFormat,
    /// In pixels, with orientation applied.
    pub width: u32,
    /// In pixels, with orientation applied.
    pub height: u32,
    /// Memory that [`decode`] needs at most, besides the input.
    pub decoding_bytes: u64,
    /// CPU cost of decoding, in passes over a million pixels, rounded up: a JPEG takes one pass for
    /// each of its scans.
    pub work: u32,
}

/// Decodes any supported format, and lays a transparent picture over [`BackgroundFill::Contrast`].
/// Never panics.
pub fn decode(bytes: &[u8], limits: &PictureLimits) -> Result<Picture, PictureError> {
    decode_over(bytes, limits, BackgroundFill::default())
}

/// Like [`decode`], but with a chosen background for transparency.
pub fn decode_over(
    bytes: &[u8],
    limits: &PictureLimits,
    ground: BackgroundFill,
) -> Result<Picture, PictureError> {
    catch_panics(|| {
        let (mut decoder, info) = open(bytes, limits)?;
        let orientation = orientation_of(&mut decoder);
        // Orientation and profile are read before the pixels, because decoding consumes the
        // decoder. A profile that cannot be read is ignored.
        let profile = decoder.icc_profile().ok().flatten();
        let image = if info.format == PictureFormat::Png && deep_png::is_deep(decoder.color_type())
        {
            drop(decoder);
            deep_png::decode(bytes, limits.max_memory_bytes)
        } else {
            DynamicImage::from_decoder(decoder)
        };
        let image = image.map_err(|error| translate(info.format, &error, limits))?;
        let gamma = (info.format == PictureFormat::Png && profile.is_none())
            .then(|| png_gamma::table(bytes))
            .flatten();
        let colours = PictureColours {
            profile: profile.as_deref(),
            gamma,
        };
        Ok(finish(image, orientation, &colours, ground))
    })
}

/// Finds out size and cost without decoding a pixel.
pub fn probe(bytes: &[u8], limits: &PictureLimits) -> Result<PictureInfo, PictureError> {
    catch_panics(|| {
        let (mut decoder, mut info) = open(bytes, limits)?;
        if swaps_sides(orientation_of(&mut decoder)) {
            std::mem::swap(&mut info.width, &mut info.height);
        }
        Ok(info)
    })
}

/// Runs a decoder and catches panics.
///
/// Decoders are third-party code for untrusted bytes. They should not panic, but each has had
/// releases that did; a caller's file must not take the worker's thread with it. Unwinding leaves
/// nothing half-changed: the closure owns all it touches.
fn catch_panics<T>(work: impl FnOnce() -> Result<T, PictureError>) -> Result<T, PictureError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(PictureError::Damaged {
            reason: "the decoder failed".to_owned(),
        })
    })
}

/// A decoder that has read the header, which is within all limits.
fn open<'a>(
    bytes: &'a [u8],
    limits: &PictureLimits,
) -> Result<(impl ImageDecoder + use<'a>, PictureInfo), PictureError> {
    let (format, image_format) = PictureFormat::detect(bytes)?;
    let mut reader = ImageReader::with_format(Cursor::new(bytes), image_format);
    // Sides are checked below, where the message can have both the size and the limit.
    let mut image_limits = image::Limits::no_limits();
    image_limits.max_alloc = Some(limits.max_memory_bytes);
    reader.limits(image_limits);
    let decoder = reader
        .into_decoder()
        .map_err(|error| translate(format, &error, limits))?;
    let (width, height) = decoder.dimensions();
    check_size(width, height, limits)?;
    let cost = decode_cost::measure_cost(format, bytes, (width, height), limits)?;
    let colour = decoder.color_type();
    let is_deep_png = format == PictureFormat::Png && deep_png::is_deep(colour);
    // Decoded row by row, to eight bits.
    let total_bytes = decoder.total_bytes() / if is_deep_png { 2 } else { 1 };
    // A frame decoded into a buffer of its own has four bytes a pixel.
    let frame_bytes = 4 * cost.frame_pixels;
    if total_bytes + frame_bytes > limits.max_memory_bytes {
        return Err(too_much_memory(limits));
    }
    let pixels = u64::from(width) * u64::from(height);
    Ok((
        decoder,
        PictureInfo {
            format,
            width,
            height,
            decoding_bytes: decoding_bytes(format, pixels, total_bytes, colour) + frame_bytes,
            work: megapixels(pixels * cost.passes + cost.frame_pixels),
        },
    ))
}

/// The pixels as they are decoded; a second copy of that size, which some decoders and the rotation
/// need; and both eight-bit forms that follow, with and without transparency.
fn decoding_bytes(format: PictureFormat, pixels: u64, total_bytes: u64, colour: ColorType) -> u64 {
    let (rgba, rgb) = (4 * pixels, 3 * pixels);
    if format != PictureFormat::Png {
        return 2 * total_bytes + rgba + rgb;
    }
    // PNG is decoded in place, so no more than two of these exist at once.
    if colour.has_alpha() {
        (2 * total_bytes).max(total_bytes + rgba).max(rgba + rgb)
    } else {
        (2 * total_bytes).max(total_bytes + rgb)
    }
}

/// Ignores an unreadable orientation: the picture itself may be fine.
fn orientation_of(decoder: &mut impl ImageDecoder) -> Orientation {
    decoder.orientation().unwrap_or(Orientation::NoTransforms)
}

fn swaps_sides(orientation: Orientation) -> bool {
    matches!(
        orientation,
        Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH
    )
}

/// What a file says about its colours.
struct PictureColours<'a> {
    profile: Option<&'a [u8]>,
    /// From its values to those of sRGB.
    gamma: Option<[u8; 256]>,
}

impl PictureColours<'_> {
    fn convert(&self, pixels: &mut [u8], layout: PixelLayout) {
        if let Some(icc) = self.profile {
            colour::to_srgb(pixels, layout, icc);
        }
        if let Some(table) = &self.gamma {
            for pixel in pixels.chunks_exact_mut(layout as usize) {
                for value in &mut pixel[..3] {
                    *value = table[usize::from(*value)];
                }
            }
        }
    }
}

fn finish(
    mut image: DynamicImage,
    orientation: Orientation,
    colours: &PictureColours<'_>,
    ground: BackgroundFill,
) -> Picture {
    image.apply_orientation(orientation);
    let (width, height) = (image.width(), image.height());
    let rgb = if image.color().has_alpha() {
        // Colours are converted before the background is laid under them, which is sRGB already.
        let mut rgba = image.into_rgba8().into_raw();
        colours.convert(&mut rgba, PixelLayout::Rgba);
        background_fill::lay_over(&rgba, ground)
    } else {
        let mut rgb = image.into_rgb8().into_raw();
        colours.convert(&mut rgb, PixelLayout::Rgb);
        rgb
    };
    Picture::from_decoded(width, height, rgb)
}

fn too_much_memory(limits: &PictureLimits) -> PictureError {
    PictureError::TooMuchMemory {
        limit_mb: limits.max_memory_bytes >> 20,
    }
}

fn translate(format: PictureFormat, error: &ImageError, limits: &PictureLimits) -> PictureError {
    match error {
        ImageError::Limits(_) => too_much_memory(limits),
        ImageError::Unsupported(unsupported) => PictureError::Unsupported {
            variant: shorten_message(&unsupported.to_string()),
        },
        other => {
            // The cause says what is wrong; the outer error only that something is.
            let message = other
                .source()
                .map_or_else(|| other.to_string(), ToString::to_string);
            let lowercase = message.to_lowercase();
            let reason = if EARLY_END_MESSAGES
                .iter()
                .any(|early_end| lowercase.contains(early_end))
            {
                format!(
                    "the {} data ends too early",
                    format.extension().to_uppercase()
                )
            } else {
                shorten_message(&message)
            };
            PictureError::Damaged { reason }
        }
    }
}

/// Decoders' messages for missing bytes.
const EARLY_END_MESSAGES: &[&str] = &[
    "enough bytes",
    "failed to fill",
    "unexpected end",
    "end of file",
    "eof",
    "exhausted",
];

/// A line of a decoder's message, shortened.
fn shorten_message(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    line.chars().take(160).collect()
}
