//! Media files by id, through `object_store`.
//!
//! Ownership and lifetime are in `store/assets.rs`. When [`Blobs::put`] returns, the file is
//! complete and on disk.

use std::ops::Range;
use std::path::Path as FsPath;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use object_store::buffered::BufWriter;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt};
use tokio::io::AsyncWriteExt as _;

use crate::clock::Timestamp;
use crate::error::Error;
use crate::ids::AssetId;
use crate::model::media::MediaType;

/// An error of the file store.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// Reading, writing or listing failed.
    #[error("media store: {}", root_cause(.0))]
    Store(#[from] object_store::Error),
    /// The folder cannot be created, or a temporary file cannot be read.
    #[error("media folder: {0}")]
    Folder(#[from] std::io::Error),
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
        Self::internal(error)
    }
}

/// The file store. Cheap to clone.
#[derive(Clone)]
pub struct Blobs(Arc<dyn ObjectStore>);

impl Blobs {
    /// Files in a local folder, created if missing.
    pub fn local(folder: &FsPath) -> Result<Self, BlobError> {
        std::fs::create_dir_all(folder)?;
        Ok(Self(Arc::new(
            LocalFileSystem::new_with_prefix(folder)?.with_fsync(true),
        )))
    }

    /// Stores a file, atomically replacing one with the same name.
    pub async fn put(&self, id: AssetId, media: MediaType, bytes: Bytes) -> Result<(), BlobError> {
        self.0.put(&path(id, media), bytes.into()).await?;
        Ok(())
    }

    /// Stores a temporary file while reading it; a file with the same name is replaced when it is
    /// complete.
    pub async fn put_file(
        &self,
        id: AssetId,
        media: MediaType,
        file: &FsPath,
    ) -> Result<(), BlobError> {
        const PIECE: usize = 8 * 1024 * 1024;
        let mut source = tokio::fs::File::open(file).await?;
        let mut target = BufWriter::with_capacity(self.0.clone(), path(id, media), PIECE);
        let copied = tokio::io::copy(&mut source, &mut target).await;
        match copied {
            Ok(_) => Ok(target.shutdown().await?),
            Err(error) => {
                target.abort().await?;
                Err(error.into())
            }
        }
    }

    /// A whole file.
    pub async fn get(&self, id: AssetId, media: MediaType) -> Result<Bytes, BlobError> {
        Ok(self.0.get(&path(id, media)).await?.bytes().await?)
    }

    /// Part of a file, as a stream; `None` if there is no such file.
    pub async fn stream(
        &self,
        id: AssetId,
        media: MediaType,
        range: Range<u64>,
    ) -> Result<Option<BoxStream<'static, Result<Bytes, BlobError>>>, BlobError> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            ..GetOptions::default()
        };
        match self.0.get_opts(&path(id, media), options).await {
            Ok(found) => Ok(Some(found.into_stream().map_err(BlobError::from).boxed())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a file; does nothing if it does not exist.
    pub async fn delete(&self, id: AssetId, media: MediaType) -> Result<(), BlobError> {
        match self.0.delete(&path(id, media)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Files last written before `instant`.
    pub async fn written_before(
        &self,
        instant: Timestamp,
    ) -> Result<Vec<(AssetId, MediaType)>, BlobError> {
        let files: Vec<_> = self.0.list(None).try_collect().await?;
        let old = files
            .into_iter()
            .filter(|file| file.last_modified.timestamp() < instant.seconds());
        Ok(old
            .filter_map(|file| parse(file.location.filename()?))
            .collect())
    }
}

/// Files are spread over 256 folders by the random end of their ids.
fn path(id: AssetId, media: MediaType) -> Path {
    let name = id.to_string();
    Path::from(format!(
        "{}/{name}.{}",
        &name[name.len() - 2..],
        media.extension()
    ))
}

fn parse(file_name: &str) -> Option<(AssetId, MediaType)> {
    let (id, extension) = file_name.split_once('.')?;
    Some((id.parse().ok()?, extension.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;

    #[tokio::test]
    async fn files_come_back_whole_and_in_part() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::local(folder.path()).unwrap();
        let id = AssetId::new();
        blobs
            .put(id, MediaType::Png, Bytes::from_static(b"0123456789"))
            .await
            .unwrap();
        assert_eq!(blobs.get(id, MediaType::Png).await.unwrap(), "0123456789");
        let part = blobs
            .stream(id, MediaType::Png, 2..5)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(part.try_collect::<Vec<_>>().await.unwrap().concat(), b"234");
        let later = Clock::system().now().plus(Duration::from_mins(1));
        assert_eq!(
            blobs.written_before(later).await.unwrap(),
            [(id, MediaType::Png)]
        );
        blobs.delete(id, MediaType::Png).await.unwrap();
        blobs.delete(id, MediaType::Png).await.unwrap();
        assert!(
            blobs
                .stream(id, MediaType::Png, 0..1)
                .await
                .unwrap()
                .is_none()
        );
    }
}
