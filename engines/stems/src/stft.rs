//! The short-time Fourier transform and its inverse.
//!
//! A periodic Hann window serves for analysis and synthesis; frame `t` is centred on sample `t *
//! hop`, with silence assumed outside the sound. Overlapping frames are added and divided by the
//! sum of the squared windows, so that unchanged spectra reproduce the sound.

use std::sync::Arc;

use dsp::Complex32;
use dsp::fft::{self, ComplexToReal, RealToComplex};

use crate::parallel::{CancelCheck, WorkCancelled, fill_rows};
use crate::plane::SpectralPlane;

/// The rate at which all analysis is done, in Hz: that of most recordings.
pub(crate) const RATE: u32 = 44_100;

/// Window and step of one resolution, in samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StftGrid {
    pub(crate) size: usize,
    pub(crate) hop: usize,
}

/// The resolution at which sound is separated.
pub(crate) const MAIN: StftGrid = StftGrid {
    size: 4_096,
    hop: 1_024,
};

impl StftGrid {
    pub(crate) fn bins(self) -> usize {
        self.size / 2 + 1
    }

    /// Enough frames for every sample to lie between two centres.
    pub(crate) fn frames(self, samples: usize) -> usize {
        samples.div_ceil(self.hop) + 1
    }
}

/// Spectra of one channel, row by row.
pub(crate) struct ChannelSpectra {
    bins: usize,
    data: Vec<Complex32>,
}

impl ChannelSpectra {
    pub(crate) fn row(&self, index: usize) -> &[Complex32] {
        &self.data[index * self.bins..(index + 1) * self.bins]
    }
}

/// A prepared transform; cheap to share between threads.
pub(crate) struct Stft {
    grid: StftGrid,
    window: Vec<f32>,
    forward: Arc<dyn RealToComplex<f32>>,
    inverse: Arc<dyn ComplexToReal<f32>>,
}

impl Stft {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "a window"
    )]
    pub(crate) fn new(grid: StftGrid) -> Self {
        let radians_per_sample = std::f64::consts::TAU / grid.size as f64;
        Self {
            grid,
            window: (0..grid.size)
                .map(|i| (0.5 - 0.5 * (radians_per_sample * i as f64).cos()) as f32)
                .collect(),
            forward: fft::real_forward(grid.size),
            inverse: fft::real_inverse(grid.size),
        }
    }

    /// All spectra of a channel.
    pub(crate) fn spectra(
        &self,
        sound: &[f32],
        stop: CancelCheck<'_>,
    ) -> Result<ChannelSpectra, WorkCancelled> {
        let bins = self.grid.bins();
        let mut data = vec![Complex32::default(); self.grid.frames(sound.len()) * bins];
        fill_rows(&mut data, bins, stop, |t, row| self.frame(sound, t, row))?;
        Ok(ChannelSpectra { bins, data })
    }

    /// The joint magnitude `sqrt(|L|^2 + |R|^2)` of two channels.
    pub(crate) fn magnitude(
        &self,
        sound: &[Vec<f32>; 2],
        stop: CancelCheck<'_>,
    ) -> Result<SpectralPlane, WorkCancelled> {
        let bins = self.grid.bins();
        SpectralPlane::build(self.grid.frames(sound[0].len()), bins, stop, |t, row| {
            let mut spectra = [
                vec![Complex32::default(); bins],
                vec![Complex32::default(); bins],
            ];
            for (spectrum, sound) in spectra.iter_mut().zip(sound) {
                self.frame(sound, t, spectrum);
            }
            let [left, right] = &spectra;
            for ((a, l), r) in row.iter_mut().zip(left).zip(right) {
                *a = (l.norm_sqr() + r.norm_sqr()).sqrt();
            }
        })
    }

    /// The spectrum of frame `t`.
    pub(crate) fn frame(&self, sound: &[f32], t: usize, out: &mut [Complex32]) {
        let mut input = self.forward.make_input_vec();
        let start = (t * self.grid.hop).cast_signed() - (self.grid.size / 2).cast_signed();
        let first = start.max(0).cast_unsigned().min(sound.len());
        let end = (start + self.grid.size.cast_signed())
            .max(0)
            .cast_unsigned()
            .min(sound.len());
        let offset = (first.cast_signed() - start).cast_unsigned();
        for ((x, y), w) in input
            .iter_mut()
            .skip(offset)
            .zip(&sound[first..end])
            .zip(&self.window[offset..])
        {
            *x = y * w;
        }
        if self.forward.process(&mut input, out).is_err() {
            // INVARIANT: fails only on wrong lengths, and both come from the plan's own sizes.
            out.fill(Complex32::default());
        }
    }

    /// Adds the sound of one spectrum to `out`, which starts half a window before the first sample.
    pub(crate) fn overlap_add(&self, spectrum: &mut [Complex32], t: usize, out: &mut [f32]) {
        let mut sound = self.inverse.make_output_vec();
        // The transform requires that these two are real, as they are for every real sound.
        for edge in [0, spectrum.len() - 1] {
            spectrum[edge].im = 0.0;
        }
        if self.inverse.process(spectrum, &mut sound).is_err() {
            // INVARIANT: fails only on wrong lengths or on the two edges just set.
            return;
        }
        let start = t * self.grid.hop;
        for ((x, y), w) in out[start..].iter_mut().zip(&sound).zip(&self.window) {
            *x += y * w;
        }
    }

    /// Divides overlapping frames by the sum of their windows, and cuts off the leading half
    /// window.
    #[expect(clippy::cast_precision_loss, reason = "a transform's length")]
    pub(crate) fn finish(&self, added: &[f32], samples: usize) -> Vec<f32> {
        let (size, hop) = (self.grid.size, self.grid.hop);
        let frames = self.grid.frames(samples);
        // Windowing twice and dividing by the squared windows is the least-squares inverse (Griffin
        // & Lim 1984). It also suits spectra that were changed, whose frames no longer agree.
        let energy = |at: usize| -> f32 {
            let first = (at + 1).saturating_sub(size).div_ceil(hop);
            (first..=at / hop)
                .filter(|t| *t < frames)
                .map(|t| self.window[at - t * hop].powi(2))
                .sum()
        };
        // Away from the ends the sum repeats with every step, so one step of it is enough.
        let steady: Vec<f32> = (size..size + hop)
            .map(|at| {
                (0..size / hop)
                    .map(|k| self.window[(at % hop) + k * hop].powi(2))
                    .sum()
            })
            .collect();
        // The inverse transform is not normalised.
        let scale = 1.0 / size as f32;
        let lead = size / 2;
        (lead..lead + samples)
            .map(|at| {
                let is_steady = at >= size && at / hop < frames;
                let energy = if is_steady {
                    steady[at % hop]
                } else {
                    energy(at)
                };
                added[at] * scale / energy.max(1e-6)
            })
            .collect()
    }

    /// How many samples [`Self::overlap_add`] may touch for that many frames.
    pub(crate) fn output_samples(&self, frames: usize) -> usize {
        frames * self.grid.hop + self.grid.size
    }
}

#[cfg(test)]
#[expect(
    clippy::cast_precision_loss,
    reason = "made-up signals are short and exact"
)]
mod tests {
    use super::*;

    #[test]
    fn untouched_spectra_give_the_sound_back() {
        for samples in [1, 700, 1_024, 4_095, 4_096, 30_001] {
            let sound: Vec<f32> = (0..samples)
                .map(|i| ((i * i) as f32 * 0.001).sin())
                .collect();
            let stft = Stft::new(MAIN);
            let frames = MAIN.frames(samples);
            let mut out = vec![0.0; stft.output_samples(frames)];
            let spectra = stft.spectra(&sound, CancelCheck(&|| false)).unwrap();
            for t in 0..frames {
                stft.overlap_add(&mut spectra.row(t).to_vec(), t, &mut out);
            }
            let back = stft.finish(&out, samples);
            let worst = back
                .iter()
                .zip(&sound)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f32::max);
            assert!(back.len() == samples && worst < 2e-6, "{samples}: {worst}");
        }
    }
}
