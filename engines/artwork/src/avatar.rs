//! Avatars of personas and accounts: the first letter of the name on a gradient.

use swash::FontRef;
use swash::scale::ScaleContext;
use swash::zeno::{Command, PathData as _, Point};
use tiny_skia::{Path, PathBuilder};

use super::ArtworkError;
use super::canvas::{Canvas, circle};
use super::colour::{Palette, SeededRandom};

/// Square avatar, PNG bytes. The seed and the name choose the colours; the outline of the letter
/// comes from the font. If the font lacks the letter or cannot be read, there is no letter.
pub fn avatar(font: &[u8], seed: &str, name: &str, side: u32) -> Result<Vec<u8>, ArtworkError> {
    let mut canvas = Canvas::new(side)?;
    let mut random = SeededRandom::new("avatar", &[seed, name]);
    let palette = Palette::random(&mut random);
    let glow = (random.range(0.0, 100.0), random.range(0.0, 40.0));
    canvas.wash_palette(&palette, glow);
    canvas.fill(circle(50.0, 50.0, 38.0), palette.deep, 0.35);
    canvas.fill(initial(font, name), palette.light, 1.0);
    canvas.into_png()
}

/// The outline of a name's first letter, in the middle of the canvas.
fn initial(font: &[u8], name: &str) -> Option<Path> {
    // A name may begin with a bracket or an emoji.
    let letter = name.chars().find(|letter| letter.is_alphanumeric())?;
    // A capital may be two letters, as for the German sharp s; the first is enough.
    let capital = letter.to_uppercase().next().unwrap_or(letter);
    let font = FontRef::from_index(font, 0)?;
    let glyph = font.charmap().map(capital);
    // Glyph 0 is what a font draws for a character that it lacks.
    let outline = (glyph != 0)
        .then(|| {
            let mut context = ScaleContext::new();
            let mut scaler = context.builder(font).size(LETTER_SIZE).build();
            scaler.scale_outline(glyph)
        })
        .flatten()?;
    let (left, bottom) = (outline.bounds().min.x, outline.bounds().min.y);
    let (right, top) = (outline.bounds().max.x, outline.bounds().max.y);
    // A font counts upwards, a canvas downwards.
    let to_canvas = |point: Point| {
        let (x, y) = (
            point.x - f32::midpoint(left, right),
            f32::midpoint(bottom, top) - point.y,
        );
        (50.0 + x, 50.0 + y)
    };
    let mut path = PathBuilder::new();
    for command in outline.path().commands() {
        match command {
            Command::MoveTo(to) => {
                let (x, y) = to_canvas(to);
                path.move_to(x, y);
            }
            Command::LineTo(to) => {
                let (x, y) = to_canvas(to);
                path.line_to(x, y);
            }
            Command::QuadTo(control, to) => {
                let ((bx, by), (x, y)) = (to_canvas(control), to_canvas(to));
                path.quad_to(bx, by, x, y);
            }
            Command::CurveTo(control_1, control_2, to) => {
                let ((lx, ly), (ax, ay), (x, y)) =
                    (to_canvas(control_1), to_canvas(control_2), to_canvas(to));
                path.cubic_to(lx, ly, ax, ay, x, y);
            }
            Command::Close => path.close(),
        }
    }
    path.finish()
}

/// The letter's size, in hundredths of the side.
const LETTER_SIZE: f32 = 52.0;
