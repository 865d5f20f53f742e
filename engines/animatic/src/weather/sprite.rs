//! Sprites: the shapes of which weather is made, laid softly over a frame.
//!
//! Positions and sizes are in frame heights, from the top left.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "positions are clipped to the frame, colours to a byte"
)]

use crate::warp::round_to_u8;

/// Red, green and blue, 0 to 255.
pub(super) type SpriteColour = [f32; 3];

/// A frame to draw on.
pub(super) struct SpriteFrame<'a> {
    rgba: &'a mut [u8],
    width: usize,
    height: usize,
}

/// A line with soft sides, brightest in its middle.
#[derive(Debug, Clone, Copy)]
pub(super) struct SoftStreak {
    pub(super) from: (f32, f32),
    pub(super) to: (f32, f32),
    pub(super) width: f32,
    pub(super) colour: SpriteColour,
    pub(super) opacity: f32,
}

impl<'a> SpriteFrame<'a> {
    pub(super) fn new(rgba: &'a mut [u8], width: usize) -> Self {
        let height = rgba.len() / 4 / width.max(1);
        Self {
            rgba,
            width,
            height,
        }
    }

    /// Width over height.
    pub(super) fn aspect(&self) -> f32 {
        self.width as f32 / self.height as f32
    }

    /// One pixel in frame heights.
    pub(super) fn pixel(&self) -> f32 {
        1.0 / self.height as f32
    }

    /// Columns and rows of cells of about `side` pixels.
    pub(super) fn cells(&self, side: usize) -> (usize, usize) {
        (self.width.div_ceil(side), self.height.div_ceil(side))
    }

    /// A soft round spot.
    pub(super) fn draw_disc(
        &mut self,
        centre: (f32, f32),
        radius: f32,
        colour: SpriteColour,
        opacity: f32,
    ) {
        self.each_pixel_within(centre, (radius, radius), |x, y, pixel| {
            let distance_squared = (x * x + y * y) / (radius * radius);
            blend(
                pixel,
                colour,
                opacity
                    * (1.0 - distance_squared).clamp(0.0, 1.0).sqrt()
                    * (1.0 - distance_squared).max(0.0),
            );
        });
    }

    /// Light that fades to nothing at `radius`.
    pub(super) fn draw_glow(
        &mut self,
        centre: (f32, f32),
        radius: f32,
        colour: SpriteColour,
        light: f32,
    ) {
        self.each_pixel_within(centre, (radius, radius), |x, y, pixel| {
            let falloff = (1.0 - (x * x + y * y) / (radius * radius)).max(0.0);
            add_light(pixel, colour, light * falloff * falloff);
        });
    }

    /// A rotated rectangle; `half` is half its width and half its height.
    pub(super) fn draw_paper(
        &mut self,
        centre: (f32, f32),
        half: (f32, f32),
        angle: f32,
        colour: SpriteColour,
    ) {
        let (sin, cos) = angle.sin_cos();
        let soft = self.pixel();
        let reach = half.0.max(half.1) * 1.42 + soft;
        self.each_pixel_within(centre, (reach, reach), |x, y, pixel| {
            let (u, v) = (x * cos + y * sin, y * cos - x * sin);
            let coverage =
                |offset: f32, half: f32| ((half - offset.abs()) / soft + 0.5).clamp(0.0, 1.0);
            blend(
                pixel,
                colour,
                0.94 * coverage(u, half.0) * coverage(v, half.1),
            );
        });
    }

    pub(super) fn draw_streak(&mut self, streak: SoftStreak) {
        let SoftStreak {
            from,
            to,
            width,
            colour,
            opacity,
        } = streak;
        let pixel = self.pixel();
        // A line thinner than a pixel would break up into dots. It is drawn wider and fainter
        // instead.
        let (half, opacity) = if width < 1.4 * pixel {
            (0.7 * pixel, opacity * (width / (1.4 * pixel)).max(0.3))
        } else {
            (width / 2.0, opacity)
        };
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = (dx * dx + dy * dy).max(1e-12);
        let middle = (f32::midpoint(from.0, to.0), f32::midpoint(from.1, to.1));
        let reach = (dx.abs() / 2.0 + half + pixel, dy.abs() / 2.0 + half + pixel);
        self.each_pixel_within(middle, reach, |x, y, target| {
            let position = ((x * dx + y * dy) / length + 0.5).clamp(0.0, 1.0);
            let (ox, oy) = (x - (position - 0.5) * dx, y - (position - 0.5) * dy);
            let distance_squared =
                (ox * ox + oy * oy) / ((half + 0.5 * pixel) * (half + 0.5 * pixel));
            let ends = 1.0 - (2.0 * position - 1.0).powi(4);
            blend(
                target,
                colour,
                opacity * (1.0 - distance_squared).max(0.0) * (0.25 + 0.75 * ends),
            );
        });
    }

    /// One colour over the whole frame, with an opacity given at the corners of a grid of cells.
    pub(super) fn draw_veil(
        &mut self,
        grid: &[f32],
        (columns, rows): (usize, usize),
        colour: SpriteColour,
    ) {
        let mut line = vec![0.0_f32; columns + 2];
        for (y, row) in self.rgba.chunks_exact_mut(self.width * 4).enumerate() {
            let grid_row = (y as f32 + 0.5) * rows as f32 / self.height as f32;
            let (above, fraction) = (grid_row as usize, grid_row.fract());
            for (i, value) in line.iter_mut().enumerate() {
                let corner = |j: usize| grid[j.min(rows) * (columns + 1) + i.min(columns)];
                *value = corner(above) + (corner(above + 1) - corner(above)) * fraction;
            }
            let (pixels, _) = row.as_chunks_mut::<4>();
            let cell = self.width.div_ceil(columns);
            for (i, cell_pixels) in pixels.chunks_mut(cell).enumerate() {
                let step = (line[i + 1] - line[i]) / cell as f32;
                for (x, pixel) in cell_pixels.iter_mut().enumerate() {
                    let opacity = line[i] + step * x as f32;
                    // Ordered dither: fog has the softest gradients of all.
                    let noise = DITHER[y % 2][x % 2];
                    for (channel, over) in pixel.iter_mut().zip(colour) {
                        let background = f32::from(*channel);
                        *channel = round_to_u8(background + (over - background) * opacity + noise);
                    }
                }
            }
        }
    }

    /// Changes every pixel within `reach` of a point; `work` gets the offset of the pixel's centre
    /// from the point.
    fn each_pixel_within(
        &mut self,
        centre: (f32, f32),
        reach: (f32, f32),
        mut work: impl FnMut(f32, f32, &mut [u8; 4]),
    ) {
        let frame_height = self.height as f32;
        let clip = |low: f32, high: f32, side: usize| {
            let low = (low * frame_height).floor().clamp(0.0, side as f32) as usize;
            let high = (high * frame_height).ceil().clamp(0.0, side as f32) as usize;
            low..high.max(low)
        };
        let columns = clip(centre.0 - reach.0, centre.0 + reach.0, self.width);
        let rows = clip(centre.1 - reach.1, centre.1 + reach.1, self.height);
        let scale = self.pixel();
        for y in rows {
            let row = &mut self.rgba
                [(y * self.width + columns.start) * 4..(y * self.width + columns.end) * 4];
            let (pixels, _) = row.as_chunks_mut::<4>();
            let v = (y as f32 + 0.5) * scale - centre.1;
            for (x, pixel) in columns.clone().zip(pixels) {
                work((x as f32 + 0.5) * scale - centre.0, v, pixel);
            }
        }
    }
}

#[inline]
fn blend(pixel: &mut [u8; 4], colour: SpriteColour, opacity: f32) {
    for (channel, over) in pixel.iter_mut().zip(colour) {
        let background = f32::from(*channel);
        *channel = (background + (over - background) * opacity + 0.5) as u8;
    }
}

#[inline]
fn add_light(pixel: &mut [u8; 4], colour: SpriteColour, light: f32) {
    for (channel, over) in pixel.iter_mut().zip(colour) {
        *channel = (f32::from(*channel) + over * light + 0.5) as u8;
    }
}

const DITHER: [[f32; 2]; 2] = [[-0.3, 0.2], [0.45, -0.05]];
