//! What stands in front in the demo's picture: a cabin, a boat and birds; and the brush that
//! they and the [`super::plants`] are painted with.

use tiny_skia::{Color, FillRule, LineCap, Paint, PathBuilder, Pixmap, Shader, Stroke, Transform};

use super::plants;

/// Paints over RGB rows. Where no canvas of that size can be had, the picture stays as it is.
pub(super) fn paint(rgb: &mut [u8], width: u32, height: u32) {
    let Some(pixmap) = Pixmap::new(width, height) else {
        return;
    };
    let mut brush = Brush { pixmap };
    for (pixel, source) in brush
        .pixmap
        .data_mut()
        .chunks_exact_mut(4)
        .zip(rgb.chunks_exact(3))
    {
        pixel.copy_from_slice(&[source[0], source[1], source[2], 255]);
    }
    birds(&mut brush);
    cabin(&mut brush);
    boat(&mut brush);
    plants::pines(&mut brush);
    plants::bank(&mut brush);
    for (source, pixel) in rgb
        .chunks_exact_mut(3)
        .zip(brush.pixmap.data().chunks_exact(4))
    {
        source.copy_from_slice(&pixel[..3]);
    }
}

/// The picture while shapes are painted onto it.
pub(super) struct Brush {
    pixmap: Pixmap,
}

impl Brush {
    /// Fills a polygon.
    pub(super) fn fill(&mut self, corners: &[(f32, f32)], colour: [f32; 3], alpha: f32) {
        let mut path = PathBuilder::new();
        for (at, (x, y)) in corners.iter().enumerate() {
            if at == 0 {
                path.move_to(*x, *y);
            } else {
                path.line_to(*x, *y);
            }
        }
        path.close();
        if let Some(path) = path.finish() {
            self.pixmap.fill_path(
                &path,
                &ink(colour, alpha),
                FillRule::Winding,
                Transform::identity(),
                None,
            );
        }
    }

    /// Draws a curve from one point to another, bent towards a third.
    pub(super) fn curve(
        &mut self,
        from: (f32, f32),
        bend: (f32, f32),
        to: (f32, f32),
        width: f32,
        colour: [f32; 3],
    ) {
        let mut path = PathBuilder::new();
        path.move_to(from.0, from.1);
        path.quad_to(bend.0, bend.1, to.0, to.1);
        let stroke = Stroke {
            width,
            line_cap: LineCap::Round,
            ..Stroke::default()
        };
        if let Some(path) = path.finish() {
            self.pixmap.stroke_path(
                &path,
                &ink(colour, 1.0),
                &stroke,
                Transform::identity(),
                None,
            );
        }
    }

    /// Fills a circle.
    pub(super) fn dot(&mut self, x: f32, y: f32, radius: f32, colour: [f32; 3], alpha: f32) {
        if let Some(path) = PathBuilder::from_circle(x, y, radius) {
            self.pixmap.fill_path(
                &path,
                &ink(colour, alpha),
                FillRule::Winding,
                Transform::identity(),
                None,
            );
        }
    }
}

fn ink([r, g, b]: [f32; 3], alpha: f32) -> Paint<'static> {
    let unit = |value: f32| value.clamp(0.0, 1.0);
    let colour = Color::from_rgba(unit(r), unit(g), unit(b), unit(alpha)).unwrap_or(Color::BLACK);
    Paint {
        shader: Shader::SolidColor(colour),
        anti_alias: true,
        ..Paint::default()
    }
}

fn birds(brush: &mut Brush) {
    for (x, y, span) in [
        (566.0, 150.0, 13.0),
        (598.0, 134.0, 11.0),
        (622.0, 160.0, 9.0),
        (540.0, 176.0, 8.0),
        (655.0, 143.0, 7.0),
    ] {
        let wing = span * 0.42;
        for side in [-1.0, 1.0] {
            let bend = (x + side * span * 0.45, y - wing);
            brush.curve(
                (x, y),
                bend,
                (x + side * span, y - wing * 0.35),
                1.6,
                [0.16, 0.18, 0.26],
            );
        }
    }
}

/// A cabin with lit windows and its reflection, on the far shore.
fn cabin(brush: &mut Brush) {
    let (x, y) = (332.0, 431.0);
    let wall = [0.30, 0.20, 0.15];
    brush.fill(
        &[(x, y), (x, y - 17.0), (x + 40.0, y - 17.0), (x + 40.0, y)],
        wall,
        1.0,
    );
    brush.fill(
        &[
            (x - 5.0, y - 16.0),
            (x + 8.0, y - 32.0),
            (x + 33.0, y - 32.0),
            (x + 45.0, y - 16.0),
        ],
        [0.42, 0.24, 0.19],
        1.0,
    );
    brush.fill(
        &[
            (x + 33.0, y - 32.0),
            (x + 45.0, y - 16.0),
            (x + 40.0, y - 16.0),
            (x + 30.0, y - 32.0),
        ],
        [0.70, 0.42, 0.28],
        1.0,
    );
    brush.fill(
        &[
            (x + 10.0, y - 30.0),
            (x + 10.0, y - 39.0),
            (x + 15.0, y - 39.0),
            (x + 15.0, y - 30.0),
        ],
        [0.32, 0.25, 0.24],
        1.0,
    );
    for at in [6.0, 25.0] {
        brush.dot(x + at + 4.0, y - 9.0, 11.0, [1.0, 0.78, 0.36], 0.18);
        brush.fill(
            &[
                (x + at, y - 13.0),
                (x + at + 8.0, y - 13.0),
                (x + at + 8.0, y - 5.0),
                (x + at, y - 5.0),
            ],
            [1.0, 0.83, 0.45],
            1.0,
        );
        brush.fill(
            &[
                (x + at + 1.0, y + 6.0),
                (x + at + 7.0, y + 6.0),
                (x + at + 6.0, y + 30.0),
                (x + at + 2.0, y + 30.0),
            ],
            [1.0, 0.80, 0.45],
            0.30,
        );
    }
    brush.fill(
        &[
            (x, y + 1.0),
            (x + 40.0, y + 1.0),
            (x + 37.0, y + 17.0),
            (x + 4.0, y + 17.0),
        ],
        wall,
        0.40,
    );
    for puff in 0..6_u8 {
        let t = f32::from(puff);
        brush.dot(
            x + 13.0 + t * t * 0.9,
            y - 43.0 - t * 8.0,
            2.5 + t * 1.5,
            [0.92, 0.90, 0.92],
            0.30 - t * 0.04,
        );
    }
}

fn boat(brush: &mut Brush) {
    let (x, y) = (560.0, 556.0);
    brush.fill(
        &[
            (x - 74.0, y + 8.0),
            (x + 80.0, y + 8.0),
            (x + 58.0, y + 32.0),
            (x - 50.0, y + 32.0),
        ],
        [0.05, 0.09, 0.13],
        0.42,
    );
    brush.curve(
        (x - 86.0, y + 14.0),
        (x, y + 20.0),
        (x + 96.0, y + 12.0),
        1.4,
        [0.86, 0.84, 0.82],
    );
    brush.fill(
        &[
            (x - 78.0, y - 15.0),
            (x - 40.0, y - 7.0),
            (x + 42.0, y - 7.0),
            (x + 86.0, y - 17.0),
            (x + 62.0, y + 14.0),
            (x - 54.0, y + 14.0),
        ],
        [0.50, 0.19, 0.14],
        1.0,
    );
    brush.fill(
        &[
            (x - 78.0, y - 15.0),
            (x - 40.0, y - 7.0),
            (x + 42.0, y - 7.0),
            (x + 86.0, y - 17.0),
            (x + 81.0, y - 9.0),
            (x + 42.0, y - 1.0),
            (x - 40.0, y - 1.0),
            (x - 74.0, y - 8.0),
        ],
        [0.90, 0.66, 0.42],
        1.0,
    );
    brush.fill(
        &[
            (x - 64.0, y - 12.0),
            (x - 34.0, y - 15.0),
            (x + 36.0, y - 15.0),
            (x + 72.0, y - 14.0),
            (x + 42.0, y - 7.0),
            (x - 40.0, y - 7.0),
        ],
        [0.20, 0.11, 0.09],
        1.0,
    );
    for bench in [-22.0, 18.0] {
        brush.fill(
            &[
                (x + bench, y - 15.0),
                (x + bench + 12.0, y - 15.0),
                (x + bench + 14.0, y - 7.0),
                (x + bench - 1.0, y - 7.0),
            ],
            [0.74, 0.52, 0.32],
            1.0,
        );
    }
    brush.curve(
        (x - 4.0, y - 14.0),
        (x + 50.0, y - 2.0),
        (x + 112.0, y + 15.0),
        2.6,
        [0.80, 0.60, 0.40],
    );
    brush.fill(
        &[
            (x + 108.0, y + 11.0),
            (x + 130.0, y + 16.0),
            (x + 127.0, y + 21.0),
            (x + 107.0, y + 16.0),
        ],
        [0.86, 0.66, 0.44],
        1.0,
    );
}
