//! Encoders: 24-bit FLAC for listeners, 32-bit float WAV for programs.
//!
//! FLAC is lossless and browsers play it, so stems sum to the mix after download too: each value is
//! rounded once to 2^-23, and `n` stems sum to within `n/2` such steps. Values beyond full scale
//! are clipped, as an integer format requires. Lossy formats are deliberately not supported.

use std::io::{Cursor, Seek, Write};

use flacenc::bitsink::ByteSink;
use flacenc::component::{BitRepr, Stream};
use flacenc::config::Encoder;
use flacenc::error::{SourceError, Verified, Verify};
use flacenc::source::{Context, Fill, FrameBuf, Source};

use crate::Audio;

/// Why samples could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// FLAC holds one to eight channels.
    #[error("{0} channels do not fit a FLAC file, at most 8 do")]
    Channels(usize),
    /// FLAC holds up to 655,350 Hz.
    #[error("a sample rate of {0} Hz does not fit a FLAC file")]
    Rate(u32),
    /// A FLAC file needs at least one sample.
    #[error("there is no sample to write")]
    NoAudio,
    /// The encoder failed on valid input.
    #[error("the FLAC encoder failed: {0}")]
    Flac(String),
    /// Writing failed.
    #[error("the FLAC file could not be written: {0}")]
    Write(#[from] std::io::Error),
    /// Writing failed; a WAV file can hold at most 4 GiB.
    #[error("the WAV file could not be written: {0}")]
    Wav(#[from] hound::Error),
}

/// Writes a 24-bit FLAC file. A sample step is 2^-23; values beyond full scale are clipped and NaN
/// becomes 0.
pub fn flac24(audio: &Audio) -> Result<Vec<u8>, EncodeError> {
    let mut file = Cursor::new(Vec::new());
    let mut writer = FlacWriter::new(&mut file, audio.rate(), audio.channels().len())?;
    writer.push(audio.channels())?;
    writer.finish()?;
    Ok(file.into_inner())
}

/// Writes a 24-bit FLAC file from samples that arrive piece by piece. Only one block is in memory.
pub struct FlacWriter<W> {
    output: W,
    rate: u32,
    default_config: Verified<Encoder>,
    uncompressed_config: Verified<Encoder>,
    info: Stream,
    frame: (FrameBuf, Context),
    block: SampleBlock,
    bits: ByteSink,
}

impl<W: Write + Seek> FlacWriter<W> {
    /// Starts a file at the start of `output`.
    pub fn new(output: W, rate: u32, channels: usize) -> Result<Self, EncodeError> {
        if channels > 8 {
            return Err(EncodeError::Channels(channels));
        }
        if rate > MAX_RATE {
            return Err(EncodeError::Rate(rate));
        }
        let mut uncompressed_config = Encoder::default();
        uncompressed_config.subframe_coding.use_fixed = false;
        uncompressed_config.subframe_coding.use_lpc = false;
        let block = SampleBlock {
            rate,
            channels,
            samples: Vec::with_capacity(BLOCK * channels),
        };
        let mut info = Stream::new(block.sample_rate(), channels, BITS).map_err(flac_error)?;
        let sizes = info.stream_info_mut().set_block_sizes(BLOCK, BLOCK);
        sizes.map_err(flac_error)?;
        let mut writer = Self {
            output,
            rate,
            default_config: Encoder::default()
                .into_verified()
                .map_err(|(_, e)| flac_error(e))?,
            uncompressed_config: uncompressed_config
                .into_verified()
                .map_err(|(_, e)| flac_error(e))?,
            frame: (
                FrameBuf::with_size(channels, BLOCK).map_err(flac_error)?,
                Context::new(BITS, channels),
            ),
            info,
            block,
            bits: ByteSink::new(),
        };
        // A placeholder; its content is known at the end.
        writer.write_header()?;
        Ok(writer)
    }

    /// Adds the next samples of every channel.
    pub fn push(&mut self, samples: &[Vec<f32>]) -> Result<(), EncodeError> {
        for i in 0..samples.first().map_or(0, Vec::len) {
            let values = samples.iter().map(|channel| to_24_bits(channel[i]));
            self.block.samples.extend(values);
            if self.block.samples.len() >= BLOCK * self.block.channels {
                self.write_block()?;
            }
        }
        Ok(())
    }

    /// Completes the file.
    pub fn finish(mut self) -> Result<(), EncodeError> {
        self.write_block()?;
        let total = self.frame.1.total_samples();
        if total == 0 {
            return Err(EncodeError::NoAudio);
        }
        let info = self.info.stream_info_mut();
        info.set_md5_digest(&self.frame.1.md5_digest());
        info.set_total_samples(total);
        self.output.rewind()?;
        self.write_header()?;
        Ok(self.output.flush()?)
    }

    fn write_header(&mut self) -> Result<(), EncodeError> {
        let mut bits = ByteSink::new();
        self.info.write(&mut bits).map_err(flac_error)?;
        let mut bytes = bits.into_inner();
        correct_header(&mut bytes, self.rate);
        Ok(self.output.write_all(&bytes)?)
    }

    /// Encodes a block, possibly a short last one. The encoder's search may fail on unusual
    /// signals, so a block that came out longer than its samples is stored uncompressed.
    fn write_block(&mut self) -> Result<(), EncodeError> {
        let channels = self.block.channels;
        let count = self.block.read_samples(BLOCK, &mut self.frame);
        let count = count.map_err(flac_error)?;
        if count == 0 {
            return Ok(());
        }
        let (samples, context) = &self.frame;
        let number = context.current_frame_number().unwrap_or(0);
        let encode = |config| {
            let info = self.info.stream_info();
            flacenc::encode_fixed_size_frame(config, samples, number, info).map_err(flac_error)
        };
        let mut frame = encode(&self.default_config)?;
        if frame.count_bits() > count * channels * BITS + FRAME_OVERHEAD {
            frame = encode(&self.uncompressed_config)?;
        }
        self.info.stream_info_mut().update_frame_info(&frame);
        self.bits.clear();
        frame.write(&mut self.bits).map_err(flac_error)?;
        Ok(self.output.write_all(self.bits.as_slice())?)
    }
}

fn flac_error(error: impl std::fmt::Display) -> EncodeError {
    EncodeError::Flac(error.to_string())
}

/// Bits of a sample.
const BITS: usize = 24;

/// Samples per block. An odd number, because the encoder splits even blocks for its search of code
/// lengths and adds the parts' costs up in 32 bits: in a loud block of 24-bit noise the sum wraps,
/// and the code with the most bits looks like the one with the fewest.
const BLOCK: usize = 4_095;

/// Upper bound of a frame's bits in addition to its samples.
const FRAME_OVERHEAD: usize = 512;

/// Writes a 32-bit float WAV file: every sample exactly as it is.
pub fn wav32f(audio: &Audio) -> Result<Vec<u8>, EncodeError> {
    let channels = u16::try_from(audio.channels().len())
        .map_err(|_| EncodeError::Channels(audio.channels().len()))?;
    let spec = hound::WavSpec {
        channels,
        sample_rate: audio.rate(),
        bits_per_sample: 32,
        sample_format: hound::SampleFormat::Float,
    };
    let size = audio.frames().saturating_mul(4 * audio.channels().len());
    if size > u32::MAX as usize - WAV_HEADER_ROOM {
        return Err(hound::Error::TooWide.into());
    }
    let mut file = Cursor::new(Vec::with_capacity(size + WAV_HEADER_ROOM));
    let mut writer = hound::WavWriter::new(&mut file, spec)?;
    for i in 0..audio.frames() {
        for channel in audio.channels() {
            writer.write_sample(channel[i])?;
        }
    }
    writer.finalize()?;
    Ok(file.into_inner())
}

const WAV_HEADER_ROOM: usize = 128;

/// The highest rate that the format can express.
const MAX_RATE: u32 = 655_350;

/// Replaces rates above 96 kHz, which the encoder refuses. The encoder writes a rate into each
/// frame under a checksum. But this rate has no short form, so frames refer to the file's header.
/// The header has no checksum, and gets the true rate afterwards.
const STAND_IN_RATE: usize = 95_999;

/// Sets two fields of the first metadata block: the 20 bits of the rate, see [`STAND_IN_RATE`], and
/// the smallest block size, in which the encoder wrongly counts the short last block.
fn correct_header(flac: &mut [u8], rate: u32) {
    const BLOCK_SIZES: usize = 4 + 4;
    const RATE: usize = BLOCK_SIZES + 2 + 2 + 3 + 3;
    if let Some([smallest @ .., a, b]) = flac.get_mut(BLOCK_SIZES..BLOCK_SIZES + 4) {
        smallest.copy_from_slice(&[*a, *b]);
    }
    if let Some([high, middle, low]) = flac.get_mut(RATE..RATE + 3) {
        let [_, a, b, c] = (rate << 4).to_be_bytes();
        (*high, *middle) = (a, b);
        *low = c & 0xf0 | *low & 0x0f;
    }
}

/// The samples of one block, interleaved.
struct SampleBlock {
    rate: u32,
    channels: usize,
    samples: Vec<i32>,
}

impl Source for SampleBlock {
    fn channels(&self) -> usize {
        self.channels
    }

    fn bits_per_sample(&self) -> usize {
        BITS
    }

    fn sample_rate(&self) -> usize {
        if self.rate > 96_000 {
            STAND_IN_RATE
        } else {
            self.rate as usize
        }
    }

    fn read_samples<F: Fill>(&mut self, _: usize, buffer: &mut F) -> Result<usize, SourceError> {
        let count = self.samples.len() / self.channels.max(1);
        if count > 0 {
            buffer.fill_interleaved(&self.samples)?;
            self.samples.clear();
        }
        Ok(count)
    }
}

/// The nearest of the 2^24 steps. A cast turns NaN into 0.
#[expect(clippy::cast_possible_truncation, reason = "clamped to 24 bits before")]
fn to_24_bits(x: f32) -> i32 {
    (x * 8_388_608.0).round().clamp(-8_388_608.0, 8_388_607.0) as i32
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "made-up signals are short and exact"
)]
mod tests {
    use super::*;
    use crate::{AudioFormat, DecodeLimits, decode};

    fn noise(rate: u32, channels: usize, frames: usize, level: f32) -> Audio {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            level * (f64::from(state) / f64::from(1u32 << 31) - 1.0) as f32
        };
        Audio::new(
            rate,
            (0..channels)
                .map(|_| (0..frames).map(|_| next()).collect())
                .collect(),
        )
        .unwrap()
    }

    fn steps(audio: &Audio) -> Vec<Vec<i32>> {
        audio
            .channels()
            .iter()
            .map(|c| c.iter().map(|&x| to_24_bits(x)).collect())
            .collect()
    }

    #[test]
    fn comes_back_bit_for_bit() {
        let cases = [
            (44_100, 2, 10_000),
            (8_000, 1, 4_096),
            (48_000, 6, 5_000),
            (192_000, 2, 9_001),
            (176_400, 1, 4_097),
            (44_100, 1, 1),
            (44_100, 2, 15),
            (44_100, 2, 16),
            (44_100, 8, 33),
            (12_345, 3, 70),
            (96_000, 2, 100),
            (1_000, 1, 40),
            (95_999, 1, 300),
            (100_001, 1, 9),
        ];
        for (rate, channels, frames) in cases {
            for level in [1.0, 0.3, 1e-4, 0.0] {
                let audio = noise(rate, channels, frames, level);
                let file = flac24(&audio).unwrap();
                let decoded = decode(&file, &DecodeLimits::default()).unwrap();
                assert_eq!(decoded.format, AudioFormat::Flac);
                assert_eq!(decoded.audio.rate(), rate);
                assert_eq!(
                    steps(&decoded.audio),
                    steps(&audio),
                    "{rate} {channels} {frames} {level}"
                );
            }
        }
    }

    #[test]
    fn a_loud_square_wave_survives() {
        // The predictor's error is largest for a signal that jumps between the extremes.
        let wave = (0..9_000)
            .map(|i| if i / 7 % 2 == 0 { 1.0 } else { -1.0 })
            .collect();
        let audio = Audio::new(44_100, vec![wave]).unwrap();
        let decoded = decode(&flac24(&audio).unwrap(), &DecodeLimits::default()).unwrap();
        assert_eq!(steps(&decoded.audio), steps(&audio));
    }

    #[test]
    fn no_signal_makes_a_file_longer_than_its_samples() {
        // Bursts that die away, whose low bits are empty as in 16-bit recordings, and jumps.
        for half_life in [100.0, 1_000.0, 10_000.0] {
            let mut channels = noise(44_100, 2, 44_100, 0.4).into_channels();
            for (i, x) in channels.iter_mut().flat_map(|c| c.iter_mut().enumerate()) {
                let age = f32::from(u16::try_from(i % 22_050).unwrap());
                let level = 0.5f32.powf(age / half_life);
                *x = (*x * level * 32_768.0).round() / 32_768.0;
            }
            let jumps = (0..44_100).map(|n| if n % 2 == 0 { 0.9 } else { -0.9 });
            for channels in [channels, vec![jumps.collect()]] {
                let audio = Audio::new(44_100, channels).unwrap();
                let file = flac24(&audio).unwrap();
                let longest = 3 * audio.channels().len() * 44_100 + 1_000;
                assert!(file.len() < longest, "{} bytes", file.len());
                let decoded = decode(&file, &DecodeLimits::default()).unwrap();
                assert_eq!(steps(&decoded.audio), steps(&audio));
            }
        }
    }

    #[test]
    fn clips_loud_values_and_silences_nan() {
        let audio = Audio::new(8_000, vec![vec![2.0, -2.0, f32::NAN, f32::INFINITY]]).unwrap();
        let decoded = decode(&flac24(&audio).unwrap(), &DecodeLimits::default()).unwrap();
        assert_eq!(
            steps(&decoded.audio),
            [[8_388_607, -8_388_608, 0, 8_388_607]]
        );
    }

    #[test]
    fn refuses_unsupported_audio() {
        let empty = Audio::new(8_000, vec![vec![]]).unwrap();
        assert!(matches!(flac24(&empty), Err(EncodeError::NoAudio)));
        assert!(matches!(
            flac24(&noise(8_000, 9, 4, 0.1)),
            Err(EncodeError::Channels(9))
        ));
        assert!(matches!(
            flac24(&noise(700_000, 1, 4, 0.1)),
            Err(EncodeError::Rate(700_000))
        ));
    }

    #[test]
    fn float_wav_is_exact() {
        let audio = noise(22_050, 3, 777, 1.7);
        let decoded = decode(&wav32f(&audio).unwrap(), &DecodeLimits::default()).unwrap();
        assert_eq!((decoded.audio, decoded.format), (audio, AudioFormat::Wav));
    }
}
