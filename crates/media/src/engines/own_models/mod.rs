//! The operator's own separation models, from the models folder.
//!
//! `docs/models/onnx.md` describes the folder. Models run by ONNX Runtime, which is a feature of
//! the build: without it nothing is offered, and a folder that holds models is reported.

#[cfg(not(feature = "onnx"))]
mod absent;
#[cfg(feature = "onnx")]
mod onnx;

#[cfg(not(feature = "onnx"))]
pub use absent::{InstalledModels, ModelGraphs};
#[cfg(feature = "onnx")]
pub use onnx::{InstalledModels, ModelGraphs};

use std::path::Path;
use std::time::SystemTime;

/// Names, sizes and dates of the folder's files, which are compared to notice changes.
pub type FolderListing = Vec<(std::ffi::OsString, u64, Option<SystemTime>)>;

/// The folder's current listing.
fn folder_listing(folder: &Path) -> FolderListing {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return FolderListing::new();
    };
    let file_entry = |entry: std::fs::DirEntry| {
        let metadata = std::fs::metadata(entry.path()).ok()?;
        Some((entry.file_name(), metadata.len(), metadata.modified().ok()))
    };
    let mut listing: FolderListing = entries
        .filter_map(|entry| file_entry(entry.ok()?))
        .collect();
    listing.sort();
    listing
}
