//! MDX-Net: one graph, one stem, from spectra to spectra.
//!
//! M. Kim et al., "KUIELab-MDX-Net: a two-stream neural network for music demixing", 2021, as the
//! Ultimate Vocal Remover runs its own models of this kind: the lowest `dim_f` bins of `dim_t`
//! frames, left and right as real and imaginary parts, the first three bins silenced.

use super::error::ModelError;
use super::manifest::MdxSettings;
use super::runtime::GraphSession;
use super::spectrum::{CentredStft, from_tensor, to_tensor};
use super::stereo::{StereoSound, pairs};
use super::stitch::{SegmentFade, SegmentPlan};
use crate::SeparateError;
use crate::parallel::{CancelCheck, map};

/// The peak to which a clip is scaled, so that quiet ones are separated as well as loud ones.
pub(super) const PEAK: f32 = 0.9;

/// Bins from 0 Hz up that are silenced in the graph's input.
const SILENT_BINS: usize = 3;

#[derive(Debug)]
pub(super) struct MdxNet {
    net: GraphSession,
    settings: MdxSettings,
    transform: CentredStft,
}

impl MdxNet {
    pub(super) fn new(net: GraphSession, settings: MdxSettings) -> Result<Self, ModelError> {
        let shape = [1, 4, settings.dim_f, settings.dim_t];
        let fields = ["file", "file", "mdx.dim_f", "mdx.dim_t"];
        let ([input], [output, ..]) = (&net.inputs[..], &net.outputs[..]) else {
            let reason = format!("an MDX-Net has one input, not {}", net.inputs.len());
            return Err(ModelError::field("file", reason));
        };
        input.check(&shape, &fields)?;
        output.check(&shape, &fields)?;
        let chunk = settings.hop * (settings.dim_t - 1);
        let transform = CentredStft::new(settings.n_fft, settings.hop, chunk);
        Ok(Self {
            net,
            settings,
            transform,
        })
    }

    pub(super) fn plan(&self, frames: usize) -> SegmentPlan {
        let MdxSettings {
            n_fft,
            hop,
            dim_t,
            overlap,
            ..
        } = self.settings;
        let (segment, trim) = (hop * (dim_t - 1), n_fft / 2);
        // The part of a chunk that is not affected by its reflected edges.
        let unaffected = segment - 2 * trim;
        SegmentPlan {
            segment,
            step: super::stitch::step(segment, overlap),
            lead: trim,
            // UVR's padding, so that the last chunk ends as in these models' usual use.
            total: trim + frames + (unaffected + trim - frames % unaffected),
            frames,
            fade: if overlap > 0.0 {
                SegmentFade::Hann
            } else {
                SegmentFade::None
            },
        }
    }

    pub(super) fn segment(
        &self,
        sound: &StereoSound,
        stop: CancelCheck<'_>,
    ) -> Result<StereoSound, SeparateError> {
        let MdxSettings {
            dim_f,
            dim_t,
            compensate,
            denoise,
            ..
        } = self.settings;
        let size = (dim_f, dim_t);
        let spectra = [
            self.transform.spectra(&sound[0], stop)?,
            self.transform.spectra(&sound[1], stop)?,
        ];
        let mut tensor = to_tensor(&spectra, self.transform.bins(), 0, size, stop)?;
        drop(spectra);
        for plane in tensor.chunks_exact_mut(dim_f * dim_t) {
            plane[..SILENT_BINS * dim_t].fill(0.0);
        }
        let mut output = self.run(&tensor, stop)?;
        // For an inverted input the net returns the inverted stem, but its own noise is not
        // inverted. Half the difference keeps the stem and cancels the noise that both results
        // have.
        if denoise {
            for x in &mut tensor {
                *x = -*x;
            }
            let inverted = self.run(&tensor, stop)?;
            let pairs = output.iter_mut().zip(&inverted);
            pairs.for_each(|(x, y)| *x = 0.5 * (*x - y));
        }
        let channels = map(2, stop, |side| {
            let mut channel = self.transform.sound(|t, row| {
                from_tensor(&output, side, t, size, row);
                // The net does not make the bins above `dim_f`, so they stay empty.
                row[dim_f..].fill(dsp::Complex32::default());
            });
            for x in &mut channel {
                *x *= compensate;
            }
            channel
        })?;
        Ok(pairs(channels).pop().unwrap_or_default())
    }

    fn run(&self, tensor: &[f32], stop: CancelCheck<'_>) -> Result<Vec<f32>, SeparateError> {
        let shape = [1, 4, self.settings.dim_f, self.settings.dim_t];
        let outputs = self.net.run(&[(0, &shape, tensor)], &[(0, &shape)], stop)?;
        Ok(outputs.into_iter().next().unwrap_or_default())
    }
}
