//! Media files by id, in a folder or in a bucket, through `object_store`.
//!
//! Ownership and lifetime are in `store/assets.rs`. When [`BlobStore::put`] returns, the file is
//! complete and durable. Each file has the same name everywhere: `{xx}/{id}.{extension}`, where
//! `xx` are the last digits of the id. These are random, so the 256 folders have about equal sizes.
//! Ids begin with a time, so names in a folder sort by time.

mod bucket;
pub mod folder_mark;
mod health;
mod local_folder;
mod upload;

use std::ops::Range;
use std::path::Path as FsPath;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use tempfile::TempPath;
use url::Url;

use crate::blob::bucket::S3Bucket;
use crate::blob::local_folder::LocalFolder;
use mediagate_config::{ConfigError, MediaConfig, MediaStore};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_model::ids::AssetId;
use mediagate_model::media::MediaType;

/// An error of the file store.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// Reading, writing or listing the folder failed.
    #[error("media store: {}", root_cause(.0))]
    Store(#[from] object_store::Error),
    /// The folder cannot be created, or a temporary file cannot be read.
    #[error("media folder: {0}")]
    Folder(#[from] std::io::Error),
    /// The bucket does not answer, or refuses.
    #[error("media store: {0}")]
    Unavailable(String),
    /// The limit of simultaneous requests to the bucket is reached.
    #[error("media store: too many requests at once")]
    Busy,
    /// There is no such file.
    #[error("media store: a file is missing")]
    Missing,
    /// A bucket cannot be set up like this.
    #[error("media.store: {0}")]
    Setup(String),
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// The innermost cause; the outer ones contain paths, which must not be logged.
fn root_cause(error: &object_store::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

impl From<BlobError> for Error {
    fn from(error: BlobError) -> Self {
        match error {
            // Retried for longer than other errors: the data in the store is not lost.
            BlobError::Unavailable(_) | BlobError::Busy => Self::media_unavailable(error),
            error => Self::internal(error),
        }
    }
}

/// A file's bytes, as a stream.
pub type ByteStream = BoxStream<'static, Result<Bytes, BlobError>>;

/// The file store. Cheap to clone.
#[derive(Clone)]
pub struct BlobStore(BlobBackend);

#[derive(Clone)]
enum BlobBackend {
    Folder(LocalFolder),
    Bucket(S3Bucket),
}

/// A file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BlobName {
    id: AssetId,
    media: MediaType,
}

impl BlobName {
    fn folder(self) -> String {
        let id = self.id.to_string();
        id[id.len() - 2..].to_owned()
    }

    fn file(self) -> String {
        format!("{}.{}", self.id, self.media.extension())
    }

    fn parse(file_name: &str) -> Option<Self> {
        let (id, extension) = file_name.split_once('.')?;
        Some(Self {
            id: id.parse().ok()?,
            media: extension.parse().ok()?,
        })
    }
}

/// The name of one of the 256 folders.
fn folder_name(number: u8) -> String {
    format!("{number:02x}")
}

/// The `Content-Disposition` of a file.
pub fn disposition(id: AssetId, media: MediaType) -> String {
    format!("inline; filename=\"{id}.{}\"", media.extension())
}

/// How long clients may cache a file.
pub const CACHE_CONTROL: &str = "private, max-age=3600, immutable";

impl BlobStore {
    /// Opens the store in the settings. A bucket is not contacted yet: it may be unavailable.
    pub fn open(media: &MediaConfig, folder: &FsPath) -> Result<Self, BlobError> {
        match &media.store {
            MediaStore::Folder => Self::local(folder),
            MediaStore::S3 { bucket, prefix } => Ok(Self(BlobBackend::Bucket(S3Bucket::open(
                media, bucket, prefix,
            )?))),
        }
    }

    /// A small text that is stored in the bucket next to the files; `None` if there is none, or no
    /// bucket.
    pub async fn note(&self, name: &str) -> Result<Option<String>, BlobError> {
        match &self.0 {
            BlobBackend::Folder(_) => Ok(None),
            BlobBackend::Bucket(bucket) => match bucket.read_note(name).await {
                Ok(text) => Ok(Some(text)),
                Err(BlobError::Missing) => Ok(None),
                Err(error) => Err(error),
            },
        }
    }

    /// Stores a small text in the bucket next to the files, if there is a bucket.
    pub async fn keep_note(&self, name: &str, text: String) -> Result<(), BlobError> {
        match &self.0 {
            BlobBackend::Folder(_) => Ok(()),
            BlobBackend::Bucket(bucket) => bucket.write_note(name, text).await,
        }
    }

    /// Files in a local folder, created if missing.
    pub fn local(folder: &FsPath) -> Result<Self, BlobError> {
        std::fs::create_dir_all(folder)?;
        Ok(Self(BlobBackend::Folder(LocalFolder::open(folder, None))))
    }

    /// A store in the local folder that has this mark. While there is no such folder, the store is
    /// unavailable.
    pub fn in_marked_folder(folder: &FsPath, mark: String) -> Self {
        Self(BlobBackend::Folder(LocalFolder::open(folder, Some(mark))))
    }

    /// The mark of the folder, if files are stored in a marked one.
    pub fn folder_mark(&self) -> Option<&str> {
        match &self.0 {
            BlobBackend::Folder(folder) => folder.mark(),
            BlobBackend::Bucket(_) => None,
        }
    }

    /// Notes whether other processes on the database store files in another folder. While they do,
    /// a file that is not in this one counts as unavailable, not as removed.
    pub fn set_one_of_several(&self, is_one_of_several: bool) {
        if let BlobBackend::Folder(folder) = &self.0 {
            folder.set_one_of_several(is_one_of_several);
        }
    }

    /// Stores a file, atomically replacing one with the same name.
    pub async fn put(&self, id: AssetId, media: MediaType, bytes: Bytes) -> Result<(), BlobError> {
        let name = BlobName { id, media };
        match &self.0 {
            BlobBackend::Folder(folder) => folder.put(name, bytes).await,
            BlobBackend::Bucket(bucket) => bucket.put(name, bytes).await,
        }
    }

    /// Stores a temporary file, which must not change any more. In a folder it is copied only if it
    /// is on another disk, or if the name is taken: a file of that name is replaced when this one
    /// is complete.
    pub async fn put_file(
        &self,
        id: AssetId,
        media: MediaType,
        file: &FsPath,
    ) -> Result<(), BlobError> {
        let name = BlobName { id, media };
        match &self.0 {
            BlobBackend::Folder(folder) => folder.put_file(name, file).await,
            BlobBackend::Bucket(bucket) => bucket.put_file(name, file).await,
        }
    }

    /// Gives a file a second name, through which it must only be read. `None` if the file is not on
    /// a local disk, or the disk does not support it.
    pub async fn hard_link(
        &self,
        id: AssetId,
        media: MediaType,
        folder: &FsPath,
    ) -> Option<TempPath> {
        match &self.0 {
            BlobBackend::Folder(files) => files.hard_link(BlobName { id, media }, folder).await,
            BlobBackend::Bucket(_) => None,
        }
    }

    /// Stores a streamed file; if its bytes do not all arrive, nothing is kept.
    pub async fn put_stream(
        &self,
        id: AssetId,
        media: MediaType,
        chunks: ByteStream,
    ) -> Result<(), BlobError> {
        let name = BlobName { id, media };
        match &self.0 {
            BlobBackend::Folder(folder) => folder.put_stream(name, chunks).await,
            BlobBackend::Bucket(bucket) => bucket.put_stream(name, chunks).await,
        }
    }

    /// A whole file.
    pub async fn get(&self, id: AssetId, media: MediaType) -> Result<Bytes, BlobError> {
        let name = BlobName { id, media };
        match &self.0 {
            BlobBackend::Folder(folder) => folder.get(name).await,
            BlobBackend::Bucket(bucket) => bucket.get(name).await,
        }
    }

    /// Part of a file, as a stream; `None` if there is no such file.
    pub async fn stream(
        &self,
        id: AssetId,
        media: MediaType,
        range: Range<u64>,
    ) -> Result<Option<ByteStream>, BlobError> {
        let name = BlobName { id, media };
        match &self.0 {
            BlobBackend::Folder(folder) => folder.stream(name, range),
            BlobBackend::Bucket(bucket) => bucket.stream(name, range).await,
        }
    }

    /// A URL at which anyone can fetch the file from the bucket for this time; `None` if there is
    /// no bucket.
    pub async fn link(
        &self,
        id: AssetId,
        media: MediaType,
        time: Duration,
    ) -> Result<Option<Url>, BlobError> {
        match &self.0 {
            BlobBackend::Folder(_) => Ok(None),
            BlobBackend::Bucket(bucket) => {
                bucket.link(BlobName { id, media }, time).await.map(Some)
            }
        }
    }

    /// Removes a file; does nothing if it does not exist.
    pub async fn delete(&self, id: AssetId, media: MediaType) -> Result<(), BlobError> {
        self.delete_all(&[(id, media)]).await
    }

    /// Removes files, at most 1000; missing ones are ignored.
    pub async fn delete_all(&self, files: &[(AssetId, MediaType)]) -> Result<(), BlobError> {
        let names = files.iter().map(|&(id, media)| BlobName { id, media });
        match &self.0 {
            BlobBackend::Folder(folder) => folder.delete_all(names).await,
            BlobBackend::Bucket(bucket) => bucket.delete_all(names).await,
        }
    }

    /// Files of one of the 256 folders whose ids were made in this time. In a bucket, the cost
    /// depends on the number of files of that time.
    pub async fn made_between(
        &self,
        folder: u8,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(AssetId, MediaType)>, BlobError> {
        let (from, to) = (AssetId::first_of(from), AssetId::first_of(to));
        let names = match &self.0 {
            BlobBackend::Folder(local) => local.list(folder, from, to).await?,
            BlobBackend::Bucket(bucket) => bucket.list(folder, from, to).await?,
        };
        Ok(names
            .into_iter()
            .map(|name| (name.id, name.media))
            .collect())
    }

    /// Every file of one of the 256 folders with its size, in no particular order.
    pub fn all_of(
        &self,
        folder: u8,
    ) -> BoxStream<'static, Result<(AssetId, MediaType, u64), BlobError>> {
        match &self.0 {
            BlobBackend::Folder(local) => local.all_of(folder),
            BlobBackend::Bucket(bucket) => bucket.all_of(folder),
        }
    }

    /// Whether, at the last request, the bucket failed or the folder was missing.
    pub fn is_unavailable(&self) -> bool {
        match &self.0 {
            BlobBackend::Folder(folder) => folder.missing_since().is_some(),
            BlobBackend::Bucket(bucket) => bucket.is_unavailable(),
        }
    }

    /// When the bucket began to fail or the folder went missing, if that was still so at the last
    /// request.
    pub fn unavailable_since(&self) -> Option<Instant> {
        match &self.0 {
            BlobBackend::Folder(folder) => folder.missing_since(),
            BlobBackend::Bucket(bucket) => bucket.unavailable_since(),
        }
    }

    /// Makes a test request, to find out whether the bucket answers or the folder exists.
    pub async fn probe(&self) {
        match &self.0 {
            BlobBackend::Folder(folder) => drop(folder.probe().await),
            BlobBackend::Bucket(bucket) => bucket.probe().await,
        }
    }

    /// Whether the folder exists. An unavailable bucket recovers by itself; a missing folder needs
    /// an operator.
    pub async fn has_folder(&self) -> bool {
        match &self.0 {
            BlobBackend::Folder(folder) => folder.probe().await.is_ok(),
            BlobBackend::Bucket(_) => true,
        }
    }
}
