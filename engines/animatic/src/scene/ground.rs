//! The foreground below the horizon: water, dunes, snow, meadows.

use super::light::SceneLight;
use super::noise::{fractal, lattice, mix, smoothstep, value};
use super::paint::{add, blend, scale_colour, times};
use super::stage::SceneStage;

/// Water from the horizon to the bottom, mirroring what stands behind it.
pub(super) fn water(stage: &mut SceneStage, light: &SceneLight, horizon: f32, seed: u64) {
    // Everything behind the water is finished first, because the water reflects it.
    let mirror = stage.build_mirror();
    let canvas = stage.canvas_at(0.4);
    let sun = light.sun_position.0 * canvas.aspect();
    let deep = times([0.10, 0.24, 0.32], blend(light.ground, [1.0; 3], 0.25));
    let edge = 1.5 * canvas.pixel();
    canvas.paint(horizon, 1.0, |u, v, _| {
        let down = (v - horizon) / (1.0 - horizon);
        // Waves shrink with distance, as everything on a plane does.
        let distance = 1.0 / (down + 0.035);
        let (x, y) = ((u - 0.5) * distance * 5.0, distance * 9.0);
        let swell = fractal(x, y, 4, seed.wrapping_add(60)) - 0.5;
        let chop = value(x * 3.1, y * 2.7, seed.wrapping_add(61)) - 0.5;
        let tilt = swell + 0.45 * chop;
        let bend = 0.012 + 0.075 * down;
        let reflected = mirror.colour_at(
            u + tilt * bend * 0.35,
            (horizon - (v - horizon) * 0.94 - (tilt * bend).abs() * 1.3).min(horizon - edge),
        );
        // Looking down into water shows the water, looking across it shows the sky.
        let water_share = 0.16 + 0.46 * smoothstep(0.0, 1.0, down);
        let mut colour = blend(scale_colour(reflected, 0.93), deep, water_share);
        colour = add(colour, light.horizon, 0.16 * tilt * (0.35 + down));
        // The sun's glitter path: glints that are denser under the sun.
        let glitter = (-((u - sun) / (0.05 + 0.16 * down)).powi(2)).exp();
        let glint = smoothstep(0.10, 0.34, tilt) * glitter * (0.75 - 0.35 * light.darkness);
        colour = add(colour, light.sun, glint);
        let rim = smoothstep(0.035, 0.0, down) * 0.35 * light.density;
        blend(colour, light.haze, rim)
    });
}

/// Dunes: long crests with a lit and a shaded side.
pub(super) fn dunes(
    stage: &mut SceneStage,
    light: &SceneLight,
    horizon: f32,
    has_water: bool,
    seed: u64,
) {
    let sun_side = light.sun_side();
    let layers = GroundLayers {
        first: if has_water { 0.62 } else { 0.0 },
        count: if has_water { 2 } else { 6 },
        seed,
    };
    for layer in layers.layers_from(horizon, 500) {
        let GroundLayer {
            nearness,
            base,
            seed,
        } = layer;
        let (frequency, amplitude) = (mix(2.8, 0.95, nearness), mix(0.06, 0.24, nearness));
        let line = move |u: f32| {
            let swell = value(u * frequency + 3.0, 0.5, seed);
            let fine = value(u * frequency * 2.3, 9.5, seed) * 0.22;
            base - amplitude * (swell + fine - 0.45)
        };
        let sand = blend([0.86, 0.68, 0.48], [0.80, 0.54, 0.32], nearness);
        stage
            .canvas_at(parallax(nearness))
            .fill_below(line, |u, v, depth| {
                // The slope of the crest, carried down the face at a slant, is the dune's shape.
                let x = u + sun_side * depth * 0.9;
                let slope = (line(x + 0.01) - line(x - 0.01)) / 0.02;
                let lit = smoothstep(-0.10, 0.10, -slope * sun_side);
                let ripple = 0.05
                    * (fractal(u * 9.0, v * 60.0, 3, seed.wrapping_add(9_000 + 9)) - 0.5)
                    * (0.4 + nearness);
                let surface = scale_colour(sand, 0.50 + 0.56 * lit + 1.6 * ripple);
                light.lit_colour(surface, 0.52 * (1.0 - nearness) + 0.02)
            });
    }
}

/// Snowfields: soft swells, blue where the light does not reach.
pub(super) fn snow(
    stage: &mut SceneStage,
    light: &SceneLight,
    horizon: f32,
    has_water: bool,
    seed: u64,
) {
    let sun_side = light.sun_side();
    let layers = GroundLayers {
        first: if has_water { 0.66 } else { 0.0 },
        count: if has_water { 2 } else { 5 },
        seed,
    };
    for layer in layers.layers_from(horizon, 600) {
        let GroundLayer {
            nearness,
            base,
            seed,
        } = layer;
        let (frequency, amplitude) = (mix(2.4, 0.9, nearness), mix(0.06, 0.24, nearness));
        let line =
            move |u: f32| base - amplitude * (fractal(u * frequency + 11.0, 4.5, 3, seed) - 0.4);
        stage
            .canvas_at(parallax(nearness))
            .fill_below(line, |u, v, depth| {
                let x = u + sun_side * depth * 0.7;
                let slope = (line(x + 0.012) - line(x - 0.012)) / 0.024;
                // Wind ripples, finer with distance.
                let fine = mix(3.2, 1.0, nearness);
                let drift = fractal(
                    u * 9.0 * fine,
                    v * 34.0 * fine,
                    4,
                    seed.wrapping_add(9_000 + 9),
                ) - 0.5;
                let lit = smoothstep(-0.26, 0.22, -slope * sun_side + drift * 0.24);
                let sparkle = sparkle_at(u, v, seed) * nearness;
                let surface = blend([0.50, 0.62, 0.86], [0.98, 0.98, 1.0], lit);
                let surface = add(surface, [1.0; 3], 0.25 * sparkle);
                // Snow shows the sky's colour more than its own.
                light.lit_colour(
                    blend(surface, light.middle, 0.14),
                    0.42 * (1.0 - nearness) + 0.02,
                )
            });
    }
}

/// One grain of snow in a few hundred catches the light.
fn sparkle_at(u: f32, v: f32, seed: u64) -> f32 {
    smoothstep(
        0.93,
        1.0,
        value(u * 420.0, v * 420.0, seed.wrapping_add(9_000 + 12)),
    )
}

/// Rolling meadows, greener and more detailed the nearer they are.
pub(super) fn meadow(
    stage: &mut SceneStage,
    light: &SceneLight,
    horizon: f32,
    has_water: bool,
    seed: u64,
) {
    let layers = GroundLayers {
        first: if has_water { 0.66 } else { 0.0 },
        count: if has_water { 2 } else { 6 },
        seed,
    };
    let dry = lattice(5, 5, seed);
    for layer in layers.layers_from(horizon, 700) {
        let GroundLayer {
            nearness,
            base,
            seed,
        } = layer;
        let (frequency, amplitude) = (mix(2.4, 1.0, nearness), mix(0.055, 0.13, nearness));
        let line =
            move |u: f32| base - amplitude * (fractal(u * frequency + 2.0, 7.5, 3, seed) - 0.4);
        let fresh = blend([0.40, 0.56, 0.34], [0.20, 0.38, 0.13], nearness);
        let straw = blend([0.66, 0.62, 0.40], [0.48, 0.43, 0.18], nearness);
        let grass = blend(fresh, straw, 0.65 * dry);
        stage
            .canvas_at(parallax(nearness))
            .fill_below(line, |u, v, depth| {
                let fields = fractal(
                    u * mix(9.0, 3.0, nearness),
                    v * mix(60.0, 14.0, nearness),
                    3,
                    seed.wrapping_add(9_000 + 9),
                );
                let blades = fractal(u * 120.0, v * 50.0, 2, seed.wrapping_add(9_000 + 10)) - 0.5;
                let crest = 0.22 * smoothstep(amplitude * 1.4, 0.0, depth);
                let surface = scale_colour(
                    grass,
                    0.62 + 0.45 * fields + crest + 0.24 * blades * nearness,
                );
                light.lit_colour(surface, (0.72 * (1.0 - nearness)).powf(1.1) + 0.03)
            });
    }
}

/// How much of the camera's travel the ground follows; `nearness` is 0 at the horizon, 1 at the
/// bottom edge.
pub(super) fn parallax(nearness: f32) -> f32 {
    mix(0.16, 1.0, nearness)
}

/// Layers of ground from the horizon to the bottom edge.
struct GroundLayers {
    /// Where the first one lies: 0 on the horizon, 1 at the bottom.
    first: f32,
    count: u16,
    seed: u64,
}

struct GroundLayer {
    /// 0 far, 1 near.
    nearness: f32,
    /// Its mean height in the picture.
    base: f32,
    seed: u64,
}

impl GroundLayers {
    fn layers_from(self, horizon: f32, lane: u64) -> impl Iterator<Item = GroundLayer> {
        (0..self.count).map(move |i| {
            let step = f32::from(i) / f32::from(self.count.max(2) - 1);
            let nearness = mix(self.first, 1.0, step);
            GroundLayer {
                nearness,
                // Perspective crowds the far ones together; the nearest stays in the picture.
                base: mix(horizon + 0.01, 0.9, nearness.powf(1.5)),
                seed: self.seed.wrapping_add(lane + u64::from(i)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_come_nearer_and_lower() {
        let layers: Vec<GroundLayer> = GroundLayers {
            first: 0.0,
            count: 6,
            seed: 1,
        }
        .layers_from(0.6, 0)
        .collect();
        assert!(
            layers
                .windows(2)
                .all(|w| w[0].nearness < w[1].nearness && w[0].base < w[1].base)
        );
    }
}
