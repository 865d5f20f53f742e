//! The canvas: floating-point colours, and the few ways in which layers fill it.
//!
//! Positions are in picture heights: `u` to the right, `v` downwards, so a scene keeps its
//! proportions in every shape of frame.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    reason = "pixel positions and colours within their ranges"
)]

use super::noise::{lattice, mix};
use crate::picture::Picture;

/// Red, green, blue as they are shown, 0 to 1.
pub(super) type Colour = [f32; 3];

pub(super) struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<Colour>,
}

impl Canvas {
    pub(super) fn new(width: u32, height: u32) -> Self {
        let (width, height) = (width as usize, height as usize);
        Self {
            width,
            height,
            pixels: vec![[0.0; 3]; width * height],
        }
    }

    /// Width over height: the `u` of the right edge.
    pub(super) fn aspect(&self) -> f32 {
        self.width as f32 / self.height as f32
    }

    /// One pixel, in picture heights.
    pub(super) fn pixel(&self) -> f32 {
        1.0 / self.height as f32
    }

    /// Recolours every pixel between two heights: `shade(u, v, below)`.
    pub(super) fn paint(
        &mut self,
        from: f32,
        to: f32,
        mut shade: impl FnMut(f32, f32, Colour) -> Colour,
    ) {
        let scale = self.pixel();
        let top = self.row_of(from);
        let bottom = self.row_of(to);
        for y in top..bottom {
            let v = (y as f32 + 0.5) * scale;
            for (x, pixel) in self.pixels[y * self.width..][..self.width]
                .iter_mut()
                .enumerate()
            {
                *pixel = shade((x as f32 + 0.5) * scale, v, *pixel);
            }
        }
    }

    /// Fills everything below a line, with a soft edge of a pixel: `edge(u)` is where the layer
    /// begins, `shade(u, v, depth)` its colour `depth` below the edge.
    pub(super) fn fill_below(
        &mut self,
        mut edge: impl FnMut(f32) -> f32,
        mut shade: impl FnMut(f32, f32, f32) -> Colour,
    ) {
        let scale = self.pixel();
        let edges: Vec<f32> = (0..self.width)
            .map(|x| edge((x as f32 + 0.5) * scale))
            .collect();
        let highest = edges.iter().copied().fold(f32::INFINITY, f32::min);
        for y in self.row_of(highest - scale)..self.height {
            let v = (y as f32 + 0.5) * scale;
            let row = &mut self.pixels[y * self.width..][..self.width];
            for (x, (pixel, edge)) in row.iter_mut().zip(&edges).enumerate() {
                let covered = ((v - edge) / scale + 0.5).clamp(0.0, 1.0);
                if covered > 0.0 {
                    let colour = shade((x as f32 + 0.5) * scale, v, (v - edge).max(0.0));
                    *pixel = blend(*pixel, colour, covered);
                }
            }
        }
    }

    /// Adds light in a round spot that fades to nothing at `radius`.
    pub(super) fn glow(&mut self, (u, v): (f32, f32), radius: f32, colour: Colour) {
        let height = self.height as f32;
        let columns = clip((u - radius) * height, (u + radius) * height, self.width);
        let scale = self.pixel();
        for y in clip((v - radius) * height, (v + radius) * height, self.height) {
            for x in columns.clone() {
                let (du, dv) = ((x as f32 + 0.5) * scale - u, (y as f32 + 0.5) * scale - v);
                let near = (1.0 - (du * du + dv * dv) / (radius * radius)).max(0.0);
                let pixel = &mut self.pixels[y * self.width + x];
                *pixel = add(*pixel, colour, near * near);
            }
        }
    }

    /// The colour at a position, interpolated; beyond the edges, the edge's.
    pub(super) fn at(&self, u: f32, v: f32) -> Colour {
        let x = (u * self.height as f32 - 0.5).clamp(0.0, (self.width - 1) as f32);
        let y = (v * self.height as f32 - 0.5).clamp(0.0, (self.height - 1) as f32);
        let (left, top) = (x as usize, y as usize);
        let right = (left + 1).min(self.width - 1);
        let below = (top + 1).min(self.height - 1);
        let pixel = |x: usize, y: usize| self.pixels[y * self.width + x];
        let upper = blend(pixel(left, top), pixel(right, top), x.fract());
        let lower = blend(pixel(left, below), pixel(right, below), x.fract());
        blend(upper, lower, y.fract())
    }

    /// A copy of the rows above a height, for water to mirror.
    pub(super) fn above(&self, v: f32) -> Self {
        let height = self.row_of(v).max(1);
        Self {
            width: self.width,
            height: self.height,
            pixels: {
                let mut pixels = self.pixels[..height * self.width].to_vec();
                // Below the cut the last row goes on, so that a look-up never meets a void.
                let last = pixels[(height - 1) * self.width..].to_vec();
                while pixels.len() < self.pixels.len() {
                    pixels.extend_from_slice(&last);
                }
                pixels
            },
        }
    }

    /// The finished picture: corners a touch darker, and half a step of noise so that the long
    /// gradients of a sky do not break into bands.
    pub(super) fn finish(self, seed: u64) -> Picture {
        let mut rgb = Vec::with_capacity(self.pixels.len() * 3);
        for (i, pixel) in self.pixels.iter().enumerate() {
            let (x, y) = (i % self.width, i / self.width);
            let du = x as f32 / self.width as f32 - 0.5;
            let dv = y as f32 / self.height as f32 - 0.5;
            let dim = 1.0 - 0.36 * (du * du + dv * dv);
            let grain = lattice(x as i32, y as i32, seed) - 0.5;
            for channel in pixel {
                rgb.push((channel * dim * 255.0 + 0.5 + grain).clamp(0.0, 255.0) as u8);
            }
        }
        let (width, height) = (self.width as u32, self.height as u32);
        // INVARIANT: one colour per pixel, so the sizes agree; the fallback is never taken.
        Picture::from_rgb(width, height, rgb).unwrap_or_else(|| Picture::single([0; 3]))
    }

    fn row_of(&self, v: f32) -> usize {
        ((v * self.height as f32).max(0.0) as usize).min(self.height)
    }
}

pub(super) fn blend(a: Colour, b: Colour, t: f32) -> Colour {
    [mix(a[0], b[0], t), mix(a[1], b[1], t), mix(a[2], b[2], t)]
}

pub(super) fn add(a: Colour, b: Colour, amount: f32) -> Colour {
    [
        a[0] + b[0] * amount,
        a[1] + b[1] * amount,
        a[2] + b[2] * amount,
    ]
}

pub(super) fn times(a: Colour, b: Colour) -> Colour {
    [a[0] * b[0], a[1] * b[1], a[2] * b[2]]
}

pub(super) fn scaled(a: Colour, by: f32) -> Colour {
    [a[0] * by, a[1] * by, a[2] * by]
}

fn clip(from: f32, to: f32, limit: usize) -> std::ops::Range<usize> {
    let from = (from.max(0.0) as usize).min(limit);
    let to = ((to.max(0.0) as usize) + 1).min(limit);
    from..to.max(from)
}
