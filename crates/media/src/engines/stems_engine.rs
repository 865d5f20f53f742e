//! Separation by `stems-dsp-1`, the embedded model on the `stems` crate, or by an operator's model.

use std::fs::File;
use std::path::Path;

use orders::{ModelLimits, MusicLimits, SongLimits, StemLimits};
use provenance::watermark::sound::SoundEmbedder;
use stems::decode::replay;
use stems::{
    BlockSeparator, ClipShape, DecodeLimits, SeparateError, SeparationControl, SeparationEngine,
    Stem,
};

use crate::engines::clip::{self, ClipError, ClipWriter, CoverStyle, EncodedClip};
use crate::engines::own_models::ModelGraphs;
use crate::engines::{EngineControl, EngineError};
use crate::origin::WatermarkPayload;
use mediagate_model::catalog::{self, Model, ModelBackend};
use mediagate_model::music::StemGroup;
use mediagate_model::task::{StemTarget, StemsJob};

/// The model's name.
pub const MODEL: &str = "stems-dsp-1";

/// The model's description and limits.
pub fn model() -> Model {
    Model {
        id: MODEL.into(),
        aliases: vec!["chirp-*".into()],
        summary: "Separates a song into vocals, drums, bass and the rest, with signal processing and two small neural nets.".into(),
        notes: vec![
            "Runs in this gateway. No data leaves the machine.".into(),
            "Its nets were trained only on generated songs. Expect audible bleed between stems.".into(),
            "The stems sum to the mix. The mix has a watermark if the operator enabled it.".into(),
        ],
        limits: ModelLimits::Music(MusicLimits {
            stems: Some(StemLimits {
                groups: vec![StemGroup::Vocals, StemGroup::Drums, StemGroup::Bass],
                complements: vec![StemGroup::Vocals, StemGroup::Drums, StemGroup::Bass],
                two: true,
                full: true,
                other: true,
            }),
            tasks: Vec::new(),
            personas: false,
            songs: SongLimits::API_DEFAULT,
        }),
        price: None,
        passthrough_fields: Vec::new(),
        backend: ModelBackend::Embedded {
            engine: catalog::EmbeddedEngine::Stems,
            version: env!("CARGO_PKG_VERSION").into(),
        },
    }
}

/// The engine's name for a group.
pub(super) const fn stem(group: StemGroup) -> Stem {
    match group {
        StemGroup::Vocals => Stem::Vocals,
        StemGroup::BackingVocals => Stem::BackingVocals,
        StemGroup::Drums => Stem::Drums,
        StemGroup::Bass => Stem::Bass,
        StemGroup::Guitar => Stem::Guitar,
        StemGroup::Keyboard => Stem::Keyboard,
        StemGroup::Percussion => Stem::Percussion,
        StemGroup::Strings => Stem::Strings,
        StemGroup::Synth => Stem::Synth,
        StemGroup::Fx => Stem::Fx,
        StemGroup::Brass => Stem::Brass,
        StemGroup::Woodwinds => Stem::Woodwinds,
    }
}

/// Separates a recording by the embedded model, or by the operator's `graphs`; clips are in the
/// order of the job's outputs, as are the empty `files` for them, and all have the same `mark`. Blocks
/// until it is done or stopped.
///
/// The recording is read, separated and written in blocks of some seconds, and more than two
/// channels are mixed down to stereo while reading, so that memory does not grow with its length or
/// channels.
pub fn separate(
    job: &StemsJob,
    graphs: Option<&ModelGraphs>,
    source: &Path,
    mark: Option<WatermarkPayload>,
    files: Vec<File>,
    engine_control: &EngineControl,
) -> Result<Vec<EncodedClip>, EngineError> {
    // The source was within the limits when it was uploaded.
    let limits = DecodeLimits {
        max_seconds: u32::MAX,
        max_bytes: usize::MAX,
        fold_down: true,
        ..DecodeLimits::default()
    };
    let is_running = || !engine_control.is_stopped();
    let source_error = |error: ClipError| match error {
        ClipError::Engine(error) => error,
        ClipError::Decode(error) => EngineError::Source(error.to_string()),
    };
    let (recording, scan) = clip::open(source, &limits, &is_running).map_err(source_error)?;
    let stems = needed_stems(job);
    let engine = match graphs {
        Some(graphs) => graphs.separator(scan.shape, &stems),
        None => BlockSeparator::new(scan.shape, &stems).map(|engine| Box::new(engine) as Box<_>),
    };
    let mut engine: Box<dyn SeparationEngine> = engine.map_err(engine_error)?;
    let mut writer = StemClipWriter::new(job, stems, &scan.shape, mark, files)?;
    let mut control = SeparationControl {
        progress: &mut |share| engine_control.report(share * SEPARATION_SHARE),
        cancelled: &|| engine_control.is_stopped(),
    };
    // The callback can only ask to stop, so the error is kept here.
    let mut result = Ok(());
    let mut push = |samples: &[Vec<f32>]| {
        writer.push_mix(samples);
        result = engine.push(samples, &mut control, &mut |stem, samples| {
            writer.push_stem(stem, samples)
        });
        result.is_ok()
    };
    let read = replay(&recording, &limits, &scan, &mut push);
    read.map_err(|error| EngineError::Source(error.to_string()))?;
    if result.is_ok() {
        result = engine.finish(&mut control, &mut |stem, samples| {
            writer.push_stem(stem, samples)
        });
    }
    // The engine only knows that it was stopped. This is the reason.
    if let Some(error) = writer.failed.take() {
        return Err(error);
    }
    result.map_err(engine_error)?;
    writer.finish(engine_control)
}

/// Share of the progress that is separation; the rest is drawing covers.
const SEPARATION_SHARE: f32 = 0.97;

fn engine_error(error: SeparateError) -> EngineError {
    match error {
        SeparateError::Cancelled => EngineError::Stopped,
        SeparateError::Model(why) => EngineError::Broken(why),
        other => EngineError::Source(other.to_string()),
    }
}

/// The stems that the engine must make for a job, each once.
fn needed_stems(job: &StemsJob) -> Vec<Stem> {
    let mut stems = Vec::new();
    for (_, target) in &job.outputs {
        let stem = target_stem(*target);
        if !stems.contains(&stem) {
            stems.push(stem);
        }
    }
    stems
}

/// The stem that a target consists of, or leaves out of the mix.
const fn target_stem(target: StemTarget) -> Stem {
    match target {
        StemTarget::Only(group) | StemTarget::Without(group) => stem(group),
        StemTarget::Other => Stem::Other,
    }
}

/// Buffers stems until all of them and the mix have arrived, and writes the job's clips.
struct StemClipWriter {
    separated: Vec<Stem>,
    targets: Vec<StemTarget>,
    /// For each separated stem: its channels from the first unwritten sample on.
    stems: Vec<Vec<Vec<f32>>>,
    /// The mix: its channels from the first unwritten sample on.
    mix: Vec<Vec<f32>>,
    clips: Vec<ClipWriter>,
    /// One for each clip, or none at all.
    markers: Vec<SoundEmbedder>,
    failed: Option<EngineError>,
}

impl StemClipWriter {
    fn new(
        job: &StemsJob,
        separated: Vec<Stem>,
        shape: &ClipShape,
        mark: Option<WatermarkPayload>,
        files: Vec<File>,
    ) -> Result<Self, EngineError> {
        let clips = job.outputs.iter().zip(files).map(|((id, _), file)| {
            ClipWriter::new(file, &id.to_string(), shape, CoverStyle::Spectrogram)
        });
        Ok(Self {
            targets: job.outputs.iter().map(|(_, target)| *target).collect(),
            stems: vec![vec![Vec::new(); shape.channels]; separated.len()],
            separated,
            mix: vec![Vec::new(); shape.channels],
            clips: clips.collect::<Result<_, _>>()?,
            markers: mark.map_or_else(Vec::new, |mark| markers(mark, shape, job.outputs.len())),
            failed: None,
        })
    }

    /// Adds samples of the mix.
    fn push_mix(&mut self, samples: &[Vec<f32>]) {
        append(&mut self.mix, samples);
    }

    /// Adds samples of a stem and writes what is complete. Returns whether to continue.
    fn push_stem(&mut self, stem: usize, samples: &[Vec<f32>]) -> bool {
        append(&mut self.stems[stem], samples);
        // Samples of the stems arrive at different times. A complement is the mix without a stem,
        // so both are needed.
        let lengths = self
            .stems
            .iter()
            .chain([&self.mix])
            .map(|channels| length(channels));
        let ready = lengths.min().unwrap_or(0);
        if ready > 0
            && let Err(error) = self.write(ready)
        {
            self.failed = Some(error);
        }
        self.failed.is_none()
    }

    /// Writes the next `count` samples of every clip.
    fn write(&mut self, count: usize) -> Result<(), EngineError> {
        let take = |channels: &mut Vec<Vec<f32>>| -> Vec<Vec<f32>> {
            let channels = channels.iter_mut();
            channels
                .map(|channel| channel.drain(..count).collect())
                .collect()
        };
        let mix = take(&mut self.mix);
        let stems: Vec<Vec<Vec<f32>>> = self.stems.iter_mut().map(take).collect();
        let mut parts = Vec::with_capacity(self.targets.len());
        for target in &self.targets {
            let needed = target_stem(*target);
            let index = self.separated.iter().position(|stem| *stem == needed);
            let stem = index
                .and_then(|index| stems.get(index))
                .ok_or_else(|| EngineError::Broken(format!("{needed} was not separated")))?;
            parts.push(match target {
                StemTarget::Without(_) => without(&mix, stem),
                StemTarget::Only(_) | StemTarget::Other => stem.clone(),
            });
        }
        // Marked last, each with the same mark, so that the sum of the parts has it too.
        for (marker, part) in self.markers.iter_mut().zip(&mut parts) {
            *part = marker.push(part);
        }
        self.write_parts(parts)
    }

    /// Writes these samples of every clip.
    fn write_parts(&mut self, mut parts: Vec<Vec<Vec<f32>>>) -> Result<(), EngineError> {
        limit_to_full_scale(&mut parts);
        for (clip, part) in self.clips.iter_mut().zip(&parts) {
            clip.push(part)?;
        }
        Ok(())
    }

    fn finish(mut self, engine_control: &EngineControl) -> Result<Vec<EncodedClip>, EngineError> {
        // A marker holds back its latest samples until it has seen those that follow.
        let last = self.markers.iter_mut().map(SoundEmbedder::finish).collect();
        self.write_parts(last)?;
        let is_marked = !self.markers.is_empty();
        let total = self.clips.len();
        let mut clips = Vec::with_capacity(total);
        for (index, clip) in self.clips.into_iter().enumerate() {
            if engine_control.is_stopped() {
                return Err(EngineError::Stopped);
            }
            clips.push(EncodedClip {
                is_marked,
                ..clip.finish()?
            });
            engine_control
                .report(SEPARATION_SHARE + (1.0 - SEPARATION_SHARE) * share(index + 1, total));
        }
        Ok(clips)
    }
}

/// The embedders, one for each clip; none if sound of this rate cannot have a watermark.
fn markers(mark: WatermarkPayload, shape: &ClipShape, clips: usize) -> Vec<SoundEmbedder> {
    let Some(key) = mark.key.key() else {
        return Vec::new();
    };
    let marker = || SoundEmbedder::new(&key, mark.media_id, shape.rate, shape.channels);
    let markers: Result<Vec<_>, _> = (0..clips).map(|_| marker()).collect();
    markers.unwrap_or_else(|error| {
        tracing::info!(%error, "cannot add a watermark to the stems");
        Vec::new()
    })
}

#[expect(clippy::cast_precision_loss, reason = "a handful of stems")]
fn share(done: usize, total: usize) -> f32 {
    done as f32 / total as f32
}

fn append(channels: &mut [Vec<f32>], samples: &[Vec<f32>]) {
    for (channel, samples) in channels.iter_mut().zip(samples) {
        channel.extend_from_slice(samples);
    }
}

fn length(channels: &[Vec<f32>]) -> usize {
    channels.first().map_or(0, Vec::len)
}

fn without(mix: &[Vec<f32>], stem: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let channels = mix.iter().zip(stem);
    channels
        .map(|(mix, stem)| mix.iter().zip(stem).map(|(x, y)| x - y).collect())
        .collect()
}

/// Brings every sample within full scale, which FLAC cannot exceed, without changing the sum: the
/// excess of one part is moved to parts that have headroom. The mix itself is within full scale, so
/// the headroom suffices. A watermark may lift the mix above full scale; that excess is cut off.
fn limit_to_full_scale(parts: &mut [Vec<Vec<f32>>]) {
    let fits = |part: &Vec<Vec<f32>>| part.iter().flatten().all(|sample| sample.abs() <= 1.0);
    if parts.iter().all(fits) {
        return;
    }
    let (channels, frames) = parts
        .first()
        .map_or((0, 0), |part| (part.len(), length(part)));
    for channel in 0..channels {
        for frame in 0..frames {
            let mut excess = 0.0;
            for part in &mut *parts {
                let sample = &mut part[channel][frame];
                let clamped = sample.clamp(-1.0, 1.0);
                excess += *sample - clamped;
                *sample = clamped;
            }
            for part in &mut *parts {
                let sample = &mut part[channel][frame];
                let clamped = (*sample + excess).clamp(-1.0, 1.0);
                excess -= clamped - *sample;
                *sample = clamped;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_within_full_scale_and_keep_their_sum() {
        let part = |samples: &[f32]| vec![samples.to_vec()];
        let parts = vec![
            part(&[1.4, 0.2, -0.3]),
            part(&[-0.6, 0.3, -1.2]),
            part(&[0.1, 0.1, 0.9]),
        ];
        let mut limited = parts.clone();
        limit_to_full_scale(&mut limited);
        for frame in 0..3 {
            let sum =
                |parts: &[Vec<Vec<f32>>]| parts.iter().map(|part| part[0][frame]).sum::<f32>();
            assert!((sum(&parts) - sum(&limited)).abs() < 1e-6);
        }
        assert!(limited.iter().flatten().flatten().all(|x| x.abs() <= 1.0));
        assert!((limited[2][0][1] - 0.1).abs() < 1e-9);
    }
}
