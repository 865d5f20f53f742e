//! What grows in front in the demo's picture: two groups of pines, and the near bank with its grass and flowers.

use super::foreground::Brush;
use super::picture::{chance, mix};

/// The pines on both sides, the farther ones first.
pub(super) fn pines(brush: &mut Brush) {
    for (number, (x, foot, tall)) in (0..).zip(PINES) {
        pine(brush, number, x, foot, tall);
    }
}

/// A pine: a trunk, and tiers of hanging boughs that are lighter towards the sun.
fn pine(brush: &mut Brush, number: u32, x: f32, foot: f32, tall: f32) {
    let sunward = if x < 842.0 { 1.0 } else { -1.0 };
    let girth = tall * 0.017;
    brush.fill(
        &[
            (x - girth, foot),
            (x - girth * 0.25, foot - tall * 0.96),
            (x + girth * 0.25, foot - tall * 0.96),
            (x + girth, foot),
        ],
        [0.17, 0.11, 0.09],
        1.0,
    );
    let tiers = 40_u8;
    // From the bottom up, so that upper boughs hang over lower ones.
    for tier in 0..tiers {
        let up = 0.10 + 0.90 * f32::from(tier) / f32::from(tiers);
        let level = foot - tall * up;
        let reach = tall * 0.24 * (1.0 - up).powf(0.85) + 2.0;
        for side in [-1.0_f32, 1.0] {
            for bough in 0..5_u8 {
                let roll = |of: u32| {
                    chance(
                        number * 997 + u32::from(tier) * 13 + u32::from(bough),
                        of,
                        if side > 0.0 { 7 } else { 8 },
                    )
                };
                let long = reach * (0.45 + 0.65 * roll(1));
                let drop = long * (0.22 + 0.22 * roll(2));
                let start = level + tall * 0.018 * (roll(3) - 0.5);
                let tip = (x + side * long, start + drop);
                let thick = tall * 0.011 * (0.6 + 0.6 * roll(4)) + long * 0.06;
                let sun = if side * sunward > 0.0 {
                    0.30 + 0.60 * roll(5)
                } else {
                    0.22 * roll(5)
                };
                let colour = mix(
                    [0.035, 0.085, 0.085],
                    [0.27, 0.33, 0.15],
                    sun * (0.45 + 0.55 * up),
                );
                let middle = (x + side * long * 0.55, start + drop * 0.32);
                brush.fill(
                    &[
                        (x, start - thick * 0.4),
                        middle,
                        tip,
                        (x + side * long * 0.72, start + drop * 0.8 + thick * 1.2),
                        (x + side * long * 0.45, start + drop * 0.5 + thick * 0.7),
                        (x + side * long * 0.22, start + drop * 0.3 + thick * 1.3),
                    ],
                    colour,
                    1.0,
                );
            }
        }
    }
}

/// The near bank: dark ground, grass in front of it, and flowers in the grass.
pub(super) fn bank(brush: &mut Brush) {
    let edge = |x: f32| {
        714.0
            - 108.0 * (-x / 250.0).exp()
            - 92.0 * (-(1280.0 - x) / 230.0).exp()
            - 9.0 * (x / 61.0).sin().abs()
    };
    let mut outline = vec![(0.0, 720.0)];
    outline.extend(
        (0..=64_u8)
            .map(|step| f32::from(step) * 20.0)
            .map(|x| (x, edge(x))),
    );
    outline.push((1280.0, 720.0));
    brush.fill(&outline, [0.07, 0.12, 0.08], 1.0);
    for blade in 0..2_600_u32 {
        let x = 1280.0 * chance(blade, 1, 3);
        let ground = edge(x);
        let root = ground + (724.0 - ground) * chance(blade, 2, 3);
        let tall = (9.0 + 21.0 * chance(blade, 3, 3)) * (0.6 + 0.5 * (root - ground) / 90.0);
        let lean = (chance(blade, 4, 3) - 0.42) * tall * 0.8;
        let sun = chance(blade, 5, 3);
        let colour = mix([0.08, 0.17, 0.09], [0.44, 0.48, 0.19], sun * sun);
        brush.curve(
            (x, root + 3.0),
            (x + lean * 0.2, root - tall * 0.6),
            (x + lean, root - tall),
            1.3,
            colour,
        );
    }
    for flower in 0..130_u32 {
        let x = 1280.0 * chance(flower, 6, 3);
        let ground = edge(x);
        let y = ground + (716.0 - ground) * chance(flower, 7, 3) - 9.0;
        let petals = [
            [0.96, 0.82, 0.36],
            [0.86, 0.56, 0.80],
            [0.97, 0.95, 0.90],
            [0.66, 0.62, 0.93],
        ];
        let colour = petals
            .get((flower % 4) as usize)
            .copied()
            .unwrap_or([1.0; 3]);
        let size = 1.7 + 1.7 * chance(flower, 8, 3);
        for (dx, dy) in [(-1.0, 0.0), (1.0, 0.0), (0.0, -1.0), (0.0, 1.0)] {
            brush.dot(
                x + dx * size * 0.8,
                y + dy * size * 0.8,
                size * 0.75,
                colour,
                0.95,
            );
        }
        brush.dot(x, y, size * 0.55, [0.80, 0.50, 0.14], 1.0);
    }
}

/// Column, foot and height of each pine, the farther ones first.
const PINES: [(f32, f32, f32); 6] = [
    (214.0, 668.0, 300.0),
    (1108.0, 690.0, 270.0),
    (20.0, 676.0, 440.0),
    (1270.0, 676.0, 400.0),
    (1192.0, 694.0, 520.0),
    (112.0, 690.0, 590.0),
];
