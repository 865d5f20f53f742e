//! The short-time Fourier transform that neural models expect: centred, with reflected edges.
//!
//! Frame `t` is centred on sample `t * hop`. For half a window beyond each end, the sound is
//! mirrored about its first and last sample. The window is a periodic Hann. The inverse adds
//! overlapping frames and divides by the sum of squared windows. All lengths are fixed at
//! construction.

use std::sync::Arc;

use dsp::Complex32;
use dsp::fft::{self, ComplexToReal, RealToComplex};

use crate::parallel::{CancelCheck, WorkCancelled, fill_rows};

pub(super) struct CentredStft {
    n_fft: usize,
    hop: usize,
    length: usize,
    window: Vec<f32>,
    /// The factors by which overlapping frames must be multiplied.
    synthesis_gain: Vec<f32>,
    forward: Arc<dyn RealToComplex<f32>>,
    inverse: Arc<dyn ComplexToReal<f32>>,
}

impl std::fmt::Debug for CentredStft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            n_fft, hop, length, ..
        } = self;
        write!(f, "Transform({n_fft}, {hop}, {length})")
    }
}

impl CentredStft {
    /// The transform for sounds of `length` samples, which is more than half of `n_fft`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "a window"
    )]
    pub(super) fn new(n_fft: usize, hop: usize, length: usize) -> Self {
        let radians_per_sample = std::f64::consts::TAU / n_fft as f64;
        let window: Vec<f32> = (0..n_fft)
            .map(|i| (0.5 - 0.5 * (radians_per_sample * i as f64).cos()) as f32)
            .collect();
        let mut squares = vec![0.0f32; length / hop * hop + n_fft];
        for t in 0..=length / hop {
            let part = squares[t * hop..].iter_mut().zip(&window);
            part.for_each(|(sum, w)| *sum += w * w);
        }
        let gain = |square: &f32| 1.0 / (square.max(1e-11) * n_fft as f32);
        Self {
            n_fft,
            hop,
            length,
            synthesis_gain: squares.iter().map(gain).collect(),
            window,
            forward: fft::real_forward(n_fft),
            inverse: fft::real_inverse(n_fft),
        }
    }

    pub(super) fn frames(&self) -> usize {
        self.length / self.hop + 1
    }

    pub(super) fn bins(&self) -> usize {
        self.n_fft / 2 + 1
    }

    /// All spectra, frame by frame.
    pub(super) fn spectra(
        &self,
        sound: &[f32],
        stop: CancelCheck<'_>,
    ) -> Result<Vec<Complex32>, WorkCancelled> {
        // The padding of `torch.stft` with `center=True`, with which these models were trained.
        let padded = reflect(sound, self.n_fft / 2, self.n_fft / 2);
        let mut spectra = vec![Complex32::default(); self.frames() * self.bins()];
        fill_rows(&mut spectra, self.bins(), stop, |t, row| {
            let frame = &padded[t * self.hop..t * self.hop + self.n_fft];
            let mut frame: Vec<f32> = frame.iter().zip(&self.window).map(|(x, w)| x * w).collect();
            if self.forward.process(&mut frame, row).is_err() {
                // INVARIANT: fails only on wrong lengths, and both come from the plan's own sizes.
                row.fill(Complex32::default());
            }
        })?;
        Ok(spectra)
    }

    /// The sound whose spectra `fill(frame, bins)` writes.
    pub(super) fn sound(&self, mut fill: impl FnMut(usize, &mut [Complex32])) -> Vec<f32> {
        let mut spectrum = vec![Complex32::default(); self.bins()];
        let (mut frame, mut scratch) = (
            self.inverse.make_output_vec(),
            self.inverse.make_scratch_vec(),
        );
        let mut sum = vec![0.0f32; self.synthesis_gain.len().max(self.n_fft / 2 + self.length)];
        for t in 0..self.frames() {
            fill(t, &mut spectrum);
            // The transform requires that these two are real, as they are for every real sound.
            spectrum[0].im = 0.0;
            spectrum[self.n_fft / 2].im = 0.0;
            let result = self
                .inverse
                .process_with_scratch(&mut spectrum, &mut frame, &mut scratch);
            if result.is_err() {
                // INVARIANT: fails only on wrong lengths or on the two edges just set.
                continue;
            }
            let part = sum[t * self.hop..].iter_mut().zip(&frame).zip(&self.window);
            part.for_each(|((sum, x), w)| *sum += x * w);
        }
        sum.iter_mut()
            .zip(&self.synthesis_gain)
            .for_each(|(x, gain)| *x *= gain);
        sum.drain(..self.n_fft / 2);
        sum.truncate(self.length);
        sum
    }
}

/// A sound extended by this many samples on each side, mirrored about its first and last one. The
/// sound is longer than either.
pub(super) fn reflect(sound: &[f32], before: usize, after: usize) -> Vec<f32> {
    let mut padded = Vec::with_capacity(before + sound.len() + after);
    padded.extend(sound[1..=before].iter().rev());
    padded.extend_from_slice(sound);
    padded.extend(sound[sound.len() - 1 - after..sound.len() - 1].iter().rev());
    padded
}

/// Rows of a tensor `[channel, real or imaginary, bin, frame]`, made of both channels' spectra,
/// which hold `bins` values per frame, from frame `first` on.
pub(super) fn to_tensor(
    spectra: &[Vec<Complex32>; 2],
    bins: usize,
    first: usize,
    size: (usize, usize),
    stop: CancelCheck<'_>,
) -> Result<Vec<f32>, WorkCancelled> {
    let (dim_f, dim_t) = size;
    let mut tensor = vec![0.0; 4 * dim_f * dim_t];
    fill_rows(&mut tensor, dim_t, stop, |number, row| {
        let (plane, bin) = (number / dim_f, number % dim_f);
        let values = spectra[plane / 2][first * bins + bin..]
            .iter()
            .step_by(bins);
        if plane % 2 == 0 {
            row.iter_mut().zip(values).for_each(|(x, v)| *x = v.re);
        } else {
            row.iter_mut().zip(values).for_each(|(x, v)| *x = v.im);
        }
    })?;
    Ok(tensor)
}

/// The lowest bins of frame `t` of one channel, from a tensor in the layout of [`to_tensor`].
pub(super) fn from_tensor(
    tensor: &[f32],
    channel: usize,
    t: usize,
    size: (usize, usize),
    row: &mut [Complex32],
) {
    let (dim_f, dim_t) = size;
    let (real, imaginary) = tensor[2 * channel * dim_f * dim_t..].split_at(dim_f * dim_t);
    let real = real[t..].iter().step_by(dim_t);
    let imaginary = imaginary[t..].iter().step_by(dim_t);
    for ((bin, &re), &im) in row[..dim_f].iter_mut().zip(real).zip(imaginary) {
        *bin = Complex32::new(re, im);
    }
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "made-up signals are short")]
mod tests {
    use super::*;

    #[test]
    fn untouched_spectra_give_the_sound_back() {
        for (n_fft, hop, length) in [(7_680, 1_024, 20_480), (600, 100, 1_234), (256, 128, 200)] {
            let sound: Vec<f32> = (0..length)
                .map(|i| ((i * i) as f32 * 0.001).sin())
                .collect();
            let transform = CentredStft::new(n_fft, hop, length);
            let bins = transform.bins();
            let spectra = transform.spectra(&sound, CancelCheck(&|| false)).unwrap();
            let restored =
                transform.sound(|t, row| row.copy_from_slice(&spectra[t * bins..][..bins]));
            let inside = length / hop * hop;
            let worst = (0..inside)
                .map(|i| (restored[i] - sound[i]).abs())
                .fold(0.0, f32::max);
            assert!(restored.len() == length && worst < 1e-5, "{n_fft}: {worst}");
        }
    }

    #[test]
    fn tensors_contain_their_spectra() {
        let value = |side: u8, i: u8| Complex32::new(f32::from(i), f32::from(side * 50 + i));
        let spectra = [0, 1].map(|side| (0..15).map(|i| value(side, i)).collect::<Vec<_>>());
        // Of five frames of three bins, the tensor takes the middle three frames and the lowest two
        // bins.
        let tensor = to_tensor(&spectra, 3, 1, (2, 3), CancelCheck(&|| false)).unwrap();
        assert_eq!(tensor.len(), 4 * 2 * 3);
        let mut row = [Complex32::default(); 3];
        from_tensor(&tensor, 1, 2, (2, 3), &mut row);
        assert_eq!(row, [value(1, 9), value(1, 10), Complex32::default()]);
    }

    #[test]
    fn edges_are_mirrored() {
        assert_eq!(
            reflect(&[1.0, 2.0, 3.0], 2, 1),
            [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]
        );
    }
}
