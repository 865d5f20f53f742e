//! Rendering: what the camera sees of the layers, frame by frame, as RGBA.
//!
//! A flat picture under upright views goes through a separable cubic resampler whose kernel
//! widens when it shrinks; everything else is put together tile by tile by [`crate::warp`], which
//! begins each tile with the nearest layer that hides all behind it. One shot uses one sampler
//! from start to end, because the two differ by a hair in sharpness.
//!
//! A frame leaves here as RGBA. If nothing is drawn over it, a flat picture's frame can also be
//! drawn straight in the encoder's format, by [`crate::plane_sampler`].

use crate::camera::CameraStation;
use crate::error::RenderError;
use crate::layer::{BlockCover, Layer};
use crate::picture::Picture;
use crate::plane_sampler::PlaneSampler;
use crate::warp::{FrameTile, PlateSampler, RgbaFrame};
use crate::weather::CameraDrift;
use h264::I420Frame;
use resize::{CropRect, FilterType, Resizer};

/// Renders the frames of one shot.
pub(crate) struct ShotRenderer {
    /// From the farthest to the nearest; the first has no holes.
    layers: Vec<Layer>,
    /// The camera's station in each frame.
    stations: Vec<CameraStation>,
    width: u32,
    height: u32,
    /// One layer, never rolled or seen at an angle.
    plain: bool,
    /// That layer in the encoder's format; created with the first frame that needs it.
    planes: Option<PlaneSampler>,
    resizer: Resizer,
}

impl ShotRenderer {
    /// Prepares a shot of layers, from the farthest to the nearest.
    pub(crate) fn new(
        layers: Vec<Layer>,
        stations: Vec<CameraStation>,
        (width, height): (u32, u32),
    ) -> Self {
        let plain = layers.len() == 1 && is_upright(&stations);
        Self {
            layers,
            stations,
            width,
            height,
            plain,
            planes: None,
            resizer: Resizer::new(),
        }
    }

    /// Whether the frame is identical to the previous one.
    pub(crate) fn repeats(&self, frame: usize) -> bool {
        frame > 0 && self.stations.get(frame) == self.stations.get(frame - 1)
    }

    /// Draws a frame into `rgba`, which must hold exactly one frame.
    pub(crate) fn draw(&mut self, frame: usize, rgba: &mut [u8]) -> Result<(), RenderError> {
        let station = self.station(frame)?;
        if self.plain {
            self.draw_plain(&station, rgba, (self.width, self.height))
        } else {
            self.draw_layers(&station, rgba);
            Ok(())
        }
    }

    /// Whether [`Self::draw_planes`] can draw this shot.
    pub(crate) fn is_plain(&self) -> bool {
        self.plain
    }

    /// Draws a frame of a plain shot in the encoder's format.
    pub(crate) fn draw_planes(
        &mut self,
        frame: usize,
        yuv: &mut I420Frame,
    ) -> Result<(), RenderError> {
        let part = self.part(&self.station(frame)?)?;
        // Made with the first frame that needs it: previews of a single frame never do.
        if self.planes.is_none() {
            let parts: Result<Vec<CropRect>, _> =
                self.stations.iter().map(|s| self.part(s)).collect();
            let plate = &only_layer(&self.layers)?.plate;
            let size = (self.width, self.height);
            let planes = PlaneSampler::new(&mut self.resizer, plate, &parts?, size)?;
            self.planes = Some(planes);
        }
        match &mut self.planes {
            Some(planes) => planes.draw(&mut self.resizer, part, yuv),
            None => Ok(()),
        }
    }

    /// A small copy of a frame of a plain shot, straight from the picture.
    pub(crate) fn draw_small(&mut self, frame: usize, width: u32) -> Result<Picture, RenderError> {
        let station = self.station(frame)?;
        let (width, height) = self.small_size(width);
        let mut small = vec![0; width as usize * height as usize * 4];
        self.draw_plain(&station, &mut small, (width, height))?;
        opaque(width, height, &small)
    }

    fn station(&self, frame: usize) -> Result<CameraStation, RenderError> {
        let station = self.stations.get(frame).copied();
        station.ok_or_else(|| RenderError::new(format!("the shot has no frame {frame}")))
    }

    /// How far the nearest layer has moved across the frame since the first frame.
    pub(crate) fn drift(&self, frame: usize) -> CameraDrift {
        let (Some(first), Some(current)) = (self.stations.first(), self.stations.get(frame)) else {
            return CameraDrift::default();
        };
        let (first, current) = (first.view(1.0), current.view(1.0));
        #[expect(clippy::cast_possible_truncation, reason = "a few frame widths")]
        let widths = |pixels: f64| (pixels / current.width) as f32;
        CameraDrift {
            across: widths(current.centre.0 - first.centre.0),
            down: widths(current.centre.1 - first.centre.1),
        }
    }

    /// A small copy of a drawn frame.
    pub(crate) fn shrink(&mut self, rgba: &[u8], width: u32) -> Result<Picture, RenderError> {
        let (width, height) = self.small_size(width);
        let mut small = vec![0; width as usize * height as usize * 4];
        resize::rgba(
            &mut self.resizer,
            (rgba, (self.width, self.height)),
            (&mut small, (width, height)),
            FilterType::Bilinear,
            None,
        )?;
        opaque(width, height, &small)
    }

    fn draw_layers(&self, station: &CameraStation, rgba: &mut [u8]) {
        let size = (self.width as usize, self.height as usize);
        let samplers: Vec<PlateSampler<'_>> = self
            .layers
            .iter()
            .map(|layer| PlateSampler::new(&layer.plate, station.view(layer.parallax).lens(), size))
            .collect();
        let mut frame = RgbaFrame {
            rgba,
            width: size.0,
        };
        for top in (0..size.1).step_by(TILE.1) {
            for left in (0..size.0).step_by(TILE.0) {
                let tile = FrameTile {
                    left,
                    top,
                    width: TILE.0.min(size.0 - left),
                    height: TILE.1.min(size.1 - top),
                };
                draw_tile(&samplers, tile, &mut frame);
            }
        }
    }

    fn draw_plain(
        &mut self,
        station: &CameraStation,
        rgba: &mut [u8],
        size: (u32, u32),
    ) -> Result<(), RenderError> {
        let part = self.part(station)?;
        let plate = &only_layer(&self.layers)?.plate;
        resize::rgba(
            &mut self.resizer,
            (plate.rgba(), (plate.width(), plate.height())),
            (rgba, size),
            FilterType::CatmullRom,
            Some(part),
        )?;
        Ok(())
    }

    /// The part of the plain shot's plate that a view shows.
    fn part(&self, station: &CameraStation) -> Result<CropRect, RenderError> {
        let Layer { plate, parallax } = only_layer(&self.layers)?;
        let view = station.view(*parallax);
        let (plate_width, plate_height) = (f64::from(plate.width()), f64::from(plate.height()));
        let (scale, centre) = (plate.scale(), plate.to_plate(view.centre));
        let aspect = f64::from(self.height) / f64::from(self.width);
        let width = (view.width * scale.0).min(plate_width);
        let height = (view.width * scale.1 * aspect).min(plate_height);
        // The path lies within the picture, but a working plate's sides are rounded, and the
        // resampler refuses a part that reaches a hair beyond them.
        Ok(CropRect {
            left: (centre.0 - width / 2.0).clamp(0.0, plate_width - width),
            top: (centre.1 - height / 2.0).clamp(0.0, plate_height - height),
            width,
            height,
        })
    }

    fn small_size(&self, width: u32) -> (u32, u32) {
        let width = width.min(self.width);
        let height = (u64::from(self.height) * u64::from(width)).div_ceil(u64::from(self.width));
        (width, u32::try_from(height).unwrap_or(self.height).max(1))
    }
}

/// The one layer of a plain shot.
fn only_layer(layers: &[Layer]) -> Result<&Layer, RenderError> {
    let layer = layers.first();
    layer.ok_or_else(|| RenderError::new("the shot has no picture"))
}

/// Puts a tile together, beginning with the nearest layer that hides those behind it.
fn draw_tile(samplers: &[PlateSampler<'_>], tile: FrameTile, frame: &mut RgbaFrame<'_>) {
    let covers: Vec<BlockCover> = samplers.iter().map(|layer| layer.cover(tile)).collect();
    let first = covers
        .iter()
        // What lies behind a solid layer cannot be seen. Without one the tile begins with the
        // farthest layer, which has no holes.
        .rposition(|c| *c == BlockCover::All)
        .unwrap_or(0);
    for (i, (layer, cover)) in samplers.iter().zip(covers).enumerate().skip(first) {
        if i == first {
            layer.draw(tile, true, frame);
        } else if cover != BlockCover::Nothing {
            layer.draw(tile, false, frame);
        }
    }
}

/// Whether no view of the shot is rolled or at an angle.
pub(crate) fn is_upright(stations: &[CameraStation]) -> bool {
    stations.iter().all(|s| s.view(1.0).is_upright())
}

/// A frame as a picture: RGBA without its A.
pub(crate) fn opaque(width: u32, height: u32, rgba: &[u8]) -> Result<Picture, RenderError> {
    let rgb = rgba
        .chunks_exact(4)
        .flat_map(|p| [p[0], p[1], p[2]])
        .collect();
    Picture::from_rgb(width, height, rgb)
        .ok_or_else(|| RenderError::new("a frame has the wrong size"))
}

/// A tile's columns and rows: its colours stay in the nearest cache while layers are laid on it.
const TILE: (usize, usize) = (64, 16);
