//! The streaming rate converter, for a channel that arrives in pieces.

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Fft, Resampler};

use crate::resample::resampler;

/// Resamples one channel that arrives in pieces. The result equals
/// [`resample`](crate::resample::resample) of the whole.
pub struct RateConverter {
    /// `None` if the rates are equal.
    inner: Option<Fft<f32>>,
    pending: Vec<f32>,
    /// Output samples to skip: the filter's delay.
    skip: usize,
    /// Output samples still to come.
    remaining: usize,
}

impl RateConverter {
    /// Prepares to return `frames` samples in total.
    pub fn new(from: u32, to: u32, frames: usize) -> Self {
        let inner = (from != to).then(|| resampler(from as usize, to as usize).ok());
        let inner = inner.flatten();
        Self {
            skip: inner.as_ref().map_or(0, Resampler::output_delay),
            inner,
            pending: Vec::new(),
            remaining: frames,
        }
    }

    /// Adds samples and appends finished output to `out`.
    pub fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        let Some(chunk) = self.inner.as_ref().map(Resampler::input_frames_next) else {
            return self.emit(samples, out);
        };
        // The converter takes only whole chunks, so the rest waits for the next call.
        self.pending.extend_from_slice(samples);
        let mut consumed = 0;
        while self.pending.len() - consumed >= chunk {
            let converted = self.inner.as_mut().and_then(|inner| {
                let piece = &self.pending[consumed..consumed + chunk];
                let input = InterleavedSlice::new(piece, 1, chunk).ok()?;
                Some(inner.process(&input, None).ok()?.take_data())
            });
            consumed += chunk;
            self.emit(&converted.unwrap_or_default(), out);
        }
        self.pending.drain(..consumed);
    }

    /// Appends the rest to `out`, as if silence followed.
    pub fn finish(&mut self, out: &mut Vec<f32>) {
        let chunk = self.inner.as_ref().map(Resampler::input_frames_next);
        let silence = vec![0.0; chunk.unwrap_or(self.remaining)];
        while self.remaining > 0 {
            let before = (self.remaining, self.skip);
            self.push(&silence, out);
            if before == (self.remaining, self.skip) {
                // INVARIANT: a whole chunk produces output. If the converter fails, silence takes
                // the place of an endless loop.
                out.resize(out.len() + self.remaining, 0.0);
                self.remaining = 0;
            }
        }
    }

    fn emit(&mut self, converted: &[f32], out: &mut Vec<f32>) {
        let skipped = self.skip.min(converted.len());
        self.skip -= skipped;
        let converted = &converted[skipped..];
        out.extend_from_slice(&converted[..self.remaining.min(converted.len())]);
        self.remaining -= self.remaining.min(converted.len());
    }
}
