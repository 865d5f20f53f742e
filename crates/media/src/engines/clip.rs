//! Conversion of recordings to clips: 24-bit FLAC in a file, and two covers.
//!
//! Works block by block, so that memory does not grow with the recording's length.

use std::fs::File;
use std::io::{BufWriter, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use artwork::{SpectrogramSketch, WaveformSketch};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use stems::decode::{AudioScan, Recording, replay, scan_while};
use stems::encode::FlacWriter;
use stems::{ClipShape, DecodeError, DecodeLimits};
use tempfile::TempPath;

use crate::engines::EngineError;
use crate::engines::fingerprints::FingerprintRecorder;
use mediagate_model::music::{RecordingNotes, SilentSpan};
use mediagate_model::provenance::PerceptualFingerprint;

/// Cover sizes in pixels: `image_url` and `image_large_url`.
pub const COVER_SIDES: (u32, u32) = (512, 1024);

/// Maximum memory needed to decode and encode a recording, besides its own bytes. Those are also in
/// memory for formats whose tables are searched.
pub const KEEPING_BYTES: u64 = 48 << 20;

/// A recording as stored.
pub struct MadeClip {
    /// 24-bit FLAC, in a file that is removed on drop.
    pub flac: TempPath,
    /// Of the FLAC file.
    pub size_bytes: u64,
    /// Of the FLAC file, in lower-case hex.
    pub sha256: String,
    /// PNG.
    pub cover: Bytes,
    /// PNG.
    pub cover_large: Bytes,
    /// Measured length.
    pub milliseconds: u64,
    /// The fingerprint by which it is recognised.
    pub fingerprint: PerceptualFingerprint,
    /// Whether it has the requested watermark.
    pub is_marked: bool,
    /// How it differs from the file that was read.
    pub notes: Option<RecordingNotes>,
}

/// The rest of a clip whose FLAC file has been written.
pub struct EncodedClip {
    /// PNG.
    pub cover: Bytes,
    /// PNG.
    pub cover_large: Bytes,
    /// Measured length.
    pub milliseconds: u64,
    /// The fingerprint by which it is recognised.
    pub fingerprint: PerceptualFingerprint,
    /// Whether it has the requested watermark.
    pub is_marked: bool,
    /// How it differs from the file that was read.
    pub notes: Option<RecordingNotes>,
}

/// The picture on a clip's cover.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum CoverStyle {
    /// Loudness, for songs.
    Waveform,
    /// Frequencies, for stems.
    Spectrogram,
}

/// Why a recording cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct UnreadableRecording {
    pub is_too_long: bool,
    /// The message for the task's owner.
    pub message: String,
}

impl From<DecodeError> for UnreadableRecording {
    fn from(error: DecodeError) -> Self {
        Self {
            is_too_long: matches!(error, DecodeError::TooLong { .. }),
            message: error.to_string(),
        }
    }
}

impl From<DecodeError> for ClipError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error.into())
    }
}

/// Why a recording cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum ClipError {
    /// It cannot be read.
    #[error(transparent)]
    Decode(#[from] UnreadableRecording),
    /// It cannot be written.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Converts a recording to a clip, whose samples go into the empty file `flac`. Blocks until it is
/// done or until `is_running` returns false.
pub fn convert_recording(
    id: &str,
    file: &Path,
    limits: &DecodeLimits,
    cover_style: CoverStyle,
    flac: File,
    is_running: &dyn Fn() -> bool,
) -> Result<EncodedClip, ClipError> {
    let (recording, scan) = open(file, limits, is_running)?;
    let mut writer = ClipWriter::new(flac, id, &scan.shape, cover_style)?;
    // The callback can only ask to stop, so the error is kept here.
    let mut written = Ok(());
    let gain = 1.0 / scan.shape.peak.max(1.0);
    replay(&recording, limits, &scan, &mut |samples| {
        // Scaled as a whole: cut off at full scale, it would be distorted.
        written = if gain < 1.0 {
            let quieter: Vec<Vec<f32>> = samples
                .iter()
                .map(|channel| channel.iter().map(|x| x * gain).collect())
                .collect();
            writer.push(&quieter)
        } else {
            writer.push(samples)
        };
        written.is_ok() && is_running()
    })?;
    written?;
    if !is_running() {
        return Err(EngineError::Stopped.into());
    }
    Ok(EncodedClip {
        notes: notes(&scan),
        ..writer.finish()?
    })
}

/// How the stored recording differs from the file.
fn notes(scan: &AudioScan) -> Option<RecordingNotes> {
    let peak = f64::from(scan.shape.peak);
    let damage = scan.damage.iter().map(|span| SilentSpan {
        start_s: thousandths(span.start),
        end_s: thousandths(span.end),
    });
    let notes = RecordingNotes {
        gain_db: (peak > 1.0).then(|| thousandths(-20.0 * peak.log10())),
        damage: damage.collect(),
    };
    notes.if_any()
}

fn thousandths(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

/// Like [`convert_recording`], for the sum of several recordings, within full scale; `None` if
/// their rates or channels differ. Keeps the sum in memory.
pub fn sum(
    id: &str,
    files: &[PathBuf],
    limits: &DecodeLimits,
    cover_style: CoverStyle,
    flac: File,
    is_running: &dyn Fn() -> bool,
) -> Result<Option<EncodedClip>, ClipError> {
    let mut total: Option<(ClipShape, Vec<Vec<f32>>)> = None;
    for file in files {
        let (recording, scan) = open(file, limits, is_running)?;
        let shape = scan.shape;
        let (first, sum) = total.get_or_insert((shape, vec![Vec::new(); shape.channels]));
        if (first.rate, first.channels) != (shape.rate, shape.channels) {
            return Ok(None);
        }
        let longest = sum[0].len().max(shape.frames);
        for channel in &mut *sum {
            channel.resize(longest, 0.0);
        }
        let mut offset = 0;
        replay(&recording, limits, &scan, &mut |samples| {
            for (sum, channel) in sum.iter_mut().zip(samples) {
                sum[offset..]
                    .iter_mut()
                    .zip(channel)
                    .for_each(|(x, y)| *x += y);
            }
            offset += samples.first().map_or(0, Vec::len);
            is_running()
        })?;
    }
    let Some((shape, mut sum)) = total else {
        return Ok(None);
    };
    if !is_running() {
        return Err(EngineError::Stopped.into());
    }
    // A sum may exceed full scale, which FLAC cannot represent.
    for sample in sum.iter_mut().flatten() {
        *sample = sample.clamp(-1.0, 1.0);
    }
    let frames = sum[0].len();
    let mut writer = ClipWriter::new(flac, id, &ClipShape { frames, ..shape }, cover_style)?;
    writer.push(&sum)?;
    Ok(Some(writer.finish()?))
}

/// Opens a recording, and reads it once to learn its shape.
pub fn open(
    file: &Path,
    limits: &DecodeLimits,
    is_running: &dyn Fn() -> bool,
) -> Result<(Recording, AudioScan), ClipError> {
    let recording = Recording::open(file).map_err(engine_failure)?;
    let scan = scan_while(&recording, limits, is_running)?;
    let scan = scan.ok_or(EngineError::Stopped)?;
    Ok((recording, scan))
}

/// Writes a clip as its samples arrive.
pub struct ClipWriter {
    flac: FlacWriter<BufWriter<File>>,
    sketch: CoverSketch,
    fingerprint_recorder: FingerprintRecorder,
    milliseconds: u64,
}

enum CoverSketch {
    Waveform(WaveformSketch),
    Spectrogram(Box<SpectrogramSketch>),
}

impl ClipWriter {
    /// Starts a clip of this shape in an empty file.
    pub fn new(
        flac: File,
        id: &str,
        shape: &ClipShape,
        cover_style: CoverStyle,
    ) -> Result<Self, EngineError> {
        let file = BufWriter::with_capacity(256 * 1024, flac);
        Ok(Self {
            flac: FlacWriter::new(file, shape.rate, shape.channels).map_err(engine_failure)?,
            sketch: match cover_style {
                CoverStyle::Waveform => {
                    CoverSketch::Waveform(WaveformSketch::new(id, shape.frames))
                }
                CoverStyle::Spectrogram => {
                    let sketch = SpectrogramSketch::new(id, shape.frames, shape.rate);
                    CoverSketch::Spectrogram(Box::new(sketch))
                }
            },
            fingerprint_recorder: FingerprintRecorder::new(shape.rate),
            milliseconds: milliseconds(shape),
        })
    }

    /// Adds the next samples of every channel.
    pub fn push(&mut self, samples: &[Vec<f32>]) -> Result<(), EngineError> {
        self.fingerprint_recorder.push(samples);
        match &mut self.sketch {
            CoverSketch::Waveform(sketch) => sketch.push(samples),
            CoverSketch::Spectrogram(sketch) => sketch.push(samples),
        }
        self.flac.push(samples).map_err(engine_failure)
    }

    /// Finishes the file and draws the covers.
    pub fn finish(mut self) -> Result<EncodedClip, EngineError> {
        self.flac.finish().map_err(engine_failure)?;
        let mut draw = |side| match &mut self.sketch {
            CoverSketch::Waveform(sketch) => sketch.draw_cover(side),
            CoverSketch::Spectrogram(sketch) => sketch.draw_cover(side),
        };
        let (cover, cover_large) = (draw(COVER_SIDES.0), draw(COVER_SIDES.1));
        Ok(EncodedClip {
            cover: cover.map_err(engine_failure)?.into(),
            cover_large: cover_large.map_err(engine_failure)?.into(),
            milliseconds: self.milliseconds,
            fingerprint: self.fingerprint_recorder.stored_fingerprint(),
            is_marked: false,
            notes: None,
        })
    }
}

fn milliseconds(shape: &ClipShape) -> u64 {
    let (frames, rate) = (shape.frames as u64, u64::from(shape.rate.max(1)));
    (frames * 1000 + rate / 2) / rate
}

/// The size of a file and its SHA-256.
pub fn digest(path: &Path) -> std::io::Result<(u64, String)> {
    digest_file(&File::open(path)?)
}

/// Like [`digest`], for an open file.
pub(super) fn digest_file(mut file: &File) -> std::io::Result<(u64, String)> {
    file.rewind()?;
    let (mut size, mut digest) = (0, Sha256::new());
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((size, hex(&digest.finalize()))),
            read => {
                digest.update(&buffer[..read]);
                size += read as u64;
            }
        }
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

pub(super) fn engine_failure(error: impl std::fmt::Display) -> EngineError {
    EngineError::Broken(error.to_string())
}
