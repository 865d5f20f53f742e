//! Properties of this process that are detected, not configured.

use std::path::PathBuf;

/// The number of cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// A path to this program. On Linux it stays valid even if the file is replaced by a newer one.
pub(super) fn this_program() -> PathBuf {
    let link = PathBuf::from("/proc/self/exe");
    // After an upgrade, the path by name leads to the new program, whose children may use another
    // version of the protocol.
    if link.exists() {
        return link;
    }
    std::env::current_exe().unwrap_or_else(|_| "mediagate".into())
}
