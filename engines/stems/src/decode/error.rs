//! Limits and errors of decoding.

use super::format::AudioFormat;

/// Limits of a decoded file. Checked while decoding, so that a false header allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Longest clip in seconds; default 900.
    pub max_seconds: u32,
    /// Maximum number of channels; default 8.
    pub max_channels: usize,
    /// Highest sample rate in Hz; default 192,000.
    pub max_rate: u32,
    /// Maximum memory for the decoded samples, in bytes (4 per sample and channel); default 1 GiB.
    pub max_bytes: usize,
    /// Whether to mix more than two channels down to stereo while reading, attenuated to stay
    /// within full scale; default false.
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

/// Why bytes could not be decoded. The messages are for whoever sent the bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Empty input.
    #[error("the file is empty")]
    Empty,
    /// Not a known sound format.
    #[error(
        "the file is no sound that is known here; send WAV, AIFF, CAF, FLAC, MP3, AAC-LC, M4A, Ogg or WebM"
    )]
    UnknownFormat,
    /// A format, or a variety of one, that is not supported.
    #[error(
        "{content} is not supported; convert it to WAV, AIFF, FLAC, MP3, AAC-LC, M4A, Ogg or WebM"
    )]
    Unsupported {
        /// What the file contains: "AMR audio".
        content: String,
    },
    /// A known format, but invalid content.
    #[error("the {format} file is damaged: {reason}")]
    Damaged {
        /// According to the first bytes.
        format: AudioFormat,
        /// In a few words.
        reason: String,
    },
    /// A valid file without sound.
    #[error("the file contains no audio")]
    NoAudio,
    /// Longer than [`DecodeLimits::max_seconds`].
    #[error("the audio is longer than {limit_seconds} seconds")]
    TooLong {
        /// In seconds.
        limit_seconds: u32,
    },
    /// More channels than [`DecodeLimits::max_channels`].
    #[error("the audio has {channels} channels, at most {limit} are supported")]
    TooManyChannels {
        /// Of the file.
        channels: usize,
        /// The limit.
        limit: usize,
    },
    /// Its samples need more memory than [`DecodeLimits::max_bytes`].
    #[error("the decoded audio is larger than {limit_bytes} bytes")]
    TooLarge {
        /// In bytes.
        limit_bytes: usize,
    },
}
