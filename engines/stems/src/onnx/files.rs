//! The files of a models folder, each no larger than it may be.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use super::error::ModelError;
use super::manifest::{self, ModelManifest};

pub(super) fn read_manifest(folder: &Path, file: &str) -> Result<ModelManifest, ModelError> {
    ModelManifest::parse(&read_text(folder, file, manifest::MAX_BYTES)?)
}

/// Reads a graph.
pub(super) fn read(folder: &Path, file: &str) -> Result<Vec<u8>, ModelError> {
    read_at_most(folder, file, MAX_GRAPH_BYTES)
}

pub(super) fn read_text(folder: &Path, file: &str, limit: u64) -> Result<String, ModelError> {
    let bytes = read_at_most(folder, file, limit)?;
    String::from_utf8(bytes).map_err(|_| ModelError::file(file, "is not UTF-8 text"))
}

/// Reads a regular file that lies in the folder, even through links.
fn read_at_most(folder: &Path, file: &str, limit: u64) -> Result<Vec<u8>, ModelError> {
    let io_error = |e: std::io::Error| ModelError::file(file, e);
    // Links are followed before the check: a link out of the folder would pass a check of its name.
    let root = fs::canonicalize(folder).map_err(io_error)?;
    let path = fs::canonicalize(folder.join(file)).map_err(io_error)?;
    if !path.starts_with(&root) {
        return Err(ModelError::file(file, "leads out of the models folder"));
    }
    if !fs::metadata(&path).map_err(io_error)?.is_file() {
        return Err(ModelError::file(file, "is not a regular file"));
    }
    let mut bytes = Vec::new();
    let handle = File::open(&path).map_err(io_error)?;
    handle
        // One byte more than allowed shows that a file is too large, even if it grows meanwhile.
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(io_error)?;
    if bytes.len() as u64 > limit {
        return Err(ModelError::file(
            file,
            format!("is larger than {limit} bytes"),
        ));
    }
    Ok(bytes)
}

/// The largest graph that is loaded, in bytes: the format's own limit.
const MAX_GRAPH_BYTES: u64 = 2 << 30;
