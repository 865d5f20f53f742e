//! The separation models in the models folder: pretrained nets, and the operator's own graphs.
//!
//! The nets (`docs/models/stems-net-1.md`) run in every build. The graphs (`docs/models/onnx.md`)
//! run by ONNX Runtime, which is a feature of the build: without it none is offered, and a folder
//! that holds some is reported.

#[cfg(not(feature = "onnx"))]
mod absent;
#[cfg(feature = "onnx")]
mod onnx;

mod net_package;
mod pretrained_nets;

#[cfg(not(feature = "onnx"))]
use absent::{OnnxGraphs, OnnxModels};
#[cfg(feature = "onnx")]
use onnx::{OnnxGraphs, OnnxModels};

pub use net_package::{InstallError, PACKAGE, install};
pub use pretrained_nets::MODEL as NET_MODEL;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use mediagate_model::catalog::Model;
use pretrained_nets::PretrainedNets;
use stems::spleeter::VoiceNets;
use stems::{BlockSeparator, ClipShape, SeparateError, SeparationEngine, Stem};

/// The models folder as of the last scan.
pub struct InstalledModels {
    folder: PathBuf,
    onnx: OnnxModels,
    nets: PretrainedNets,
}

/// A model of the folder, ready to run.
pub enum ModelGraphs {
    Onnx(OnnxGraphs),
    Nets(Arc<VoiceNets>),
}

impl ModelGraphs {
    /// A separator for a recording of this shape.
    pub fn separator(
        &self,
        shape: ClipShape,
        stems: &[Stem],
    ) -> Result<Box<dyn SeparationEngine>, SeparateError> {
        match self {
            Self::Onnx(graphs) => graphs.separator(shape, stems),
            Self::Nets(nets) => {
                let separator = BlockSeparator::new(shape, stems)?;
                Ok(Box::new(separator.with_nets(nets.clone())))
            }
        }
    }
}

impl InstalledModels {
    /// The folder need not exist; it is not read yet.
    pub fn new(path: &Path, library: Option<PathBuf>) -> Self {
        Self {
            folder: path.to_owned(),
            onnx: OnnxModels::new(path, library),
            nets: PretrainedNets::new(path),
        }
    }

    /// One model, freshly loaded; `None` if it cannot be loaded.
    pub fn load_one(path: &Path, library: Option<PathBuf>, name: &str) -> Option<ModelGraphs> {
        if name == NET_MODEL {
            let nets = PretrainedNets::load(path).ok()?;
            return Some(ModelGraphs::Nets(nets.into()));
        }
        OnnxModels::load_one(path, library, name).map(ModelGraphs::Onnx)
    }

    /// Loads new and changed models, which can take seconds for a large graph, and drops removed
    /// ones. Logs each model that cannot be loaded only once.
    pub fn scan(&self) {
        self.nets.scan();
        self.onnx.scan();
    }

    /// The folder's current listing.
    pub fn mark(&self) -> FolderListing {
        folder_listing(&self.folder)
    }

    /// The models to offer.
    pub fn models(&self) -> Vec<Model> {
        let nets = self.nets.model().into_iter();
        let graphs = self.onnx.models().into_iter();
        nets.chain(graphs.filter(|model| model.id != NET_MODEL))
            .collect()
    }

    /// Whether the model with this name can be used.
    pub fn has(&self, name: &str) -> bool {
        if name == NET_MODEL {
            return self.nets.model().is_some();
        }
        self.onnx.has(name)
    }
}

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
