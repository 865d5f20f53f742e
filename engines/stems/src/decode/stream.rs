//! The stream decoder: packets of one sound track to planar samples. It checks every limit as
//! samples arrive.

use symphonia::core::audio::GenericAudioBufferRef;
use symphonia::core::codecs::CodecParameters;
use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error;
use symphonia::core::formats::{FormatOptions, FormatReader, Track, TrackType};
use symphonia::core::io::{MediaSource, MediaSourceStream, MediaSourceStreamOptions};
use symphonia::core::units::Duration;
use symphonia::default::{formats, get_codecs};

use super::error::{DecodeError, DecodeLimits};
use super::format::AudioFormat;
use super::{format_detection, mp4, stripped_media};
use crate::engine::to_stereo;

/// Receives a packet's samples, by channel; `false` ends the decoding.
pub(super) type SampleSink<'a> = dyn FnMut(&[Vec<f32>]) -> bool + 'a;

/// Totals of a decoded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StreamTotals {
    pub(super) rate: u32,
    /// The recording's part of the decoded samples; the rest is encoder padding.
    pub(super) span: std::ops::Range<usize>,
}

/// A sound file whose kind is known.
pub(super) struct OpenAudio<'a> {
    pub(super) format: AudioFormat,
    /// Its bytes without tags.
    pub(super) media: Box<dyn MediaSource + 'a>,
    /// The whole file, if it is MPEG-4.
    pub(super) mp4: Option<&'a [u8]>,
}

/// A file held in memory, opened.
pub(super) fn in_memory(bytes: &[u8]) -> Result<OpenAudio<'_>, DecodeError> {
    let detected = format_detection::detect(bytes)?;
    Ok(OpenAudio {
        format: detected.format,
        media: Box::new(std::io::Cursor::new(detected.body)),
        mp4: (detected.format == AudioFormat::M4a).then_some(detected.body),
    })
}

/// Decodes the first sound track of a file.
pub(super) fn read(
    opened: OpenAudio<'_>,
    limits: &DecodeLimits,
    sink: &mut SampleSink<'_>,
) -> Result<StreamTotals, DecodeError> {
    let OpenAudio { format, media, mp4 } = opened;
    // Checked first: the reader would only report a codec that it does not know.
    if mp4.is_some_and(mp4::is_encrypted) {
        return Err(DecodeError::Unsupported {
            content: "encrypted audio".to_owned(),
        });
    }
    let media = stripped_media::strip(format, media, mp4)?;
    let source = MediaSourceStream::new(media, MediaSourceStreamOptions::default());
    let mut reader = open(format, source).map_err(|e| decode_error(format, &e))?;
    let track = reader
        .default_track(TrackType::Audio)
        .ok_or(DecodeError::NoAudio)?;
    let (id, mut decoder) = (track.id, decoder(format, track)?);
    let announced = (format == AudioFormat::Mp3).then(|| AnnouncedLength::from_track(track));
    let mut samples = SampleCollector::new(limits, sink);
    let mut packets = PacketCounts::default();
    loop {
        let mut next = reader.next_packet();
        // Undoes the demultiplexer's cut at the announced end; see `AnnouncedLength`.
        if let (Some(_), Ok(Some(packet))) = (&announced, &mut next) {
            packet.trim_end = Duration::ZERO;
        }
        match next {
            Ok(Some(packet)) if packet.track_id != id => packets.count_skipped()?,
            Ok(Some(packet)) => match decoder.decode(&packet) {
                Ok(buffer) if buffer.frames() > 0 => {
                    packets.good += 1;
                    packets.bad_run = 0;
                    samples.append(&buffer)?;
                }
                // Encoder delay removed all of this packet's samples; that is normal.
                Ok(_) if packet.trim_start.get() > 0 || packet.trim_end.get() > 0 => {}
                Ok(_) => packets.empty += 1,
                Err(e) => packets.count_failed(e),
            },
            Ok(None) => break,
            // Only a second recording after the first requires this. The first alone is not
            // returned.
            Err(Error::ResetRequired) => {
                let content = "an Ogg file of several recordings in a row".to_owned();
                return Err(DecodeError::Unsupported { content });
            }
            Err(e) => {
                packets.set_fault(e);
                break;
            }
        }
        if packets.is_hopeless() || samples.stopped_by_sink {
            break;
        }
    }
    packets.check(format, samples.frames)?;
    let span = match (mp4, announced) {
        (Some(file), _) => mp4::span(file, samples.rate),
        (None, Some(announced)) => announced.span(samples.frames as u64),
        (None, None) => None,
    };
    Ok(StreamTotals {
        rate: samples.rate,
        span: recording_span(samples.frames, span),
    })
}

/// The length in an MP3 file's first frame, if there is one. The demultiplexer ends the sound there
/// or, without it, at a guess from the first bit rates, which is wrong for variable rates and for
/// concatenated files. So its cut is undone, and the end is cut off only if the rest is no more
/// than encoder padding.
struct AnnouncedLength {
    length: Option<u64>,
    padding: u64,
}

impl AnnouncedLength {
    fn from_track(track: &Track) -> Self {
        Self {
            length: track.num_frames,
            padding: u64::from(track.padding.unwrap_or(0)),
        }
    }

    /// The part with the recording of `frames` samples, after the encoder's delay.
    fn span(&self, frames: u64) -> Option<mp4::SampleSpan> {
        let length = self.length?;
        let excess = frames.saturating_sub(length);
        (excess <= self.padding).then_some(mp4::SampleSpan {
            start: 0,
            length: Some(length),
        })
    }
}

type ContainerReader<'a> = Box<dyn FormatReader + 'a>;

/// The reader is chosen by kind instead of probed for, so that junk is never searched for a format
/// that happens to match somewhere inside.
fn open(format: AudioFormat, source: MediaSourceStream<'_>) -> Result<ContainerReader<'_>, Error> {
    let options = FormatOptions::default();
    Ok(match format {
        AudioFormat::Wav => Box::new(formats::WavReader::try_new(source, options)?),
        AudioFormat::Flac => Box::new(formats::FlacReader::try_new(source, options)?),
        AudioFormat::Mp3 => Box::new(formats::MpaReader::try_new(source, options)?),
        AudioFormat::Aac => Box::new(formats::AdtsReader::try_new(source, options)?),
        AudioFormat::M4a => Box::new(formats::IsoMp4Reader::try_new(source, options)?),
        AudioFormat::OggVorbis => Box::new(formats::OggReader::try_new(source, options)?),
    })
}

fn decoder(format: AudioFormat, track: &Track) -> Result<Box<dyn AudioDecoder>, DecodeError> {
    let Some(CodecParameters::Audio(parameters)) = &track.codec_params else {
        return Err(DecodeError::NoAudio);
    };
    get_codecs()
        .make_audio_decoder(parameters, &AudioDecoderOptions::default())
        .map_err(|e| decode_error(format, &e))
}

fn decode_error(format: AudioFormat, error: &Error) -> DecodeError {
    match error {
        Error::Unsupported(_) => DecodeError::Unsupported {
            content: format!("this kind of {format} file"),
        },
        Error::IoError(_) => damaged_file(format, "it ends too early"),
        Error::DecodeError(reason) | Error::LimitError(reason) => damaged_file(format, reason),
        _ => damaged_file(format, "its contents do not hold together"),
    }
}

fn damaged_file(format: AudioFormat, reason: &str) -> DecodeError {
    DecodeError::Damaged {
        format,
        reason: reason.to_owned(),
    }
}

/// Counts of good and bad packets. A stream cut from a longer one has a bad packet or two at either
/// end and is still usable; one that fails everywhere is not.
#[derive(Default)]
struct PacketCounts {
    good: usize,
    bad: usize,
    bad_run: usize,
    empty: usize,
    other_tracks: usize,
    fault: Option<Error>,
}

impl PacketCounts {
    fn count_failed(&mut self, error: Error) {
        self.bad += 1;
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
        // Tolerates four bad packets at the ends of a stream that was cut out of a longer one, and
        // one in five in between.
        let too_many = self.bad > 4 + self.good / 4;
        match self.fault {
            Some(error) if frames == 0 || too_many => Err(match decode_error(format, &error) {
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
    rate: u32,
    channels: usize,
    frames: usize,
    packet: Vec<Vec<f32>>,
    stopped_by_sink: bool,
}

impl<'a, 'b> SampleCollector<'a, 'b> {
    fn new(limits: &'a DecodeLimits, sink: &'a mut SampleSink<'b>) -> Self {
        Self {
            limits,
            sink,
            rate: 0,
            channels: 0,
            frames: 0,
            packet: Vec::new(),
            stopped_by_sink: false,
        }
    }

    fn append(&mut self, buffer: &GenericAudioBufferRef<'_>) -> Result<(), DecodeError> {
        let (rate, count) = (buffer.spec().rate(), buffer.num_planes());
        if self.channels == 0 {
            self.start(rate, count)?;
        }
        if rate != self.rate || count != self.channels {
            let content = "a sample rate or channel count that changes on the way".to_owned();
            return Err(DecodeError::Unsupported { content });
        }
        let frames = self.frames + buffer.frames();
        // Both limits are checked before the samples are copied, and no memory is ever reserved
        // because a header says so.
        let longest = u64::from(self.limits.max_seconds) * u64::from(self.rate);
        if frames as u64 > longest {
            return Err(DecodeError::TooLong {
                limit_seconds: self.limits.max_seconds,
            });
        }
        if frames.saturating_mul(4 * count) > self.limits.max_bytes {
            return Err(DecodeError::TooLarge {
                limit_bytes: self.limits.max_bytes,
            });
        }
        self.frames = frames;
        buffer.copy_to_vecs_planar(&mut self.packet);
        // Float files may contain NaN, which would spoil every sum.
        for x in self.packet.iter_mut().flatten() {
            *x = if x.is_finite() { *x } else { 0.0 };
        }
        if self.limits.fold_down && count > 2 {
            self.packet = to_stereo(&self.packet);
        }
        self.stopped_by_sink = !(self.sink)(&self.packet);
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
