//! The operator's ONNX models that can be used now, and what they offer; the `stems` crate reads,
//! checks and runs them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use locks::lock;
use orders::{ModelLimits, MusicLimits, SongLimits, StemLimits};
use stems::onnx::{self, ModelFolder, RefusedModel, RuntimeOptions};
use stems::{ClipShape, SeparateError, SeparationEngine, Stem};

use crate::engines::stems_engine;
use mediagate_model::catalog::{EmbeddedEngine, Model, ModelBackend};
use mediagate_model::music::StemGroup;

/// The models folder as of the last scan.
pub(super) struct OnnxModels {
    path: PathBuf,
    folder: Mutex<ModelFolder>,
    usable: ArcSwap<Vec<Arc<onnx::SeparationModel>>>,
    refused: Mutex<Vec<RefusedModel>>,
}

/// The graphs of a model.
pub struct OnnxGraphs(Arc<onnx::SeparationModel>);

impl OnnxGraphs {
    /// A separator for a recording of this shape.
    pub fn separator(
        &self,
        shape: ClipShape,
        stems: &[Stem],
    ) -> Result<Box<dyn SeparationEngine>, SeparateError> {
        let separator = onnx::ModelSeparator::new(self.0.clone(), shape, stems)?;
        Ok(Box::new(separator))
    }
}

impl OnnxModels {
    /// The folder need not exist; it is not read yet.
    pub(super) fn new(path: &Path, library: Option<PathBuf>) -> Self {
        let options = RuntimeOptions {
            library,
            ..RuntimeOptions::default()
        };
        Self {
            folder: Mutex::new(ModelFolder::new(path, options)),
            path: path.to_owned(),
            usable: ArcSwap::default(),
            refused: Mutex::default(),
        }
    }

    /// The graphs of one model, freshly loaded; `None` if it cannot be loaded.
    pub(super) fn load_one(
        path: &Path,
        library: Option<PathBuf>,
        name: &str,
    ) -> Option<OnnxGraphs> {
        let options = RuntimeOptions {
            library,
            ..RuntimeOptions::default()
        };
        let mut models = ModelFolder::for_one_model(path, options, name)
            .scan()
            .into_iter();
        let model = models.find_map(|model| model.ok().filter(|model| model.name() == name));
        model.map(OnnxGraphs)
    }

    /// Loads new and changed models, which can take seconds for a large graph, and drops removed
    /// ones. Logs each model that cannot be loaded only once.
    pub(super) fn scan(&self) {
        let mut folder = lock(&self.folder);
        let models = if self.path.is_dir() {
            folder.scan()
        } else {
            Vec::new()
        };
        let (mut usable, mut refused) = (Vec::new(), Vec::new());
        for model in models {
            match model {
                Ok(model) if groups(&model).is_empty() => tracing::warn!(
                    model = model.name(),
                    "the model has no stems that callers can request; it is ignored"
                ),
                Ok(model) => usable.push(model),
                Err(error) => refused.push(error),
            }
        }
        let mut reported = lock(&self.refused);
        for error in refused.iter().filter(|error| !reported.contains(error)) {
            tracing::error!(folder = %self.path.display(), %error, "a model in the models folder cannot be used");
        }
        *reported = refused;
        self.usable.store(Arc::new(usable));
    }

    /// The models to offer.
    pub(super) fn models(&self) -> Vec<Model> {
        self.usable
            .load()
            .iter()
            .map(|graphs| model(graphs))
            .collect()
    }

    /// Whether the model with this name can be used.
    pub(super) fn has(&self, name: &str) -> bool {
        let usable = self.usable.load();
        usable.iter().any(|graphs| graphs.name() == name)
    }
}

/// The groups that a model can separate, in the order of a full split.
fn groups(graphs: &onnx::SeparationModel) -> Vec<StemGroup> {
    let is_separable = |group: &StemGroup| {
        graphs
            .separable_stems()
            .contains(&stems_engine::stem(*group))
    };
    StemGroup::ALL
        .iter()
        .copied()
        .filter(is_separable)
        .collect()
}

fn model(graphs: &onnx::SeparationModel) -> Model {
    let groups = groups(graphs);
    let names: Vec<String> = groups.iter().map(ToString::to_string).collect();
    let mut notes = vec![
        "Runs in this gateway. No data leaves the machine.".to_owned(),
        "A neural model installed by the operator of this gateway.".to_owned(),
        "The stems sum to the mix. The mix has a watermark if the operator enabled it.".to_owned(),
    ];
    let manifest = graphs.manifest();
    if !manifest.license.is_empty() {
        notes.push(format!("Licence: {}", manifest.license));
    }
    Model {
        id: graphs.name().to_owned(),
        aliases: Vec::new(),
        summary: format!("Separates a song into: {}.", names.join(", ")),
        notes,
        limits: ModelLimits::Music(MusicLimits {
            stems: Some(StemLimits {
                complements: groups.clone(),
                two: true,
                full: true,
                other: graphs.offered().contains(&Stem::Other),
                groups,
            }),
            tasks: Vec::new(),
            personas: false,
            songs: SongLimits::API_DEFAULT,
        }),
        price: None,
        passthrough_fields: Vec::new(),
        backend: ModelBackend::Embedded {
            engine: EmbeddedEngine::Onnx,
            version: format!("{:?}", manifest.kind),
        },
    }
}
