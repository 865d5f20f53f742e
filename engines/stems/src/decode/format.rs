//! The kinds of sound files.

/// Supported formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AudioFormat {
    /// WAVE with integer or float PCM, A-law, µ-law or ADPCM; RIFF, RIFX, RF64, BW64 or Wave64.
    Wav,
    /// AIFF and AIFF-C.
    Aiff,
    /// Apple's Core Audio Format.
    Caf,
    /// Native FLAC.
    Flac,
    /// MPEG layer III.
    Mp3,
    /// MPEG layer II or I.
    MpegLayer2,
    /// AAC-LC as a bare ADTS stream.
    Aac,
    /// AAC-LC, ALAC, FLAC, Opus or MP3 in an MPEG-4 or `QuickTime` file.
    M4a,
    /// Matroska and `WebM`.
    Matroska,
    /// Vorbis in Ogg.
    OggVorbis,
    /// FLAC in Ogg.
    OggFlac,
    /// Opus in Ogg.
    OggOpus,
}

impl AudioFormat {
    /// The usual file name extension, without a dot.
    pub fn extension(self) -> &'static str {
        self.describe().1
    }

    /// The media type to serve such a file with.
    pub fn mime(self) -> &'static str {
        self.describe().2
    }

    /// Name, extension and media type.
    fn describe(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Wav => ("WAV", "wav", "audio/wav"),
            Self::Aiff => ("AIFF", "aiff", "audio/aiff"),
            Self::Caf => ("CAF", "caf", "audio/x-caf"),
            Self::Flac => ("FLAC", "flac", "audio/flac"),
            Self::Mp3 => ("MP3", "mp3", "audio/mpeg"),
            Self::MpegLayer2 => ("MPEG layer II", "mp2", "audio/mpeg"),
            Self::Aac => ("AAC", "aac", "audio/aac"),
            Self::M4a => ("M4A", "m4a", "audio/mp4"),
            Self::Matroska => ("Matroska", "mka", "audio/matroska"),
            Self::OggVorbis => ("Ogg Vorbis", "ogg", "audio/ogg"),
            Self::OggFlac => ("Ogg FLAC", "oga", "audio/ogg"),
            Self::OggOpus => ("Ogg Opus", "opus", "audio/ogg"),
        }
    }
}

impl std::fmt::Display for AudioFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.describe().0)
    }
}
