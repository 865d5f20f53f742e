//! Framing: bringing a picture to the shape of the frame.
//!
//! Either a part of the picture fills the frame: [`InterestMap`] says which part draws the eye. Or
//! the picture is fitted, which keeps everything and fills the rest with a blurred copy of the
//! picture itself. What draws the eye is guessed without a model: contrast of detail and of
//! colour, after the centre-surround idea of L. Itti et al., *A Model of Saliency-Based Visual
//! Attention* (1998), much simplified.

use resize::{CropRect, FilterType};

use super::rgb_picture::Picture;

impl Picture {
    /// The whole picture in the shape of `frame` (only its ratio counts), on a blurred, dark copy
    /// of itself, at most twice the frame's size. A picture that has this shape is copied.
    #[must_use]
    pub fn fitted(&self, frame: (u32, u32)) -> Self {
        fit(self, frame).unwrap_or_else(|| self.clone())
    }
}

/// Like [`Picture::fitted`]; `None` if it has the shape already.
fn fit(picture: &Picture, frame: (u32, u32)) -> Option<Picture> {
    if window(picture.size(), frame) == picture.size() {
        return None;
    }
    let ratio = f64::from(frame.0) / f64::from(frame.1);
    let picture_ratio = f64::from(picture.width()) / f64::from(picture.height());
    // A picture wider in shape than the frame touches the canvas's sides, any other its top and
    // bottom.
    let touching = f64::from(picture.width()).max(f64::from(picture.height()) * ratio);
    let canvas_width = touching.min(f64::from(frame.0) * 2.0);
    let canvas = (to_side(canvas_width), to_side(canvas_width / ratio));
    let inner = if picture_ratio > ratio {
        (
            canvas.0,
            to_side(f64::from(canvas.0) / picture_ratio).min(canvas.1),
        )
    } else {
        (
            to_side(f64::from(canvas.1) * picture_ratio).min(canvas.0),
            canvas.1,
        )
    };
    let mut out = backdrop(picture, canvas)?;
    let resized_picture = resize_rgb(picture.size(), picture.rgb(), inner, FilterType::CatmullRom)?;
    let left = (canvas.0 - inner.0) as usize / 2;
    let top = (canvas.1 - inner.1) as usize / 2;
    let lines = out.chunks_exact_mut(canvas.0 as usize * 3).skip(top);
    for (line, source) in lines.zip(resized_picture.chunks_exact(inner.0 as usize * 3)) {
        line[left * 3..left * 3 + source.len()].copy_from_slice(source);
    }
    Picture::from_rgb(canvas.0, canvas.1, out)
}

/// The largest size with the frame's shape within `size`.
fn window(size: (u32, u32), frame: (u32, u32)) -> (u32, u32) {
    let wide = u64::from(size.0) * u64::from(frame.1);
    let tall = u64::from(size.1) * u64::from(frame.0);
    let side = |pixels: u64, divisor: u32| {
        u32::try_from((pixels + u64::from(divisor) / 2) / u64::from(divisor))
            .unwrap_or(u32::MAX)
            .max(1)
    };
    if wide > tall {
        (side(tall, frame.1).min(size.0), size.1)
    } else {
        (size.0, side(wide, frame.0).min(size.1))
    }
}

/// A copy of the picture that fills the canvas, blurred and dark.
fn backdrop(picture: &Picture, canvas: (u32, u32)) -> Option<Vec<u8>> {
    const TINY: u32 = 24;
    let filling = crop_centre(picture, canvas)?;
    // Shrinking to 24 pixels and enlarging again is a wide blur that costs nearly nothing.
    let tiny = resize_rgb(filling.size(), filling.rgb(), (TINY, TINY), FilterType::Box)?;
    let mut soft = resize_rgb((TINY, TINY), &tiny, canvas, FilterType::CatmullRom)?;
    for value in &mut soft {
        *value = u8::try_from(u16::from(*value) * 9 / 20).unwrap_or(u8::MAX);
    }
    Some(soft)
}

/// A small copy of the middle of the picture that has the canvas' shape.
fn crop_centre(picture: &Picture, canvas: (u32, u32)) -> Option<Picture> {
    let (width, height) = window(picture.size(), canvas);
    let part = CropRect {
        left: f64::from(picture.width() - width) / 2.0,
        top: f64::from(picture.height() - height) / 2.0,
        width: f64::from(width),
        height: f64::from(height),
    };
    let small = (width.min(256), height.min(256));
    let mut out = vec![0; small.0 as usize * small.1 as usize * 3];
    let source = (picture.rgb(), picture.size());
    resize::rgb(source, (&mut out, small), FilterType::Box, Some(part)).ok()?;
    Picture::from_rgb(small.0, small.1, out)
}

fn resize_rgb(
    size: (u32, u32),
    rgb: &[u8],
    new_size: (u32, u32),
    filter: FilterType,
) -> Option<Vec<u8>> {
    let mut out = vec![0; new_size.0 as usize * new_size.1 as usize * 3];
    resize::rgb((rgb, size), (&mut out, new_size), filter, None).ok()?;
    Some(out)
}

/// How much each column and row of a picture draws the eye.
pub(crate) struct InterestMap {
    columns: Vec<f64>,
    rows: Vec<f64>,
    /// Whether each row crosses the outline of something.
    has_edge: Vec<bool>,
    size: (f64, f64),
}

impl InterestMap {
    pub(crate) fn from_picture(picture: &Picture) -> Option<Self> {
        let thumbnail = Thumbnail::from_picture(picture)?;
        let (columns, rows) = thumbnail.interest();
        let size = (f64::from(picture.width()), f64::from(picture.height()));
        Some(Self {
            columns,
            rows,
            has_edge: thumbnail.rows_with_edges(),
            size,
        })
    }

    /// The corner of the window with the most interest, in pixels.
    pub(crate) fn best_corner(&self, (width, height): (f64, f64)) -> (f64, f64) {
        (
            best_start(&self.columns, self.size.0, width, 0.5),
            self.best_top(height),
        )
    }

    /// Where a window of this height begins. It keeps the upper third, where faces and skylines
    /// are, unless nothing is there, such as a clear sky.
    fn best_top(&self, height: f64) -> f64 {
        let best = best_start(&self.rows, self.size.1, height, VERTICAL_BIAS);
        let upper_third = &self.has_edge[..self.has_edge.len().div_ceil(3)];
        let with_edge = upper_third.iter().filter(|has_edge| **has_edge).count();
        if with_edge * EMPTY_SHARE < upper_third.len() {
            best
        } else {
            best.min(self.size.1 * MAX_HEADROOM)
        }
    }
}

/// A small copy on which interest is measured.
struct Thumbnail {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
}

impl Thumbnail {
    fn from_picture(picture: &Picture) -> Option<Self> {
        const SIDE: f64 = 96.0;
        let scale = SIDE / f64::from(picture.width().max(picture.height()));
        let side = |pixels: u32| to_side(f64::from(pixels) * scale.min(1.0));
        let (width, height) = (side(picture.width()), side(picture.height()));
        let rgb = resize_rgb(
            picture.size(),
            picture.rgb(),
            (width, height),
            FilterType::Box,
        )?;
        Some(Self {
            width: width as usize,
            height: height as usize,
            rgb,
        })
    }

    /// How much each column and each row draws the eye.
    fn interest(&self) -> (Vec<f64>, Vec<f64>) {
        let mean = self.mean();
        let (mut columns, mut rows) = (vec![0.0; self.width], vec![0.0; self.height]);
        for (y, row) in rows.iter_mut().enumerate() {
            for (x, column) in columns.iter_mut().enumerate() {
                let pixel = self.pixel_at(x, y);
                let interest = self.detail_at(x, y) + 0.35 * colour_distance(pixel, mean);
                // Small differences are texture and noise; large ones are things.
                *column += interest * interest;
                *row += interest * interest;
            }
        }
        (columns, rows)
    }

    fn rows_with_edges(&self) -> Vec<bool> {
        let rows = 0..self.height;
        rows.map(|y| (0..self.width).any(|x| self.detail_at(x, y) > EDGE))
            .collect()
    }

    /// How much a pixel differs from its neighbours on the right and below.
    fn detail_at(&self, x: usize, y: usize) -> f64 {
        let pixel = self.pixel_at(x, y);
        let right = self.pixel_at((x + 1).min(self.width - 1), y);
        let below = self.pixel_at(x, (y + 1).min(self.height - 1));
        colour_distance(pixel, right) + colour_distance(pixel, below)
    }

    fn mean(&self) -> [f64; 3] {
        #[expect(clippy::cast_precision_loss, reason = "a small picture")]
        let pixels = (self.width * self.height) as f64;
        let mut mean = [0.0; 3];
        for pixel in self.rgb.chunks_exact(3) {
            for (mean, value) in mean.iter_mut().zip(pixel) {
                *mean += f64::from(*value) / pixels;
            }
        }
        mean
    }

    fn pixel_at(&self, x: usize, y: usize) -> [f64; 3] {
        let at = (y * self.width + x) * 3;
        [0, 1, 2].map(|c| f64::from(self.rgb[at + c]))
    }
}

fn colour_distance(first: [f64; 3], second: [f64; 3]) -> f64 {
    first.iter().zip(second).map(|(a, b)| (a - b).abs()).sum()
}

/// Where, in `side` pixels, the `length` pixels with the most interest start. If interest is spread
/// evenly, they start at `default_share` of the slack.
fn best_start(interest: &[f64], side: f64, length: f64, default_share: f64) -> f64 {
    let slack = (side - length).max(0.0);
    #[expect(clippy::cast_precision_loss, reason = "a small picture")]
    let cells = interest.len() as f64;
    let total: f64 = interest.iter().sum();
    let mut best = (f64::NEG_INFINITY, slack * default_share);
    for step in 0..=STEPS {
        let share = f64::from(step) / f64::from(STEPS);
        let start = slack * share;
        let from = start / side * cells;
        let to = (start + length) / side * cells;
        let mut covered = 0.0;
        let mut cell_start = 0.0;
        for value in interest {
            covered += value
                * (f64::min(cell_start + 1.0, to) - f64::max(cell_start, from)).clamp(0.0, 1.0);
            cell_start += 1.0;
        }
        // A small pull towards the default position decides where interest is spread evenly.
        let score = covered - 0.15 * total * (share - default_share).abs() * slack / side;
        if score > best.0 {
            best = (score, start);
        }
    }
    best.1
}

/// How far below the picture's upper edge a window that keeps the upper third may begin.
const MAX_HEADROOM: f64 = 0.08;

/// The detail of a pixel on the outline of a thing. Clouds and plain walls have less.
const EDGE: f64 = 30.0;

/// The upper third is empty if fewer than one in so many of its rows have an edge.
const EMPTY_SHARE: usize = 5;

/// In pictures much taller than the frame, faces and skylines are above the middle.
const VERTICAL_BIAS: f64 = 0.38;

/// Window positions to compare.
const STEPS: u32 = 100;

fn to_side(side: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a side: at least 1 by the clamp"
    )]
    let side = side.round().max(1.0) as u32;
    side
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Grey, with a patch of detail that begins at `(left, top)`.
    fn patch(size: (u32, u32), left: u32, top: u32) -> Picture {
        let mut rgb = Vec::new();
        for y in 0..size.1 {
            for x in 0..size.0 {
                let inside = (left..left + 40).contains(&x) && (top..top + 40).contains(&y);
                let value = if inside && (x / 5 + y / 5) % 2 == 0 {
                    250
                } else {
                    90
                };
                rgb.extend([value; 3]);
            }
        }
        Picture::from_rgb(size.0, size.1, rgb).unwrap()
    }

    fn brightest(picture: &Picture) -> usize {
        picture.rgb().iter().filter(|v| **v > 200).count()
    }

    #[test]
    fn a_window_is_laid_over_what_draws_the_eye() {
        for left in [0, 30, 200, 340] {
            let interest = InterestMap::from_picture(&patch((400, 200), left, 80)).unwrap();
            let (start, _) = interest.best_corner((200.0, 200.0));
            let left = f64::from(left);
            assert!(start <= left && left + 40.0 <= start + 200.0, "{start}");
        }
        for top in [5, 300, 555] {
            let interest = InterestMap::from_picture(&patch((300, 600), 100, top)).unwrap();
            let (left, start) = interest.best_corner((300.0, 169.0));
            let top = f64::from(top);
            assert!(left.abs() < 1e-9);
            assert!(start <= top && top + 40.0 <= start + 169.0, "{start}");
        }
    }

    /// A portrait: a plain wall, a face of low contrast above, a suit of high contrast below.
    #[test]
    fn a_portrait_keeps_its_head() {
        for size in [(600, 600), (600, 800), (600, 1000)] {
            let mut rgb = Vec::new();
            for y in 0..size.1 {
                for x in 0..size.0 {
                    let (u, v) = (f64::from(x) / 600.0, f64::from(y) / f64::from(size.1));
                    let is_face = ((u - 0.5) / 0.16).powi(2) + ((v - 0.24) / 0.15).powi(2) < 1.0;
                    let is_eye = (v - 0.22).abs() < 0.015 && ((u - 0.5).abs() - 0.06).abs() < 0.02;
                    let is_suit = v > 0.45 && (u - 0.5).abs() < 0.4;
                    let is_shirt = is_suit && (u - 0.5).abs() < 0.07;
                    rgb.extend(if is_eye {
                        [50, 40, 40]
                    } else if is_face {
                        [205, 165, 140]
                    } else if is_shirt {
                        [250, 250, 250]
                    } else if is_suit {
                        [30, 32, 45]
                    } else {
                        [170, 175, 180]
                    });
                }
            }
            let interest =
                InterestMap::from_picture(&Picture::from_rgb(size.0, size.1, rgb).unwrap())
                    .unwrap();
            let height = 600.0 * 9.0 / 16.0;
            let (_, top) = interest.best_corner((600.0, height));
            let side = f64::from(size.1);
            assert!(top <= 0.09 * side, "{size:?}: {top}");
        }
        // Under an empty sky the land is shown.
        let land = InterestMap::from_picture(&patch((600, 600), 300, 540)).unwrap();
        let (_, top) = land.best_corner((600.0, 337.5));
        assert!(top + 337.5 >= 580.0, "{top}");
    }

    #[test]
    fn over_a_plain_picture_a_window_lies_where_it_usually_does() {
        let start = best_start(&[1.0; 96], 400.0, 200.0, 0.5);
        assert!((start - 100.0).abs() < 1e-9, "{start}");
        assert!(best_start(&[1.0; 96], 400.0, 400.0, 0.5).abs() < 1e-9);
        assert!(fit(&patch((640, 480), 0, 0), (960, 720)).is_none());
    }

    #[test]
    fn a_fit_shows_everything_on_a_darker_ground() {
        let picture = patch((300, 600), 100, 300);
        let fitted = fit(&picture, (1280, 720)).unwrap();
        assert_eq!(fitted.size(), (1067, 600));
        let corner = &fitted.rgb()[..3];
        assert!(corner.iter().all(|v| *v < 70), "{corner:?}");
        let lost = brightest(&picture).abs_diff(brightest(&fitted));
        assert!(lost < brightest(&picture) / 20, "{lost}");
    }

    #[test]
    fn strips_and_specks_are_framed_too() {
        for size in [(1, 1), (1, 900), (900, 1), (7, 3), (20_000, 3)] {
            let picture = patch(size, 0, 0);
            assert!(InterestMap::from_picture(&picture).is_some());
            for frame in [(1280, 720), (480, 854), (720, 720)] {
                if let Some(framed) = fit(&picture, frame) {
                    assert!(framed.width() > 0 && framed.width() <= 2 * frame.0.max(size.0));
                }
            }
        }
    }
}
