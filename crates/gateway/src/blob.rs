//! Media files by id, through `object_store`.
//!
//! Ownership and lifetime are in `store/assets.rs`. When [`Blobs::put`] returns, the file is
//! complete and on disk.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::Path as FsPath;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::buffered::BufWriter;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResultPayload, ObjectStore, ObjectStoreExt};
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
pub struct Blobs {
    files: Arc<dyn ObjectStore>,
    folder: Arc<FsPath>,
}

impl Blobs {
    /// Files in a local folder, created if missing.
    pub fn local(folder: &FsPath) -> Result<Self, BlobError> {
        std::fs::create_dir_all(folder)?;
        let files = LocalFileSystem::new_with_prefix(folder)?.with_fsync(true);
        Ok(Self {
            files: Arc::new(files),
            folder: folder.into(),
        })
    }

    /// Stores a file, atomically replacing one with the same name.
    pub async fn put(&self, id: AssetId, media: MediaType, bytes: Bytes) -> Result<(), BlobError> {
        self.files.put(&path(id, media), bytes.into()).await?;
        Ok(())
    }

    /// Stores a temporary file, which must not change any more. It is copied only where it is on
    /// another disk, or where the name is taken: a file of that name is replaced when this one is
    /// complete.
    pub async fn put_file(
        &self,
        id: AssetId,
        media: MediaType,
        file: &FsPath,
    ) -> Result<(), BlobError> {
        let (from, to) = (file.to_owned(), self.folder.join(path(id, media).as_ref()));
        let linked = tokio::task::spawn_blocking(move || link(&from, &to)).await;
        if linked.is_ok_and(|linked| linked.is_ok()) {
            return Ok(());
        }
        self.copy_file(id, media, file).await
    }

    async fn copy_file(
        &self,
        id: AssetId,
        media: MediaType,
        file: &FsPath,
    ) -> Result<(), BlobError> {
        const PIECE: usize = 8 * 1024 * 1024;
        let mut source = tokio::fs::File::open(file).await?;
        let mut target = BufWriter::with_capacity(self.files.clone(), path(id, media), PIECE);
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
        Ok(self.files.get(&path(id, media)).await?.bytes().await?)
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
        let found = match self.files.get_opts(&path(id, media), options).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let range = found.range.clone();
        Ok(Some(match found.payload {
            GetResultPayload::File(file, _) => pieces(file, range).boxed(),
            GetResultPayload::Stream(stream) => stream.map_err(BlobError::from).boxed(),
        }))
    }

    /// Removes a file; does nothing if it does not exist.
    pub async fn delete(&self, id: AssetId, media: MediaType) -> Result<(), BlobError> {
        match self.files.delete(&path(id, media)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Files last written before `instant`.
    pub async fn written_before(
        &self,
        instant: Timestamp,
    ) -> Result<Vec<(AssetId, MediaType)>, BlobError> {
        let files: Vec<_> = self.files.list(None).try_collect().await?;
        let old = files
            .into_iter()
            .filter(|file| file.last_modified.timestamp() < instant.seconds());
        Ok(old
            .filter_map(|file| parse(file.location.filename()?))
            .collect())
    }
}

/// Gives a file a second name, durably.
fn link(from: &FsPath, to: &FsPath) -> std::io::Result<()> {
    let folder = to.parent().ok_or(std::io::ErrorKind::InvalidInput)?;
    File::open(from)?.sync_all()?;
    match std::fs::create_dir(folder) {
        Ok(()) => folder.parent().map_or(Ok(()), sync)?,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    std::fs::hard_link(from, to)?;
    sync(folder)
}

fn sync(folder: &FsPath) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Part of a file on this disk. Each piece is a change of threads, and is in memory until
/// the other side has taken it.
fn pieces(file: File, range: Range<u64>) -> impl Stream<Item = Result<Bytes, BlobError>> {
    const PIECE: u64 = 256 * 1024;
    let unread = (Arc::new(file), range);
    futures_util::stream::try_unfold(unread, async |(file, Range { start, end })| {
        let wanted = (end - start).min(PIECE);
        if wanted == 0 {
            return Ok(None);
        }
        let source = file.clone();
        let piece = tokio::task::spawn_blocking(move || read_at(&source, start, wanted));
        let piece = piece.await.map_err(std::io::Error::other)??;
        Ok(Some((piece, (file, start + wanted..end))))
    })
}

fn read_at(mut file: &File, start: u64, length: u64) -> std::io::Result<Bytes> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.take(length).read_to_end(&mut bytes)?;
    // What was announced has to come: an answer that is cut short must not look whole.
    if bytes.len() as u64 == length {
        Ok(bytes.into())
    } else {
        Err(std::io::ErrorKind::UnexpectedEof.into())
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
        // More than a piece.
        let long: Vec<u8> = (0..1_000_003_u32).map(|at| (at % 251) as u8).collect();
        let film = AssetId::new();
        let whole = Bytes::from(long.clone());
        blobs.put(film, MediaType::Mp4, whole).await.unwrap();
        let part = blobs.stream(film, MediaType::Mp4, 5..1_000_001);
        let pieces: Vec<_> = part.await.unwrap().unwrap().try_collect().await.unwrap();
        assert_eq!(pieces.concat(), &long[5..1_000_001]);
        // The same from a file: where the name is taken, and where it is free.
        let file = folder.path().join("film");
        std::fs::write(&file, &long[..70_000]).unwrap();
        for round in 0..2 {
            let put = blobs.put_file(film, MediaType::Mp4, &file).await;
            put.unwrap();
            let stored = blobs.get(film, MediaType::Mp4).await.unwrap();
            assert_eq!(stored, &long[..70_000], "round {round}");
            blobs.delete(film, MediaType::Mp4).await.unwrap();
        }
        std::fs::remove_file(&file).unwrap();
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
