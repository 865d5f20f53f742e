//! Separation by `stems-dsp-1`, the embedded model on the `stems` crate, or by an operator's model.

use std::path::Path;

use provenance::watermark::sound::SoundEmbedder;
use providers::{ModelLimits, MusicLimits, SongLimits, StemLimits};
use stems::decode::replay;
use stems::{
    BlockSeparator, ClipShape, DecodeLimits, SeparateError, SeparationControl, SeparationEngine,
    Stem,
};

use crate::engines::clip::{self, ClipError, ClipWriter, CoverStyle, MadeClip};
use crate::engines::own_models::ModelGraphs;
use crate::engines::{EngineControl, EngineError};
use crate::origin::WatermarkPayload;
use mediagate_model::catalog::{self, Model, ModelBackend};
use mediagate_model::music::StemGroup;
use mediagate_model::task::{StemTarget, StemsJob};

/// The model's description and limits.
pub fn model() -> Model {
    Model {
        id: "stems-dsp-1".into(),
        aliases: vec!["chirp-*".into()],
        summary: "Separates a song into vocals, drums, bass and the rest, by signal processing."
            .into(),
        notes: vec![
            "Runs in this gateway. No data leaves the machine.".into(),
            "Uses no pretrained weights. Expect audible bleed between stems.".into(),
            "The stems sum exactly to the mix. The mix has a watermark if the operator enabled it."
                .into(),
        ],
        limits: ModelLimits::Music(MusicLimits {
            stems: Some(StemLimits {
                groups: vec![StemGroup::Vocals, StemGroup::Drums, StemGroup::Bass],
                rests: vec![StemGroup::Vocals, StemGroup::Drums, StemGroup::Bass],
                two: true,
                full: true,
                other: true,
            }),
            tasks: Vec::new(),
            personas: false,
            songs: SongLimits::DIALECT,
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
/// order of the job's outputs, with their files in `folder`, and all have the same `mark`. Blocks
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
    folder: &Path,
    watch: &EngineControl,
) -> Result<Vec<MadeClip>, EngineError> {
    // The source was within the limits when it was uploaded.
    let limits = DecodeLimits {
        max_seconds: u32::MAX,
        max_bytes: usize::MAX,
        fold_down: true,
        ..DecodeLimits::default()
    };
    let go_on = || !watch.is_stopped();
    let source_error = |error: ClipError| match error {
        ClipError::Engine(error) => error,
        ClipError::Decode(error) => EngineError::Source(error.to_string()),
    };
    let (recording, scan) = clip::open(source, &limits, &go_on).map_err(source_error)?;
    let wanted = needed_stems(job);
    let engine = match graphs {
        Some(graphs) => graphs.separator(scan.shape, &wanted),
        None => BlockSeparator::new(scan.shape, &wanted).map(|engine| Box::new(engine) as Box<_>),
    };
    let mut engine: Box<dyn SeparationEngine> = engine.map_err(engine_error)?;
    let mut desk = StemClipWriter::new(job, wanted, &scan.shape, mark, folder)?;
    let mut control = SeparationControl {
        progress: &mut |share| watch.report(share * SEPARATION),
        cancelled: &|| watch.is_stopped(),
    };
    // The callback can only ask to stop, so the error is kept here.
    let mut ended = Ok(());
    let mut take = |piece: &[Vec<f32>]| {
        desk.push_mix(piece);
        ended = engine.push(piece, &mut control, &mut |stem, piece| {
            desk.push_stem(stem, piece)
        });
        ended.is_ok()
    };
    let read = replay(&recording, &limits, &scan, &mut take);
    read.map_err(|error| EngineError::Source(error.to_string()))?;
    if ended.is_ok() {
        ended = engine.finish(&mut control, &mut |stem, piece| desk.push_stem(stem, piece));
    }
    // The engine only knows that it was stopped. This is the reason.
    if let Some(error) = desk.failed.take() {
        return Err(error);
    }
    ended.map_err(engine_error)?;
    desk.finish(watch)
}

/// Share of the progress that is separation; the rest is drawing covers.
const SEPARATION: f32 = 0.97;

fn engine_error(error: SeparateError) -> EngineError {
    match error {
        SeparateError::Cancelled => EngineError::Stopped,
        SeparateError::Model(why) => EngineError::Broken(why),
        other => EngineError::Source(other.to_string()),
    }
}

/// The stems that the engine must make for a job, each once.
fn needed_stems(job: &StemsJob) -> Vec<Stem> {
    let mut wanted = Vec::new();
    for (_, target) in &job.outputs {
        let stem = target_stem(*target);
        if !wanted.contains(&stem) {
            wanted.push(stem);
        }
    }
    wanted
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
    wanted: Vec<Stem>,
    targets: Vec<StemTarget>,
    /// Per wanted stem: its channels from the first unwritten sample on.
    stems: Vec<Vec<Vec<f32>>>,
    /// The mix, likewise.
    mix: Vec<Vec<f32>>,
    clips: Vec<ClipWriter>,
    /// One for each clip, or none at all.
    markers: Vec<SoundEmbedder>,
    failed: Option<EngineError>,
}

impl StemClipWriter {
    fn new(
        job: &StemsJob,
        wanted: Vec<Stem>,
        shape: &ClipShape,
        mark: Option<WatermarkPayload>,
        folder: &Path,
    ) -> Result<Self, EngineError> {
        let clips = job.outputs.iter().map(|(id, _)| {
            ClipWriter::new(folder, &id.to_string(), shape, CoverStyle::Spectrogram)
        });
        Ok(Self {
            targets: job.outputs.iter().map(|(_, target)| *target).collect(),
            stems: vec![vec![Vec::new(); shape.channels]; wanted.len()],
            wanted,
            mix: vec![Vec::new(); shape.channels],
            clips: clips.collect::<Result<_, _>>()?,
            markers: mark.map_or_else(Vec::new, |mark| markers(mark, shape, job.outputs.len())),
            failed: None,
        })
    }

    /// Adds samples of the mix.
    fn push_mix(&mut self, piece: &[Vec<f32>]) {
        append(&mut self.mix, piece);
    }

    /// Adds samples of a stem and writes what is complete. Returns whether to continue.
    fn push_stem(&mut self, stem: usize, piece: &[Vec<f32>]) -> bool {
        append(&mut self.stems[stem], piece);
        // Samples of the stems arrive at different times. A rest is the mix without a stem, so both
        // are needed.
        let lengths = self.stems.iter().chain([&self.mix]).map(|one| length(one));
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
        let cut = |from: &mut Vec<Vec<f32>>| -> Vec<Vec<f32>> {
            let channels = from.iter_mut();
            channels.map(|one| one.drain(..count).collect()).collect()
        };
        let mix = cut(&mut self.mix);
        let stems: Vec<Vec<Vec<f32>>> = self.stems.iter_mut().map(cut).collect();
        let mut parts = Vec::with_capacity(self.targets.len());
        for target in &self.targets {
            let made = target_stem(*target);
            let at = self.wanted.iter().position(|stem| *stem == made);
            let stem = at
                .and_then(|at| stems.get(at))
                .ok_or_else(|| EngineError::Broken(format!("{made} was not made")))?;
            parts.push(match target {
                StemTarget::Without(_) => without(&mix, stem),
                StemTarget::Only(_) | StemTarget::Other => stem.clone(),
            });
        }
        // Done last, with the same mark in each: so the sum of the parts has it too.
        for (marker, part) in self.markers.iter_mut().zip(&mut parts) {
            *part = marker.push(part);
        }
        self.keep(parts)
    }

    /// Writes these samples of every clip.
    fn keep(&mut self, mut parts: Vec<Vec<Vec<f32>>>) -> Result<(), EngineError> {
        limit_to_full_scale(&mut parts);
        for (clip, part) in self.clips.iter_mut().zip(&parts) {
            clip.push(part)?;
        }
        Ok(())
    }

    fn finish(mut self, watch: &EngineControl) -> Result<Vec<MadeClip>, EngineError> {
        // A marker holds the last samples back until it has seen what follows them.
        let last = self.markers.iter_mut().map(SoundEmbedder::finish).collect();
        self.keep(last)?;
        let is_marked = !self.markers.is_empty();
        let total = self.clips.len();
        let mut made = Vec::with_capacity(total);
        for (number, clip) in self.clips.into_iter().enumerate() {
            if watch.is_stopped() {
                return Err(EngineError::Stopped);
            }
            made.push(MadeClip {
                is_marked,
                ..clip.finish()?
            });
            watch.report(SEPARATION + (1.0 - SEPARATION) * share(number + 1, total));
        }
        Ok(made)
    }
}

/// The embedders, one for each clip; none if sound of this rate cannot have a watermark.
fn markers(mark: WatermarkPayload, shape: &ClipShape, clips: usize) -> Vec<SoundEmbedder> {
    let Some(key) = mark.key.key() else {
        return Vec::new();
    };
    let marker = || SoundEmbedder::new(&key, mark.media_id, shape.rate, shape.channels);
    let made: Result<Vec<_>, _> = (0..clips).map(|_| marker()).collect();
    made.unwrap_or_else(|error| {
        tracing::info!(%error, "cannot add a watermark to the stems");
        Vec::new()
    })
}

#[expect(clippy::cast_precision_loss, reason = "a handful of stems")]
fn share(done: usize, total: usize) -> f32 {
    done as f32 / total as f32
}

fn append(to: &mut [Vec<f32>], piece: &[Vec<f32>]) {
    for (to, piece) in to.iter_mut().zip(piece) {
        to.extend_from_slice(piece);
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
/// there is always enough; a watermark may lift its peaks above that, and the excess is cut off.
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
                let kept = sample.clamp(-1.0, 1.0);
                excess += *sample - kept;
                *sample = kept;
            }
            for part in &mut *parts {
                let sample = &mut part[channel][frame];
                let kept = (*sample + excess).clamp(-1.0, 1.0);
                excess -= kept - *sample;
                *sample = kept;
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
        let mut kept = parts.clone();
        limit_to_full_scale(&mut kept);
        for frame in 0..3 {
            let sum =
                |parts: &[Vec<Vec<f32>>]| parts.iter().map(|part| part[0][frame]).sum::<f32>();
            assert!((sum(&parts) - sum(&kept)).abs() < 1e-6);
        }
        assert!(kept.iter().flatten().flatten().all(|x| x.abs() <= 1.0));
        assert!((kept[2][0][1] - 0.1).abs() < 1e-9);
    }
}
