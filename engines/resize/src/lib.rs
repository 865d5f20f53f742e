//! Resizes pictures and planes of 8-bit values, or parts of them.
//!
//! It owns: the resampling library, which no other crate uses. It must not know: films, cameras, how
//! a picture was decoded.
//!
//! It is a separate crate because the library is generic, and large: each crate that called it would
//! compile it again, and once more for its unit tests. No function of this crate is generic. The
//! library's `resize` would instantiate the code for every pixel type; `resize_typed` is compiled
//! only for the three types in use.
//!
//! Begin at [`rgba`].

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::{InnerPixel, U8, U8x3, U8x4};
use fast_image_resize::{PixelTrait, ResizeAlg, ResizeOptions};

pub use fast_image_resize::{FilterType, Resizer};

/// A size does not match its buffer, or a part is not inside its picture.
#[derive(Debug, thiserror::Error)]
#[error("cannot resize a picture: {0}")]
pub struct ResizeError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl ResizeError {
    fn new(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }
}

/// A part of a picture, in pixels.
#[derive(Debug, Clone, Copy)]
pub struct CropRect {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

impl CropRect {
    /// The same part of a copy of half the width and height.
    #[must_use]
    pub fn halved(self) -> Self {
        Self {
            left: self.left / 2.0,
            top: self.top / 2.0,
            width: self.width / 2.0,
            height: self.height / 2.0,
        }
    }
}

/// Resizes RGBA, or a part of it, to fill `target`. Alpha is resized like a colour channel, which is
/// correct if it is only padding or if the colours are premultiplied.
pub fn rgba(
    resizer: &mut Resizer,
    source: (&[u8], (u32, u32)),
    target: (&mut [u8], (u32, u32)),
    filter: FilterType,
    part: Option<CropRect>,
) -> Result<(), ResizeError> {
    resize_into::<U8x4>(resizer, source, target, &options(filter, part))
}

/// Resizes RGB, or a part of it, to fill `target`.
pub fn rgb(
    source: (&[u8], (u32, u32)),
    target: (&mut [u8], (u32, u32)),
    filter: FilterType,
    part: Option<CropRect>,
) -> Result<(), ResizeError> {
    let resizer = &mut Resizer::new();
    resize_into::<U8x3>(resizer, source, target, &options(filter, part))
}

/// Resizes a part of a plane of one value per pixel to fill `target`.
pub fn plane(
    resizer: &mut Resizer,
    source: (&[u8], (u32, u32)),
    target: (&mut [u8], (u32, u32)),
    filter: FilterType,
    part: CropRect,
) -> Result<(), ResizeError> {
    resize_into::<U8>(resizer, source, target, &options(filter, Some(part)))
}

fn resize_into<P: PixelTrait + InnerPixel>(
    resizer: &mut Resizer,
    (from, size): (&[u8], (u32, u32)),
    (to, new_size): (&mut [u8], (u32, u32)),
    options: &ResizeOptions,
) -> Result<(), ResizeError> {
    let source = TypedImageRef::<P>::from_buffer(size.0, size.1, from);
    let source = source.map_err(ResizeError::new)?;
    let target = TypedImage::<P>::from_buffer(new_size.0, new_size.1, to);
    let mut target = target.map_err(ResizeError::new)?;
    resizer
        .resize_typed::<P>(&source, &mut target, options)
        .map_err(ResizeError::new)
}

fn options(filter: FilterType, part: Option<CropRect>) -> ResizeOptions {
    let options = ResizeOptions::new()
        .resize_alg(ResizeAlg::Convolution(filter))
        .use_alpha(false);
    match part {
        Some(part) => options.crop(part.left, part.top, part.width, part.height),
        None => options,
    }
}
