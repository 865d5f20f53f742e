//! Opus packets to samples at 48 kHz.

use opus_decoder::{OpusDecoder, OpusMultistreamDecoder};
use symphonia::core::packet::Packet;

use super::decoded_packet::DecodedPacket;
use super::error::DecodeError;

/// Most samples of a channel in a packet: 120 ms.
const MAX_SAMPLES: usize = 5_760;
/// The rate of all Opus.
const OPUS_RATE: u32 = 48_000;

enum Streams {
    One(Box<OpusDecoder>),
    Several(Box<OpusMultistreamDecoder>),
}

/// Decodes the packets of a track.
pub(super) struct OpusPackets {
    streams: Streams,
    channels: usize,
    gain: f32,
    interleaved: Vec<f32>,
    /// Samples at the start that are still to be dropped.
    skip: usize,
}

impl OpusPackets {
    /// Reads the identification header: `OpusHead`, version, channels, pre-skip, rate, gain, and how
    /// streams become channels.
    pub(super) fn new(header: &[u8]) -> Result<Self, DecodeError> {
        let unsupported = |content: &str| DecodeError::Unsupported {
            content: content.to_owned(),
        };
        let incomplete = || unsupported("Opus audio with an incomplete header");
        let channels = usize::from(*header.get(9).ok_or_else(incomplete)?);
        let gain = header.get(16..18).ok_or_else(incomplete)?;
        let gain = i16::from_le_bytes([gain[0], gain[1]]);
        let refused = || unsupported("this variety of Opus audio");
        let streams = match (header.get(18), channels) {
            (Some(0) | None, 1 | 2) => {
                let decoder = OpusDecoder::new(OPUS_RATE, channels).map_err(|_| refused())?;
                Streams::One(Box::new(decoder))
            }
            (Some(1 | 2 | 255), 1..=8) => {
                let (count, coupled) = (header.get(19), header.get(20));
                let (Some(count), Some(coupled)) = (count, coupled) else {
                    return Err(incomplete());
                };
                let mapping = header.get(21..21 + channels).ok_or_else(incomplete)?;
                let (count, coupled) = (usize::from(*count), usize::from(*coupled));
                let decoder =
                    OpusMultistreamDecoder::new(OPUS_RATE, channels, count, coupled, mapping);
                Streams::Several(Box::new(decoder.map_err(|_| refused())?))
            }
            _ => return Err(refused()),
        };
        Ok(Self {
            streams,
            channels,
            // In 1/256 of a decibel.
            gain: 10_f32.powf(f32::from(gain) / (20.0 * 256.0)),
            interleaved: vec![0.0; MAX_SAMPLES * channels],
            skip: 0,
        })
    }

    /// Drops the first samples, as the header says (RFC 7845, section 4.2). MPEG-4 files say it in
    /// their edit list instead.
    pub(super) fn with_pre_skip(mut self, header: &[u8]) -> Self {
        let skip = header.get(10..12).and_then(<[u8]>::first_chunk);
        self.skip = skip.map_or(0, |skip| u16::from_le_bytes(*skip).into());
        self
    }

    /// Decodes a packet into `planes`; `None` if it is damaged.
    pub(super) fn decode(
        &mut self,
        packet: &Packet,
        planes: &mut Vec<Vec<f32>>,
    ) -> Option<DecodedPacket> {
        // An empty packet would be replaced by a guess.
        if packet.data.is_empty() {
            return None;
        }
        let decoded = match &mut self.streams {
            Streams::One(decoder) => {
                decoder.decode_float(&packet.data, &mut self.interleaved, false)
            }
            Streams::Several(decoder) => {
                decoder.decode_float(&packet.data, &mut self.interleaved, false)
            }
        };
        let count = decoded.ok()?.min(MAX_SAMPLES);
        let trim = |trim: u64| usize::try_from(trim).unwrap_or(usize::MAX);
        let end = count.saturating_sub(trim(packet.trim_end.get()));
        let start = trim(packet.trim_start.get()).max(self.skip).min(end);
        self.skip = self.skip.saturating_sub(count);
        planes.resize_with(self.channels, Vec::new);
        for (index, plane) in planes.iter_mut().enumerate() {
            let samples = self.interleaved.iter().skip(index).step_by(self.channels);
            let samples = samples
                .take(end)
                .skip(start)
                .map(|sample| sample * self.gain);
            plane.clear();
            plane.extend(samples);
        }
        Some(DecodedPacket {
            rate: OPUS_RATE,
            frames: end - start,
            block: count,
        })
    }
}
