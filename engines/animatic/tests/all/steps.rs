//! How far a film's pictures move from frame to frame, measured on the frames themselves.
//!
//! Nine squares of each frame are searched for in the next one, to a hundredth of a pixel or so
//! (Lucas and Kanade's method). Comparing these steps with those of the frames before encoding
//! shows what the encoder adds: judder, which an average over a film would hide.
//!
//! What moves through a square, such as snow, is left out; otherwise the square would seem to
//! follow it. The uncompressed frames tell which pixels move with their square. Only these are
//! compared.
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
            smooth: frames.map(|frame| smooth(frame, width)).collect(),
        }
    }

    /// The largest difference, in pixels, between a step of these frames and the same step of the
    /// true ones. Squares in which nothing can be followed do not count.
    pub(crate) fn largest_error(&self, truth: &Self) -> f32 {
        assert_eq!(self.smooth.len(), truth.smooth.len(), "as many frames");
        let height = truth.smooth[0].len() / self.width;
        let mut largest = 0.0_f32;
        for square in squares(self.width, height) {
            let mut previous_step = (0.0, 0.0);
            for (pair, true_pair) in self.smooth.windows(2).zip(truth.smooth.windows(2)) {
                let pair = Pair::new(pair, self.width, square);
                let true_pair = Pair::new(true_pair, self.width, square);
                let Some((step, part)) = true_pair.follow(previous_step) else {
                    continue;
                };
                previous_step = step;
                if let Some(actual) = pair.refine(step, &part) {
                    let error = (actual.0 - step.0).abs().max((actual.1 - step.1).abs());
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
    let start = move |length: usize, i: usize| MARGIN + (length - side - 2 * MARGIN) * i / 2;
    (0..9).map(move |i| (start(width, i % 3), start(height, i / 3), side))
}

/// Which pixels of a square are compared, row by row.
type Part = Vec<bool>;

/// A square of one frame, and the frame after it.
struct Pair<'a> {
    current: &'a [f32],
    next: &'a [f32],
    width: usize,
    square: Square,
}

impl<'a> Pair<'a> {
    fn new(pair: &'a [Vec<f32>], width: usize, square: Square) -> Self {
        Self {
            current: &pair[0],
            next: &pair[1],
            width,
            square,
        }
    }

    /// The step of the square, whose previous step was `guess`, and the pixels that take it.
    fn follow(&self, guess: Step) -> Option<(Step, Part)> {
        let whole = vec![true; self.square.2 * self.square.2];
        // A step that differs by a pixel from the previous one is probably wrong: search again.
        let close = self
            .refine(guess, &whole)
            .filter(|step| (step.0 - guess.0).abs() < 1.0 && (step.1 - guess.1).abs() < 1.0);
        let mut step = close.or_else(|| self.refine(self.search(), &whole))?;
        let mut part = whole;
        for _ in 0..OUTLIER_ROUNDS {
            part = self.pixels_that_follow(step)?;
            step = self.refine(step, &part)?;
        }
        Some((step, part))
    }

    /// The pixels that look the same after a step, except those next to one that does not.
    fn pixels_that_follow(&self, step: Step) -> Option<Part> {
        let side = self.square.2;
        let differences: Vec<f32> = self.differences(step)?.map(f32::abs).collect();
        let mut sorted = differences.clone();
        sorted.sort_unstable_by(f32::total_cmp);
        let limit = (4.0 * sorted[sorted.len() / 2]).max(MIN_OUTLIER);
        let mut part = vec![true; differences.len()];
        for index in (0..differences.len()).filter(|&index| differences[index] > limit) {
            let (x, y) = (index % side, index / side);
            for y in y.saturating_sub(OUTLIER_MARGIN)..(y + OUTLIER_MARGIN + 1).min(side) {
                let left = y * side + x.saturating_sub(OUTLIER_MARGIN);
                part[left..y * side + (x + OUTLIER_MARGIN + 1).min(side)].fill(false);
            }
        }
        Some(part)
    }

    /// The whole step with the least difference, coarsely summed.
    fn search(&self) -> Step {
        let (left, top, side) = self.square;
        let reach = MARGIN as isize - 2;
        let cost = |dx: isize, dy: isize| {
            let mut sum = 0.0;
            for y in (top..top + side).step_by(4) {
                for x in (left..left + side).step_by(4) {
                    let target = y.wrapping_add_signed(dy) * self.width + x.wrapping_add_signed(dx);
                    sum += (self.current[y * self.width + x] - self.next[target]).abs();
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

    /// The step of a part near a guess; `None` if the part lacks texture in some direction.
    fn refine(&self, guess: Step, part: &Part) -> Option<Step> {
        let slopes: Vec<(f32, f32)> = self
            .pixel_indexes()
            .zip(part)
            .map(|(index, &is_used)| {
                if is_used {
                    self.slope(index)
                } else {
                    (0.0, 0.0)
                }
            })
            .collect();
        let (mut xx, mut xy, mut yy) = (0.0_f64, 0.0_f64, 0.0_f64);
        for &(gx, gy) in &slopes {
            xx += f64::from(gx * gx);
            xy += f64::from(gx * gy);
            yy += f64::from(gy * gy);
        }
        let determinant = xx * yy - xy * xy;
        // The smaller eigenvalue: how well the weaker direction is determined.
        let weaker = determinant / (xx + yy).max(1.0);
        if weaker < TEXTURE * slopes.len() as f64 {
            return None;
        }
        let mut step = guess;
        for _ in 0..ROUNDS {
            let (mut bx, mut by) = (0.0_f64, 0.0_f64);
            for (difference, (gx, gy)) in self.differences(step)?.zip(&slopes) {
                bx += f64::from(difference * gx);
                by += f64::from(difference * gy);
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

    /// How much each pixel of the square changes over a step; `None` if the step is too long.
    fn differences(&self, step: Step) -> Option<impl Iterator<Item = f32>> {
        let (whole_x, whole_y) = (step.0.floor(), step.1.floor());
        let (fx, fy) = (step.0 - whole_x, step.1 - whole_y);
        let reach = MARGIN as f32 - 2.0;
        if whole_x.abs() > reach || whole_y.abs() > reach {
            return None;
        }
        let moved = whole_y as isize * self.width as isize + whole_x as isize;
        Some(self.pixel_indexes().map(move |index| {
            let target = index.wrapping_add_signed(moved);
            let upper = self.next[target] + (self.next[target + 1] - self.next[target]) * fx;
            let below = target + self.width;
            let lower = self.next[below] + (self.next[below + 1] - self.next[below]) * fx;
            upper + (lower - upper) * fy - self.current[index]
        }))
    }

    /// The indexes of the square's pixels, row by row.
    fn pixel_indexes(&self) -> impl Iterator<Item = usize> {
        let ((left, top, side), width) = (self.square, self.width);
        (top..top + side).flat_map(move |y| (left..left + side).map(move |x| y * width + x))
    }

    fn slope(&self, index: usize) -> (f32, f32) {
        (
            (self.current[index + 1] - self.current[index - 1]) / 2.0,
            (self.current[index + self.width] - self.current[index - self.width]) / 2.0,
        )
    }
}

/// A frame without its finest detail, which does not help to measure steps between pixels.
fn smooth(frame: &[u8], width: usize) -> Vec<f32> {
    let height = frame.len() / width;
    let mut rows_smoothed = vec![0.0; frame.len()];
    for y in 0..height {
        for x in 0..width {
            let pixel = |x: usize| f32::from(frame[y * width + x.min(width - 1)]);
            rows_smoothed[y * width + x] =
                (pixel(x.saturating_sub(1)) + 2.0 * pixel(x) + pixel(x + 1)) / 4.0;
        }
    }
    let mut smooth = vec![0.0; frame.len()];
    for y in 0..height {
        for x in 0..width {
            let pixel = |y: usize| rows_smoothed[y.min(height - 1) * width + x];
            smooth[y * width + x] =
                (pixel(y.saturating_sub(1)) + 2.0 * pixel(y) + pixel(y + 1)) / 4.0;
        }
    }
    smooth
}

/// Pixels around each square into which it can move.
const MARGIN: usize = 26;

/// The least mean square slope of a square that can be followed.
const TEXTURE: f64 = 0.5;

/// Rounds of refinement at most.
const ROUNDS: u32 = 12;

/// How many times outliers are left out and the step is measured again.
const OUTLIER_ROUNDS: u32 = 3;

/// The least difference of a pixel that does not take its square's step.
const MIN_OUTLIER: f32 = 2.0;

/// How far around a pixel that does not take the step its neighbours are left out too.
const OUTLIER_MARGIN: usize = 2;
