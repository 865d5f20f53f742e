//! The video detector: adds up frames as small pictures without their coarse parts, then looks for
//! the tile in the sum.

use super::fold::read;
use super::pattern::VideoTileLayout;
use super::period::periods;
use super::{MarkKey, VideoMark, WatermarkError, check_plane, check_size};

/// Shortest side of the small pictures.
pub(super) const SHORT_SIDE: usize = 270;
/// Limit of a pixel's difference from its surroundings, in levels, because edges are not part of a
/// mark.
const LIMIT: f32 = 6.0;
/// Radius of the surroundings, in pixels of the small picture.
const RADIUS: usize = 4;
/// Radius of the surroundings whose variance determines the weight of a pixel of the sum.
const WEIGHT_RADIUS: usize = 6;

/// Collects frames, and reads the mark in them.
pub struct VideoDetector {
    width: usize,
    height: usize,
    small_width: usize,
    small_height: usize,
    sum: Vec<f32>,
    frames: u32,
}

impl VideoDetector {
    /// A detector for frames of this size.
    pub fn new(width: usize, height: usize) -> Result<Self, WatermarkError> {
        check_size(width, height)?;
        let short = width.min(height);
        let small = |side: usize| (side * SHORT_SIDE).div_euclid(short);
        let (small_width, small_height) = (small(width), small(height));
        Ok(Self {
            width,
            height,
            small_width,
            small_height,
            sum: vec![0.0; small_width * small_height],
            frames: 0,
        })
    }

    /// Number of frames that were added.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// The collected frames, which are the same for every key, so that a process without keys can
    /// collect them for another one.
    pub fn to_bytes(&self) -> Vec<u8> {
        let size = [self.width, self.height].map(|side| u32::try_from(side).unwrap_or(0));
        let numbers = [size[0], size[1], self.frames].map(u32::to_le_bytes);
        let sums = self.sum.iter().map(|sum| sum.to_le_bytes());
        numbers.into_iter().chain(sums).flatten().collect()
    }

    /// A detector with the collected frames of another one; `None` if the bytes are not from
    /// [`Self::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<4>() else {
            return None;
        };
        let [width, height, frames, sums @ ..] = words else {
            return None;
        };
        let [width, height] = [width, height].map(|side| u32::from_le_bytes(*side) as usize);
        let mut detector = Self::new(width, height).ok()?;
        let sum: Vec<f32> = sums.iter().map(|sum| f32::from_le_bytes(*sum)).collect();
        let is_sound = sum.len() == detector.sum.len() && sum.iter().all(|sum| sum.is_finite());
        detector.frames = u32::from_le_bytes(*frames);
        detector.sum = sum;
        is_sound.then_some(detector)
    }

    /// Adds a plane of 8-bit luma, `stride` bytes a row.
    pub fn add(&mut self, luma: &[u8], stride: usize) -> Result<(), WatermarkError> {
        check_plane(self.width, self.height, stride, luma.len())?;
        let small = self.shrink(luma, stride);
        let coarse = blur(&small, self.small_width, RADIUS);
        for ((sum, value), coarse) in self.sum.iter_mut().zip(&small).zip(&coarse) {
            *sum += (value - coarse).clamp(-LIMIT, LIMIT);
        }
        self.frames = self.frames.saturating_add(1);
        Ok(())
    }

    /// Reads the mark of a key, if its frames have one.
    pub fn read(&self, key: &MarkKey) -> Option<VideoMark> {
        if self.frames == 0 {
            return None;
        }
        let plane = self.weighted_mean();
        let layout = VideoTileLayout::for_key(key);
        periods(&plane, self.small_width, self.small_height)
            .into_iter()
            .filter_map(|period| read(&plane, self.small_width, period, &layout))
            .filter(|mark| mark.key_id == key.id)
            .max_by(|a, b| a.score.total_cmp(&b.score))
            .map(|mut mark| {
                #[expect(clippy::cast_precision_loss, reason = "a side has at most 8192")]
                let (x, y) = (
                    self.width as f32 / self.small_width as f32,
                    self.height as f32 / self.small_height as f32,
                );
                mark.tile = (mark.tile.0 * x, mark.tile.1 * y);
                mark
            })
    }

    /// Means of areas. Whole pixels are averaged: at the allowed sizes, that shifts an edge by less
    /// than a pixel.
    fn shrink(&self, luma: &[u8], stride: usize) -> Vec<f32> {
        let edge = |index: usize, from: usize, to: usize| index * from / to;
        let mut small = Vec::with_capacity(self.sum.len());
        let mut columns = vec![0u32; self.width];
        for row in 0..self.small_height {
            let (top, bottom) = (
                edge(row, self.height, self.small_height),
                edge(row + 1, self.height, self.small_height)
                    .max(edge(row, self.height, self.small_height) + 1),
            );
            columns.fill(0);
            let mut rows = 0u32;
            for line in luma.chunks(stride).take(bottom).skip(top) {
                rows += 1;
                for (sum, value) in columns.iter_mut().zip(line) {
                    *sum += u32::from(*value);
                }
            }
            for column in 0..self.small_width {
                let left = edge(column, self.width, self.small_width);
                let right = edge(column + 1, self.width, self.small_width).max(left + 1);
                let area = columns.get(left..right).unwrap_or_default();
                let count = u32::try_from(area.len()).unwrap_or(1) * rows;
                #[expect(clippy::cast_precision_loss, reason = "an area has few pixels")]
                small.push(area.iter().sum::<u32>() as f32 / count.max(1) as f32);
            }
        }
        small
    }

    /// The mean of the frames, each pixel weighted by how little its surroundings vary.
    fn weighted_mean(&self) -> Vec<f32> {
        #[expect(clippy::cast_precision_loss, reason = "counts of frames")]
        let scale = 1.0 / self.frames as f32;
        let mean: Vec<f32> = self.sum.iter().map(|sum| sum * scale).collect();
        let coarse = blur(&mean, self.small_width, RADIUS);
        let fine: Vec<f32> = mean.iter().zip(&coarse).map(|(a, b)| a - b).collect();
        let squares: Vec<f32> = fine.iter().map(|value| value * value).collect();
        let variance = blur(&squares, self.small_width, WEIGHT_RADIUS);
        fine.iter()
            .zip(&variance)
            // Weighted by the inverse of the variance, as in a matched filter: the picture is the
            // noise here.
            .map(|(value, variance)| value / (variance + 0.02))
            .collect()
    }
}

/// Means over squares of `2 * radius + 1`, smaller ones at the edges.
fn blur(plane: &[f32], width: usize, radius: usize) -> Vec<f32> {
    let height = plane.len() / width.max(1);
    let mut row_means = Vec::with_capacity(plane.len());
    for row in plane.chunks_exact(width) {
        row_means.extend(means(row.iter().copied(), width, radius));
    }
    let mut blurred = vec![0.0; plane.len()];
    for x in 0..width {
        let column = row_means.iter().skip(x).step_by(width).copied();
        let means = means(column, height, radius);
        for (out, mean) in blurred.iter_mut().skip(x).step_by(width).zip(means) {
            *out = mean;
        }
    }
    blurred
}

fn means(values: impl Iterator<Item = f32>, length: usize, radius: usize) -> Vec<f32> {
    let mut sums = Vec::with_capacity(length + 1);
    let mut sum = 0.0f64;
    sums.push(sum);
    for value in values {
        sum += f64::from(value);
        sums.push(sum);
    }
    (0..length)
        .map(|index| {
            let (from, to) = (
                index.saturating_sub(radius),
                (index + radius + 1).min(length),
            );
            let sum = sums.get(to).unwrap_or(&0.0) - sums.get(from).unwrap_or(&0.0);
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                reason = "a mean of few values"
            )]
            {
                (sum / (to - from) as f64) as f32
            }
        })
        .collect()
}
