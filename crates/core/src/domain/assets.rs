//! Stored files: storing, loading and their URLs.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use providers::FileHandover;
use sha2::{Digest as _, Sha256};
use tempfile::{NamedTempFile, TempPath};
use tokio::io::AsyncWriteExt as _;

use crate::app::{AppParts, Ctx};
use mediagate_media::engines::clip::MadeClip;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, AssetId};
use mediagate_model::media::{Asset, MediaType};
use mediagate_model::music::ClipMedia;
use mediagate_store as store;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssetLifetime {
    /// Expires after `media_ttl`.
    Media,
    /// Never expires.
    Forever,
}

/// Stores a file and returns its record, which the caller inserts in the transaction that first
/// refers to it. Upkeep removes files that never get a record.
pub async fn keep(
    app: &AppParts,
    account: AccountId,
    media: MediaType,
    bytes: Bytes,
    lifetime: AssetLifetime,
) -> Result<Asset, Error> {
    let hashed = app.compute(move || (sha256_hex(&bytes), bytes));
    let (sha256, bytes) = hashed.await?;
    let asset = record(app, account, media, bytes.len() as u64, sha256, lifetime);
    // The file comes before its record. A crash in between leaves a file that upkeep sweeps, and
    // never a record without its file.
    app.blobs.put(asset.id, media, bytes).await?;
    Ok(asset)
}

/// Removes files whose records were refused with this error. If the error leaves open whether the
/// records are in the database, the files stay. Upkeep checks that, and also removes files that
/// cannot be removed now.
pub async fn discard(app: &AppParts, files: &[(AssetId, MediaType)], error: &Error) {
    if matches!(
        error.code(),
        ErrorCode::InternalError | ErrorCode::Overloaded
    ) {
        return;
    }
    if let Err(error) = app.blobs.delete_all(files).await {
        tracing::warn!(%error, "cannot remove files");
    }
}

fn record(
    app: &Ctx,
    account: AccountId,
    media: MediaType,
    size_bytes: u64,
    sha256: String,
    lifetime: AssetLifetime,
) -> Asset {
    // Expiry is measured in record time. If the clock is behind it, a file dated by `now` would
    // expire too early.
    let now = app.clock.record_time();
    Asset {
        id: AssetId::new(),
        account,
        media,
        size_bytes,
        sha256,
        created_at: now,
        expires_at: (lifetime == AssetLifetime::Media).then(|| now.plus(app.config.media_ttl)),
        removed_at: None,
    }
}

/// A stored file's record and content; `None` if it was removed.
pub async fn load(app: &AppParts, id: AssetId) -> Result<Option<(Asset, Bytes)>, Error> {
    let asset = app
        .store
        .read(move |conn| store::assets::by_id(conn, id))
        .await?;
    let Some(asset) = asset.filter(|asset| asset.removed_at.is_none()) else {
        return Ok(None);
    };
    let bytes = app.blobs.get(id, asset.media).await?;
    Ok(Some((asset, bytes)))
}

/// A stored file under a temporary name, only to be read: it may be the stored file itself. `None`
/// if it was removed.
pub async fn load_file(app: &AppParts, id: AssetId) -> Result<Option<TempPath>, Error> {
    let asset = app
        .store
        .read(move |conn| store::assets::by_id(conn, id))
        .await?;
    match asset.filter(|asset| asset.removed_at.is_none()) {
        Some(asset) => spool_copy(app, &asset).await,
        None => Ok(None),
    }
}

/// Like [`load_file`], for an image of an account. `None` also if the file is not an image, or is
/// another account's.
pub async fn load_own_picture(
    app: &AppParts,
    account: AccountId,
    id: AssetId,
) -> Result<Option<TempPath>, Error> {
    let asset = app
        .store
        .read(move |conn| store::assets::by_owner(conn, id, account))
        .await?;
    match asset.filter(|asset| !asset.media.is_played()) {
        Some(asset) => spool_copy(app, &asset).await,
        None => Ok(None),
    }
}

/// A stored file under a temporary name, only to be read.
async fn spool_copy(app: &AppParts, asset: &Asset) -> Result<Option<TempPath>, Error> {
    let id = asset.id;
    let spool = app.config.spool_path();
    // A hard link costs no copy, and the file stays readable if it is removed meanwhile. A bucket,
    // or a spool on another file system, cannot give one.
    if let Some(file) = app.blobs.hard_link(id, asset.media, &spool).await {
        return Ok(Some(file));
    }
    let range = 0..asset.size_bytes;
    let Some(mut chunks) = app.blobs.stream(id, asset.media, range).await? else {
        return Ok(None);
    };
    let file = NamedTempFile::new_in(spool).map_err(Error::internal)?;
    let (file, path) = file.into_parts();
    let mut file = tokio::fs::File::from_std(file);
    while let Some(chunk) = chunks.next().await {
        file.write_all(&chunk?).await.map_err(Error::internal)?;
    }
    file.flush().await.map_err(Error::internal)?;
    Ok(Some(path))
}

/// Like [`keep`], for a temporary file.
pub async fn keep_file(
    app: &AppParts,
    account: AccountId,
    media: MediaType,
    file: &Path,
    size_bytes: u64,
    sha256: String,
) -> Result<Asset, Error> {
    let asset = record(
        app,
        account,
        media,
        size_bytes,
        sha256,
        AssetLifetime::Media,
    );
    app.blobs.put_file(asset.id, media, file).await?;
    Ok(asset)
}

/// Like [`keep_file`], for a file that already has an id.
pub async fn keep_file_as(
    app: &AppParts,
    id: AssetId,
    account: AccountId,
    media: MediaType,
    file: &Path,
    (size_bytes, sha256): (u64, String),
) -> Result<Asset, Error> {
    let asset = Asset {
        id,
        ..record(
            app,
            account,
            media,
            size_bytes,
            sha256,
            AssetLifetime::Media,
        )
    };
    app.blobs.put_file(id, media, file).await?;
    Ok(asset)
}

/// Whether this gateway can hand files to a provider in this way.
pub fn can_be_handed(app: &Ctx, handover: FileHandover) -> bool {
    match handover {
        FileHandover::Any => true,
        // Such a provider fetches the file itself, so it must be able to reach this gateway.
        FileHandover::AddressOnly => app.config.public_url.is_some(),
    }
}

/// A URL at which anyone can fetch a stored file for a day; `None` if the gateway has no
/// `public_url`.
pub fn temporary_url(app: &AppParts, asset: &Asset) -> Option<String> {
    const TTL: Duration = Duration::from_hours(24);
    let origin = app.config.public_url.as_ref()?;
    let until = app.clock.now().plus(TTL);
    let origin = app.config.media.origin(origin);
    let path = app.secrets.signer.path(asset.id, asset.media, until);
    Some(format!("{origin}{path}"))
}

/// Stores a clip's files; the transaction that completes the clip inserts the records. If one
/// cannot be stored, none are kept.
pub async fn keep_clip(
    app: &AppParts,
    account: AccountId,
    clip: &MadeClip,
) -> Result<(ClipMedia, [Asset; 3]), Error> {
    let (size, sha256) = (clip.size_bytes, clip.sha256.clone());
    let audio = keep_file(app, account, MediaType::Flac, &clip.flac, size, sha256).await?;
    let keep = |bytes: &Bytes| {
        keep(
            app,
            account,
            MediaType::Png,
            bytes.clone(),
            AssetLifetime::Media,
        )
    };
    let images = async {
        let image = keep(&clip.cover).await?;
        match keep(&clip.cover_large).await {
            Ok(large) => Ok((image, large)),
            Err(error) => {
                remove(app, &image).await;
                Err(error)
            }
        }
    };
    let (image, large) = match images.await {
        Ok(images) => images,
        Err(error) => {
            remove(app, &audio).await;
            return Err(error);
        }
    };
    let media = ClipMedia {
        audio: audio.id,
        audio_type: audio.media,
        image: image.id,
        image_large: large.id,
        milliseconds: clip.milliseconds,
        expires_at: audio.expires_at,
    };
    Ok((media, [audio, image, large]))
}

/// Removes a file that nothing refers to; upkeep sweeps what cannot be removed now.
pub async fn remove(app: &AppParts, asset: &Asset) {
    if let Err(error) = app.blobs.delete(asset.id, asset.media).await {
        tracing::warn!(%error, "cannot remove a file");
    }
}

pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}
