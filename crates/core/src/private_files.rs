//! Private files and folders: only the current user may read them, whatever their permissions or
//! the umask were.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::Mode;

/// Sets the umask, so that only this process's user can access what it creates.
pub fn restrict_umask() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// Creates the folder if missing and lets only its user access it.
pub fn folder(path: &Path) -> io::Result<()> {
    let mut folder = std::fs::DirBuilder::new();
    folder.recursive(true).mode(0o700).create(path)?;
    // The mode above applies only to folders that were just created.
    restrict_mode(path, 0o700)
}

/// Lets only its user access a file, if it exists.
pub fn file(path: &Path) -> io::Result<()> {
    match restrict_mode(path, 0o600) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn restrict_mode(path: &Path, mode: u32) -> io::Result<()> {
    let other_bits = std::fs::metadata(path)?.permissions().mode() & 0o077;
    // Nothing to change, so the owner's own choice of bits stays.
    if other_bits == 0 {
        return Ok(());
    }
    match std::fs::set_permissions(path, Permissions::from_mode(mode)) {
        // Another user's folder, to which this process was given access on purpose.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            tracing::warn!(
                "the data folder belongs to another user; its permissions stay as they are"
            );
            Ok(())
        }
        result => result,
    }
}
