//! Files in a local folder.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Path as FsPath, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt as _, TryStreamExt as _};
use object_store::buffered::BufWriter;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use tempfile::TempPath;
use tokio::io::AsyncWriteExt as _;

use crate::blob::health::StoreHealth;
use crate::blob::{BlobError, BlobName, ByteStream, folder_mark, folder_name};
use mediagate_model::ids::AssetId;
use mediagate_model::media::MediaType;

#[derive(Clone)]
pub(super) struct LocalFolder(Arc<FolderInner>);

struct FolderInner {
    /// Opened at the first use.
    files: OnceLock<Arc<dyn ObjectStore>>,
    folder: Arc<FsPath>,
    /// The mark that the folder must have; `None` if any folder is accepted.
    mark: Option<String>,
    /// Whether other processes store files in another folder.
    is_one_of_several: AtomicBool,
    health: StoreHealth,
}

impl LocalFolder {
    pub(super) fn open(folder: &FsPath, mark: Option<String>) -> Self {
        Self(Arc::new(FolderInner {
            files: OnceLock::new(),
            folder: folder.into(),
            mark,
            is_one_of_several: AtomicBool::new(false),
            health: StoreHealth::default(),
        }))
    }

    pub(super) fn mark(&self) -> Option<&str> {
        self.0.mark.as_deref()
    }

    pub(super) fn set_one_of_several(&self, is_one_of_several: bool) {
        let flag = &self.0.is_one_of_several;
        flag.store(is_one_of_several, Ordering::Relaxed);
    }

    pub(super) fn missing_since(&self) -> Option<Instant> {
        self.0.health.unavailable_since()
    }

    /// Fails if the folder is missing or is another one. In that case nothing may be created in its
    /// place, and missing files do not count as lost.
    pub(super) async fn probe(&self) -> Result<(), BlobError> {
        let folder = self.clone();
        // On a network file system this may take long.
        let check = tokio::task::spawn_blocking(move || folder.check());
        check
            .await
            .unwrap_or_else(|error| Err(BlobError::Unavailable(error.to_string())))
    }

    fn check(&self) -> Result<(), BlobError> {
        const REASON: &str = "the media folder is missing or was replaced by another one";
        let FolderInner {
            folder,
            mark,
            health,
            ..
        } = &*self.0;
        let Some(mark) = mark else {
            return Ok(());
        };
        let started = Instant::now();
        if folder_mark::read(folder).as_ref() == Some(mark) {
            health.note_answer();
            return Ok(());
        }
        health.note_failure(started, "folder", REASON);
        Err(BlobError::Unavailable(REASON.into()))
    }

    fn files(&self) -> Result<Arc<dyn ObjectStore>, BlobError> {
        if let Some(files) = self.0.files.get() {
            return Ok(files.clone());
        }
        // A file must be durable before a record refers to it.
        let files = LocalFileSystem::new_with_prefix(&self.0.folder)?.with_fsync(true);
        Ok(self.0.files.get_or_init(|| Arc::new(files)).clone())
    }

    fn path_of(&self, name: BlobName) -> PathBuf {
        self.0.folder.join(path(name).as_ref())
    }

    /// Runs work on the folder; fails if the folder is missing before or afterwards.
    async fn with_folder_checked<T>(
        &self,
        work: impl Future<Output = Result<T, BlobError>>,
    ) -> Result<T, BlobError> {
        self.probe().await?;
        let result = work.await;
        // If the folder was unmounted meanwhile, the work affected the directory below the mount
        // point.
        self.probe().await?;
        result
    }

    pub(super) async fn put(&self, name: BlobName, bytes: Bytes) -> Result<(), BlobError> {
        self.with_folder_checked(async {
            self.files()?.put(&path(name), bytes.into()).await?;
            Ok(())
        })
        .await
    }

    pub(super) async fn put_file(&self, name: BlobName, file: &FsPath) -> Result<(), BlobError> {
        let (from, to) = (file.to_owned(), self.path_of(name));
        let folder = self.clone();
        let linked = tokio::task::spawn_blocking(move || {
            folder.check()?;
            let linked = link(&from, &to);
            folder.check()?;
            Ok::<_, BlobError>(linked.is_ok())
        });
        // If no link can be made, for example from another disk, the file is copied.
        if let Ok(linked) = linked.await
            && linked?
        {
            return Ok(());
        }
        self.copy_file(name, file).await
    }

    pub(super) async fn hard_link(&self, name: BlobName, folder: &FsPath) -> Option<TempPath> {
        let (file, folder) = (self.path_of(name), folder.to_owned());
        let link = move || {
            let link = |to: &FsPath| std::fs::hard_link(&file, to);
            let linked = tempfile::Builder::new()
                .make_in(folder, link)?
                .into_temp_path();
            // A second name that cannot be opened is of no use.
            File::open(&linked).map(|_| linked)
        };
        tokio::task::spawn_blocking(link).await.ok()?.ok()
    }

    async fn copy_file(&self, name: BlobName, file: &FsPath) -> Result<(), BlobError> {
        let source = tokio::fs::File::open(file).await?;
        let chunks = tokio_util::io::ReaderStream::with_capacity(source, 256 * 1024);
        let chunks = chunks.map_err(BlobError::from).boxed();
        self.put_stream(name, chunks).await
    }

    pub(super) async fn put_stream(
        &self,
        name: BlobName,
        mut chunks: ByteStream,
    ) -> Result<(), BlobError> {
        const CHUNK: usize = 8 * 1024 * 1024;
        self.with_folder_checked(async {
            let mut target = BufWriter::with_capacity(self.files()?, path(name), CHUNK);
            let result: Result<(), BlobError> = async {
                while let Some(chunk) = chunks.try_next().await? {
                    target.put(chunk).await?;
                }
                Ok(())
            }
            .await;
            match result {
                Ok(()) => Ok(target.shutdown().await?),
                Err(error) => {
                    target.abort().await?;
                    Err(error)
                }
            }
        })
        .await
    }

    pub(super) async fn get(&self, name: BlobName) -> Result<Bytes, BlobError> {
        let read = async {
            let file = self.files()?.get(&path(name)).await?;
            Ok::<_, BlobError>(file.bytes().await?)
        };
        match read.await {
            Ok(bytes) => Ok(bytes),
            Err(error) => {
                // A file is only missing if the folder is there.
                self.probe().await?;
                Err(error)
            }
        }
    }

    /// Opens the file on the calling thread: that takes microseconds, less than a switch to another
    /// thread.
    pub(super) fn stream(
        &self,
        name: BlobName,
        range: Range<u64>,
    ) -> Result<Option<ByteStream>, BlobError> {
        let file = match File::open(self.path_of(name)) {
            Ok(file) => file,
            Err(error) => {
                self.check()?;
                if error.kind() != std::io::ErrorKind::NotFound {
                    return Err(error.into());
                }
                if self.0.is_one_of_several.load(Ordering::Relaxed) {
                    let reason = "the file may be in the media folder of another process";
                    return Err(BlobError::Unavailable(reason.into()));
                }
                return Ok(None);
            }
        };
        Ok(Some(match read_cached(&file, &range) {
            Some(bytes) => futures_util::stream::iter([Ok(bytes)]).boxed(),
            None => chunks(file, range).boxed(),
        }))
    }

    /// A missing file counts as removed, but not if the folder is missing.
    pub(super) async fn delete_all(
        &self,
        names: impl Iterator<Item = BlobName>,
    ) -> Result<(), BlobError> {
        self.with_folder_checked(async {
            let files = self.files()?;
            for name in names {
                match files.delete(&path(name)).await {
                    Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        })
        .await
    }

    pub(super) async fn list(
        &self,
        folder: u8,
        from: AssetId,
        to: AssetId,
    ) -> Result<Vec<BlobName>, BlobError> {
        self.with_folder_checked(async {
            let listing = self.files()?.list(Some(&Path::from(folder_name(folder))));
            let names = listing.try_filter_map(async |file| {
                let name = file.location.filename().and_then(BlobName::parse);
                Ok(name.filter(|name| from <= name.id && name.id < to))
            });
            Ok(names.try_collect().await?)
        })
        .await
    }

    pub(super) fn all_of(
        &self,
        folder: u8,
    ) -> BoxStream<'static, Result<(AssetId, MediaType, u64), BlobError>> {
        let files = match self.check().and_then(|()| self.files()) {
            Ok(files) => files,
            Err(error) => return futures_util::stream::iter([Err(error)]).boxed(),
        };
        let listing = files.list(Some(&Path::from(folder_name(folder))));
        let names = listing.try_filter_map(async |file| {
            let name = file.location.filename().and_then(BlobName::parse);
            Ok(name.map(|name| (name.id, name.media, file.size)))
        });
        names.map_err(BlobError::from).boxed()
    }
}

fn path(name: BlobName) -> Path {
    Path::from(format!("{}/{}", name.folder(), name.file()))
}

/// Gives a file a second name, durably. The name is created before the file is synced, because
/// nothing refers to it yet. A journaling file system then writes file and name in one commit, and
/// the sync of the folder has nothing left to do.
fn link(from: &FsPath, to: &FsPath) -> std::io::Result<()> {
    let folder = to.parent().ok_or(std::io::ErrorKind::InvalidInput)?;
    match std::fs::hard_link(from, to) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            match std::fs::create_dir(folder) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                // A new folder is durable once its parent is.
                created => created.and_then(|()| folder.parent().map_or(Ok(()), sync))?,
            }
            std::fs::hard_link(from, to)?;
        }
        linked => linked?,
    }
    File::open(to)?.sync_all()?;
    sync(folder)
}

fn sync(folder: &FsPath) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A small part of a file, if the system has it in memory: reading it takes microseconds, less than
/// a switch to another thread.
#[cfg(target_os = "linux")]
fn read_cached(file: &File, range: &Range<u64>) -> Option<Bytes> {
    use rustix::io::{ReadWriteFlags, preadv2};
    const SMALL: u64 = 64 * 1024;
    let length = range.end.checked_sub(range.start)?;
    if length > SMALL {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let mut buffers = [std::io::IoSliceMut::new(&mut bytes)];
    let read = preadv2(file, &mut buffers, range.start, ReadWriteFlags::NOWAIT);
    (read.ok()? as u64 == length).then(|| bytes.into())
}

#[cfg(not(target_os = "linux"))]
fn read_cached(_: &File, _: &Range<u64>) -> Option<Bytes> {
    None
}

/// Part of a file on this disk. Each chunk is read on another thread, and stays in memory until the
/// receiver has taken it.
fn chunks(file: File, range: Range<u64>) -> impl Stream<Item = Result<Bytes, BlobError>> {
    const CHUNK: u64 = 256 * 1024;
    let unread = (Arc::new(file), range);
    futures_util::stream::try_unfold(unread, async |(file, Range { start, end })| {
        let length = (end - start).min(CHUNK);
        if length == 0 {
            return Ok(None);
        }
        let source = file.clone();
        let chunk = tokio::task::spawn_blocking(move || read_at(&source, start, length));
        let chunk = chunk.await.map_err(std::io::Error::other)??;
        Ok(Some((chunk, (file, start + length..end))))
    })
}

fn read_at(mut file: &File, start: u64, length: u64) -> std::io::Result<Bytes> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.take(length).read_to_end(&mut bytes)?;
    // A truncated answer must not look complete.
    if bytes.len() as u64 == length {
        Ok(bytes.into())
    } else {
        Err(std::io::ErrorKind::UnexpectedEof.into())
    }
}
