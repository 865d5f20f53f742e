//! A persona's hair: seven cuts, each in a part that hangs behind the head and one that lies over the forehead.

use super::look::Look;
use crate::canvas::{Canvas, bow, circle, ellipse, pebble, smooth};

/// Hair that falls behind the shoulders and the head.
pub(super) fn behind(canvas: &mut Canvas, look: &Look) {
    let dark = look.hair.lighter(-0.05);
    match look.cut {
        0 => canvas.fill(pebble(50.0, 56.0, 22.5, 33.0, 3.0, 0.0), dark, 1.0),
        1 => {
            canvas.fill(circle(50.0, 35.0, 25.5), dark, 1.0);
            canvas.fill(circle(50.0, 34.0, 22.5), look.hair, 1.0);
        }
        2 => canvas.fill(pebble(50.0, 48.0, 21.5, 22.0, 3.4, 0.0), dark, 1.0),
        3 => {
            canvas.fill(circle(50.0, 15.0, 9.5), dark, 1.0);
            canvas.fill(ellipse(50.0, 41.0, 18.0, 20.0), dark, 1.0);
        }
        4 => {
            for step in 0..11_u8 {
                let (sin, cos) = (f32::from(step) * 0.402 - 2.01).sin_cos();
                canvas.fill(circle(50.0 + 18.5 * sin, 43.0 - 18.5 * cos, 7.2), dark, 1.0);
            }
        }
        _ => {}
    }
}

/// Hair that lies over the forehead.
pub(super) fn before(canvas: &mut Canvas, look: &Look) {
    let (hair, side) = (look.hair, look.light);
    let mirror = |points: &[(f32, f32)]| -> Vec<(f32, f32)> {
        points
            .iter()
            .map(|(x, y)| (50.0 + side * (x - 50.0), *y))
            .collect()
    };
    let fringe: &[(f32, f32)] = match look.cut {
        // Long hair and a bob, parted at one side.
        0 | 2 => &[
            (32.2, 50.0),
            (31.5, 36.0),
            (38.0, 25.5),
            (50.0, 22.0),
            (62.0, 25.5),
            (68.5, 36.0),
            (67.8, 50.0),
            (65.6, 41.0),
            (57.5, 31.5),
            (47.0, 38.5),
            (36.0, 41.0),
        ],
        // A straight fringe.
        3 => &[
            (32.8, 44.0),
            (33.0, 33.0),
            (40.0, 25.0),
            (50.0, 22.5),
            (60.0, 25.0),
            (67.0, 33.0),
            (67.2, 44.0),
            (64.0, 38.6),
            (50.0, 37.2),
            (36.0, 38.6),
        ],
        // A close line for the round and the curled cuts.
        1 | 4 => &[
            (33.0, 43.0),
            (33.5, 33.0),
            (41.0, 25.0),
            (50.0, 23.0),
            (59.0, 25.0),
            (66.5, 33.0),
            (67.0, 43.0),
            (64.0, 35.5),
            (57.0, 31.0),
            (50.0, 32.0),
            (43.0, 31.0),
            (36.0, 35.5),
        ],
        // A quiff.
        5 => &[
            (33.4, 46.0),
            (32.6, 35.0),
            (37.0, 25.0),
            (45.0, 19.5),
            (58.0, 15.5),
            (69.0, 20.5),
            (69.2, 31.0),
            (66.4, 45.0),
            (64.6, 35.0),
            (56.0, 30.8),
            (46.0, 33.2),
            (37.5, 32.5),
            (35.2, 37.0),
        ],
        // Cropped short.
        _ => &[
            (33.2, 45.0),
            (33.0, 34.0),
            (40.0, 25.8),
            (50.0, 23.6),
            (60.0, 25.8),
            (67.0, 34.0),
            (66.8, 45.0),
            (64.8, 36.0),
            (60.0, 31.8),
            (50.0, 30.4),
            (40.0, 31.8),
            (35.2, 36.0),
        ],
    };
    canvas.fill(smooth(&mirror(fringe)), hair, 1.0);
    if look.cut == 5 {
        let strand = mirror(&[(40.0, 29.0), (50.0, 22.5), (63.0, 24.0)]);
        if let [from, bend, to] = strand.as_slice() {
            canvas.line(bow(*from, *bend, *to), 0.9, hair.lighter(0.12), 0.8);
        }
    }
    if look.cut == 4 {
        for step in 0..6_u8 {
            let x = 36.5 + 5.4 * f32::from(step);
            canvas.fill(
                circle(x, 29.6 - 2.6 * (1.0 - ((x - 50.0) / 13.5).powi(2)), 4.4),
                hair,
                1.0,
            );
        }
    }
}
