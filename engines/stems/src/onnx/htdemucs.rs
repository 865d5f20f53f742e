//! HT-Demucs: one graph, all stems, from waveforms to waveforms.
//!
//! S. Rouard, F. Massa & A. Défossez, "Hybrid Transformers for Music Source Separation", 2023. The
//! published net contains a complex Fourier transform, which ONNX lacks, so that two kinds of
//! graphs exist: those that compute it by other means, and those that leave it to this program,
//! with spectra as additional inputs and outputs.

use super::error::ModelError;
use super::manifest::{HtDemucsSettings, PortNames, StftPlacement};
use super::runtime::{GraphPort, GraphSession};
use super::spectrum::{CentredStft, from_tensor, reflect, to_tensor};
use super::stereo::{StereoSound, pairs};
use super::stitch::{SegmentFade, SegmentPlan};
use crate::SeparateError;
use crate::parallel::{CancelCheck, map};

const N_FFT: usize = 4_096;
const HOP: usize = 1_024;
/// Bins that the net sees: all but the highest.
const BINS: usize = N_FFT / 2;
/// Samples mirrored on each side before the transform, so that its frames tile the segment.
const MARGIN: usize = HOP / 2 * 3;
/// Frames on each side that the net does not see.
const EDGE_FRAMES: usize = 2;

#[derive(Debug)]
pub(super) struct HtDemucs {
    net: GraphSession,
    stems: usize,
    segment: usize,
    overlap: f64,
    /// The waveform's ports.
    input: usize,
    output: usize,
    external_stft: Option<ExternalStft>,
}

/// Data for graphs whose transform is computed here.
#[derive(Debug)]
struct ExternalStft {
    transform: CentredStft,
    /// Frames that the net sees.
    frames: usize,
    /// The spectrum's ports.
    input: usize,
    output: usize,
}

impl HtDemucs {
    pub(super) fn new(net: GraphSession, settings: &HtDemucsSettings) -> Result<Self, ModelError> {
        let (stems, segment) = (settings.stems.len(), settings.segment);
        let PortNames {
            waveform_input,
            spectrum_input,
            waveform_output,
            spectrum_output,
        } = &settings.ports;
        let stft = match (settings.stft, net.inputs.len()) {
            (None | Some(StftPlacement::Inside), 1) => StftPlacement::Inside,
            (None | Some(StftPlacement::Outside), 2) => StftPlacement::Outside,
            (_, inputs) => {
                let reason =
                    format!("the graph has {inputs} inputs: one for inside, two for outside");
                return Err(ModelError::field("htdemucs.stft", reason));
            }
        };
        let input = find_port(
            &net.inputs,
            waveform_input.as_ref(),
            3,
            "htdemucs.ports.waveform_input",
        )?;
        let output = find_port(
            &net.outputs,
            waveform_output.as_ref(),
            4,
            "htdemucs.ports.waveform_output",
        )?;
        let fields = ["file", "file", "htdemucs.segment"];
        net.inputs[input].check(&[1, 2, segment], &fields)?;
        let fields = ["file", "stems", "file", "htdemucs.segment"];
        net.outputs[output].check(&[1, stems, 2, segment], &fields)?;
        let external_stft = match stft {
            StftPlacement::Inside => None,
            StftPlacement::Outside => {
                let frames = segment.div_ceil(HOP);
                let input = find_port(
                    &net.inputs,
                    spectrum_input.as_ref(),
                    4,
                    "htdemucs.ports.spectrum_input",
                )?;
                let output = find_port(
                    &net.outputs,
                    spectrum_output.as_ref(),
                    5,
                    "htdemucs.ports.spectrum_output",
                )?;
                let fields = ["file", "file", "file", "htdemucs.segment"];
                net.inputs[input].check(&[1, 4, BINS, frames], &fields)?;
                let fields = ["file", "stems", "file", "file", "htdemucs.segment"];
                net.outputs[output].check(&[1, stems, 4, BINS, frames], &fields)?;
                let transform = CentredStft::new(N_FFT, HOP, frames * HOP + 2 * MARGIN);
                Some(ExternalStft {
                    transform,
                    frames,
                    input,
                    output,
                })
            }
        };
        Ok(Self {
            net,
            stems,
            segment,
            overlap: settings.overlap,
            input,
            output,
            external_stft,
        })
    }

    pub(super) fn plan(&self, frames: usize) -> SegmentPlan {
        SegmentPlan {
            segment: self.segment,
            step: super::stitch::step(self.segment, self.overlap),
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
        let (stems, segment) = (self.stems, self.segment);
        let waveform = sound.concat();
        let (input_shape, output_shape) = ([1, 2, segment], [1, stems, 2, segment]);
        let input = (self.input, &input_shape[..], &waveform[..]);
        let output = (self.output, &output_shape[..]);
        let Some(external_stft) = &self.external_stft else {
            let outputs = self.net.run(&[input], &[output], stop)?;
            let channels = outputs.concat();
            let channels = channels.chunks_exact(segment).map(<[f32]>::to_vec);
            return Ok(pairs(channels.collect()));
        };
        let frames = external_stft.frames;
        let spectrum = external_stft.spectrum(sound, stop)?;
        let shape = [1, 4, BINS, frames];
        let spectra = [1, stems, 4, BINS, frames];
        let inputs = [input, (external_stft.input, &shape[..], &spectrum[..])];
        let outputs = [output, (external_stft.output, &spectra[..])];
        let results = self.net.run(&inputs, &outputs, stop)?;
        let [waveforms, spectra] = &results[..] else {
            // INVARIANT: `run` returns as many as were requested.
            return Err(SeparateError::Model("an output is missing".into()));
        };
        let channels = map(2 * stems, stop, |number| {
            let (stem, side) = (number / 2, number % 2);
            let tensor = &spectra[stem * 4 * BINS * frames..][..4 * BINS * frames];
            let mut channel = external_stft.sound(tensor, side);
            let direct = &waveforms[number * segment..][..segment];
            channel.truncate(segment);
            // The net has a branch for spectra and one for waveforms. The estimate is their sum.
            channel.iter_mut().zip(direct).for_each(|(x, y)| *x += y);
            channel
        })?;
        Ok(pairs(channels))
    }
}

impl ExternalStft {
    fn spectrum(
        &self,
        sound: &StereoSound,
        stop: CancelCheck<'_>,
    ) -> Result<Vec<f32>, SeparateError> {
        // Padding, and the frames that are cut off, follow `_spec` of the published code. This
        // leaves exactly one frame for each hop of the segment.
        let padding = self.frames * HOP - sound[0].len();
        let spectra = |channel: &[f32]| {
            let padded = reflect(channel, MARGIN, MARGIN + padding);
            self.transform.spectra(&padded, stop)
        };
        let spectra = [spectra(&sound[0])?, spectra(&sound[1])?];
        let size = (BINS, self.frames);
        let mut tensor = to_tensor(&spectra, self.transform.bins(), EDGE_FRAMES, size, stop)?;
        for x in &mut tensor {
            *x *= NORM;
        }
        Ok(tensor)
    }

    /// One channel of one stem; a little longer than the segment.
    fn sound(&self, tensor: &[f32], side: usize) -> Vec<f32> {
        let mut channel = self.transform.sound(|t, row| {
            row.fill(dsp::Complex32::default());
            if (EDGE_FRAMES..EDGE_FRAMES + self.frames).contains(&t) {
                from_tensor(tensor, side, t - EDGE_FRAMES, (BINS, self.frames), row);
            }
        });
        channel.drain(..MARGIN);
        for x in &mut channel {
            *x /= NORM;
        }
        channel
    }
}

/// Spectra are divided by the square root of the transform's length.
const NORM: f32 = 1.0 / 64.0;

/// The port of that name or, without a name, the only port of that rank.
fn find_port(
    ports: &[GraphPort],
    name: Option<&String>,
    rank: usize,
    field: &str,
) -> Result<usize, ModelError> {
    let fits = |port: &GraphPort| match name {
        Some(name) => port.name == *name,
        None => port.dims.len() == rank,
    };
    let mut matching = (0..ports.len()).filter(|i| fits(&ports[*i]));
    match (matching.next(), matching.next()) {
        (Some(only), None) => Ok(only),
        (first, _) => {
            let names = ports
                .iter()
                .map(|port| format!("{}{:?}", port.name, port.dims));
            let names = names.collect::<Vec<_>>().join(", ");
            let problem = match (name, first) {
                (Some(name), _) => format!("there is no `{name}`"),
                (None, None) => format!("none has rank {rank}"),
                (None, Some(_)) => format!("more than one has rank {rank}, so it must be named"),
            };
            Err(ModelError::field(
                field,
                format!("{problem}; the graph has {names}"),
            ))
        }
    }
}
