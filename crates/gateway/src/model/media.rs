//! Stored files: what the gateway keeps and shows under signed addresses.

use std::fmt;
use std::str::FromStr;

use crate::clock::Timestamp;
use crate::ids::{AccountId, AssetId};

/// What a stored file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaType {
    /// H.264 in MP4.
    Mp4,
    /// FLAC audio.
    Flac,
    /// PNG picture.
    Png,
    /// JPEG picture.
    Jpeg,
    /// WebP picture.
    Webp,
    /// GIF picture.
    Gif,
    /// BMP picture.
    Bmp,
    /// TIFF picture.
    Tiff,
}

impl MediaType {
    const ALL: [Self; 8] = [
        Self::Mp4,
        Self::Flac,
        Self::Png,
        Self::Jpeg,
        Self::Webp,
        Self::Gif,
        Self::Bmp,
        Self::Tiff,
    ];

    /// The ending of its address.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Mp4 => "mp4",
            Self::Flac => "flac",
            Self::Png => "png",
            Self::Jpeg => "jpg",
            Self::Webp => "webp",
            Self::Gif => "gif",
            Self::Bmp => "bmp",
            Self::Tiff => "tiff",
        }
    }

    /// Its `Content-Type`.
    pub const fn mime(self) -> &'static str {
        match self {
            Self::Mp4 => "video/mp4",
            Self::Flac => "audio/flac",
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
            Self::Gif => "image/gif",
            Self::Bmp => "image/bmp",
            Self::Tiff => "image/tiff",
        }
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.extension())
    }
}

/// The text is no ending of a media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no such media type")]
pub struct NoSuchMediaType;

impl FromStr for MediaType {
    type Err = NoSuchMediaType;

    fn from_str(extension: &str) -> Result<Self, NoSuchMediaType> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.extension() == extension)
            .ok_or(NoSuchMediaType)
    }
}

/// The record of a stored file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asset {
    /// Names the file.
    pub id: AssetId,
    /// Whose it is.
    pub account: AccountId,
    /// What it is.
    pub media: MediaType,
    /// Its length.
    pub size_bytes: u64,
    /// SHA-256 of the bytes, in lower-case hex.
    pub sha256: String,
    /// When it was stored.
    pub created_at: Timestamp,
    /// When it is removed; never when `None`.
    pub expires_at: Option<Timestamp>,
    /// When it was removed.
    pub removed_at: Option<Timestamp>,
}
