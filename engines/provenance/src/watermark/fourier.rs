//! Fourier transforms of planes. This module knows nothing of the watermark.

use dsp::{Complex32, fft};

/// A plane of complex values, row after row.
pub(super) struct PlaneSpectrum {
    width: usize,
    height: usize,
    values: Vec<Complex32>,
}

impl PlaneSpectrum {
    /// Transforms a plane, zero-padded to `width` and `height`.
    pub(super) fn from_plane(
        plane: &[f32],
        plane_width: usize,
        width: usize,
        height: usize,
    ) -> Self {
        let mut values = vec![Complex32::default(); width * height];
        for (out, row) in values.chunks_mut(width).zip(plane.chunks(plane_width)) {
            for (out, value) in out.iter_mut().zip(row) {
                out.re = *value;
            }
        }
        let mut spectrum = Self {
            width,
            height,
            values,
        };
        spectrum.transform(true);
        spectrum
    }

    /// Applies `change` to each value.
    pub(super) fn map(mut self, change: impl Fn(Complex32) -> Complex32) -> Self {
        for value in &mut self.values {
            *value = change(*value);
        }
        self
    }

    /// Applies `combine` to each value and the corresponding value of `other`.
    pub(super) fn zip_with(
        mut self,
        other: &Self,
        combine: impl Fn(Complex32, Complex32) -> Complex32,
    ) -> Self {
        for (value, other) in self.values.iter_mut().zip(&other.values) {
            *value = combine(*value, *other);
        }
        self
    }

    /// Transforms back to a plane of the real parts, which are not scaled.
    pub(super) fn into_plane(mut self) -> Vec<f32> {
        self.transform(false);
        self.values.iter().map(|value| value.re).collect()
    }

    fn transform(&mut self, forward: bool) {
        let plan = if forward { fft::forward } else { fft::inverse };
        plan(self.width).process(&mut self.values);
        let mut transposed = transpose(&self.values, self.width, self.height);
        plan(self.height).process(&mut transposed);
        self.values = transpose(&transposed, self.height, self.width);
    }
}

fn transpose(values: &[Complex32], width: usize, height: usize) -> Vec<Complex32> {
    let mut transposed = vec![Complex32::default(); values.len()];
    for (y, row) in values.chunks(width).enumerate() {
        for (value, out) in row.iter().zip(
            transposed
                .get_mut(y..)
                .unwrap_or_default()
                .iter_mut()
                .step_by(height),
        ) {
            *out = *value;
        }
    }
    transposed
}
