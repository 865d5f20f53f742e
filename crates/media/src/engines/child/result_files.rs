//! The files that a child may write. The parent makes them, empty, before the child has its order,
//! and reads them through its own descriptors: whatever a compromised child leaves under their
//! names is never opened.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use tempfile::{NamedTempFile, TempDir, TempPath};

#[cfg(feature = "c2pa")]
use super::SIGNED;
use super::result_checks::BadResult;
use super::{
    ChildJob, FRAMES, PIXELS, POSTER, SHEET, SOUND, STILLS, VIDEO, cover, cover_large, flac,
};

/// A child's folder with its result files.
#[derive(Debug)]
pub(super) struct ResultFiles {
    folder: TempDir,
    files: Vec<(String, File)>,
}

impl ResultFiles {
    /// Makes the files for a job, in a new folder in `spool`.
    pub(super) fn create(spool: &Path, job: &ChildJob) -> io::Result<Self> {
        let folder = tempfile::tempdir_in(spool)?;
        let create = |name: String| {
            let mut options = File::options();
            let options = options.read(true).write(true).create_new(true);
            let file = options.open(folder.path().join(&name))?;
            Ok((name, file))
        };
        let files = job.results().into_iter().map(create);
        let files = files.collect::<io::Result<_>>()?;
        Ok(Self { folder, files })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The content of a file, if it has at most `limit` bytes.
    pub(super) fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, BadResult> {
        let mut file = self.file(name)?;
        file.rewind()?;
        let size = file.metadata()?.len();
        if size > limit {
            return Err(BadResult::TooLarge {
                name: name.to_owned(),
                size,
                limit,
            });
        }
        self.read_next(name, limit)
    }

    /// The next bytes of a file, `length` at most.
    pub(super) fn read_next(&self, name: &str, length: u64) -> Result<Vec<u8>, BadResult> {
        let mut bytes = Vec::new();
        self.file(name)?.take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Moves a file to `spool`, because the child's folder is removed. Returns its path and the
    /// open file.
    pub(super) fn take(&self, name: &str, spool: &Path) -> Result<(TempPath, &File), BadResult> {
        let file = self.file(name)?;
        let path = NamedTempFile::new_in(spool)?.into_temp_path();
        // Moves what has this name and follows no link. It has to be the file that was made here.
        std::fs::rename(self.folder().join(name), &path)?;
        let (made, moved) = (file.metadata()?, std::fs::symlink_metadata(&path)?);
        let is_same = (moved.dev(), moved.ino()) == (made.dev(), made.ino());
        if !is_same || !moved.is_file() || moved.nlink() != 1 {
            return Err(BadResult::Replaced(name.to_owned()));
        }
        Ok((path, file))
    }

    fn file(&self, name: &str) -> Result<&File, BadResult> {
        let mut files = self.files.iter();
        let file = files.find(|(file, _)| file == name);
        let file = file.ok_or_else(|| BadResult::Unexpected(name.to_owned()))?;
        Ok(&file.1)
    }
}

impl ChildJob {
    /// The names of the files that it writes.
    pub(super) fn results(&self) -> Vec<String> {
        let clips =
            |count| (0..count).flat_map(|index| [flac, cover, cover_large].map(|f| f(index)));
        match self {
            Self::Video { .. } => [VIDEO, POSTER, SHEET].map(str::to_owned).into(),
            Self::ScanFilms { .. } => vec![STILLS.to_owned()],
            Self::Stems { job, .. } => clips(job.outputs.len()).collect(),
            Self::Clip(_) => clips(1).collect(),
            #[cfg(feature = "c2pa")]
            Self::Sign(..) => vec![SIGNED.to_owned()],
            Self::Pixels { .. } => vec![PIXELS.to_owned()],
            Self::Check { .. } => [FRAMES, SOUND].map(str::to_owned).into(),
            Self::Picture { .. } | Self::Verify { .. } | Self::Confinement(_) => Vec::new(),
        }
    }
}

/// The child's side: opens a file that its parent made.
pub(super) fn open_result(folder: &Path, name: &str) -> io::Result<File> {
    File::options().write(true).open(folder.join(name))
}

/// The child's side: fills a file that its parent made.
pub(super) fn write_result(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    io::Write::write_all(&mut open_result(folder, name)?, bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const NAME: &str = "0.flac";

    /// The files of a job that makes one clip.
    fn clip_files(spool: &Path) -> ResultFiles {
        let files = ["0.flac", "0.png", "0-large.png"];
        let folder = tempfile::tempdir_in(spool).unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            let file = File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .open(path);
            (name.to_owned(), file.unwrap())
        };
        let files = files.map(file).into();
        ResultFiles { folder, files }
    }

    /// A child could leave anything under its files' names if the kernel did not confine it.
    #[test]
    fn only_the_file_that_the_parent_made_is_read_or_moved() {
        let spool = tempfile::tempdir().unwrap();
        let secret = spool.path().join("signing.key");
        std::fs::write(&secret, "secret").unwrap();
        let leave: [fn(&Path, &Path); 4] = [
            |secret, path| symlink(secret, path).unwrap(),
            |secret, path| std::fs::hard_link(secret, path).unwrap(),
            |_, path| std::fs::create_dir(path).unwrap(),
            |_, path| {
                let status = std::process::Command::new("mkfifo").arg(path).status();
                assert!(status.unwrap().success());
            },
        ];
        for leave in leave {
            let files = clip_files(spool.path());
            write_result(files.folder(), NAME, b"a clip").unwrap();
            let path = files.folder().join(NAME);
            std::fs::remove_file(&path).unwrap();
            leave(&secret, &path);
            assert_eq!(files.read(NAME, 100).unwrap(), b"a clip");
            assert!(files.take(NAME, spool.path()).is_err());
        }
        assert_eq!(std::fs::read(&secret).unwrap(), b"secret");
        let left: Vec<_> = std::fs::read_dir(spool.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn a_second_name_of_the_file_is_noticed() {
        let spool = tempfile::tempdir().unwrap();
        let files = clip_files(spool.path());
        let path = files.folder().join(NAME);
        std::fs::hard_link(&path, files.folder().join("second")).unwrap();
        let result = files.take(NAME, spool.path());
        assert!(matches!(result, Err(BadResult::Replaced(_))), "{result:?}");
    }

    #[test]
    fn a_file_is_moved_with_its_content_and_read_up_to_a_limit() {
        let spool = tempfile::tempdir().unwrap();
        let files = clip_files(spool.path());
        write_result(files.folder(), NAME, b"a clip").unwrap();
        let result = files.read(NAME, 5);
        assert!(
            matches!(
                result,
                Err(BadResult::TooLarge {
                    size: 6,
                    limit: 5,
                    ..
                })
            ),
            "{result:?}"
        );
        assert_eq!(files.read(NAME, 6).unwrap(), b"a clip");
        let (path, _) = files.take(NAME, spool.path()).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"a clip");
        assert!(matches!(
            files.read("other", 6),
            Err(BadResult::Unexpected(_))
        ));
    }
}
