//! Fog: two sheets of noise that drift past each other, thicker towards the ground.

use super::sprite::{SpriteColour, SpriteFrame};
use crate::direction::ParticleAmount;
use crate::scene::noise::{fractal, smoothstep};

/// Fog of one thickness.
pub(super) struct FogSheets {
    thickness: f32,
    seed: u64,
}

impl FogSheets {
    pub(super) fn new(amount: ParticleAmount, seed: u64) -> Self {
        let thickness = match amount {
            ParticleAmount::Light => 0.40,
            ParticleAmount::Usual => 0.62,
            ParticleAmount::Heavy => 0.86,
        };
        Self { thickness, seed }
    }

    /// Lays the fog over a frame. It is computed on a coarse grid: fog has no edges.
    pub(super) fn draw(
        &self,
        seconds: f32,
        across: f32,
        light: SpriteColour,
        frame: &mut SpriteFrame<'_>,
    ) {
        let (columns, rows) = frame.cells(CELL);
        let aspect = frame.aspect();
        let mut grid = Vec::with_capacity((columns + 1) * (rows + 1));
        for j in 0..=rows {
            let y = to_f32(j) / to_f32(rows);
            for i in 0..=columns {
                let x = (to_f32(i) / to_f32(columns) + across * 0.7) * aspect;
                grid.push(self.opacity_at(x, y, seconds));
            }
        }
        let colour = light.map(|c| c * 0.55 + 105.0);
        frame.draw_veil(&grid, (columns, rows), colour);
    }

    /// The fog's opacity at a point, in frame heights.
    fn opacity_at(&self, x: f32, y: f32, seconds: f32) -> f32 {
        let far = fractal(
            x * 1.6 + seconds * 0.055,
            y * 3.4,
            4,
            self.seed.wrapping_add(501),
        );
        let near = fractal(
            x * 0.9 - seconds * 0.12,
            y * 2.0 + 7.0,
            3,
            self.seed.wrapping_add(502),
        );
        let banks = smoothstep(0.30, 0.74, 0.55 * far + 0.45 * near);
        let ground_density = 0.22 + 0.78 * smoothstep(0.05, 0.85, y);
        (self.thickness * (0.22 + 0.78 * banks) * ground_density).min(0.96)
    }
}

#[expect(clippy::cast_precision_loss, reason = "cells of a coarse grid")]
fn to_f32(n: usize) -> f32 {
    n as f32
}

/// Side of a cell of the grid in pixels.
const CELL: usize = 20;
