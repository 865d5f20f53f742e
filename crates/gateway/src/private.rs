//! Files and folders that only the user of this process may read, whatever they
//! were before and whatever the surroundings make usual.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::Mode;

/// From now on, what this process makes is its user's alone.
pub fn from_now_on() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// Makes the folder unless it is there, and its user's alone.
pub fn folder(path: &Path) -> io::Result<()> {
    let mut folder = std::fs::DirBuilder::new();
    folder.recursive(true).mode(0o700).create(path)?;
    close(path, 0o700)
}

/// Makes a file its user's alone, if there is one.
pub fn file(path: &Path) -> io::Result<()> {
    match close(path, 0o600) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn close(path: &Path, mode: u32) -> io::Result<()> {
    let others = std::fs::metadata(path)?.permissions().mode() & 0o077;
    if others == 0 {
        return Ok(());
    }
    match std::fs::set_permissions(path, Permissions::from_mode(mode)) {
        // Somebody else's folder that was opened to this process on purpose.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            tracing::warn!("the data folder is another user's, and stays open to others");
            Ok(())
        }
        done => done,
    }
}
