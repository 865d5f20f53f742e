//! The kinds of sound files.

/// Supported formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AudioFormat {
    /// RIFF WAVE with integer or float PCM, A-law or µ-law.
    Wav,
    /// Native FLAC.
    Flac,
    /// MPEG layer III.
    Mp3,
    /// AAC-LC as a bare ADTS stream.
    Aac,
    /// AAC-LC in an MPEG-4 file.
    M4a,
    /// Vorbis in Ogg.
    OggVorbis,
}

impl AudioFormat {
    /// The usual file name extension, without a dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Wav => "wav",
            Self::Flac => "flac",
            Self::Mp3 => "mp3",
            Self::Aac => "aac",
            Self::M4a => "m4a",
            Self::OggVorbis => "ogg",
        }
    }

    /// The media type to serve such a file with.
    pub fn mime(self) -> &'static str {
        match self {
            Self::Wav => "audio/wav",
            Self::Flac => "audio/flac",
            Self::Mp3 => "audio/mpeg",
            Self::Aac => "audio/aac",
            Self::M4a => "audio/mp4",
            Self::OggVorbis => "audio/ogg",
        }
    }
}

impl std::fmt::Display for AudioFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Wav => "WAV",
            Self::Flac => "FLAC",
            Self::Mp3 => "MP3",
            Self::Aac => "AAC",
            Self::M4a => "M4A",
            Self::OggVorbis => "Ogg Vorbis",
        })
    }
}
