//! Headers of MPEG audio frames (layers I to III) and of ADTS frames.

use super::format::AudioFormat;

/// What a frame's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MpegHeader {
    pub(super) format: AudioFormat,
    /// Of the MPEG layers, 1 to 3; 0 for ADTS.
    pub(super) layer: u8,
    /// Of the frame, in bytes, with its header.
    pub(super) size: usize,
    /// Of the header, in bytes.
    pub(super) header_size: usize,
    /// Samples of each channel.
    pub(super) samples: u32,
    pub(super) rate: u32,
    /// 0 if the stream itself says it.
    pub(super) channels: u16,
    /// Whether the version is MPEG-1.
    pub(super) is_mpeg1: bool,
}

impl MpegHeader {
    /// Reads a header at the start of `bytes`.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let &[sync, b1, b2, b3, b4, b5, ..] = bytes else {
            return None;
        };
        if sync != 0xff || b1 & 0xe0 != 0xe0 {
            return None;
        }
        if b1 & 0xf6 == 0xf0 {
            let rate = *ADTS_RATES.get(usize::from((b2 >> 2) & 15))?;
            let size = usize::from(b3 & 3) << 11 | usize::from(b4) << 3 | usize::from(b5) >> 5;
            let header_size = if b1 & 1 == 1 { 7 } else { 9 };
            return (size > header_size).then_some(Self {
                format: AudioFormat::Aac,
                layer: 0,
                size,
                header_size,
                samples: 1_024,
                rate,
                channels: u16::from((b2 & 1) << 2 | b3 >> 6),
                is_mpeg1: false,
            });
        }
        Self::layered(b1, b2, b3)
    }

    fn layered(b1: u8, b2: u8, b3: u8) -> Option<Self> {
        let (version, layer) = ((b1 >> 3) & 3, 4 - ((b1 >> 1) & 3));
        let (bitrate, rate) = (usize::from(b2 >> 4), usize::from((b2 >> 2) & 3));
        // Refuses reserved values and the free format (0), which hardly exists. Without that, one
        // in 2,048 positions of random bytes would count as a header.
        if version == 1 || layer == 4 || bitrate == 0 || bitrate == 15 || rate == 3 || b3 & 3 == 2 {
            return None;
        }
        let is_mpeg1 = version == 3;
        let kbits = match (is_mpeg1, layer) {
            (true, 1) => MPEG1_LAYER1[bitrate],
            (true, 2) => MPEG1_LAYER2[bitrate],
            (true, _) => MPEG1_LAYER3[bitrate],
            (false, 1) => MPEG2_LAYER1[bitrate],
            (false, _) => MPEG2_KBITS[bitrate],
        };
        let shift = match version {
            3 => 0,
            2 => 1,
            _ => 2,
        };
        let rate = [44_100_u32, 48_000, 32_000][rate] >> shift;
        let samples = match layer {
            1 => 384,
            3 if !is_mpeg1 => 576,
            _ => 1_152,
        };
        // Samples divided by 8 bits per byte, times 1,000 bits per kilobit. The slots of layer I
        // have four bytes.
        let padding = usize::from((b2 >> 1) & 1);
        let bytes = samples as usize * 125 * kbits / rate as usize;
        let size = match layer {
            1 => (bytes / 4 + padding) * 4,
            _ => bytes + padding,
        };
        Some(Self {
            format: match layer {
                3 => AudioFormat::Mp3,
                _ => AudioFormat::MpegLayer2,
            },
            layer,
            size,
            header_size: 4,
            samples,
            rate,
            channels: if b3 >> 6 == 3 { 1 } else { 2 },
            is_mpeg1,
        })
    }

    /// Whether two frames can belong to one stream.
    pub(super) fn continues(&self, other: &Self) -> bool {
        (self.format, self.layer, self.rate, self.is_mpeg1)
            == (other.format, other.layer, other.rate, other.is_mpeg1)
    }
}

const ADTS_RATES: [u32; 13] = [
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000,
    7_350,
];

/// Bit rates in kbit/s, by the header's index.
const MPEG1_LAYER1: [usize; 15] = [
    0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448,
];
const MPEG1_LAYER2: [usize; 15] = [
    0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384,
];
const MPEG1_LAYER3: [usize; 15] = [
    0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320,
];
const MPEG2_LAYER1: [usize; 15] = [
    0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256,
];
const MPEG2_KBITS: [usize; 15] = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
