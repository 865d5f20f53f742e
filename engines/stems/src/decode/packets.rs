//! Packets of one sound track, and their decoders.

use std::io;

use symphonia::core::audio::GenericAudioBufferRef;
use symphonia::core::codecs::CodecParameters;
use symphonia::core::codecs::audio::well_known::CODEC_ID_OPUS;
use symphonia::core::codecs::audio::{AudioCodecParameters, AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error;
use symphonia::core::formats::{FormatOptions, FormatReader, Track, TrackType};
use symphonia::core::io::{MediaSource, MediaSourceStream, MediaSourceStreamOptions};
use symphonia::core::packet::Packet;
use symphonia::default::{formats, get_codecs};

use super::decoded_packet::DecodedPacket;
use super::error::DecodeError;
use super::flac_frames::FlacFrames;
use super::format::AudioFormat;
use super::mpeg_frames::{MpegFrames, StatedLength};
use super::ogg_end;
use super::opus::OpusPackets;
use super::stripped_media::read_error;

/// Where packets come from: a container, or a stream of frames.
pub(super) enum PacketSource<'a> {
    Container(Box<dyn FormatReader + 'a>),
    Flac(Box<FlacFrames<Box<dyn MediaSource + 'a>>>),
    Mpeg(Box<MpegFrames<Box<dyn MediaSource + 'a>>>),
}

/// What is known of the track that is read.
pub(super) struct TrackFacts {
    pub(super) id: u32,
    pub(super) parameters: AudioCodecParameters,
    /// Samples a second, according to the header.
    pub(super) rate: u32,
    /// Seconds of a unit of time, as a fraction.
    time_base: (u32, u32),
    /// Samples that the header states, where its number is trustworthy.
    pub(super) stated: Option<u64>,
    /// Where the recording ends, in samples of its own time, by what the file states about the whole.
    pub(super) end: Option<i64>,
    /// What an encoder's tag says.
    pub(super) tag: Option<StatedLength>,
}

impl TrackFacts {
    /// A time of the stream in samples.
    pub(super) fn samples(&self, units: i64) -> i64 {
        let (numer, denom) = self.time_base;
        let scaled = i128::from(units) * i128::from(numer) * i128::from(self.rate);
        let denom = i128::from(denom.max(1));
        i64::try_from((scaled + denom / 2).div_euclid(denom)).unwrap_or(i64::MAX)
    }
}

/// The reader is chosen by kind instead of probed for, so that junk is never searched for a format
/// that happens to match somewhere inside.
pub(super) fn open<'a>(
    format: AudioFormat,
    mut media: Box<dyn MediaSource + 'a>,
) -> Result<(PacketSource<'a>, TrackFacts), DecodeError> {
    let failed = |error: &io::Error| read_error(format, error);
    match format {
        AudioFormat::Flac => {
            let frames = FlacFrames::new(media).map_err(|error| failed(&error))?;
            let facts = TrackFacts {
                id: 0,
                parameters: frames.parameters(),
                rate: frames.rate(),
                time_base: (1, frames.rate()),
                stated: None,
                end: None,
                tag: None,
            };
            return Ok((PacketSource::Flac(Box::new(frames)), facts));
        }
        AudioFormat::Mp3 | AudioFormat::MpegLayer2 | AudioFormat::Aac => {
            let frames = MpegFrames::new(media).map_err(|error| failed(&error))?;
            let frames = frames.ok_or(DecodeError::NoAudio)?;
            let facts = TrackFacts {
                id: 0,
                parameters: frames.parameters(),
                rate: frames.rate(),
                time_base: (1, frames.rate()),
                stated: frames.stated().map(|stated| stated.length),
                end: None,
                tag: frames.stated(),
            };
            return Ok((PacketSource::Mpeg(Box::new(frames)), facts));
        }
        _ => {}
    }
    let last_position = match format {
        AudioFormat::OggVorbis | AudioFormat::OggFlac | AudioFormat::OggOpus => {
            ogg_end::last_position(media.as_mut()).map_err(|error| failed(&error))?
        }
        _ => None,
    };
    let reader = container(format, media).map_err(|error| decode_error(format, &error))?;
    let track = reader
        .default_track(TrackType::Audio)
        .ok_or(DecodeError::NoAudio)?;
    let mut facts = track_facts(format, track)?;
    if format == AudioFormat::Matroska && reader.tracks().len() == 1 {
        let units = reader.media_info().duration;
        let units = units.and_then(|duration| i64::try_from(duration.get()).ok());
        facts.end = units.map(|units| facts.samples(units));
    }
    if let Some((serial, position)) = last_position
        && serial == facts.id
    {
        facts.end = Some(facts.samples(position));
    }
    Ok((PacketSource::Container(reader), facts))
}

fn container<'a>(
    format: AudioFormat,
    media: Box<dyn MediaSource + 'a>,
) -> Result<Box<dyn FormatReader + 'a>, Error> {
    let source = MediaSourceStream::new(media, MediaSourceStreamOptions::default());
    let options = FormatOptions::default();
    Ok(match format {
        AudioFormat::Aiff => Box::new(formats::AiffReader::try_new(source, options)?),
        AudioFormat::Caf => Box::new(formats::CafReader::try_new(source, options)?),
        AudioFormat::M4a => Box::new(formats::IsoMp4Reader::try_new(source, options)?),
        AudioFormat::Matroska => Box::new(formats::MkvReader::try_new(source, options)?),
        AudioFormat::OggVorbis | AudioFormat::OggFlac | AudioFormat::OggOpus => {
            Box::new(formats::OggReader::try_new(source, options)?)
        }
        _ => Box::new(formats::WavReader::try_new(source, options)?),
    })
}

pub(super) fn track_facts(format: AudioFormat, track: &Track) -> Result<TrackFacts, DecodeError> {
    let Some(CodecParameters::Audio(parameters)) = &track.codec_params else {
        return Err(DecodeError::NoAudio);
    };
    let parameters = parameters.clone();
    let base = track.time_base;
    let base = base.map(|base| (base.numer.get(), base.denom.get()));
    let rate = parameters.sample_rate;
    let rate = rate.or(base.map(|(_, denom)| denom)).unwrap_or(0);
    let mut facts = TrackFacts {
        id: track.id,
        parameters,
        rate,
        time_base: base.unwrap_or((1, rate)),
        stated: None,
        end: None,
        tag: None,
    };
    // An Ogg file states no length, a Matroska file that of its longest track; for WAV the header
    // was mended.
    facts.stated = track
        .num_frames
        .filter(|_| {
            matches!(
                format,
                AudioFormat::Aiff | AudioFormat::Caf | AudioFormat::M4a
            )
        })
        .and_then(|units| i64::try_from(units).ok())
        .map(|units| match format {
            AudioFormat::M4a => facts.samples(units),
            _ => units,
        })
        .and_then(|samples| u64::try_from(samples).ok());
    Ok(facts)
}

impl PacketSource<'_> {
    pub(super) fn next_packet(&mut self) -> Result<Option<Packet>, Error> {
        match self {
            Self::Container(reader) => reader.next_packet(),
            Self::Flac(frames) => Ok(frames.next_packet()?),
            Self::Mpeg(frames) => Ok(frames.next_packet()?),
        }
    }

    /// The sound track of the recording that follows in the same file.
    pub(super) fn next_track(&self) -> Option<&Track> {
        match self {
            Self::Container(reader) => reader.default_track(TrackType::Audio),
            _ => None,
        }
    }

    /// Whether a stream of frames ends with half a frame.
    pub(super) fn is_cut(&self) -> bool {
        match self {
            Self::Container(_) => false,
            Self::Flac(frames) => frames.is_cut(),
            Self::Mpeg(frames) => frames.is_cut(),
        }
    }

    /// Samples that a stream of frames states; known whole only at its end.
    pub(super) fn stated(&self) -> Option<u64> {
        match self {
            Self::Flac(frames) => frames.stated(),
            _ => None,
        }
    }
}

/// Decodes packets to planes of samples.
pub(super) enum PacketDecoder {
    Symphonia(Box<dyn AudioDecoder>),
    Opus(Box<OpusPackets>),
}

impl PacketDecoder {
    pub(super) fn new(
        format: AudioFormat,
        parameters: &AudioCodecParameters,
    ) -> Result<Self, DecodeError> {
        if parameters.codec == CODEC_ID_OPUS {
            let header = parameters.extra_data.as_deref().unwrap_or(&[]);
            let packets = OpusPackets::new(header)?;
            return Ok(Self::Opus(Box::new(match format {
                AudioFormat::M4a => packets,
                _ => packets.with_pre_skip(header),
            })));
        }
        get_codecs()
            .make_audio_decoder(parameters, &AudioDecoderOptions::default())
            .map(Self::Symphonia)
            .map_err(|error| decode_error(format, &error))
    }

    /// Decodes a packet.
    pub(super) fn decode(
        &mut self,
        packet: &Packet,
        planes: &mut Vec<Vec<f32>>,
    ) -> Result<DecodedPacket, Error> {
        match self {
            Self::Symphonia(decoder) => {
                let buffer: GenericAudioBufferRef<'_> = decoder.decode(packet)?;
                buffer.copy_to_vecs_planar(planes);
                Ok(DecodedPacket {
                    rate: buffer.spec().rate(),
                    frames: buffer.frames(),
                    block: buffer.frames(),
                })
            }
            Self::Opus(decoder) => {
                let decoded = decoder.decode(packet, planes);
                decoded.ok_or(Error::DecodeError("a damaged packet of Opus"))
            }
        }
    }
}

pub(super) fn decode_error(format: AudioFormat, error: &Error) -> DecodeError {
    match error {
        Error::Unsupported(_) => DecodeError::Unsupported {
            content: format!("this kind of {format} file"),
        },
        Error::IoError(error) => read_error(format, error),
        Error::DecodeError(reason) | Error::LimitError(reason) => damaged_file(format, reason),
        _ => damaged_file(format, "its contents do not hold together"),
    }
}

pub(super) fn damaged_file(format: AudioFormat, reason: &str) -> DecodeError {
    DecodeError::Damaged {
        format,
        reason: reason.to_owned(),
    }
}
