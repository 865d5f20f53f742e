//! The sound embedder: marks sound piece by piece.
//!
//! Windows that overlap by half, each filtered in its spectrum and added up again. The filter has
//! zero phase, so two channels are processed as the real and the imaginary part of one signal.

use std::sync::Arc;

use dsp::Complex32;
use dsp::fft::{self, Fft};

use super::super::code::encode;
use super::super::{MarkKey, WatermarkError};
use super::layout::SoundTileLayout;
use super::{BANDS, DEPTH, RATES, STEP, STEPS, bands, window_length};

/// Marks one recording.
pub struct SoundEmbedder {
    rate: u32,
    channels: usize,
    tile: Vec<f32>,
    bands: Vec<Option<usize>>,
    /// The squares of two overlapping windows sum to 1.
    window: Vec<f32>,
    forward: Arc<dyn Fft<f32>>,
    inverse: Arc<dyn Fft<f32>>,
    scratch: Vec<Complex32>,
    /// Of each pair of channels.
    pairs: Vec<ChannelPair>,
    /// Number of windows filtered, and of samples received and returned per channel.
    windows: u64,
    samples_in: u64,
    samples_out: u64,
}

struct ChannelPair {
    /// Samples received that were not in the second half of a window yet.
    pending: Vec<Complex32>,
    /// The half before that, which went through one window.
    previous_half: Vec<Complex32>,
    /// The change to that half so far.
    tail: Vec<Complex32>,
}

impl SoundEmbedder {
    /// `media_id` has 40 bits.
    pub fn new(
        key: &MarkKey,
        media_id: u64,
        rate: u32,
        channels: usize,
    ) -> Result<Self, WatermarkError> {
        if !RATES.contains(&rate) {
            return Err(WatermarkError::Rate(rate));
        }
        let tile = SoundTileLayout::for_key(key).tile(&encode(key, media_id)?);
        let length = window_length(rate);
        let half = vec![Complex32::default(); length / 2];
        let (forward, inverse) = (fft::forward(length), fft::inverse(length));
        let scratch = forward
            .get_inplace_scratch_len()
            .max(inverse.get_inplace_scratch_len());
        #[expect(clippy::cast_precision_loss, reason = "at most 8192")]
        let window = (0..length)
            .map(|index| (std::f32::consts::PI * (index as f32 + 0.5) / length as f32).sin());
        let pair = || ChannelPair {
            pending: Vec::new(),
            previous_half: half.clone(),
            tail: half.clone(),
        };
        Ok(Self {
            rate,
            channels,
            tile,
            bands: bands(length, rate),
            window: window.collect(),
            forward,
            inverse,
            scratch: vec![Complex32::default(); scratch],
            pairs: (0..channels.div_ceil(2)).map(|_| pair()).collect(),
            windows: 0,
            samples_in: 0,
            samples_out: 0,
        })
    }

    /// Takes the next samples of every channel, and returns the marked ones: all but about the last
    /// 46 ms.
    pub fn push(&mut self, new_samples: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let count = new_samples.iter().map(Vec::len).min().unwrap_or(0);
        let channels = new_samples.chunks(2);
        for (pair, channels) in self.pairs.iter_mut().zip(channels) {
            let left = channels.first().into_iter().flatten().take(count);
            let mut right = channels.get(1).into_iter().flatten();
            let stereo =
                left.map(|left| Complex32::new(*left, right.next().copied().unwrap_or(0.0)));
            pair.pending.extend(stereo);
        }
        self.samples_in += count as u64;
        let mut out = vec![Vec::with_capacity(count); self.channels];
        let half = self.window.len() / 2;
        while self
            .pairs
            .first()
            .is_some_and(|pair| pair.pending.len() >= half)
        {
            self.step(&mut out);
        }
        out
    }

    /// The last samples.
    pub fn finish(&mut self) -> Vec<Vec<f32>> {
        let mut out = vec![Vec::new(); self.channels];
        let half = self.window.len() / 2;
        while self.samples_out < self.samples_in {
            for pair in &mut self.pairs {
                let padded = pair.pending.len().max(half);
                pair.pending.resize(padded, Complex32::default());
            }
            self.step(&mut out);
        }
        out
    }

    /// Filters the next window and returns the half that is complete.
    fn step(&mut self, out: &mut [Vec<f32>]) {
        let length = self.window.len();
        let half = length / 2;
        // The first window completes nothing: its first half lies before the recording.
        let ready = if self.windows == 0 { 0 } else { half as u64 };
        let count = ready.min(self.samples_in - self.samples_out);
        let row = self.row();
        for (number, pair) in self.pairs.iter_mut().enumerate() {
            let next_half: Vec<Complex32> = pair.pending.drain(..half).collect();
            let samples = pair
                .previous_half
                .iter()
                .chain(&next_half)
                .zip(&self.window);
            let mut frame: Vec<Complex32> =
                samples.map(|(sample, window)| sample * window).collect();
            self.forward
                .process_with_scratch(&mut frame, &mut self.scratch);
            filter(&mut frame, &self.bands, self.tile.get(row..row + BANDS));
            self.inverse
                .process_with_scratch(&mut frame, &mut self.scratch);
            for (sample, window) in frame.iter_mut().zip(&self.window) {
                *sample *= window;
            }
            let (first, second) = frame.split_at(half);
            // The frames contain only the change. The sound itself is passed on and never
            // transformed, so frequencies without a cell stay as they are.
            let marked = pair.previous_half.iter().zip(&pair.tail).zip(first);
            let marked = marked.map(|((sample, tail), mark)| sample + tail + mark);
            let sample_count = usize::try_from(count).unwrap_or(0);
            for sample in marked.take(sample_count) {
                if let Some(left) = out.get_mut(number * 2) {
                    left.push(sample.re);
                }
                if let Some(right) = out.get_mut(number * 2 + 1) {
                    right.push(sample.im);
                }
            }
            pair.tail = second.to_vec();
            pair.previous_half = next_half;
        }
        self.windows += 1;
        self.samples_out += count;
    }

    /// Where the tile's row begins for the next window, by the time of its middle.
    fn row(&self) -> usize {
        let middle = self.windows * (self.window.len() / 2) as u64;
        // In whole numbers: a float's rounding would let the tile drift over an hour.
        let step = middle * STEP.1 / (STEP.0 * u64::from(self.rate)) % STEPS as u64;
        usize::try_from(step).unwrap_or(0) * BANDS
    }
}

/// Reduces a spectrum to the change that is added to the sound.
fn filter(frame: &mut [Complex32], bands: &[Option<usize>], row: Option<&[f32]>) {
    let row = row.unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "at most 8192")]
    let depth = DEPTH / frame.len() as f32;
    let length = frame.len();
    for (bin, band) in bands.iter().enumerate() {
        let gain = band.and_then(|band| row.get(band)).unwrap_or(&0.0) * depth;
        // The negative frequency is filtered in the same way; 0 and half the rate are their own
        // mirrors.
        let mirrored = (length - bin) % length;
        if let Some(value) = frame.get_mut(bin) {
            *value *= gain;
        }
        if mirrored != bin
            && let Some(value) = frame.get_mut(mirrored)
        {
            *value *= gain;
        }
    }
}
