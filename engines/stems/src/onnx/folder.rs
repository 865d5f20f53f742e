//! The models folder: which models its files make up, and a cheap way to find them again after
//! changes.
//!
//! A model is a `NAME.toml` with the graphs that it names, or a lone `NAME.onnx` that UVR's table
//! knows. One that cannot be used is reported separately and hides no other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::error::ModelError;
use super::files::{read, read_manifest, read_text};
use super::manifest::ModelManifest;
use super::model::SeparationModel;
use super::runtime::RuntimeOptions;
use super::uvr::{self, UvrTable};

/// A folder that is scanned repeatedly.
#[derive(Debug)]
pub struct ModelFolder {
    path: PathBuf,
    options: RuntimeOptions,
    /// The only model to load, if not all.
    only_model: Option<String>,
    /// The outcome for each model's files, by the name of its manifest or lone graph.
    cached_models: BTreeMap<String, CachedModel>,
}

#[derive(Debug)]
struct CachedModel {
    files: Vec<FileStamp>,
    outcome: Result<Arc<SeparationModel>, ModelError>,
}

/// Distinguishes an old file from a new one with the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileStamp {
    file: String,
    length: u64,
    modified: Option<SystemTime>,
}

/// A model that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {error}")]
pub struct RefusedModel {
    /// The name of its manifest or lone graph; `.` is the folder itself.
    pub file: String,
    /// The error for this file.
    pub error: ModelError,
}

/// The most manifests and graphs that are read.
const MAX_FILES: usize = 256;

impl ModelFolder {
    /// Remembers the folder; nothing is read yet.
    pub fn new(path: impl Into<PathBuf>, options: RuntimeOptions) -> Self {
        Self {
            path: path.into(),
            options,
            only_model: None,
            cached_models: BTreeMap::new(),
        }
    }

    /// Like [`Self::new`], for a process that runs one model: the graphs of others are not loaded,
    /// which may take seconds each.
    pub fn for_one_model(path: impl Into<PathBuf>, options: RuntimeOptions, model: &str) -> Self {
        Self {
            only_model: Some(model.to_owned()),
            ..Self::new(path, options)
        }
    }

    /// Loads new and changed models, forgets removed ones, and returns all models in the order of
    /// their files' names. Unchanged files only cost a check of their dates.
    pub fn scan(&mut self) -> Vec<Result<Arc<SeparationModel>, RefusedModel>> {
        let files = match self.files() {
            Ok(files) => files,
            Err(error) => return vec![Err(refused_model(".", error))],
        };
        let table = self.table(&files);
        let manifests = files.iter().filter(|file| has_extension(file, "toml"));
        let manifests: BTreeMap<&str, Result<ModelManifest, ModelError>> = manifests
            .map(|file| (&file[..], read_manifest(&self.path, file)))
            .collect();
        let claimed = graphs_in_manifests(&manifests);
        let mut cached = BTreeMap::new();
        for file in &files {
            let lone_name = file.strip_suffix(".onnx");
            let outcome = match (manifests.get(&file[..]), lone_name) {
                (Some(manifest), _) => self.load(file, manifest.clone(), &[]),
                (None, Some(name)) => {
                    // A graph with a manifest belongs to that manifest, even to a broken one. UVR's
                    // table might offer the graph with other settings.
                    if claimed.contains(file) || files.contains(&format!("{name}.toml")) {
                        continue;
                    }
                    self.load_lone(file, table.as_ref())
                }
                (None, None) => continue,
            };
            cached.insert(file.clone(), outcome);
        }
        self.cached_models = cached;
        self.model_outcomes()
    }

    /// The outcomes in order; of two models with one name the second cannot be used.
    fn model_outcomes(&self) -> Vec<Result<Arc<SeparationModel>, RefusedModel>> {
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        let mut outcomes = Vec::new();
        for (file, cached) in &self.cached_models {
            let model = match &cached.outcome {
                Ok(model) => model,
                Err(error) => {
                    outcomes.push(Err(refused_model(file, error.clone())));
                    continue;
                }
            };
            if let Some(first) = names.get(model.name()) {
                let reason = format!("{} is already the name of {first}", model.name());
                outcomes.push(Err(refused_model(file, ModelError::field("name", reason))));
            } else {
                names.insert(model.name(), file);
                outcomes.push(Ok(Arc::clone(model)));
            }
        }
        outcomes
    }

    /// Names of all manifests, graphs and tables.
    fn files(&self) -> Result<BTreeSet<String>, ModelError> {
        let entries = fs::read_dir(&self.path).map_err(|e| ModelError::file("the folder", e))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_model_file = |name: &String| {
            let is_hidden = name.starts_with('.');
            !is_hidden
                && (has_extension(name, "toml")
                    || has_extension(name, "onnx")
                    || name == uvr::TABLE_FILE)
        };
        let files: BTreeSet<String> = names.filter(is_model_file).collect();
        if files.len() > MAX_FILES {
            let reason = format!(
                "{} manifests and graphs are too many, at most {MAX_FILES}",
                files.len()
            );
            return Err(ModelError::file("the folder", reason));
        }
        Ok(files)
    }

    fn table(&self, files: &BTreeSet<String>) -> Option<Result<UvrTable, ModelError>> {
        files.contains(uvr::TABLE_FILE).then(|| {
            let text = read_text(&self.path, uvr::TABLE_FILE, uvr::MAX_BYTES)?;
            UvrTable::parse(&text)
        })
    }

    fn load_lone(&self, file: &str, table: Option<&Result<UvrTable, ModelError>>) -> CachedModel {
        if let Some(cached) = self.cached_if_unchanged(file, &[file, uvr::TABLE_FILE]) {
            return cached;
        }
        let manifest = match table {
            None => {
                let reason = "there is none, and no model_data.json that knows the graph";
                Err(ModelError::field("manifest", reason))
            }
            Some(Err(error)) => Err(error.clone()),
            Some(Ok(table)) => {
                read(&self.path, file).and_then(|bytes| table.manifest(file, &uvr::hash(&bytes)))
            }
        };
        self.load(file, manifest, &[uvr::TABLE_FILE])
    }

    /// The model of a manifest, loaded unless all its files are unchanged.
    fn load(
        &self,
        file: &str,
        manifest: Result<ModelManifest, ModelError>,
        extra_files: &[&str],
    ) -> CachedModel {
        let mut files: Vec<&str> = vec![file];
        if let Ok(manifest) = &manifest {
            files.extend(manifest.files().iter().map(|graph| &graph.file[..]));
        }
        files.extend(extra_files);
        files.dedup();
        if let Some(cached) = self.cached_if_unchanged(file, &files) {
            return cached;
        }
        let load = |manifest: ModelManifest| {
            if self
                .only_model
                .as_ref()
                .is_some_and(|only| *only != manifest.name)
            {
                return Err(ModelError::field("name", "is another model's"));
            }
            SeparationModel::load(&self.path, manifest, &self.options).map(Arc::new)
        };
        CachedModel {
            // Stamped before the graphs are read: if one changes meanwhile, the next scan loads it
            // again.
            files: self.stamps(&files),
            outcome: manifest.and_then(load),
        }
    }

    fn cached_if_unchanged(&self, name: &str, files: &[&str]) -> Option<CachedModel> {
        let cached = self.cached_models.get(name)?;
        // The runtime may have been installed since.
        let retry = matches!(cached.outcome, Err(ModelError::NoRuntime(_)));
        (!retry && cached.files == self.stamps(files)).then(|| CachedModel {
            files: cached.files.clone(),
            outcome: cached.outcome.clone(),
        })
    }

    fn stamps(&self, files: &[&str]) -> Vec<FileStamp> {
        let stamp = |file: &&str| {
            let metadata = fs::metadata(self.path.join(file)).ok();
            FileStamp {
                file: (*file).to_owned(),
                // A missing file has a stamp too, so that its arrival counts as a change.
                length: metadata.as_ref().map_or(u64::MAX, fs::Metadata::len),
                modified: metadata.and_then(|metadata| metadata.modified().ok()),
            }
        };
        files.iter().map(stamp).collect()
    }
}

/// The graphs that some manifest names.
fn graphs_in_manifests(
    manifests: &BTreeMap<&str, Result<ModelManifest, ModelError>>,
) -> BTreeSet<String> {
    let valid = manifests
        .values()
        .filter_map(|manifest| manifest.as_ref().ok());
    valid
        .flat_map(|manifest| manifest.files().into_iter().map(|graph| graph.file.clone()))
        .collect()
}

/// Whether a file's name has this extension; case matters.
fn has_extension(file: &str, expected: &str) -> bool {
    Path::new(file)
        .extension()
        .is_some_and(|extension| extension == expected)
}

fn refused_model(file: &str, error: ModelError) -> RefusedModel {
    RefusedModel {
        file: file.to_owned(),
        error,
    }
}
