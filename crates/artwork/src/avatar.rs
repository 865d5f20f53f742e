//! An account's avatar: a small creature whose shape, eyes, mouth and finery are drawn from the seed.
//!
//! All that matters lies within the inscribed circle, so that a page may crop the picture round.

use tiny_skia::Path;

use super::ArtworkError;
use super::canvas::{Canvas, bow, circle, ellipse, pebble, polygon, segment, smooth};
use super::colour::{Dice, Lch};

/// Square avatar of an account, PNG bytes.
pub fn avatar(seed: &str, side: u32) -> Result<Vec<u8>, ArtworkError> {
    let mut canvas = Canvas::new(side)?;
    let mut dice = Dice::new("avatar", &[seed]);
    let skin = Skin::draw(&mut dice);
    canvas.wash(&[
        (20.0, 10.0, skin.ground.lighter(0.05)),
        (95.0, 20.0, skin.ground.turned(24.0).clean()),
        (50.0, 100.0, skin.ground.lighter(-0.10)),
    ]);
    canvas.fill(circle(50.0, 54.0, 37.0), skin.ground.lighter(0.10), 0.30);
    let head = Head::draw(&mut dice);
    crown(&mut canvas, &skin, &head, dice.pick(6));
    canvas.fill(ellipse(50.0, 103.0, 29.0, 19.0), skin.dark, 1.0);
    canvas.fill(head.outline(0.0, 1.8), skin.dark, 0.28);
    canvas.fill(head.outline(0.0, 0.0), skin.fur, 1.0);
    markings(&mut canvas, &skin, &head, &mut dice);
    eyes(&mut canvas, &skin, &head, &mut dice);
    mouth(&mut canvas, &skin, &head, dice.pick(5));
    canvas.png()
}

/// The colours of one creature.
struct Skin {
    ground: Lch,
    fur: Lch,
    dark: Lch,
    pale: Lch,
    blush: Lch,
    ink: Lch,
}

impl Skin {
    fn draw(dice: &mut Dice) -> Self {
        let hue = dice.range(0.0, 360.0);
        let away = dice.range(70.0, 200.0);
        let fur = Lch::new(dice.range(0.70, 0.84), 0.14, hue + away);
        Self {
            ground: Lch::new(0.55, 0.14, hue).clean(),
            fur,
            dark: fur.lighter(-0.20),
            pale: Lch::new(0.95, 0.03, hue + away),
            blush: Lch::new(0.68, 0.17, 20.0),
            ink: Lch::new(0.22, 0.05, hue + away),
        }
    }
}

/// Where the head is and how it is shaped.
struct Head {
    y: f32,
    rx: f32,
    ry: f32,
    square: f32,
    tilt: f32,
}

impl Head {
    fn draw(dice: &mut Dice) -> Self {
        let square = [2.0, 2.5, 3.2, 4.5][usize::from(dice.pick(4))];
        Self {
            y: 56.0,
            rx: dice.range(24.0, 30.0),
            ry: dice.range(22.0, 27.0),
            square,
            tilt: dice.range(-7.0, 7.0),
        }
    }

    /// The head's outline, grown by this much and moved down by that.
    fn outline(&self, grow: f32, down: f32) -> Option<Path> {
        pebble(
            50.0,
            self.y + down,
            self.rx + grow,
            self.ry + grow,
            self.square,
            self.tilt,
        )
    }

    /// A point of the face, measured from its middle in parts of the head's half width and height.
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        let (sin, cos) = self.tilt.to_radians().sin_cos();
        let (px, py) = (x * self.rx, y * self.ry);
        (50.0 + px * cos - py * sin, self.y + px * sin + py * cos)
    }
}

/// What grows out of the top of the head, drawn behind it.
fn crown(canvas: &mut Canvas, skin: &Skin, head: &Head, kind: u8) {
    for side in [-1.0_f32, 1.0] {
        match kind {
            0 => {
                let (x, y) = head.at(side * 0.72, -0.78);
                canvas.fill(circle(x, y, 10.5), skin.fur, 1.0);
                canvas.fill(circle(x, y, 6.0), skin.blush, 0.55);
            }
            1 => {
                let ear = [
                    head.at(side * 0.94, -0.25),
                    head.at(side * 0.86, -1.42),
                    head.at(side * 0.18, -0.85),
                ];
                canvas.fill(polygon(&ear), skin.fur, 1.0);
                let inner = [
                    head.at(side * 0.80, -0.50),
                    head.at(side * 0.78, -1.16),
                    head.at(side * 0.40, -0.80),
                ];
                canvas.fill(polygon(&inner), skin.dark, 0.7);
            }
            2 => {
                let (root, tip) = (head.at(side * 0.25, -0.85), head.at(side * 0.55, -1.42));
                canvas.line(
                    bow(root, head.at(side * 0.25, -1.3), tip),
                    2.2,
                    skin.dark,
                    1.0,
                );
                canvas.fill(circle(tip.0, tip.1, 4.2), skin.pale, 1.0);
            }
            3 => {
                let (x, y) = head.at(side * 0.42, -1.12);
                canvas.fill(
                    pebble(x, y, 6.0, 15.0, 2.2, side * 14.0 + head.tilt),
                    skin.fur,
                    1.0,
                );
                canvas.fill(
                    pebble(x, y, 2.8, 10.5, 2.2, side * 14.0 + head.tilt),
                    skin.blush,
                    0.5,
                );
            }
            4 => {
                let (x, y) = head.at(side * 0.16, -1.12);
                canvas.fill(
                    pebble(x, y, 9.0, 5.0, 2.0, -side * 32.0 + head.tilt),
                    skin.pale,
                    1.0,
                );
            }
            _ => {
                let (x, y) = head.at(side * 0.28, -0.98);
                canvas.fill(circle(x, y, 7.5), skin.dark, 1.0);
                let top = head.at(0.0, -1.13);
                canvas.fill(circle(top.0, top.1, 8.0), skin.dark, 1.0);
            }
        }
    }
    if kind == 4 {
        canvas.line(
            segment(head.at(0.0, -0.9), head.at(0.0, -1.12)),
            2.0,
            skin.pale,
            1.0,
        );
    }
}

/// Spots, a mask, stripes, a muzzle or nothing, kept inside the head.
fn markings(canvas: &mut Canvas, skin: &Skin, head: &Head, dice: &mut Dice) {
    let mask = head
        .outline(0.0, 0.0)
        .and_then(|outline| canvas.mask(Some(&outline)));
    let mask = mask.as_ref();
    match dice.pick(5) {
        0 => {
            let (x, y) = head.at(if dice.chance(0.5) { 0.45 } else { -0.45 }, -0.18);
            canvas.fill_within(pebble(x, y, 12.0, 13.5, 2.3, 12.0), skin.dark, 0.75, mask);
        }
        1 => {
            for (x, y) in [(-0.5, -0.95), (0.0, -0.90), (0.5, -0.95)] {
                let (sx, sy) = head.at(x, y);
                canvas.fill_within(
                    pebble(sx, sy, 3.0, 9.0, 2.0, head.tilt + x * -24.0),
                    skin.dark,
                    0.75,
                    mask,
                );
            }
        }
        2 => {
            let (x, y) = head.at(0.0, 0.72);
            canvas.fill_within(
                ellipse(x, y, head.rx * 0.80, head.ry * 0.62),
                skin.pale,
                0.75,
                mask,
            );
        }
        3 => {
            for _ in 0..7 {
                let (x, y) = head.at(dice.range(-0.9, 0.9), dice.range(-1.0, -0.5));
                canvas.fill_within(circle(x, y, dice.range(1.2, 3.0)), skin.dark, 0.6, mask);
            }
        }
        _ => {
            let (x, y) = head.at(0.0, -1.0);
            canvas.fill_within(
                ellipse(x, y, head.rx * 0.95, head.ry * 0.45),
                skin.dark,
                0.75,
                mask,
            );
        }
    }
    for side in [-0.68, 0.68] {
        let (x, y) = head.at(side, 0.26);
        canvas.fill_within(ellipse(x, y, 4.6, 3.2), skin.blush, 0.55, mask);
    }
}

fn eyes(canvas: &mut Canvas, skin: &Skin, head: &Head, dice: &mut Dice) {
    let (kind, spread) = (dice.pick(6), dice.range(0.34, 0.46));
    let gaze = (dice.range(-1.6, 1.6), dice.range(-1.0, 1.2));
    let glasses = dice.chance(0.18);
    if kind == 5 {
        let (x, y) = head.at(0.0, -0.12);
        canvas.fill(circle(x, y, 10.5), skin.pale, 1.0);
        canvas.fill(
            circle(x + gaze.0 * 1.5, y + gaze.1 * 1.5, 5.4),
            skin.ink,
            1.0,
        );
        canvas.fill(
            circle(x + gaze.0 * 1.5 + 1.8, y + gaze.1 * 1.5 - 1.9, 1.7),
            skin.pale,
            1.0,
        );
        return;
    }
    for side in [-spread, spread] {
        let (x, y) = head.at(side, -0.08);
        match kind {
            0 => {
                canvas.fill(circle(x, y, 3.4), skin.ink, 1.0);
                canvas.fill(circle(x + 1.1, y - 1.2, 1.1), skin.pale, 1.0);
            }
            1 => {
                canvas.fill(ellipse(x, y, 2.9, 4.8), skin.ink, 1.0);
                canvas.fill(circle(x + 0.9, y - 2.0, 1.1), skin.pale, 1.0);
            }
            2 => {
                canvas.fill(circle(x, y, 6.4), skin.pale, 1.0);
                canvas.fill(circle(x + gaze.0, y + gaze.1, 3.3), skin.ink, 1.0);
                canvas.fill(
                    circle(x + gaze.0 + 1.0, y + gaze.1 - 1.1, 1.0),
                    skin.pale,
                    1.0,
                );
            }
            3 => canvas.line(
                bow((x - 4.2, y + 1.6), (x, y - 5.0), (x + 4.2, y + 1.6)),
                2.3,
                skin.ink,
                1.0,
            ),
            _ => {
                canvas.fill(circle(x, y, 5.6), skin.pale, 1.0);
                canvas.fill(circle(x + gaze.0 * 0.6, y + 1.6, 2.9), skin.ink, 1.0);
                let lid = [
                    (x - 7.0, y - 7.0),
                    (x + 7.0, y - 7.0),
                    (x + 6.6, y - 0.4),
                    (x - 6.6, y - 0.4),
                ];
                canvas.fill(polygon(&lid), skin.fur, 1.0);
                canvas.line(
                    segment((x - 5.4, y - 0.4), (x + 5.4, y - 0.4)),
                    1.4,
                    skin.ink,
                    0.85,
                );
            }
        }
        if glasses {
            canvas.line(circle(x, y, 8.3), 1.7, skin.ink, 1.0);
        }
    }
    if glasses {
        let (left, right) = (head.at(-spread, -0.08), head.at(spread, -0.08));
        let (from, to) = ((left.0 + 8.3, left.1), (right.0 - 8.3, right.1));
        if from.0 < to.0 {
            canvas.line(segment(from, to), 1.7, skin.ink, 1.0);
        }
    }
}

fn mouth(canvas: &mut Canvas, skin: &Skin, head: &Head, kind: u8) {
    let (x, y) = head.at(0.0, 0.42);
    match kind {
        0 => canvas.line(
            bow((x - 6.0, y), (x, y + 7.0), (x + 6.0, y)),
            2.2,
            skin.ink,
            1.0,
        ),
        1 => {
            let lips = [
                (x - 7.0, y - 1.0),
                (x, y),
                (x + 7.0, y - 1.0),
                (x + 4.5, y + 5.0),
                (x, y + 7.0),
                (x - 4.5, y + 5.0),
            ];
            canvas.fill(smooth(&lips), skin.ink, 1.0);
            canvas.fill(ellipse(x, y + 4.6, 3.0, 1.8), skin.blush, 1.0);
        }
        2 => canvas.fill(ellipse(x, y + 2.0, 2.7, 3.3), skin.ink, 1.0),
        3 => {
            canvas.fill(ellipse(x, y - 3.0, 3.0, 2.1), skin.ink, 1.0);
            for side in [-1.0, 1.0] {
                let curl = bow(
                    (x, y - 2.0),
                    (x + side * 0.6, y + 5.0),
                    (x + side * 6.0, y + 1.2),
                );
                canvas.line(curl, 1.9, skin.ink, 1.0);
            }
        }
        _ => {
            canvas.line(
                bow((x - 6.5, y), (x, y + 5.0), (x + 6.5, y)),
                2.0,
                skin.ink,
                1.0,
            );
            let tooth = [(x + 1.0, y + 2.3), (x + 4.4, y + 1.7), (x + 3.0, y + 6.0)];
            canvas.fill(polygon(&tooth), skin.pale, 1.0);
        }
    }
}
