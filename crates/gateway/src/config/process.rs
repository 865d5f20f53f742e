//! What this process is and may use: not set, but found.

use std::path::PathBuf;

/// The cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// This program's file, or what leads there. On Linux that holds even when the file
/// was replaced by a newer one.
pub(super) fn this_program() -> PathBuf {
    let link = PathBuf::from("/proc/self/exe");
    if link.exists() {
        return link;
    }
    std::env::current_exe().unwrap_or_else(|_| "mediagate".into())
}
