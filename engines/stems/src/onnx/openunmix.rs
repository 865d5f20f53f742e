//! Open-Unmix: one graph for each stem, from magnitudes to magnitudes.
//!
//! F.-R. Stöter, S. Uhlich, A. Liutkus & Y. Mitsufuji, "Open-Unmix – A Reference Implementation for
//! Music Source Separation", 2019. The phase is the mix's; a Wiener filter refines both.

use dsp::Complex32;

use super::error::{ModelError, name_stem_field};
use super::manifest::OpenUnmixSettings;
use super::runtime::GraphSession;
use super::spectrum::CentredStft;
use super::stereo::{StereoSound, pairs};
use super::stitch::{SegmentFade, SegmentPlan};
use super::wiener_refine;
use crate::parallel::{CancelCheck, fill_rows, map};
use crate::{SeparateError, Stem};

/// Frames in a segment if neither graph nor manifest sets it: 30 seconds.
const FRAMES: usize = 1_292;

#[derive(Debug)]
pub(super) struct OpenUnmix {
    nets: Vec<GraphSession>,
    settings: OpenUnmixSettings,
    frames: usize,
    /// All graphs take any number of frames.
    any_length: bool,
}

impl OpenUnmix {
    /// Takes the graphs in the order of the settings' stems.
    pub(super) fn new(
        nets: Vec<GraphSession>,
        settings: &OpenUnmixSettings,
    ) -> Result<Self, ModelError> {
        let mut fixed_frames = None;
        for (net, stem) in nets.iter().zip(settings.graphs.keys()) {
            let ([input], [output, ..]) = (&net.inputs[..], &net.outputs[..]) else {
                let reason = format!("an Open-Unmix has one input, not {}", net.inputs.len());
                return Err(name_stem_field(
                    ModelError::field("file", reason),
                    TABLE,
                    *stem,
                ));
            };
            for port in [input, output] {
                let frames = port.dims.get(3).and_then(|t| usize::try_from(*t).ok());
                fixed_frames = fixed_frames.or(frames);
                let frames = settings.frames.or(fixed_frames).unwrap_or(FRAMES);
                let shape = [1, 2, settings.n_fft / 2 + 1, frames];
                let fields = ["file", "file", "openunmix.n_fft", "openunmix.frames"];
                port.check(&shape, &fields)
                    .map_err(|e| name_stem_field(e, TABLE, *stem))?;
            }
        }
        let frames = settings.frames.or(fixed_frames).unwrap_or(FRAMES);
        let min_frames = (2 * settings.n_fft).div_ceil(settings.hop);
        if !(min_frames..=6_000).contains(&frames) {
            let reason = format!("the graph requires {frames}, not between {min_frames} and 6000");
            return Err(ModelError::field("openunmix.frames", reason));
        }
        let (settings, any_length) = (settings.clone(), fixed_frames.is_none());
        Ok(Self {
            nets,
            settings,
            frames,
            any_length,
        })
    }

    pub(super) fn plan(&self, frames: usize) -> SegmentPlan {
        let OpenUnmixSettings {
            n_fft,
            hop,
            overlap,
            ..
        } = self.settings;
        let mut segment = hop * (self.frames - 1);
        if self.any_length && frames < segment {
            // A short clip need not be padded with silence.
            segment = frames.max(2 * n_fft);
        }
        SegmentPlan {
            segment,
            step: super::stitch::step(segment, overlap),
            lead: 0,
            total: frames,
            frames,
            fade: SegmentFade::Triangle,
        }
    }

    pub(super) fn segment(
        &self,
        sound: &StereoSound,
        stop: CancelCheck<'_>,
    ) -> Result<Vec<StereoSound>, SeparateError> {
        let OpenUnmixSettings {
            n_fft, hop, wiener, ..
        } = self.settings;
        let transform = CentredStft::new(n_fft, hop, sound[0].len());
        let (bins, frames) = (transform.bins(), transform.frames());
        let mix = [
            transform.spectra(&sound[0], stop)?,
            transform.spectra(&sound[1], stop)?,
        ];
        let mut magnitudes = vec![0.0; 2 * bins * frames];
        fill_rows(&mut magnitudes, frames, stop, |number, row| {
            let values = mix[number / bins][number % bins..].iter().step_by(bins);
            row.iter_mut().zip(values).for_each(|(x, v)| *x = v.norm());
        })?;
        let shape = [1, 2, bins, frames];
        let mut stems: Vec<[Vec<Complex32>; 2]> = Vec::new();
        for net in &self.nets {
            let output = net
                .run(&[(0, &shape, &magnitudes)], &[(0, &shape)], stop)?
                .concat();
            let sides = map(2, stop, |side| {
                with_phase(&output[side * bins * frames..], &mix[side], bins)
            })?;
            stems.extend(pairs(sides));
        }
        drop(magnitudes);
        if wiener {
            // Without a graph for the rest, the remainder of the stems is used in the filter as one
            // more source. Otherwise it would be distributed among them.
            let complete = self.settings.graphs.contains_key(&Stem::Other);
            wiener_refine::refine(&mix, &mut stems, bins, complete, stop)?;
        }
        let channels = map(2 * stems.len(), stop, |number| {
            let spectra = &stems[number / 2][number % 2];
            transform.sound(|t, row| row.copy_from_slice(&spectra[t * bins..][..bins]))
        })?;
        Ok(pairs(channels))
    }
}

const TABLE: &str = "openunmix.files";

/// Magnitudes `[bin, frame]` with the mix's phases, as spectra frame by frame.
fn with_phase(magnitudes: &[f32], mix: &[Complex32], bins: usize) -> Vec<Complex32> {
    let frames = mix.len() / bins;
    let value = |(i, x): (usize, &Complex32)| {
        let magnitude = magnitudes[(i % bins) * frames + i / bins];
        let norm = x.norm();
        // A silent bin has no phase to use.
        if norm > 0.0 {
            x * (magnitude / norm)
        } else {
            Complex32::new(magnitude, 0.0)
        }
    };
    mix.iter().enumerate().map(value).collect()
}
