//! The stream decoder: packets of one sound track to planar samples. It checks every limit as
//! samples arrive, and puts silence where packets are missing or damaged.

use std::io;

use symphonia::core::codecs::audio::AudioCodecParameters;
use symphonia::core::codecs::audio::well_known::{
    CODEC_ID_AAC, CODEC_ID_PCM_F32BE, CODEC_ID_PCM_F32LE, CODEC_ID_PCM_F64BE, CODEC_ID_PCM_F64LE,
};
use symphonia::core::errors::Error;
use symphonia::core::io::MediaSource;
use symphonia::core::packet::Packet;

use super::decoded_packet::DecodedPacket;
use super::error::{DecodeError, DecodeLimits};
use super::format::AudioFormat;
use super::mpeg_frames::StatedLength;
use super::packets::{self, PacketDecoder, PacketSource, TrackFacts};
use super::packets::{damaged_file, decode_error};
use super::timeline::{DamagedSpan, Precision, Timeline};
use super::wav::{self, MendedWav, WavContent};
use super::{aiff, flac_frames, foreign, format_detection, mp4, stripped_media};
use crate::engine::to_stereo;

/// Receives a packet's samples, by channel; `false` ends the decoding.
pub(super) type SampleSink<'a> = dyn FnMut(&[Vec<f32>]) -> bool + 'a;

/// Totals of a decoded file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StreamTotals {
    pub(super) rate: u32,
    /// The recording's part of the decoded samples; the rest is encoder padding.
    pub(super) span: std::ops::Range<usize>,
    /// What could not be read.
    pub(super) damage: Vec<DamagedSpan>,
}

/// A sound file whose kind is known.
pub(super) struct OpenAudio<'a> {
    pub(super) format: AudioFormat,
    /// Its bytes without tags.
    pub(super) media: Box<dyn MediaSource + 'a>,
    /// The whole file, if it is MPEG-4.
    pub(super) mp4: Option<&'a [u8]>,
    /// The codec of a Matroska file, if no decoder here knows it.
    pub(super) codec_name: Option<&'static str>,
}

/// A file held in memory, opened.
pub(super) fn in_memory(bytes: &[u8]) -> Result<OpenAudio<'_>, DecodeError> {
    let detected = format_detection::detect(bytes)?;
    let head = &detected.body[..detected.body.len().min(64 * 1024)];
    Ok(OpenAudio {
        format: detected.format,
        media: Box::new(std::io::Cursor::new(detected.body)),
        mp4: (detected.format == AudioFormat::M4a).then_some(detected.body),
        codec_name: (detected.format == AudioFormat::Matroska)
            .then(|| foreign::matroska_codec(head))
            .flatten(),
    })
}

/// Decodes the first sound track of a file.
pub(super) fn read(
    opened: OpenAudio<'_>,
    limits: &DecodeLimits,
    sink: &mut SampleSink<'_>,
) -> Result<StreamTotals, DecodeError> {
    let mp4 = opened.mp4;
    let unsupported = |content: &str| DecodeError::Unsupported {
        content: content.to_owned(),
    };
    // Checked first: the reader would only report a codec that it does not know.
    if mp4.is_some_and(mp4::is_encrypted) {
        return Err(unsupported("encrypted audio"));
    }
    if let Some(content) = mp4.and_then(mp4::unsupported_codec) {
        return Err(DecodeError::Unsupported { content });
    }
    if let Some(name) = opened.codec_name {
        return Err(unsupported(name));
    }
    let (format, media, is_cut) = mend(opened)?;
    let media = stripped_media::strip(format, media, mp4)?;
    let (source, facts) = packets::open(format, media)?;
    if format == AudioFormat::Matroska {
        let config = facts.parameters.extra_data.as_deref().unwrap_or(&[]);
        let is_aac = facts.parameters.codec == CODEC_ID_AAC;
        if let Some(content) = mp4::unsupported_aac(config).filter(|_| is_aac) {
            return Err(DecodeError::Unsupported { content });
        }
    }
    let mut reading = TrackReading::new(format, source, facts, limits, sink)?;
    reading.read_packets()?;
    reading.finish(mp4, is_cut)
}

/// Mends the header of a WAV or AIFF file; other formats stay as they are. Also returns
/// whether a header states sound that the file does not contain.
fn mend(
    opened: OpenAudio<'_>,
) -> Result<(AudioFormat, Box<dyn MediaSource + '_>, bool), DecodeError> {
    let OpenAudio { format, media, .. } = opened;
    let failed = |error: io::Error| stripped_media::read_error(format, &error);
    let mended = match format {
        AudioFormat::Wav => wav::mend(media).map_err(failed)?,
        AudioFormat::Aiff => {
            let (media, is_cut) = aiff::mend(media).map_err(failed)?;
            return Ok((format, media, is_cut));
        }
        _ => return Ok((format, media, false)),
    };
    let MendedWav { content, is_cut } = mended;
    match content {
        WavContent::Samples(media) => Ok((format, media, is_cut)),
        WavContent::Mpeg(media) => Ok((AudioFormat::Mp3, media, false)),
        WavContent::Other(content) => Err(DecodeError::Unsupported { content }),
    }
}

/// The state of reading a track.
struct TrackReading<'a, 'b, 'c> {
    format: AudioFormat,
    source: PacketSource<'a>,
    facts: TrackFacts,
    decoder: PacketDecoder,
    samples: SampleCollector<'b, 'c>,
    packets: PacketCounts,
    timeline: Timeline,
    planes: Vec<Vec<f32>>,
    /// Missing samples before the first ones that were decoded.
    pending: u64,
}

impl<'a, 'b, 'c> TrackReading<'a, 'b, 'c> {
    fn new(
        format: AudioFormat,
        source: PacketSource<'a>,
        facts: TrackFacts,
        limits: &'b DecodeLimits,
        sink: &'b mut SampleSink<'c>,
    ) -> Result<Self, DecodeError> {
        let (precision, origin) = match &source {
            // A stream that does not state its length may have been cut out of a longer one.
            PacketSource::Flac(frames) => (Precision::Exact, frames.stated().map(|_| 0)),
            PacketSource::Mpeg(_) => (Precision::Rounded, Some(0)),
            PacketSource::Container(_) => (Precision::Rounded, None),
        };
        Ok(Self {
            format,
            decoder: PacketDecoder::new(format, &facts.parameters)?,
            samples: SampleCollector::new(limits, sink, may_exceed(&facts.parameters)),
            source,
            facts,
            packets: PacketCounts::default(),
            timeline: Timeline::new(precision, origin),
            planes: Vec::new(),
            pending: 0,
        })
    }

    fn read_packets(&mut self) -> Result<(), DecodeError> {
        loop {
            match self.source.next_packet() {
                Ok(Some(packet)) if packet.track_id != self.facts.id => {
                    self.packets.count_skipped()?;
                }
                Ok(Some(packet)) => self.add(&packet)?,
                Ok(None) => break,
                Err(Error::ResetRequired) => self.continue_with_next_track()?,
                Err(error) => {
                    if let Error::IoError(io) = &error
                        && io.to_string() == flac_frames::OTHER_SHAPE
                    {
                        return Err(damaged_file(self.format, flac_frames::OTHER_SHAPE));
                    }
                    self.packets.set_fault(error);
                    self.timeline.end_early();
                    break;
                }
            }
            if self.packets.is_hopeless() || self.samples.stopped_by_sink {
                break;
            }
        }
        Ok(())
    }

    /// A second recording in the same file is appended to the first if it has the same shape.
    fn continue_with_next_track(&mut self) -> Result<(), DecodeError> {
        let track = self.source.next_track().ok_or(DecodeError::NoAudio)?;
        self.facts = packets::track_facts(self.format, track)?;
        self.decoder = PacketDecoder::new(self.format, &self.facts.parameters)?;
        self.timeline.restart();
        Ok(())
    }

    fn add(&mut self, packet: &Packet) -> Result<(), DecodeError> {
        let start = self.facts.samples(packet.pts.get());
        let units = packet.block_dur().get();
        let length = self.facts.samples(i64::try_from(units).unwrap_or(i64::MAX));
        let length = u64::try_from(length).unwrap_or(0);
        let gap = self.timeline.place(start, length);
        self.add_silence(gap)?;
        match self.decoder.decode(packet, &mut self.planes) {
            Ok(decoded) if decoded.frames > 0 => {
                if length == 0 {
                    self.timeline.extend(decoded.block as u64);
                }
                if self.samples.is_noise(&self.planes) {
                    self.packets.count_failed(Error::DecodeError(NOISE));
                    return self.add_silence(decoded.frames as u64);
                }
                self.packets.good += 1;
                self.packets.bad_run = 0;
                self.samples.start_with(&decoded, self.planes.len())?;
                let pending = std::mem::take(&mut self.pending);
                self.add_silence(pending)?;
                self.samples.append(&mut self.planes)
            }
            // Encoder delay removed all of this packet's samples; that is normal.
            Ok(_) if packet.trim_start.get() > 0 || packet.trim_end.get() > 0 => Ok(()),
            Ok(_) => {
                self.packets.empty += 1;
                Ok(())
            }
            Err(error) => {
                self.packets.count_failed(error);
                let valid = self
                    .facts
                    .samples(i64::try_from(packet.dur.get()).unwrap_or(0));
                self.add_silence(u64::try_from(valid).unwrap_or(0))
            }
        }
    }

    fn add_silence(&mut self, count: u64) -> Result<(), DecodeError> {
        if count == 0 {
            return Ok(());
        }
        if self.samples.channels == 0 {
            self.pending = self.pending.saturating_add(count);
            return Ok(());
        }
        self.samples.check_room(count)?;
        self.timeline.add_hole(self.samples.frames as u64, count);
        self.samples.append_silence(count)
    }

    fn finish(self, mp4: Option<&[u8]>, is_cut: bool) -> Result<StreamTotals, DecodeError> {
        let Self {
            format,
            source,
            facts,
            samples,
            packets,
            mut timeline,
            ..
        } = self;
        packets.check(format, samples.frames)?;
        let frames = samples.frames;
        // Lengths of wholes are rounded, and some include a part of a packet that is padding.
        let tolerance = i64::from(samples.rate) * 3 / 100;
        let is_short = facts
            .end
            .is_some_and(|end| timeline.ends_before(end.saturating_sub(tolerance)));
        if is_cut || source.is_cut() || is_short {
            timeline.end_early();
        }
        let part = match mp4 {
            Some(file) => mp4::span(file, samples.rate),
            None => facts.tag.map(|tag| tagged_span(tag, frames as u64)),
        };
        let span = recording_span(frames, part);
        if samples.stopped_by_sink {
            let rate = samples.rate;
            let damage = Vec::new();
            return Ok(StreamTotals { rate, span, damage });
        }
        let stated = match (source.stated(), mp4) {
            (Some(stated), _) => Some(stated),
            // Of an MPEG-4 file the samples count, with what the encoder put before and after them.
            (None, Some(_)) => facts.stated.map(|stated| {
                let trimmed = (frames - span.len()) as u64;
                stated
                    .saturating_sub(trimmed)
                    .min(part.and_then(|part| part.length).unwrap_or(u64::MAX))
            }),
            (None, None) => facts.stated,
        };
        let damage = timeline.judge(format, samples.rate, &span, stated)?;
        Ok(StreamTotals {
            rate: samples.rate,
            span,
            damage,
        })
    }
}

/// The recording's part of `frames` samples, after the encoder's delay. The tag describes only the
/// first of several files in a row, so the end is cut off only if it is no more than padding.
fn tagged_span(tag: StatedLength, frames: u64) -> mp4::SampleSpan {
    let excess = frames.saturating_sub(tag.delay + tag.length);
    mp4::SampleSpan {
        start: tag.delay,
        length: (excess <= tag.padding).then_some(tag.length),
    }
}

/// Whether samples beyond full scale are part of the format.
fn may_exceed(parameters: &AudioCodecParameters) -> bool {
    [
        CODEC_ID_PCM_F32LE,
        CODEC_ID_PCM_F32BE,
        CODEC_ID_PCM_F64LE,
        CODEC_ID_PCM_F64BE,
    ]
    .contains(&parameters.codec)
}

/// The fault of packets that decode to values that no encoder was given.
const NOISE: &str = "a part of it decodes to noise";

/// Decoders of lossy formats overshoot full scale a little. What is beyond this is an error.
const LOUDEST: f32 = 4.0;

/// Counts of good and bad packets.
#[derive(Default)]
struct PacketCounts {
    good: usize,
    bad_run: usize,
    empty: usize,
    other_tracks: usize,
    fault: Option<Error>,
}

impl PacketCounts {
    fn count_failed(&mut self, error: Error) {
        self.bad_run += 1;
        self.fault.get_or_insert(error);
    }

    fn set_fault(&mut self, error: Error) {
        self.fault.get_or_insert(error);
    }

    /// Packets of other tracks cost time for nothing, so their number is limited too.
    fn count_skipped(&mut self) -> Result<(), DecodeError> {
        self.other_tracks += 1;
        if self.other_tracks > MAX_OTHER_PACKETS {
            return Err(DecodeError::NoAudio);
        }
        Ok(())
    }

    /// Tables in a small file can announce billions of empty packets.
    fn is_hopeless(&self) -> bool {
        self.bad_run > MAX_BAD_RUN || self.empty > MAX_EMPTY
    }

    fn check(self, format: AudioFormat, frames: usize) -> Result<(), DecodeError> {
        let is_hopeless = self.bad_run > MAX_BAD_RUN;
        match self.fault {
            Some(error) if frames == 0 || is_hopeless => Err(match decode_error(format, &error) {
                // The decoder was set up, so this is one bad packet rather than an unsupported
                // kind.
                DecodeError::Unsupported { .. } if self.good > 0 => {
                    damaged_file(format, "its contents change on the way")
                }
                other => other,
            }),
            None if frames == 0 => Err(DecodeError::NoAudio),
            _ => Ok(()),
        }
    }
}

const MAX_BAD_RUN: usize = 256;
const MAX_EMPTY: usize = 4_096;
const MAX_OTHER_PACKETS: usize = 1_000_000;

/// Lower rates are errors in a header.
const MIN_RATE: u32 = 1_000;

/// The samples so far: counted, checked and passed on.
struct SampleCollector<'a, 'b> {
    limits: &'a DecodeLimits,
    sink: &'a mut SampleSink<'b>,
    may_exceed: bool,
    rate: u32,
    channels: usize,
    frames: usize,
    stopped_by_sink: bool,
}

impl<'a, 'b> SampleCollector<'a, 'b> {
    fn new(limits: &'a DecodeLimits, sink: &'a mut SampleSink<'b>, may_exceed: bool) -> Self {
        Self {
            limits,
            sink,
            may_exceed,
            rate: 0,
            channels: 0,
            frames: 0,
            stopped_by_sink: false,
        }
    }

    /// Whether a decoder produced values that the format cannot hold.
    fn is_noise(&self, planes: &[Vec<f32>]) -> bool {
        !self.may_exceed && planes.iter().flatten().any(|x| x.abs() > LOUDEST)
    }

    /// Checks a packet's shape: the first one decides it.
    fn start_with(&mut self, packet: &DecodedPacket, count: usize) -> Result<(), DecodeError> {
        if self.channels == 0 {
            self.start(packet.rate, count)?;
        }
        if packet.rate != self.rate || count != self.channels {
            let content = "a sample rate or channel count that changes on the way".to_owned();
            return Err(DecodeError::Unsupported { content });
        }
        self.check_room(packet.frames as u64)
    }

    /// Whether more samples are within the limits. No memory is ever reserved because a header says
    /// so.
    fn check_room(&self, count: u64) -> Result<(), DecodeError> {
        let frames = (self.frames as u64).saturating_add(count);
        if frames > u64::from(self.limits.max_seconds) * u64::from(self.rate) {
            return Err(DecodeError::TooLong {
                limit_seconds: self.limits.max_seconds,
            });
        }
        if frames.saturating_mul(4 * self.channels as u64) > self.limits.max_bytes as u64 {
            return Err(DecodeError::TooLarge {
                limit_bytes: self.limits.max_bytes,
            });
        }
        Ok(())
    }

    fn append(&mut self, planes: &mut Vec<Vec<f32>>) -> Result<(), DecodeError> {
        let count = planes.first().map_or(0, Vec::len);
        self.check_room(count as u64)?;
        self.frames += count;
        // Float files may contain NaN, which would spoil every sum.
        for x in planes.iter_mut().flatten() {
            *x = if x.is_finite() { *x } else { 0.0 };
        }
        if self.limits.fold_down && self.channels > 2 {
            *planes = to_stereo(planes);
        }
        self.stopped_by_sink = !(self.sink)(planes);
        Ok(())
    }

    fn append_silence(&mut self, count: u64) -> Result<(), DecodeError> {
        const PIECE: u64 = 4_096;
        let mut rest = count;
        while rest > 0 && !self.stopped_by_sink {
            let piece = rest.min(PIECE);
            let length = usize::try_from(piece).unwrap_or(0);
            self.append(&mut vec![vec![0.0; length]; self.channels])?;
            rest -= piece;
        }
        Ok(())
    }

    fn start(&mut self, rate: u32, count: usize) -> Result<(), DecodeError> {
        if count == 0 {
            return Err(DecodeError::NoAudio);
        }
        if count > self.limits.max_channels {
            let limit = self.limits.max_channels;
            return Err(DecodeError::TooManyChannels {
                channels: count,
                limit,
            });
        }
        if !(MIN_RATE..=self.limits.max_rate).contains(&rate) {
            return Err(DecodeError::Unsupported {
                content: format!("a sample rate of {rate} Hz"),
            });
        }
        self.rate = rate;
        self.channels = count;
        Ok(())
    }
}

/// The part of `frames` that is the recording according to the file. A span outside the sound is an
/// error of the file and is ignored.
fn recording_span(frames: usize, span: Option<mp4::SampleSpan>) -> std::ops::Range<usize> {
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let Some(span) = span else {
        return 0..frames;
    };
    let start = size(span.start).min(frames);
    let length = span.length.map_or(usize::MAX, size);
    let end = start.saturating_add(length).min(frames);
    if start < end { start..end } else { 0..frames }
}
