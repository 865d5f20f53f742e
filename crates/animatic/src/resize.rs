//! Resizing: the only module that uses the resampling library.
//!
//! The library's `resize` selects the pixel type at run time, so it instantiates the code for every
//! type, which would be most of this crate's build time. `resize_typed` is compiled only for the
//! three types in use.

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::{InnerPixel, U8, U8x3, U8x4};
use fast_image_resize::{PixelTrait, ResizeAlg, ResizeOptions, Resizer};

pub(crate) use fast_image_resize::FilterType;

use crate::error::RenderError;

/// A part of a picture, in pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CropRect {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl CropRect {
    /// The same part of a copy of half the width and height.
    pub(crate) fn halved(self) -> Self {
        Self {
            left: self.left / 2.0,
            top: self.top / 2.0,
            width: self.width / 2.0,
            height: self.height / 2.0,
        }
    }
}

/// Resizes RGBA, or a part of it, to fill `to`. Alpha is resized like a colour channel, which is
/// correct if it is only padding or if the colours are premultiplied.
pub(crate) fn rgba(
    resizer: &mut Resizer,
    (from, size): (&[u8], (u32, u32)),
    (to, new_size): (&mut [u8], (u32, u32)),
    filter: FilterType,
    part: Option<CropRect>,
) -> Result<(), RenderError> {
    let options = options(filter, part);
    resize_into::<U8x4>(resizer, (from, size), (to, new_size), &options)
}

/// Resizes RGB, or a part of it, to fill `to`.
pub(crate) fn rgb(
    (from, size): (&[u8], (u32, u32)),
    (to, new_size): (&mut [u8], (u32, u32)),
    filter: FilterType,
    part: Option<CropRect>,
) -> Result<(), RenderError> {
    let options = options(filter, part);
    resize_into::<U8x3>(&mut Resizer::new(), (from, size), (to, new_size), &options)
}

/// Resizes a part of a plane of one value per pixel to fill `to`.
pub(crate) fn plane(
    resizer: &mut Resizer,
    (from, size): (&[u8], (u32, u32)),
    (to, new_size): (&mut [u8], (u32, u32)),
    filter: FilterType,
    part: CropRect,
) -> Result<(), RenderError> {
    let options = options(filter, Some(part));
    resize_into::<U8>(resizer, (from, size), (to, new_size), &options)
}

fn resize_into<P: PixelTrait + InnerPixel>(
    resizer: &mut Resizer,
    (from, size): (&[u8], (u32, u32)),
    (to, new_size): (&mut [u8], (u32, u32)),
    options: &ResizeOptions,
) -> Result<(), RenderError> {
    let source = TypedImageRef::<P>::from_buffer(size.0, size.1, from);
    let source = source.map_err(RenderError::new)?;
    let target = TypedImage::<P>::from_buffer(new_size.0, new_size.1, to);
    let mut target = target.map_err(RenderError::new)?;
    resizer
        .resize_typed::<P>(&source, &mut target, options)
        .map_err(RenderError::new)
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
