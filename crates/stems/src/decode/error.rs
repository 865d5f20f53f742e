//! What a file may cost, and why it could not be decoded.

use super::format::AudioFormat;

/// What a decoded file may cost. Checked while decoding, so that a lying header allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Longest clip in seconds; default 900.
    pub max_seconds: u32,
    /// Most channels; default 8.
    pub max_channels: usize,
    /// Highest sample rate in Hz; default 192,000.
    pub max_rate: u32,
    /// Most memory for the decoded samples in bytes (4 per sample and channel); default 1 GiB.
    pub max_bytes: usize,
    /// Whether more than two channels are folded down to stereo as they are read, as quiet as they
    /// must be for their sum to stay within full scale; default no.
    pub fold_down: bool,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self {
            max_seconds: 900,
            max_channels: 8,
            max_rate: 192_000,
            max_bytes: 1 << 30,
            fold_down: false,
        }
    }
}

/// Why bytes could not be decoded. Each message is fit for the client who sent them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// There was not a single byte.
    #[error("the file is empty")]
    Empty,
    /// The bytes are none of the known sound formats.
    #[error("the file is not WAV, FLAC, MP3, AAC, M4A or Ogg Vorbis audio")]
    UnknownFormat,
    /// A sound format, or a kind of one, that is not decoded here.
    #[error("{what} is not supported; send WAV, FLAC, MP3, AAC-LC, M4A or Ogg Vorbis")]
    Unsupported {
        /// What the file holds, such as "Opus audio".
        what: String,
    },
    /// The right kind of file, but its contents do not hold together.
    #[error("the {format} file is damaged: {reason}")]
    Damaged {
        /// What the file is, as far as its first bytes say.
        format: AudioFormat,
        /// What did not hold, in a few words.
        reason: String,
    },
    /// The file is in order but holds no sound.
    #[error("the file contains no audio")]
    NoAudio,
    /// It lasts longer than [`DecodeLimits::max_seconds`].
    #[error("the audio is longer than {limit_seconds} seconds")]
    TooLong {
        /// The limit that was passed.
        limit_seconds: u32,
    },
    /// It has more channels than [`DecodeLimits::max_channels`].
    #[error("the audio has {channels} channels, at most {limit} are supported")]
    TooManyChannels {
        /// What the file has.
        channels: usize,
        /// The limit that was passed.
        limit: usize,
    },
    /// Its samples need more memory than [`DecodeLimits::max_bytes`].
    #[error("the decoded audio is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The limit that was passed.
        limit_bytes: usize,
    },
}
