//! The folder mark: the file that identifies a media folder.
//!
//! A folder without the mark, or with another folder's mark, is not the one that the records refer
//! to. An unmounted file system leaves such a folder at its mount point.

use std::io::{ErrorKind, Read as _};
use std::path::Path as FsPath;

use uuid::Uuid;

use crate::url_signer::write_private;

/// The name of the mark's file in the folder.
pub const FILE: &str = "folder-id";
/// Maximum length of a mark.
const MAX_MARK_BYTES: u64 = 64;

/// The mark in this folder, if it has one.
pub fn read(folder: &FsPath) -> Option<String> {
    let file = std::fs::File::open(folder.join(FILE)).ok()?;
    let mut text = String::new();
    file.take(MAX_MARK_BYTES).read_to_string(&mut text).ok()?;
    let mark = text.trim();
    (!mark.is_empty()).then(|| mark.to_owned())
}

/// Puts a mark into the folder; returns the one that was written first.
pub fn write(folder: &FsPath, mark: &str) -> std::io::Result<String> {
    write_private(&folder.join(FILE), mark.as_bytes())?;
    // Read back, because another process may have written its mark first.
    read(folder).ok_or_else(|| ErrorKind::InvalidData.into())
}

/// A mark that no other folder has.
pub fn fresh() -> String {
    Uuid::now_v7().to_string()
}
