//! The canvas: floating-point colours, and the few ways in which layers fill it.
//!
//! Positions are in picture heights: `u` to the right, `v` downwards, so a scene keeps its
//! proportions in every shape of frame.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "pixel positions and colours within their ranges"
)]

use super::noise::{self, GRAIN_SIDE, mix};
use crate::layer::LayerSheet;

/// Red, green, blue as they are shown, 0 to 1.
pub(super) type SceneColour = [f32; 3];

/// A colour multiplied by its opacity, and the opacity.
type PremultipliedPixel = [f32; 4];

pub(super) struct SceneCanvas {
    width: usize,
    height: usize,
    pixels: Vec<PremultipliedPixel>,
}

impl SceneCanvas {
    /// An empty picture.
    pub(super) fn new(width: u32, height: u32) -> Self {
        let (width, height) = (width as usize, height as usize);
        Self {
            width,
            height,
            pixels: vec![[0.0; 4]; width * height],
        }
    }

    /// Removes everything drawn.
    pub(super) fn clear(&mut self) {
        self.pixels.fill([0.0; 4]);
    }

    /// Width over height: the `u` of the right edge.
    pub(super) fn aspect(&self) -> f32 {
        self.width as f32 / self.height as f32
    }

    /// One pixel, in picture heights.
    pub(super) fn pixel(&self) -> f32 {
        1.0 / self.height as f32
    }

    /// Makes every pixel between two heights opaque, in the colour `shade(u, v, below)`, where
    /// `below` is its colour so far.
    pub(super) fn paint(
        &mut self,
        from: f32,
        to: f32,
        shade: impl Fn(f32, f32, SceneColour) -> SceneColour + Sync,
    ) {
        self.for_each_pixel(self.row_of(from)..self.row_of(to), |u, v, pixel| {
            let [r, g, b] = shade(u, v, [pixel[0], pixel[1], pixel[2]]);
            *pixel = [r, g, b, 1.0];
        });
    }

    /// Lays colours between two heights: `shade(u, v)` is a colour times its opacity, and the
    /// opacity. A colour that exceeds its opacity adds light.
    pub(super) fn lay(&mut self, from: f32, to: f32, shade: impl Fn(f32, f32) -> [f32; 4] + Sync) {
        self.for_each_pixel(self.row_of(from)..self.row_of(to), |u, v, pixel| {
            let over = shade(u, v);
            for (under, channel) in pixel.iter_mut().zip(over) {
                *under = *under * (1.0 - over[3]) + channel;
            }
        });
    }

    /// Adds light between two heights without hiding what is behind: `shade(u, v)`.
    pub(super) fn shine(
        &mut self,
        from: f32,
        to: f32,
        shade: impl Fn(f32, f32) -> SceneColour + Sync,
    ) {
        self.for_each_pixel(self.row_of(from)..self.row_of(to), |u, v, pixel| {
            for (channel, light) in pixel.iter_mut().zip(shade(u, v)) {
                *channel += light;
            }
        });
    }

    /// Fills everything below a line, with a soft edge of a pixel: `edge(u)` is where the layer
    /// begins, `shade(u, v, depth)` its colour `depth` below the edge.
    pub(super) fn fill_below(
        &mut self,
        edge: impl Fn(f32) -> f32,
        shade: impl Fn(f32, f32, f32) -> SceneColour + Sync,
    ) {
        let scale = self.pixel();
        let edges: Vec<f32> = (0..self.width)
            .map(|x| edge((x as f32 + 0.5) * scale))
            .collect();
        let highest = edges.iter().copied().fold(f32::INFINITY, f32::min);
        self.for_each_pixel(self.row_of(highest - scale)..self.height, |u, v, pixel| {
            let edge = edges[((u / scale) as usize).min(edges.len() - 1)];
            let covered = ((v - edge) / scale + 0.5).clamp(0.0, 1.0);
            if covered > 0.0 {
                cover(pixel, shade(u, v, (v - edge).max(0.0)), covered);
            }
        });
    }

    /// Works on every pixel of some rows, with its position. The rows are shared out among the
    /// machine's cores; no pixel depends on another, so the result is the same on any machine.
    fn for_each_pixel(
        &mut self,
        rows: std::ops::Range<usize>,
        work: impl Fn(f32, f32, &mut PremultipliedPixel) + Sync,
    ) {
        let (width, scale, top) = (self.width, self.pixel(), rows.start);
        let end = rows.end.max(top);
        let Some(pixels) = self.pixels.get_mut(top * width..end * width) else {
            return;
        };
        let threads = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(4);
        let rows_per_thread = (end - top).div_ceil(threads).max(1);
        let work = &work;
        std::thread::scope(|scope| {
            for (i, band) in pixels.chunks_mut(rows_per_thread * width).enumerate() {
                scope.spawn(move || {
                    for (y, row) in band.chunks_exact_mut(width).enumerate() {
                        let v = ((top + i * rows_per_thread + y) as f32 + 0.5) * scale;
                        for (x, pixel) in row.iter_mut().enumerate() {
                            work((x as f32 + 0.5) * scale, v, pixel);
                        }
                    }
                });
            }
        });
    }

    /// Adds light in a round spot that fades to nothing at `radius`.
    pub(super) fn glow(&mut self, (u, v): (f32, f32), radius: f32, colour: SceneColour) {
        let height = self.height as f32;
        let columns = clip((u - radius) * height, (u + radius) * height, self.width);
        let scale = self.pixel();
        for y in clip((v - radius) * height, (v + radius) * height, self.height) {
            for x in columns.clone() {
                let (du, dv) = ((x as f32 + 0.5) * scale - u, (y as f32 + 0.5) * scale - v);
                let falloff = (1.0 - (du * du + dv * dv) / (radius * radius)).max(0.0);
                let pixel = &mut self.pixels[y * self.width + x];
                for (channel, light) in pixel.iter_mut().zip(colour) {
                    *channel += light * falloff * falloff;
                }
            }
        }
    }

    /// What is on the canvas, as a sheet, with a grain that keeps the long gradients of a sky from
    /// breaking into bands.
    pub(super) fn sheet(&self, parallax: f64, seed: u64) -> LayerSheet {
        let grain = noise::grain(seed);
        let mut rgba = Vec::with_capacity(self.pixels.len() * 4);
        for (i, pixel) in self.pixels.iter().enumerate() {
            let [colour @ .., opacity] = *pixel;
            if pixel.iter().all(|channel| *channel <= 0.0) {
                rgba.extend([0; 4]);
                continue;
            }
            let (x, y) = (i % self.width, i / self.width);
            // Pure light gets no grain, which would show on whatever lies behind it.
            let grain = grain[y % GRAIN_SIDE * GRAIN_SIDE + x % GRAIN_SIDE] * opacity;
            for channel in colour {
                rgba.push((channel * 255.0 + 0.5 + grain).clamp(0.0, 255.0) as u8);
            }
            rgba.push((opacity * 255.0 + 0.5).clamp(0.0, 255.0) as u8);
        }
        LayerSheet {
            width: self.width as u32,
            height: self.height as u32,
            rgba,
            parallax,
        }
    }

    fn row_of(&self, v: f32) -> usize {
        ((v * self.height as f32).max(0.0) as usize).min(self.height)
    }
}

/// Lays a colour over a pixel.
fn cover(pixel: &mut PremultipliedPixel, colour: SceneColour, opacity: f32) {
    let [r, g, b] = colour;
    for (under, over) in pixel.iter_mut().zip([r, g, b, 1.0]) {
        *under = mix(*under, over, opacity);
    }
}

pub(super) fn blend(a: SceneColour, b: SceneColour, t: f32) -> SceneColour {
    [mix(a[0], b[0], t), mix(a[1], b[1], t), mix(a[2], b[2], t)]
}

pub(super) fn add(a: SceneColour, b: SceneColour, amount: f32) -> SceneColour {
    [
        a[0] + b[0] * amount,
        a[1] + b[1] * amount,
        a[2] + b[2] * amount,
    ]
}

pub(super) fn times(a: SceneColour, b: SceneColour) -> SceneColour {
    [a[0] * b[0], a[1] * b[1], a[2] * b[2]]
}

pub(super) fn scale_colour(a: SceneColour, factor: f32) -> SceneColour {
    [a[0] * factor, a[1] * factor, a[2] * factor]
}

fn clip(from: f32, to: f32, limit: usize) -> std::ops::Range<usize> {
    let from = (from.max(0.0) as usize).min(limit);
    let to = ((to.max(0.0) as usize) + 1).min(limit);
    from..to.max(from)
}
