//! Space: stars, a nebula and a planet.

use super::noise::{fractal, lattice, smoothstep};
use super::paint::{SceneCanvas, SceneColour, add, blend, scale_colour};
use super::sky;
use super::stage::SceneStage;

pub(super) fn draw(stage: &mut SceneStage, seed: u64) {
    let canvas = stage.canvas_at(0.0);
    let chance = |n: i32| lattice(n, 55, seed);
    nebula(canvas, &chance, seed);
    sky::stars(canvas, 2.0, 1.0, seed);
    sky::stars(canvas, 2.0, 0.7, seed.wrapping_add(31));
    planet(stage.canvas_at(0.5), &chance, seed);
}

fn nebula(canvas: &mut SceneCanvas, chance: &impl Fn(i32) -> f32, seed: u64) {
    const DYES: &[SceneColour] = &[
        [0.42, 0.14, 0.50],
        [0.10, 0.30, 0.60],
        [0.62, 0.20, 0.28],
        [0.08, 0.42, 0.46],
        [0.60, 0.38, 0.16],
    ];
    let dye = |n: i32| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to 4.99 by the range of chance"
        )]
        let i = (chance(n) * 4.99) as usize;
        DYES[i.min(DYES.len() - 1)]
    };
    let (first, second) = (dye(1), dye(2));
    canvas.paint(0.0, 1.0, |u, v, _| {
        let drift = fractal(u * 1.1 + 4.0, v * 1.1, 3, seed.wrapping_add(1));
        let veil = fractal(
            u * 2.0 + drift * 1.8,
            v * 2.0 - drift * 1.4,
            6,
            seed.wrapping_add(2),
        );
        let dust = fractal(u * 3.4 - drift, v * 3.4 + drift, 5, seed.wrapping_add(3));
        let gas = smoothstep(0.42, 0.86, veil);
        let colour = blend(first, second, smoothstep(0.35, 0.65, drift));
        let base = [0.008, 0.010, 0.026];
        let lit = add(base, colour, gas * (0.35 + 1.0 * dust));
        add(lit, [0.9, 0.75, 0.8], 0.35 * smoothstep(0.7, 0.95, veil))
    });
}

/// A banded sphere, lit from one side, with a rim of air.
fn planet(canvas: &mut SceneCanvas, chance: &impl Fn(i32) -> f32, seed: u64) {
    let radius = 0.16 + 0.14 * chance(3);
    let centre = (
        canvas.aspect() * (0.25 + 0.5 * chance(4)),
        0.38 + 0.3 * chance(5),
    );
    let warm = chance(6);
    let land = blend([0.78, 0.56, 0.36], [0.36, 0.52, 0.66], warm);
    let band = blend([0.52, 0.32, 0.20], [0.78, 0.84, 0.88], warm);
    let air = blend([1.0, 0.72, 0.45], [0.45, 0.70, 1.0], warm);
    let sun = normal([if chance(7) < 0.5 { -0.75 } else { 0.75 }, -0.45, 0.5]);
    let lean = 0.5 * (chance(8) - 0.5);
    let soft = canvas.pixel();
    canvas.lay(centre.1 - radius * 1.3, centre.1 + radius * 1.3, |u, v| {
        let (x, y) = ((u - centre.0) / radius, (v - centre.1) / radius);
        let distance = (x * x + y * y).sqrt();
        if distance > 1.25 {
            return [0.0; 4];
        }
        let halo =
            smoothstep(1.25, 0.98, distance).powi(2) * (0.5 + 0.5 * (x * sun[0] + y * sun[1]));
        let atmosphere = scale_colour(air, 0.45 * halo.max(0.0));
        let coverage = smoothstep(1.0 + soft / radius, 1.0 - soft / radius, distance);
        if coverage <= 0.0 {
            return [atmosphere[0], atmosphere[1], atmosphere[2], 0.0];
        }
        let depth = (1.0 - distance * distance).max(0.0).sqrt();
        let light = x * sun[0] + y * sun[1] + depth * sun[2];
        let swirl = fractal(
            x * 2.2 + 8.0,
            y * 2.2 / (0.4 + depth),
            4,
            seed.wrapping_add(9_000 + 21),
        );
        let stripes = fractal(
            x * 0.7 + 3.0,
            (y + x * lean) * 6.0 + swirl * 1.5,
            4,
            seed.wrapping_add(9_000 + 22),
        );
        let surface = blend(land, band, smoothstep(0.35, 0.65, stripes));
        let day = smoothstep(-0.12, 0.75, light);
        let face = add(
            scale_colour(surface, 0.02 + 1.05 * day),
            air,
            0.35 * (1.0 - depth).powi(3) * day,
        );
        let lit = blend(atmosphere, face, coverage);
        [lit[0], lit[1], lit[2], coverage]
    });
}

fn normal(v: [f32; 3]) -> [f32; 3] {
    let length = v.iter().map(|c| c * c).sum::<f32>().sqrt();
    v.map(|c| c / length)
}
