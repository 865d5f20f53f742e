//! The working size: the resolution at which a shot's layers are kept.
//!
//! A picture is first brought to the size that the shot needs, so that a frame costs the same
//! however many megapixels the picture has. Along each side, the cubic resampler gets 1.5 times as
//! many pixels as the closest view shows. The tile sampler has no kernel that widens. It gets only
//! the detail that the widest view can show, stored in 1.25 times as many pixels, and interpolates
//! between these.

use crate::camera::CameraStation;
use crate::error::RenderError;
use crate::layer::{Layer, LayerPlate, LayerSheet};
use crate::picture::Picture;
use resize::{FilterType, Resizer};

/// Working pixels per picture pixel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WorkingScale {
    /// The scale at which the picture's detail is kept.
    pub(crate) detail: f64,
    /// The scale at which it is stored for the sampler; at least `detail`.
    pub(crate) stored_scale: f64,
}

impl WorkingScale {
    /// The scale for the cubic resampler.
    pub(crate) fn for_cubic(stations: &[CameraStation], frame_width: u32) -> Self {
        let (closest, _) = view_widths(stations);
        // Without oversampling a slow pan would pulse: a cubic kernel is sharpest on whole pixels
        // and softest between them, and the eye sees the difference come and go.
        let scale = f64::from(frame_width) * CUBIC_OVERSAMPLING / closest;
        Self {
            detail: scale,
            stored_scale: scale,
        }
    }

    /// The scale for the tile sampler.
    pub(crate) fn for_tiles(
        stations: &[CameraStation],
        frame_width: u32,
        picture: (u32, u32),
    ) -> Self {
        let (closest, widest) = view_widths(stations);
        let frame_width = f64::from(frame_width);
        // A little finer than the widest view can show is still free of shimmer.
        let ideal = (frame_width / closest).min(frame_width * 1.35 / widest);
        // Without this limit a very long picture would be stored at many times the frame's size.
        let area = f64::from(picture.0) * f64::from(picture.1);
        let detail = ideal.min((MAX_PIXELS / area).sqrt() / TILE_OVERSAMPLING);
        Self {
            detail,
            stored_scale: detail * TILE_OVERSAMPLING,
        }
    }
}

/// The picture pixels across the closest and the widest view of any layer.
fn view_widths(stations: &[CameraStation]) -> (f64, f64) {
    let views = stations.iter().flat_map(|s| [s.view(0.0), s.view(1.0)]);
    views.fold((f64::INFINITY, 0.0_f64), |(low, high), view| {
        (low.min(view.width), high.max(view.width))
    })
}

/// A picture as one layer for the cubic resampler.
pub(crate) fn cubic_layers(
    picture: &Picture,
    scale: WorkingScale,
) -> Result<Vec<Layer>, RenderError> {
    let plate = match shrink(picture, scale.detail)? {
        Some(shrunk_picture) => LayerPlate::solid(
            shrunk_picture.width(),
            shrunk_picture.height(),
            shrunk_picture.rgb(),
            picture.size(),
        ),
        None => LayerPlate::solid(
            picture.width(),
            picture.height(),
            picture.rgb(),
            picture.size(),
        ),
    };
    Ok(vec![Layer {
        plate,
        parallax: 1.0,
    }])
}

/// A picture as one layer for the tile sampler.
pub(crate) fn tiled_picture(
    picture: &Picture,
    scale: WorkingScale,
) -> Result<Vec<Layer>, RenderError> {
    let shrunk_picture = shrink(picture, scale.detail)?;
    let source = shrunk_picture.as_ref().unwrap_or(picture);
    let sheet = LayerSheet::solid(source.width(), source.height(), source.rgb());
    tile_layers(vec![sheet], picture.size(), scale)
}

/// Sheets of a picture as layers for the tile sampler, each enlarged to the stored size.
pub(crate) fn tile_layers(
    sheets: Vec<LayerSheet>,
    picture: (u32, u32),
    scale: WorkingScale,
) -> Result<Vec<Layer>, RenderError> {
    let mut resizer = Resizer::new();
    let mut layers = Vec::new();
    for sheet in sheets {
        let parallax = sheet.parallax;
        let size = (
            scale_side(picture.0, scale.stored_scale),
            scale_side(picture.1, scale.stored_scale),
        );
        let sheet = if size.0 > sheet.width || size.1 > sheet.height {
            let mut rgba = vec![0; size.0 as usize * size.1 as usize * 4];
            resize::rgba(
                &mut resizer,
                (&sheet.rgba, (sheet.width, sheet.height)),
                (&mut rgba, size),
                FilterType::Mitchell,
                None,
            )?;
            LayerSheet {
                width: size.0,
                height: size.1,
                rgba,
                parallax,
            }
        } else {
            sheet
        };
        let plate = LayerPlate::new(sheet, picture);
        layers.push(Layer { plate, parallax });
    }
    Ok(layers)
}

/// A picture made smaller by a kernel that leaves no detail that the size can't hold; `None`
/// where there is nothing to gain.
pub(crate) fn shrink(picture: &Picture, scale: f64) -> Result<Option<Picture>, RenderError> {
    if scale >= 0.98 {
        return Ok(None);
    }
    let (width, height) = (
        scale_side(picture.width(), scale),
        scale_side(picture.height(), scale),
    );
    let mut rgb = vec![0; width as usize * height as usize * 3];
    resize::rgb(
        (picture.rgb(), picture.size()),
        (&mut rgb, (width, height)),
        FilterType::Lanczos3,
        None,
    )?;
    let small = Picture::from_rgb(width, height, rgb);
    small
        .map(Some)
        .ok_or_else(|| RenderError::new("a shrunk picture has the wrong size"))
}

/// A side at a scale, in whole pixels.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 1 and to a side that the sampler can count"
)]
pub(crate) fn scale_side(side: u32, scale: f64) -> u32 {
    (f64::from(side) * scale).ceil().clamp(1.0, MAX_SIDE) as u32
}

/// Pixels along a side that the cubic resampler gets for each one it shows.
const CUBIC_OVERSAMPLING: f64 = 1.5;

/// `CUBIC_OVERSAMPLING` for the tile sampler, which holds several layers in memory.
const TILE_OVERSAMPLING: f64 = 1.25;

/// Pixels of one layer at most: what a frame of 1920 by 1080 needs, and a little more.
const MAX_PIXELS: f64 = 8e6;

/// The tile sampler's fixed-point positions reach 32,768 pixels.
const MAX_SIDE: f64 = 16_384.0;
