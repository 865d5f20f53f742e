//! A portrait: head and shoulders in layered flat shapes before a halo.
//!
//! Abstract on purpose: it must suit a voice or an account of anybody's, and look like nobody in particular.

mod hair;
mod look;

use tiny_skia::{Path, PathBuilder};

use super::ArtworkError;
use super::canvas::{Canvas, bow, circle, ellipse, pebble, polygon, segment, smooth};
use super::colour::{Dice, Lch, Palette};
use look::Look;

/// Square portrait, PNG bytes. The name only takes part in the choice; it is not written.
pub fn portrait(seed: &str, name: &str, side: u32) -> Result<Vec<u8>, ArtworkError> {
    let mut canvas = Canvas::new(side)?;
    let mut dice = Dice::new("persona", &[seed, name]);
    let palette = Palette::draw(&mut dice);
    let look = Look::draw(&mut dice, &palette);
    let glow = (
        if dice.chance(0.5) { 12.0 } else { 88.0 },
        dice.range(0.0, 40.0),
    );
    canvas.wash_palette(&palette, glow);
    backdrop(&mut canvas, &palette, &mut dice);
    hair::behind(&mut canvas, &look);
    shoulders(&mut canvas, &palette, &look, dice.pick(3));
    head(&mut canvas, &look);
    face(&mut canvas, &look, dice.pick(3));
    hair::before(&mut canvas, &look);
    finery(&mut canvas, &palette, &look, dice.pick(4));
    canvas.png()
}

/// A halo and one figure of lines or discs, all behind the person.
fn backdrop(canvas: &mut Canvas, palette: &Palette, dice: &mut Dice) {
    let (x, y) = (dice.range(42.0, 58.0), dice.range(38.0, 46.0));
    match dice.pick(3) {
        0 => {
            for (radius, alpha) in [(47.0, 0.10), (40.0, 0.14), (33.0, 0.85)] {
                canvas.fill(circle(x, y, radius), palette.accent, alpha);
            }
        }
        1 => {
            canvas.fill(circle(x, y, 31.0), palette.light, 0.88);
            for ring in 0..5_u8 {
                canvas.line(
                    circle(x, y, 35.5 + 4.5 * f32::from(ring)),
                    0.9,
                    palette.light,
                    0.45 - 0.08 * f32::from(ring),
                );
            }
        }
        _ => {
            canvas.fill(circle(x, y, 34.0), palette.accent, 0.80);
            for bar in 0..15_u8 {
                let place = 5.0 + 6.43 * f32::from(bar);
                let reach = dice.range(3.0, 15.0);
                canvas.line(
                    segment((place, y - reach), (place, y + reach)),
                    2.4,
                    palette.light,
                    0.35,
                );
            }
        }
    }
}

fn shoulders(canvas: &mut Canvas, palette: &Palette, look: &Look, kind: u8) {
    canvas.fill(neck(), look.skin.lighter(-0.07), 1.0);
    // The shadow of the chin lies on the neck only.
    let mask = neck().and_then(|neck| canvas.mask(Some(&neck)));
    canvas.fill_within(
        ellipse(50.0, 62.0, 13.5, 12.5),
        look.skin.lighter(-0.17),
        1.0,
        mask.as_ref(),
    );
    canvas.fill(torso(), look.cloth, 1.0);
    let body = torso().and_then(|body| canvas.mask(Some(&body)));
    let body = body.as_ref();
    let half = [
        (50.0, 60.0),
        (50.0 - look.light * 60.0, 60.0),
        (50.0 - look.light * 60.0, 110.0),
        (50.0, 110.0),
    ];
    canvas.fill_within(polygon(&half), look.cloth.lighter(-0.07), 1.0, body);
    match kind {
        0 => {
            canvas.fill(
                polygon(&[(41.0, 77.0), (59.0, 77.0), (50.0, 93.0)]),
                look.skin.lighter(-0.03),
                1.0,
            );
            for side in [-1.0, 1.0] {
                let lapel = [
                    (50.0 + side * 9.5, 75.0),
                    (50.0 + side * 17.0, 83.0),
                    (50.0, 99.0),
                    (50.0, 93.0),
                ];
                canvas.fill_within(polygon(&lapel), look.cloth.lighter(0.14), 1.0, body);
            }
        }
        1 => {
            canvas.fill(
                ellipse(50.0, 78.0, 12.5, 5.2),
                look.cloth.lighter(0.14),
                1.0,
            );
            canvas.fill(ellipse(50.0, 76.8, 9.6, 4.4), look.skin.lighter(-0.10), 1.0);
            for stripe in 0..3_u8 {
                let y = 86.0 + 6.5 * f32::from(stripe);
                canvas.fill_within(
                    polygon(&[(0.0, y), (100.0, y), (100.0, y + 2.6), (0.0, y + 2.6)]),
                    palette.light,
                    0.55,
                    body,
                );
            }
        }
        _ => {
            canvas.fill(
                pebble(50.0, 76.5, 11.5, 7.0, 3.2, 0.0),
                look.cloth.lighter(0.12),
                1.0,
            );
            canvas.fill(
                pebble(50.0, 73.5, 9.4, 4.0, 3.0, 0.0),
                look.cloth.lighter(-0.10),
                0.55,
            );
            canvas.fill(
                circle(50.0 + look.light * 16.0, 91.0, 3.0),
                palette.accent,
                1.0,
            );
        }
    }
}

/// The head with its shaded half.
fn head(canvas: &mut Canvas, look: &Look) {
    for side in [-1.0, 1.0] {
        canvas.fill(
            ellipse(50.0 + side * 16.2, 46.5, 3.0, 4.6),
            look.skin.lighter(-0.06),
            1.0,
        );
    }
    canvas.fill(skull(), look.skin, 1.0);
    let mask = skull().and_then(|skull| canvas.mask(Some(&skull)));
    let shadow = smooth(&[
        (50.0, 20.0),
        (50.0 - look.light * 3.0, 38.0),
        (50.0 - look.light * 1.0, 50.0),
        (50.0 - look.light * 4.0, 58.0),
        (50.0 - look.light * 1.0, 72.0),
        (50.0 - look.light * 30.0, 72.0),
        (50.0 - look.light * 30.0, 20.0),
    ]);
    canvas.fill_within(shadow, look.skin.lighter(-0.09), 0.75, mask.as_ref());
    canvas.fill_within(
        ellipse(50.0 + look.light * 9.5, 53.0, 4.6, 3.4),
        Lch::new(0.66, 0.15, 25.0),
        0.35,
        mask.as_ref(),
    );
}

/// Closed eyes, dark glasses or an open gaze; a nose and lips.
fn face(canvas: &mut Canvas, look: &Look, kind: u8) {
    let ink = look.ink;
    for side in [-1.0, 1.0] {
        let x = 50.0 + side * 7.2;
        match kind {
            0 => canvas.line(
                bow((x - 3.4, 45.6), (x, 49.0), (x + 3.4, 45.6)),
                1.3,
                ink,
                0.95,
            ),
            1 => {
                canvas.fill(pebble(x, 46.0, 6.3, 4.9, 2.7, 0.0), ink, 1.0);
                let glint = segment((x - 2.4, 47.6), (x + 0.8, 43.6));
                canvas.line(glint, 1.1, look.skin.lighter(0.2), 0.45);
            }
            _ => {
                canvas.fill(
                    ellipse(x, 46.4, 3.3, 2.3),
                    Lch::new(0.97, 0.01, look.skin.h),
                    1.0,
                );
                canvas.fill(circle(x + look.light * 0.5, 46.3, 1.9), ink, 1.0);
                canvas.line(
                    bow((x - 3.6, 46.0), (x, 42.3), (x + 3.6, 46.0)),
                    1.1,
                    ink,
                    0.95,
                );
            }
        }
        if kind != 1 {
            let brow = bow((x - side * 3.6, 41.2), (x, 38.6), (x + side * 4.2, 41.4));
            canvas.line(brow, 1.2, look.hair.lighter(-0.12), 0.85);
        }
    }
    if kind == 1 {
        canvas.line(bow((46.0, 45.2), (50.0, 43.4), (54.0, 45.2)), 1.3, ink, 1.0);
    }
    let nose = bow(
        (50.0 - look.light * 0.6, 46.5),
        (50.0 - look.light * 3.4, 53.6),
        (50.0 + look.light * 0.8, 53.8),
    );
    canvas.line(nose, 1.0, look.skin.lighter(-0.20), 0.85);
    let lip = Lch::new((look.skin.l - 0.17).max(0.34), 0.13, 22.0);
    canvas.fill(
        smooth(&[
            (45.8, 58.6),
            (48.6, 57.6),
            (50.0, 58.0),
            (51.4, 57.6),
            (54.2, 58.6),
            (50.0, 61.4),
        ]),
        lip,
        1.0,
    );
    canvas.line(
        bow((45.8, 58.7), (50.0, 59.8), (54.2, 58.7)),
        0.6,
        look.skin.lighter(-0.35),
        0.8,
    );
}

/// Headphones, earrings or nothing.
fn finery(canvas: &mut Canvas, palette: &Palette, look: &Look, kind: u8) {
    match kind {
        0 => {
            let bend = if look.cut == 1 { -24.0 } else { -5.0 };
            canvas.line(
                bow((31.6, 45.0), (50.0, bend), (68.4, 45.0)),
                2.6,
                look.ink,
                1.0,
            );
            for side in [-1.0, 1.0] {
                canvas.fill(
                    pebble(50.0 + side * 18.6, 47.5, 4.6, 8.2, 3.0, 0.0),
                    look.ink,
                    1.0,
                );
                canvas.fill(
                    pebble(50.0 + side * 20.2, 47.5, 2.6, 5.6, 3.0, 0.0),
                    palette.accent,
                    1.0,
                );
            }
        }
        1 if look.cut != 0 && look.cut != 2 => {
            for side in [-1.0, 1.0] {
                canvas.line(
                    circle(50.0 + side * 17.2, 55.4, 3.4),
                    1.1,
                    palette.accent.lighter(0.08),
                    1.0,
                );
            }
        }
        _ => {}
    }
}

fn neck() -> Option<Path> {
    polygon(&[
        (43.0, 56.0),
        (57.0, 56.0),
        (57.0, 74.0),
        (63.5, 82.0),
        (36.5, 82.0),
        (43.0, 74.0),
    ])
}

fn torso() -> Option<Path> {
    let mut path = PathBuilder::new();
    path.move_to(4.0, 104.0);
    path.cubic_to(6.0, 84.0, 22.0, 80.5, 40.0, 75.5);
    path.quad_to(50.0, 85.0, 60.0, 75.5);
    path.cubic_to(78.0, 80.5, 94.0, 84.0, 96.0, 104.0);
    path.close();
    path.finish()
}

fn skull() -> Option<Path> {
    let mut path = PathBuilder::new();
    path.move_to(50.0, 25.0);
    path.cubic_to(60.5, 25.0, 66.5, 32.0, 66.3, 43.0);
    path.cubic_to(66.2, 55.0, 59.5, 66.5, 50.0, 66.5);
    path.cubic_to(40.5, 66.5, 33.8, 55.0, 33.7, 43.0);
    path.cubic_to(33.5, 32.0, 39.5, 25.0, 50.0, 25.0);
    path.close();
    path.finish()
}
