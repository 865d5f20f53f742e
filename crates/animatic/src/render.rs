//! Rendering: what the camera sees, frame by frame, as RGBA.
//!
//! The picture is first brought to a working size, the plate: no larger than the closest view
//! needs, so that a frame costs the same however many megapixels came in. A shot of upright views
//! then goes through a separable cubic resampler whose kernel widens when it shrinks; a shot in
//! which any view is rolled or seen at an angle goes through [`crate::warp`]. One shot uses one
//! sampler from start to end, because the two differ by a hair in sharpness.
//!
//! It does not know colour spaces or codecs; a frame leaves here as it would be shown.

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeError, ResizeOptions, Resizer};

use crate::camera::View;
use crate::picture::Picture;
use crate::warp::{self, Plate};

/// Renders the frames of one shot.
pub(crate) struct Renderer {
    plate: Plate,
    /// One view per frame, in plate pixels.
    views: Vec<View>,
    width: u32,
    height: u32,
    upright: bool,
    resizer: Resizer,
}

/// Something between the pixels went wrong; not the caller's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RenderError(String);

impl Renderer {
    /// Prepares a shot. `views` are in pixels of `picture`.
    pub(crate) fn new(
        picture: &Picture,
        views: Vec<View>,
        (width, height): (u32, u32),
    ) -> Result<Self, RenderError> {
        let upright = views.iter().all(View::is_upright);
        let mut resizer = Resizer::new();
        let (plate, views) = prepare(picture, views, width, upright, &mut resizer)?;
        Ok(Self {
            plate,
            views,
            width,
            height,
            upright,
            resizer,
        })
    }

    /// Whether the frame shows exactly what the one before it showed.
    pub(crate) fn repeats(&self, frame: usize) -> bool {
        frame > 0 && self.views.get(frame) == self.views.get(frame - 1)
    }

    /// Draws a frame into `rgba`, which must hold exactly one frame.
    pub(crate) fn draw(&mut self, frame: usize, rgba: &mut [u8]) -> Result<(), RenderError> {
        let view = *self
            .views
            .get(frame)
            .ok_or_else(|| RenderError(format!("the shot has no frame {frame}")))?;
        if self.upright {
            self.draw_upright(&view, rgba)
        } else {
            warp::draw(&self.plate, &view, self.width, rgba);
            Ok(())
        }
    }

    /// A small copy of a drawn frame.
    pub(crate) fn shrink(&mut self, rgba: &mut [u8], width: u32) -> Result<Picture, RenderError> {
        let width = width.min(self.width);
        let height = (u64::from(self.height) * u64::from(width)).div_ceil(u64::from(self.width));
        let height = u32::try_from(height).unwrap_or(self.height).max(1);
        let frame = Image::from_slice_u8(self.width, self.height, rgba, PixelType::U8x4)
            .map_err(RenderError::from_display)?;
        let mut small = Image::new(width, height, PixelType::U8x4);
        self.resizer
            .resize(&frame, &mut small, &options(FilterType::Bilinear))?;
        opaque(width, height, small.buffer())
    }

    fn draw_upright(&mut self, view: &View, rgba: &mut [u8]) -> Result<(), RenderError> {
        let plate = ImageRef::new(
            self.plate.width(),
            self.plate.height(),
            self.plate.rgba(),
            PixelType::U8x4,
        )
        .map_err(RenderError::from_display)?;
        let mut frame = Image::from_slice_u8(self.width, self.height, rgba, PixelType::U8x4)
            .map_err(RenderError::from_display)?;
        let (plate_width, plate_height) = (
            f64::from(self.plate.width()),
            f64::from(self.plate.height()),
        );
        let width = view.width.min(plate_width);
        let height =
            (view.width * f64::from(self.height) / f64::from(self.width)).min(plate_height);
        let left = (view.centre.0 - width / 2.0).clamp(0.0, plate_width - width);
        let top = (view.centre.1 - height / 2.0).clamp(0.0, plate_height - height);
        let options = options(FilterType::CatmullRom).crop(left, top, width, height);
        self.resizer.resize(&plate, &mut frame, &options)?;
        Ok(())
    }
}

/// A frame as a picture: RGBA without its A.
pub(crate) fn opaque(width: u32, height: u32, rgba: &[u8]) -> Result<Picture, RenderError> {
    let rgb = rgba
        .chunks_exact(4)
        .flat_map(|p| [p[0], p[1], p[2]])
        .collect();
    Picture::from_rgb(width, height, rgb)
        .ok_or_else(|| RenderError("a frame has the wrong size".to_owned()))
}

impl RenderError {
    fn from_display(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

impl From<ResizeError> for RenderError {
    fn from(error: ResizeError) -> Self {
        Self::from_display(error)
    }
}

/// Brings the picture to its working size, and the views with it.
fn prepare(
    picture: &Picture,
    mut views: Vec<View>,
    frame_width: u32,
    upright: bool,
    resizer: &mut Resizer,
) -> Result<(Plate, Vec<View>), RenderError> {
    let (closest, widest) = views
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(low, high), view| {
            (low.min(view.width), high.max(view.width))
        });
    let frame_width = f64::from(frame_width);
    let wanted = if upright {
        frame_width * OVERSAMPLE / closest
    } else {
        // The warping sampler has no kernel that widens: the widest view must not skip pixels.
        (frame_width * 1.1 / closest).min(frame_width * 1.4 / widest)
    };
    if wanted >= 0.98 {
        return Ok((
            Plate::from_rgb(picture.width(), picture.height(), picture.rgb()),
            views,
        ));
    }
    let scaled = |side: u32| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a shrunk side: at least 1 by the clamp, at most the side it was"
        )]
        let side = (f64::from(side) * wanted).ceil().max(1.0) as u32;
        side
    };
    let (width, height) = (scaled(picture.width()), scaled(picture.height()));
    let source = ImageRef::new(
        picture.width(),
        picture.height(),
        picture.rgb(),
        PixelType::U8x3,
    )
    .map_err(RenderError::from_display)?;
    let mut small = Image::new(width, height, PixelType::U8x3);
    resizer.resize(&source, &mut small, &options(FilterType::Lanczos3))?;

    // The sides are whole pixels, so the two scales differ in the fourth digit: the views follow
    // each in its own direction, and the width takes the smaller to stay inside.
    let scale = (
        f64::from(width) / f64::from(picture.width()),
        f64::from(height) / f64::from(picture.height()),
    );
    for view in &mut views {
        view.centre = (view.centre.0 * scale.0, view.centre.1 * scale.1);
        view.width *= scale.0.min(scale.1);
    }
    Ok((Plate::from_rgb(width, height, small.buffer()), views))
}

fn options(filter: FilterType) -> ResizeOptions {
    ResizeOptions::new()
        .resize_alg(ResizeAlg::Convolution(filter))
        // The fourth byte only pads a pixel to a machine word.
        .use_alpha(false)
}

/// Plate pixels per frame pixel in the closest view. At 1.0 a slow pan would breathe: a cubic
/// kernel is sharpest on whole pixels and softest between them, and the eye sees the difference
/// come and go. With half as many again the kernel always averages and the difference is gone.
const OVERSAMPLE: f64 = 1.5;
