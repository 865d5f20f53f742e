//! Stored files, served under signed URLs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::ids::{AccountId, AssetId};

#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[strum(const_into_str, serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum MediaType {
    Mp4,
    Webm,
    /// `QuickTime`.
    Mov,
    /// Matroska.
    Mkv,
    Avi,
    /// An MPEG transport stream.
    Ts,
    /// An MPEG program stream.
    Mpg,
    /// Ogg with a video.
    Ogv,
    Flv,
    Flac,
    Png,
    #[strum(serialize = "jpg")]
    #[serde(rename = "jpg")]
    Jpeg,
    Webp,
    Gif,
    Bmp,
    Tiff,
}

impl MediaType {
    /// The file extension, without a dot.
    pub const fn extension(self) -> &'static str {
        self.into_str()
    }

    pub const fn mime(self) -> &'static str {
        match self {
            Self::Mp4 => "video/mp4",
            Self::Webm => "video/webm",
            Self::Mov => "video/quicktime",
            Self::Mkv => "video/x-matroska",
            Self::Avi => "video/x-msvideo",
            Self::Ts => "video/mp2t",
            Self::Mpg => "video/mpeg",
            Self::Ogv => "video/ogg",
            Self::Flv => "video/x-flv",
            Self::Flac => "audio/flac",
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
            Self::Gif => "image/gif",
            Self::Bmp => "image/bmp",
            Self::Tiff => "image/tiff",
        }
    }

    /// Whether it is a film or a recording, and not a picture.
    pub fn is_played(self) -> bool {
        self.mime().starts_with("video/") || self == Self::Flac
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.extension())
    }
}

/// The record of a stored file; the file itself is in `blob`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asset {
    pub id: AssetId,
    pub account: AccountId,
    pub media: MediaType,
    /// Length in bytes.
    pub size_bytes: u64,
    /// SHA-256 of the bytes, in lower-case hex.
    pub sha256: String,
    pub created_at: Timestamp,
    /// When it is removed; never if `None`.
    pub expires_at: Option<Timestamp>,
    pub removed_at: Option<Timestamp>,
}
