//! A model: its graphs, checked against its manifest.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::error::{ModelError, in_table};
use super::formulas::Formulas;
use super::manifest::{GraphFile, Kind, Manifest};
use super::runtime::{self, Net, Options};
use super::stereo::Stereo;
use super::stitch::Plan;
use super::{files, htdemucs, mdx, openunmix, uvr};
use crate::parallel::Stop;
use crate::{SeparateError, Shape, Stem};

/// A model that is loaded and checked.
#[derive(Debug)]
pub struct Model {
    manifest: Manifest,
    family: Family,
    pub(super) formulas: Formulas,
}

#[derive(Debug)]
enum Family {
    Mdx(mdx::Mdx),
    HtDemucs(htdemucs::HtDemucs),
    OpenUnmix(openunmix::OpenUnmix),
}

impl Model {
    /// Loads the graphs that `manifest` names from `folder`, checks them against it, and runs
    /// them on silence once.
    pub fn load(folder: &Path, manifest: Manifest, options: &Options) -> Result<Self, ModelError> {
        // Before files are read, which may be large.
        runtime::environment(options)?;
        let open = |graph: &GraphFile| open(folder, graph, options);
        let (family, estimates) = match &manifest.kind {
            Kind::Mdx(settings) => {
                let net = open(&settings.graph)?;
                let mdx = mdx::Mdx::new(net, settings.clone())?;
                (Family::Mdx(mdx), vec![settings.stem])
            }
            Kind::HtDemucs(settings) => {
                let net = open(&settings.graph)?;
                let htdemucs = htdemucs::HtDemucs::new(net, settings)?;
                (Family::HtDemucs(htdemucs), settings.stems.clone())
            }
            Kind::OpenUnmix(settings) => {
                let nets = settings.graphs.iter().map(|(stem, graph)| {
                    let named = |e| in_table(e, "openunmix.files", *stem);
                    open(graph).map_err(named)
                });
                let nets = nets.collect::<Result<Vec<_>, _>>()?;
                let openunmix = openunmix::OpenUnmix::new(nets, settings)?;
                (
                    Family::OpenUnmix(openunmix),
                    settings.graphs.keys().copied().collect(),
                )
            }
        };
        let model = Self {
            manifest,
            family,
            formulas: Formulas::new(estimates),
        };
        model.run_on_silence()?;
        Ok(model)
    }

    /// Loads the model of one manifest file; its graphs lie in the same folder.
    pub fn open(manifest: &Path, options: &Options) -> Result<Self, ModelError> {
        let name = manifest.file_name().and_then(|name| name.to_str());
        let (Some(name), Some(folder)) = (name, manifest.parent()) else {
            let reason = "is no file's name";
            return Err(ModelError::file(&manifest.to_string_lossy(), reason));
        };
        let here = Path::new(".");
        let folder = if folder.as_os_str().is_empty() {
            here
        } else {
            folder
        };
        Self::load(folder, files::read_manifest(folder, name)?, options)
    }

    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// What was read of it, or made up from UVR's table.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The stems that it can tell apart. [`Stem::Other`] and [`Stem::Instrumental`] are not among
    /// them where they are what is left.
    pub fn told_apart(&self) -> &[Stem] {
        &self.formulas.told_apart
    }

    /// All stems that it can be asked for, remainders included.
    pub fn offered(&self) -> &[Stem] {
        &self.formulas.offered
    }

    /// How a clip of so many samples at 44.1 kHz is cut into segments.
    pub(super) fn plan(&self, frames: usize) -> Plan {
        match &self.family {
            Family::Mdx(mdx) => mdx.plan(frames),
            Family::HtDemucs(htdemucs) => htdemucs.plan(frames),
            Family::OpenUnmix(openunmix) => openunmix.plan(frames),
        }
    }

    /// What the clip's samples have to be brought to: this is subtracted, then multiplied.
    pub(super) fn scale(&self, shape: Shape) -> (f32, f32) {
        match &self.family {
            Family::Mdx(_) => (0.0, mdx::PEAK / shape.peak),
            Family::HtDemucs(_) => (shape.mean, 1.0 / shape.deviation.max(1e-8)),
            Family::OpenUnmix(_) => (0.0, 1.0),
        }
    }

    /// Estimates of one segment, in the order of [`Formulas::new`].
    pub(super) fn segment(
        &self,
        sound: &Stereo,
        stop: Stop<'_>,
    ) -> Result<Vec<Stereo>, SeparateError> {
        match &self.family {
            Family::Mdx(mdx) => Ok(vec![mdx.segment(sound, stop)?]),
            Family::HtDemucs(htdemucs) => htdemucs.segment(sound, stop),
            Family::OpenUnmix(openunmix) => openunmix.segment(sound, stop),
        }
    }

    /// The graph's word on its outputs is not enough: sizes may be open, values may be anything.
    fn run_on_silence(&self) -> Result<(), ModelError> {
        let silence = vec![0.0; self.plan(usize::MAX / 4).segment];
        let made = self.segment(&[silence.clone(), silence], Stop(&|| false));
        made.map_err(|error| match error {
            SeparateError::Model(reason) => {
                ModelError::field("file", format!("run on silence, {reason}"))
            }
            other => ModelError::field("file", other.to_string()),
        })?;
        Ok(())
    }
}

/// Reads a graph and hands it to the runtime, if it is the file that the manifest means.
fn open(folder: &Path, graph: &GraphFile, options: &Options) -> Result<Net, ModelError> {
    let bytes = files::read(folder, &graph.file)?;
    if let Some(expected) = &graph.sha256 {
        let found = uvr::hexadecimal(&Sha256::digest(&bytes));
        if found != *expected {
            let reason = format!("{} has the SHA-256 {found}", graph.file);
            return Err(ModelError::field("sha256", reason));
        }
    }
    Net::open(&bytes, options)
}
