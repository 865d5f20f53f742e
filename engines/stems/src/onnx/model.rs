//! A model: its graphs, checked against its manifest.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::error::{ModelError, name_stem_field};
use super::formulas::StemFormulas;
use super::manifest::{FamilySettings, GraphFile, ModelManifest};
use super::runtime::{self, GraphSession, RuntimeOptions};
use super::stereo::StereoSound;
use super::stitch::SegmentPlan;
use super::{files, htdemucs, mdx, openunmix, uvr};
use crate::parallel::CancelCheck;
use crate::{ClipShape, SeparateError, Stem};

/// A model that is loaded and checked.
#[derive(Debug)]
pub struct SeparationModel {
    manifest: ModelManifest,
    family: LoadedFamily,
    pub(super) formulas: StemFormulas,
}

#[derive(Debug)]
enum LoadedFamily {
    Mdx(mdx::MdxNet),
    HtDemucs(htdemucs::HtDemucs),
    OpenUnmix(openunmix::OpenUnmix),
}

impl SeparationModel {
    /// Loads the graphs of `manifest` from `folder`, checks them against it, and runs them on
    /// silence once.
    pub fn load(
        folder: &Path,
        manifest: ModelManifest,
        options: &RuntimeOptions,
    ) -> Result<Self, ModelError> {
        // Checked before the files, which may be large, are read.
        runtime::environment(options)?;
        let open = |graph: &GraphFile| open(folder, graph, options);
        let (family, estimates) = match &manifest.kind {
            FamilySettings::Mdx(settings) => {
                let net = open(&settings.graph)?;
                let mdx = mdx::MdxNet::new(net, settings.clone())?;
                (LoadedFamily::Mdx(mdx), vec![settings.stem])
            }
            FamilySettings::HtDemucs(settings) => {
                let net = open(&settings.graph)?;
                let htdemucs = htdemucs::HtDemucs::new(net, settings)?;
                (LoadedFamily::HtDemucs(htdemucs), settings.stems.clone())
            }
            FamilySettings::OpenUnmix(settings) => {
                let nets = settings.graphs.iter().map(|(stem, graph)| {
                    let name_field = |e| name_stem_field(e, "openunmix.files", *stem);
                    open(graph).map_err(name_field)
                });
                let nets = nets.collect::<Result<Vec<_>, _>>()?;
                let openunmix = openunmix::OpenUnmix::new(nets, settings)?;
                (
                    LoadedFamily::OpenUnmix(openunmix),
                    settings.graphs.keys().copied().collect(),
                )
            }
        };
        let model = Self {
            manifest,
            family,
            formulas: StemFormulas::new(estimates),
        };
        model.run_on_silence()?;
        Ok(model)
    }

    /// Loads the model of one manifest file; its graphs are in the same folder.
    pub fn open(manifest: &Path, options: &RuntimeOptions) -> Result<Self, ModelError> {
        let name = manifest.file_name().and_then(|name| name.to_str());
        let (Some(name), Some(folder)) = (name, manifest.parent()) else {
            let reason = "is not a file name";
            return Err(ModelError::file(&manifest.to_string_lossy(), reason));
        };
        let current_folder = Path::new(".");
        let folder = if folder.as_os_str().is_empty() {
            current_folder
        } else {
            folder
        };
        Self::load(folder, files::read_manifest(folder, name)?, options)
    }

    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// Its manifest, read from a file or generated from UVR's table.
    pub fn manifest(&self) -> &ModelManifest {
        &self.manifest
    }

    /// The stems that it can separate, without [`Stem::Other`] and [`Stem::Instrumental`] if they
    /// are remainders.
    pub fn separable_stems(&self) -> &[Stem] {
        &self.formulas.separable
    }

    /// All stems that it offers, including remainders.
    pub fn offered(&self) -> &[Stem] {
        &self.formulas.offered
    }

    /// The division into segments of a clip with this many samples at 44.1 kHz.
    pub(super) fn plan(&self, frames: usize) -> SegmentPlan {
        match &self.family {
            LoadedFamily::Mdx(mdx) => mdx.plan(frames),
            LoadedFamily::HtDemucs(htdemucs) => htdemucs.plan(frames),
            LoadedFamily::OpenUnmix(openunmix) => openunmix.plan(frames),
        }
    }

    /// The scaling of a clip's samples: the first value is subtracted, then the second multiplied.
    pub(super) fn scale(&self, shape: ClipShape) -> (f32, f32) {
        match &self.family {
            LoadedFamily::Mdx(_) => (0.0, mdx::PEAK / shape.peak),
            // As in the published code: by the mean and the deviation of the mono mix.
            LoadedFamily::HtDemucs(_) => (shape.mean, 1.0 / shape.deviation.max(1e-8)),
            LoadedFamily::OpenUnmix(_) => (0.0, 1.0),
        }
    }

    /// Estimates of one segment, in the order of [`StemFormulas::new`].
    pub(super) fn segment(
        &self,
        sound: &StereoSound,
        stop: CancelCheck<'_>,
    ) -> Result<Vec<StereoSound>, SeparateError> {
        match &self.family {
            LoadedFamily::Mdx(mdx) => Ok(vec![mdx.segment(sound, stop)?]),
            LoadedFamily::HtDemucs(htdemucs) => htdemucs.segment(sound, stop),
            LoadedFamily::OpenUnmix(openunmix) => openunmix.segment(sound, stop),
        }
    }

    /// Runs the graph once on silence. A check of its declared outputs is not sufficient: sizes may
    /// be dynamic, and values arbitrary.
    fn run_on_silence(&self) -> Result<(), ModelError> {
        // A plan for an endless clip has full segments; Open-Unmix shortens them for short clips.
        let silence = vec![0.0; self.plan(usize::MAX / 4).segment];
        let result = self.segment(&[silence.clone(), silence], CancelCheck(&|| false));
        result.map_err(|error| match error {
            SeparateError::Model(reason) => {
                ModelError::field("file", format!("run on silence, {reason}"))
            }
            other => ModelError::field("file", other.to_string()),
        })?;
        Ok(())
    }
}

/// Reads a graph and passes it to the runtime, if its digest matches the manifest.
fn open(
    folder: &Path,
    graph: &GraphFile,
    options: &RuntimeOptions,
) -> Result<GraphSession, ModelError> {
    let bytes = files::read(folder, &graph.file)?;
    if let Some(expected) = &graph.sha256 {
        let digest = uvr::hexadecimal(&Sha256::digest(&bytes));
        if digest != *expected {
            let reason = format!("{} has the SHA-256 {digest}", graph.file);
            return Err(ModelError::field("sha256", reason));
        }
    }
    GraphSession::open(&bytes, options)
}
