//! How far a film's pictures move from frame to frame, measured on the frames themselves.
//!
//! Nine squares of each frame are looked for in the next one, to a hundredth of a pixel or so
//! (Lucas and Kanade's method). Compared with the steps of the frames before encoding this tells
//! what the encoder adds: judder, which an average over a film would hide.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "pixels of a frame: small numbers"
)]

/// The luma of a film's frames.
pub(crate) struct Frames {
    width: usize,
    smooth: Vec<Vec<f32>>,
}

/// A step of one square of the picture, in pixels to the right and down.
type Step = (f32, f32);

impl Frames {
    /// `frames` are luma planes of this width.
    pub(crate) fn new<'a>(width: usize, frames: impl Iterator<Item = &'a [u8]>) -> Self {
        Self {
            width,
            smooth: frames.map(|frame| smoothed(frame, width)).collect(),
        }
    }

    /// The largest difference, in pixels, between a step of these frames and the same step of the
    /// true ones. Squares in which nothing can be followed do not count.
    pub(crate) fn largest_error(&self, truth: &Self) -> f32 {
        assert_eq!(self.smooth.len(), truth.smooth.len(), "as many frames");
        let height = truth.smooth[0].len() / self.width;
        let mut largest = 0.0_f32;
        for square in squares(self.width, height) {
            let mut near = (0.0, 0.0);
            for (own, true_) in self.smooth.windows(2).zip(truth.smooth.windows(2)) {
                let Some(step) = true_step(true_, self.width, square, near) else {
                    continue;
                };
                near = step;
                if let Some(shown) = refined(own, self.width, square, step) {
                    let error = (shown.0 - step.0).abs().max((shown.1 - step.1).abs());
                    largest = largest.max(error);
                }
            }
        }
        largest
    }
}

/// A square of a frame: its left, its top and its side.
type Square = (usize, usize, usize);

/// Nine squares, an eighth of the frame's shorter side wide, as far apart as they go.
fn squares(width: usize, height: usize) -> impl Iterator<Item = Square> {
    let side = width.min(height) / 8;
    let place = move |length: usize, i: usize| MARGIN + (length - side - 2 * MARGIN) * i / 2;
    (0..9).map(move |i| (place(width, i % 3), place(height, i / 3), side))
}

/// The step of a square whose step before was `near`.
fn true_step(pair: &[Vec<f32>], width: usize, square: Square, near: Step) -> Option<Step> {
    // Half a pixel of change from frame to frame at most: else look around.
    let step = refined(pair, width, square, near);
    if let Some(step) = step
        && (step.0 - near.0).abs() < 1.0
        && (step.1 - near.1).abs() < 1.0
    {
        return Some(step);
    }
    refined(pair, width, square, searched(pair, width, square))
}

/// The whole step with the least difference, coarsely summed.
fn searched(pair: &[Vec<f32>], width: usize, (left, top, side): Square) -> Step {
    let reach = MARGIN as isize - 2;
    let cost = |dx: isize, dy: isize| {
        let mut sum = 0.0;
        for y in (top..top + side).step_by(4) {
            for x in (left..left + side).step_by(4) {
                let there = y.wrapping_add_signed(dy) * width + x.wrapping_add_signed(dx);
                sum += (pair[0][y * width + x] - pair[1][there]).abs();
            }
        }
        sum
    };
    let steps = (-reach..=reach).flat_map(|dy| (-reach..=reach).map(move |dx| (dx, dy)));
    let best = steps
        .map(|(dx, dy)| (cost(dx, dy), dx, dy))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or((0.0, 0.0), |(_, dx, dy)| (dx as f32, dy as f32))
}

/// The step near a guess; `None` where there is no texture in both directions.
fn refined(pair: &[Vec<f32>], width: usize, square: Square, guess: Step) -> Option<Step> {
    let (left, top, side) = square;
    let (one, next) = (&pair[0], &pair[1]);
    let (mut xx, mut xy, mut yy) = (0.0_f64, 0.0_f64, 0.0_f64);
    let slope = |at: usize| {
        (
            (one[at + 1] - one[at - 1]) / 2.0,
            (one[at + width] - one[at - width]) / 2.0,
        )
    };
    for y in top..top + side {
        for x in left..left + side {
            let (gx, gy) = slope(y * width + x);
            xx += f64::from(gx * gx);
            xy += f64::from(gx * gy);
            yy += f64::from(gy * gy);
        }
    }
    let determinant = xx * yy - xy * xy;
    // The smaller eigenvalue: how well the weaker direction is told.
    let weaker = determinant / (xx + yy).max(1.0);
    if weaker < TEXTURE * (side * side) as f64 {
        return None;
    }
    let mut step = guess;
    for _ in 0..ROUNDS {
        let (whole_x, whole_y) = (step.0.floor(), step.1.floor());
        let (fx, fy) = (step.0 - whole_x, step.1 - whole_y);
        let reach = MARGIN as f32 - 2.0;
        if whole_x.abs() > reach || whole_y.abs() > reach {
            return None;
        }
        let (mut bx, mut by) = (0.0_f64, 0.0_f64);
        for y in top..top + side {
            let row = y.wrapping_add_signed(whole_y as isize) * width;
            for x in left..left + side {
                let at = row + x.wrapping_add_signed(whole_x as isize);
                let upper = next[at] + (next[at + 1] - next[at]) * fx;
                let below = at + width;
                let lower = next[below] + (next[below + 1] - next[below]) * fx;
                let off = upper + (lower - upper) * fy - one[y * width + x];
                let (gx, gy) = slope(y * width + x);
                bx += f64::from(off * gx);
                by += f64::from(off * gy);
            }
        }
        let dx = ((yy * bx - xy * by) / determinant) as f32;
        let dy = ((xx * by - xy * bx) / determinant) as f32;
        step = (step.0 - dx, step.1 - dy);
        if dx.abs().max(dy.abs()) < 0.003 {
            break;
        }
    }
    Some(step)
}

/// A frame without its finest detail, which steps between pixels cannot be told by.
fn smoothed(frame: &[u8], width: usize) -> Vec<f32> {
    let height = frame.len() / width;
    let mut across = vec![0.0; frame.len()];
    for y in 0..height {
        for x in 0..width {
            let at = |x: usize| f32::from(frame[y * width + x.min(width - 1)]);
            across[y * width + x] = (at(x.saturating_sub(1)) + 2.0 * at(x) + at(x + 1)) / 4.0;
        }
    }
    let mut smooth = vec![0.0; frame.len()];
    for y in 0..height {
        for x in 0..width {
            let at = |y: usize| across[y.min(height - 1) * width + x];
            smooth[y * width + x] = (at(y.saturating_sub(1)) + 2.0 * at(y) + at(y + 1)) / 4.0;
        }
    }
    smooth
}

/// Pixels around each square into which it can move.
const MARGIN: usize = 26;

/// The least mean square of a slope that a square can be followed by.
const TEXTURE: f64 = 0.5;

/// Rounds of refinement at most.
const ROUNDS: u32 = 12;
