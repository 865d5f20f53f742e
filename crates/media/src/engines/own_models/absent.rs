//! The models folder in a build without ONNX Runtime: nothing in it can be run.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use stems::{ClipShape, SeparateError, SeparationEngine, Stem};

use super::folder_listing;
use mediagate_model::catalog::Model;

/// The models folder, whose models cannot be used.
pub(super) struct OnnxModels {
    path: PathBuf,
    is_reported: AtomicBool,
}

/// The graphs of a model: there are none.
pub enum OnnxGraphs {}

#[expect(
    clippy::unused_self,
    reason = "the interface is that of a build with ONNX Runtime"
)]
impl OnnxModels {
    /// The folder need not exist; it is not read yet.
    pub(super) fn new(path: &Path, _library: Option<PathBuf>) -> Self {
        Self {
            path: path.to_owned(),
            is_reported: AtomicBool::new(false),
        }
    }

    /// The graphs of one model: there are none.
    pub(super) fn load_one(
        _path: &Path,
        _library: Option<PathBuf>,
        _name: &str,
    ) -> Option<OnnxGraphs> {
        None
    }

    /// Reports once that the folder holds models which this build cannot run.
    pub(super) fn scan(&self) {
        let is_model = |(name, ..): &(std::ffi::OsString, _, _)| {
            let extension = Path::new(name).extension();
            extension.is_some_and(|extension| extension == "onnx")
        };
        if folder_listing(&self.path).iter().any(is_model)
            && !self.is_reported.swap(true, Ordering::Relaxed)
        {
            tracing::error!(
                folder = %self.path.display(),
                "the models in the models folder cannot be used: this program was built without the feature `onnx` (`cargo run --features onnx`); packaged builds have it"
            );
        }
    }

    /// The models to offer, which are none.
    pub(super) fn models(&self) -> Vec<Model> {
        Vec::new()
    }

    /// Whether the model with this name can be used: none can.
    pub(super) fn has(&self, _name: &str) -> bool {
        false
    }
}

impl OnnxGraphs {
    /// A separator for a recording of this shape.
    pub fn separator(
        &self,
        _shape: ClipShape,
        _stems: &[Stem],
    ) -> Result<Box<dyn SeparationEngine>, SeparateError> {
        match *self {}
    }
}
