//! `stems-dsp-1`: the embedded stem model, on the `stems` crate; and separation
//! by it or by a model of the operator.

use std::sync::Arc;

use bytes::Bytes;
use providers::{Handover, Limits, MusicLimits, StemLimits};
use stems::{Audio, Control, DecodeLimits, SeparateError, Stem, onnx};

use crate::engines::{EngineError, Watch};
use crate::model::catalog::{Maker, Model};
use crate::model::music::StemGroup;
use crate::model::task::{StemTarget, StemsJob};

/// Covers' sides in pixels: `image_url` and `image_large_url`.
pub const COVER_SIDES: (u32, u32) = (512, 1024);

/// What it is and can do.
pub fn model() -> Model {
    Model {
        id: "stems-dsp-1".into(),
        aliases: vec!["chirp-*".into()],
        summary: "Separates a song into vocals, drums, bass and the rest, by signal processing."
            .into(),
        notes: vec![
            "Runs inside this gateway: nothing leaves the machine.".into(),
            "Made without anyone's pretrained weights: expect audible bleed between stems.".into(),
            "The stems always sum to the mix exactly.".into(),
        ],
        limits: Limits::Music(MusicLimits {
            stems: Some(StemLimits {
                groups: vec![StemGroup::Vocals, StemGroup::Drums, StemGroup::Bass],
                rests: vec![StemGroup::Vocals, StemGroup::Drums, StemGroup::Bass],
                two: true,
                full: true,
                other: true,
                handover: Handover::Any,
            }),
            tasks: Vec::new(),
            personas: false,
        }),
        price: None,
        maker: Maker::Embedded {
            version: env!("CARGO_PKG_VERSION").into(),
        },
    }
}

/// The engines' name for a group.
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

/// A recording in the form in which it is kept.
pub struct MadeClip {
    /// 24-bit FLAC.
    pub flac: Bytes,
    /// Cover, small, PNG.
    pub cover: Bytes,
    /// Cover, large, PNG.
    pub cover_large: Bytes,
    /// Measured length in milliseconds.
    pub milliseconds: u64,
}

/// Separates a recording by the embedded model, or by `graphs` of the operator;
/// the clips are in the order of the job's outputs. Blocks until it is done or
/// stopped.
pub fn separate(
    job: &StemsJob,
    graphs: Option<&Arc<onnx::Model>>,
    source: &[u8],
    watch: &Watch,
) -> Result<Vec<MadeClip>, EngineError> {
    // The source was within the limits when it was uploaded.
    let limits = DecodeLimits {
        max_seconds: u32::MAX,
        max_bytes: usize::MAX,
        ..DecodeLimits::default()
    };
    let mix = stems::decode(source, &limits)
        .map_err(|error| EngineError::Source(error.to_string()))?
        .audio;
    let parts = take_apart(job, graphs, &mix, watch)?;
    let total = parts.len();
    let mut clips = Vec::with_capacity(total);
    for (number, ((id, _), audio)) in job.outputs.iter().zip(parts).enumerate() {
        if watch.is_stopped() {
            return Err(EngineError::Stopped);
        }
        clips.push(finish(&id.to_string(), &audio, Picture::Spectrogram)?);
        watch.report(SEPARATION + (1.0 - SEPARATION) * share(number + 1, total));
    }
    Ok(clips)
}

/// Puts an uploaded recording into the form in which clips are kept. Blocks.
pub fn ingest(id: &str, audio: &Audio) -> Result<MadeClip, EngineError> {
    finish(id, audio, Picture::Waveform)
}

/// Puts a stem that a hosted provider made into the form in which clips are
/// kept. Blocks.
pub fn stem_clip(id: &str, audio: &Audio) -> Result<MadeClip, EngineError> {
    finish(id, audio, Picture::Spectrogram)
}

/// The share of a job's time that goes into separating; the rest encodes.
const SEPARATION: f32 = 0.85;

#[expect(clippy::cast_precision_loss, reason = "a handful of stems")]
fn share(done: usize, total: usize) -> f32 {
    done as f32 / total as f32
}

/// The recordings of the job's outputs. They sum to the mix: what is left is
/// always what the others leave.
fn take_apart(
    job: &StemsJob,
    graphs: Option<&Arc<onnx::Model>>,
    mix: &Audio,
    watch: &Watch,
) -> Result<Vec<Audio>, EngineError> {
    let mut wanted = Vec::new();
    for (_, target) in &job.outputs {
        let stem = match target {
            StemTarget::Only(group) | StemTarget::Without(group) => stem(*group),
            StemTarget::Other => Stem::Other,
        };
        if !wanted.contains(&stem) {
            wanted.push(stem);
        }
    }
    let control = Control {
        progress: &mut |share| watch.report(share * SEPARATION),
        cancelled: &|| watch.is_stopped(),
    };
    let made = match graphs {
        None => stems::separate(mix, &wanted, control),
        Some(graphs) => graphs.separate(mix, &wanted, control),
    };
    let made = made.map_err(|error| match error {
        SeparateError::Cancelled => EngineError::Stopped,
        SeparateError::Model(why) => EngineError::Broken(why),
        other => EngineError::Source(other.to_string()),
    })?;
    let find = |stem: Stem| {
        made.iter()
            .find(|(made, _)| *made == stem)
            .map(|(_, audio)| audio)
            .ok_or_else(|| EngineError::Broken(format!("{stem} was not made")))
    };
    let mut parts = Vec::new();
    for (_, target) in &job.outputs {
        parts.push(match target {
            StemTarget::Only(group) => find(stem(*group))?.clone(),
            StemTarget::Without(group) => stems::rest(mix, find(stem(*group))?),
            StemTarget::Other => find(Stem::Other)?.clone(),
        });
    }
    Ok(within_full_scale(parts))
}

/// Keeps every sample within full scale, which FLAC cannot exceed, without
/// changing the sum: what one part has too much of goes to the parts that have
/// room. The mix itself is within full scale, so there is always room.
fn within_full_scale(parts: Vec<Audio>) -> Vec<Audio> {
    if parts.iter().all(|part| part.peak() <= 1.0) {
        return parts;
    }
    let rate = parts.first().map_or(1, Audio::rate);
    let mut planes: Vec<Vec<Vec<f32>>> =
        parts.iter().map(|part| part.channels().to_vec()).collect();
    let frames = parts.first().map_or(0, Audio::frames);
    for channel in 0..planes.first().map_or(0, Vec::len) {
        for frame in 0..frames {
            let mut excess = 0.0;
            for plane in &mut planes {
                let sample = &mut plane[channel][frame];
                let kept = sample.clamp(-1.0, 1.0);
                excess += *sample - kept;
                *sample = kept;
            }
            for plane in &mut planes {
                let sample = &mut plane[channel][frame];
                let kept = (*sample + excess).clamp(-1.0, 1.0);
                excess -= kept - *sample;
                *sample = kept;
            }
        }
    }
    let rebuilt: Result<Vec<Audio>, _> = planes
        .into_iter()
        .map(|plane| Audio::new(rate, plane))
        .collect();
    // The shapes are those that came in.
    rebuilt.unwrap_or(parts)
}

#[derive(Clone, Copy)]
enum Picture {
    Waveform,
    Spectrogram,
}

fn finish(id: &str, audio: &Audio, picture: Picture) -> Result<MadeClip, EngineError> {
    let broken = |error: &dyn std::fmt::Display| EngineError::Broken(error.to_string());
    let draw = |side| match picture {
        Picture::Waveform => artwork::waveform_cover(id, audio.channels(), side),
        Picture::Spectrogram => {
            artwork::spectrogram_cover(id, audio.channels(), audio.rate(), side)
        }
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a recording's length is small"
    )]
    let milliseconds = (audio.seconds() * 1000.0).round() as u64;
    Ok(MadeClip {
        flac: stems::encode::flac24(audio)
            .map_err(|error| broken(&error))?
            .into(),
        cover: draw(COVER_SIDES.0).map_err(|error| broken(&error))?.into(),
        cover_large: draw(COVER_SIDES.1).map_err(|error| broken(&error))?.into(),
        milliseconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_within_full_scale_and_keep_their_sum() {
        let part = |samples: &[f32]| Audio::new(44_100, vec![samples.to_vec()]).unwrap();
        let parts = vec![
            part(&[1.4, 0.2, -0.3]),
            part(&[-0.6, 0.3, -1.2]),
            part(&[0.1, 0.1, 0.9]),
        ];
        let kept = within_full_scale(parts.clone());
        for frame in 0..3 {
            let sum = |parts: &[Audio]| {
                parts
                    .iter()
                    .map(|part| part.channels()[0][frame])
                    .sum::<f32>()
            };
            assert!((sum(&parts) - sum(&kept)).abs() < 1e-6);
        }
        assert!(kept.iter().all(|part| part.peak() <= 1.0));
        assert!((kept[2].channels()[0][1] - 0.1).abs() < 1e-9);
    }
}
