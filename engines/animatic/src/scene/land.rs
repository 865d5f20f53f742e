//! The skyline on the horizon: mountains, a city, a forest.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "trees, houses and windows are counted in small numbers"
)]

use super::light::SceneLight;
use super::noise::{fractal, lattice, mix, ridged_1d, ridged_2d, smoothstep, value};
use super::paint::{SceneColour, add, blend, scale_colour};
use super::stage::SceneStage;

/// Ranges from far to near, each lower and less hazy than the one behind it.
pub(super) fn mountains(
    stage: &mut SceneStage,
    light: &SceneLight,
    horizon: f32,
    snowy: bool,
    seed: u64,
) {
    let sun_side = light.sun_side();
    let snow_line = if snowy { 0.03 } else { 0.13 };
    for range in 0..4_u16 {
        let nearness = f32::from(range) / 3.0;
        let seed = seed.wrapping_add(200 + u64::from(range));
        let reach = mix(0.36, 0.13, nearness) * (0.85 + 0.3 * lattice(3, 3, seed));
        let base = horizon + 0.012 + 0.03 * nearness;
        let frequency = mix(1.25, 1.9, nearness);
        let offset = lattice(1, 2, seed) * 90.0;
        let line = |u: f32| {
            let crest = ridged_1d(u * frequency + offset, 8, seed);
            // Layers have neighbouring seeds. Adding 9,000 keeps the seeds of a layer's details
            // away from them.
            let broad = value(
                u * frequency * 0.8 + offset,
                3.3,
                seed.wrapping_add(9_000 + 1),
            );
            base - reach * (0.10 + 1.05 * crest * crest) * (0.45 + 0.75 * broad)
        };
        let distance = mix(0.80, 0.30, nearness);
        let rock = blend([0.40, 0.40, 0.45], [0.27, 0.32, 0.24], nearness);
        stage
            .canvas_at(mix(0.05, 0.28, nearness))
            .fill_below(line, |u, v, depth| {
                let height = (base - v) / reach;
                // Gullies run down the face; their flanks towards the sun are lit.
                let (x, y) = (u * 6.5 * frequency + offset, v * 4.2 * frequency);
                let flank = |e: f32| {
                    ridged_2d(x + e, y, 5, seed) - ridged_2d(x - e, y, 5, seed)
                        + 0.5
                            * (fractal((x + e) * 0.4, y * 0.4, 2, seed)
                                - fractal((x - e) * 0.4, y * 0.4, 2, seed))
                };
                let lit = (0.52 + sun_side * flank(0.10) * mix(2.4, 1.5, nearness)).clamp(0.0, 1.0);
                let surface = scale_colour(rock, 0.42 + 0.85 * lit);
                // Snow lies high up, lower in the gullies, and longest just under the crest.
                let hollow =
                    0.34 * (ridged_2d(x * 0.7, y * 0.7, 4, seed.wrapping_add(9_000 + 5)) - 0.55);
                let fine =
                    0.10 * (fractal(u * 46.0, v * 40.0, 3, seed.wrapping_add(9_000 + 6)) - 0.5);
                let level = base - v + 0.30 * (hollow + fine) + 0.02 * smoothstep(0.05, 0.0, depth);
                let cap = smoothstep(snow_line, snow_line + 0.022, level);
                let white = blend([0.62, 0.70, 0.86], [1.0, 1.0, 1.0], lit);
                // Mist gathers at the foot.
                let mist = 0.40 * smoothstep(0.40, -0.05, height);
                light.lit_colour(blend(surface, white, cap), (distance + mist).min(1.0))
            });
    }
}

/// A skyline in rows of buildings; at night their windows are lit.
pub(super) fn city(
    stage: &mut SceneStage,
    light: &SceneLight,
    horizon: f32,
    has_water: bool,
    seed: u64,
) {
    if light.darkness > 0.5 {
        // The glow of the streets in the air above the roofs.
        stage
            .canvas_at(0.15)
            .shine(horizon - 0.28, horizon, |_, v| {
                let low = smoothstep(horizon - 0.28, horizon, v);
                scale_colour([0.30, 0.17, 0.22], 0.35 * low * low)
            });
    }
    let rows: u16 = if has_water { 3 } else { 5 };
    for row in 0..rows {
        let nearness = f32::from(row) / f32::from(rows - 1);
        let seed = seed.wrapping_add(300 + u64::from(row));
        let base = if has_water {
            horizon
        } else {
            horizon + 0.34 * nearness * nearness
        };
        let plot = mix(0.034, if has_water { 0.055 } else { 0.12 }, nearness);
        let tall = mix(0.34, 0.26, nearness);
        let distance = mix(0.84, if has_water { 0.4 } else { 0.1 }, nearness);
        let wall = blend([0.42, 0.44, 0.50], [0.17, 0.18, 0.23], nearness);
        let house = HouseRow {
            plot,
            tall,
            base,
            seed,
        };
        let parallax = mix(0.15, if has_water { 0.38 } else { 1.0 }, nearness);
        stage.canvas_at(parallax).fill_below(
            |u| house.roof(u),
            |u, v, depth| {
                let (number, across) = house.house_at(u);
                let tone = 0.8 + 0.4 * lattice(number, 7, seed);
                let side = 1.0 - 0.22 * smoothstep(0.5, 0.56, across);
                let lower = 1.0 - 0.25 * smoothstep(0.0, tall, depth);
                let facade = light.lit_colour(scale_colour(wall, tone * side * lower), distance);
                let window = house.window(u, v, depth, number);
                let warm = window_colour(number, seed);
                let lamps = light.darkness * (1.0 - 0.55 * distance);
                let glass = light.lit_colour(scale_colour([0.62, 0.70, 0.80], 0.6), distance);
                let by_day = blend(facade, glass, 0.45 * window.pane * (1.0 - light.darkness));
                add(by_day, warm, window.lit * lamps)
            },
        );
    }
}

/// A row of houses, all plots of one width.
struct HouseRow {
    plot: f32,
    tall: f32,
    base: f32,
    seed: u64,
}

struct WindowGlass {
    pane: f32,
    lit: f32,
}

impl HouseRow {
    /// The number of the house at `u`, and where in its plot that is, 0 to 1.
    fn house_at(&self, u: f32) -> (i32, f32) {
        let position = u / self.plot + 100.0;
        (position.floor() as i32, position.fract())
    }

    fn roof(&self, u: f32) -> f32 {
        let (number, across) = self.house_at(u);
        let chance = |n: i32| lattice(number, n, self.seed);
        // Taller towards the middle of town, wherever that is.
        let town = 0.45 + 0.75 * value(u * 0.9 + 5.0, 1.5, self.seed.wrapping_add(9_000 + 3));
        let height = self.tall * (0.25 + 0.75 * chance(0) * chance(1).sqrt()) * town;
        let gap = if chance(2) < 0.25 { 0.1 } else { 0.0 };
        let step = if chance(3) < 0.4 && !(0.2..0.8).contains(&across) {
            0.72
        } else {
            1.0
        };
        let mast = if chance(4) < 0.15 && (across - 0.5).abs() < 0.02 {
            0.045
        } else {
            0.0
        };
        if across < gap {
            self.base - height * 0.3
        } else {
            self.base - height * step - mast
        }
    }

    fn window(&self, u: f32, v: f32, depth: f32, number: i32) -> WindowGlass {
        let size = self.plot * 0.11;
        let (x, y) = (u / size, v / (size * 1.35));
        let in_pane = |t: f32| smoothstep(0.14, 0.26, t) * smoothstep(0.86, 0.74, t);
        let pane = in_pane(x.fract()) * in_pane(y.fract()) * smoothstep(size * 0.4, size, depth);
        let chance = lattice(
            x.floor() as i32,
            y.floor() as i32,
            self.seed.wrapping_add(9_000 + 11),
        );
        let lit_share = 0.25 + 0.35 * lattice(number, 12, self.seed);
        let lit = if chance < lit_share {
            pane * (0.45 + 0.55 * chance / lit_share)
        } else {
            0.0
        };
        WindowGlass { pane, lit }
    }
}

fn window_colour(number: i32, seed: u64) -> SceneColour {
    let hue = lattice(number, 21, seed);
    if hue < 0.72 {
        [0.95, 0.72, 0.36]
    } else if hue < 0.88 {
        [0.55, 0.75, 0.95]
    } else {
        [0.92, 0.36, 0.62]
    }
}

/// Conifers in rows, from a hazy line to single trees.
pub(super) fn forest(
    stage: &mut SceneStage,
    light: &SceneLight,
    horizon: f32,
    has_water: bool,
    seed: u64,
) {
    let rows: u16 = if has_water { 3 } else { 6 };
    for row in 0..rows {
        let nearness = f32::from(row) / f32::from(rows - 1);
        let seed = seed.wrapping_add(400 + u64::from(row));
        let base = if has_water {
            horizon
        } else {
            horizon - 0.02 + 0.36 * nearness.powf(1.4)
        };
        let tree = TreeRow {
            tall: mix(
                0.035,
                if has_water { 0.085 } else { 0.26 },
                nearness.powf(1.2),
            ),
            seed,
        };
        let swell = mix(0.10, 0.05, nearness);
        let ground = |u: f32| base - swell * (fractal(u * 1.4 + 7.0, 2.0, 3, seed) - 0.15);
        let distance = mix(0.80, if has_water { 0.35 } else { 0.02 }, nearness);
        let leaf = blend([0.20, 0.32, 0.24], [0.07, 0.15, 0.10], nearness);
        let parallax = mix(0.16, if has_water { 0.38 } else { 1.0 }, nearness);
        stage.canvas_at(parallax).fill_below(
            |u| ground(u) - tree.top(u),
            |u, v, depth| {
                let tuft = fractal(u * 60.0, v * 46.0, 3, seed) - 0.5;
                let crown = 1.0 + 0.5 * tuft + 0.35 * smoothstep(tree.tall, 0.0, depth);
                let mist = 0.30 * smoothstep(0.0, tree.tall * 1.6, depth) * (1.0 - 0.6 * nearness);
                light.lit_colour(scale_colour(leaf, crown), (distance + mist).min(1.0))
            },
        );
    }
}

/// One row of trees.
struct TreeRow {
    tall: f32,
    seed: u64,
}

impl TreeRow {
    /// How high the trees reach above their ground at `u`: the tallest of those that stand there.
    fn top(&self, u: f32) -> f32 {
        let pitch = self.tall * 0.17;
        let position = (u / pitch).floor() as i32;
        (position - 3..=position + 3)
            .map(|number| {
                let chance = |n: i32| lattice(number, n, self.seed);
                let trunk = (number as f32 + 0.2 + 0.6 * chance(0)) * pitch;
                let height = self.tall * (0.45 + 0.55 * chance(1) * chance(4).sqrt());
                let half_width = height * (0.20 + 0.07 * chance(2));
                let from_trunk = (u - trunk).abs() / half_width;
                if from_trunk >= 1.0 {
                    return 0.0;
                }
                // Boughs: a saw edge on the way down from the tip.
                let bough = ((1.0 - from_trunk) * (6.0 + 4.0 * chance(5)) + chance(3)).fract();
                height * (1.0 - from_trunk).powf(0.9) * (1.0 - 0.17 * bough * (0.4 + from_trunk))
            })
            .fold(0.0, f32::max)
    }
}
