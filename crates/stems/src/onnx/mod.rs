//! Separation models of the operator: ONNX graphs of three published families.
//!
//! A graph does not say how its spectra were made, so a [`Manifest`] beside it does; a [`Folder`]
//! finds both, and a [`Model`] separates as the built-in engine does: the same clips in, the same
//! stems out, the same exact sums. The runtime is a library that is loaded when it is first needed;
//! nothing is ever downloaded.
//!
//! ```text
//! clip -> 44.1 kHz stereo -> overlapping segments -> spectra -> graph -> spectra -> stitched
//!      -> the clip's rate and channels -> sums
//! ```
//!
//! A graph runs with the process's rights and may need any amount of memory and time: only files
//! that the operator trusts belong in the folder.

mod folder;
mod gaussian;
mod htdemucs;
mod manifest;
mod mdx;
mod openunmix;
mod runtime;
mod separator;
mod spectrum;
mod stitch;
pub mod uvr;

use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

pub use folder::{Folder, Refused};
pub use manifest::{
    GraphFile, HtDemucsSettings, Kind, Manifest, MdxSettings, OpenUnmixSettings, Ports, Stft,
};
pub use runtime::Options;
pub use separator::Separator;

use crate::parallel::Stop;
use crate::separate::gather;
use crate::{Audio, Control, SeparateError, Shape, Stem};
use runtime::Net;
use separator::Formulas;
use stitch::Plan;

/// Why a model cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The manifest, or the graph where it contradicts the manifest.
    #[error("{field}: {reason}")]
    Field {
        /// Which field of the manifest is wrong, such as `mdx.n_fft`.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file cannot be read.
    #[error("{file}: {reason}")]
    File {
        /// Its name in the models folder.
        file: String,
        /// The system's words.
        reason: String,
    },
    /// There is no runtime to run graphs with. The words may name the library's path.
    #[error(
        "the ONNX runtime library cannot be loaded: {0}; install onnxruntime 1.17 or newer and let \
         ORT_DYLIB_PATH name its libonnxruntime.so"
    )]
    NoRuntime(String),
}

impl ModelError {
    fn field(field: &str, reason: impl Into<String>) -> Self {
        Self::Field {
            field: field.to_owned(),
            reason: reason.into(),
        }
    }

    fn file(file: &str, reason: impl std::fmt::Display) -> Self {
        Self::File {
            file: file.to_owned(),
            reason: reason.to_string(),
        }
    }
}

/// A model that is loaded and checked.
#[derive(Debug)]
pub struct Model {
    manifest: Manifest,
    family: Family,
    formulas: Formulas,
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
        Self::load(folder, folder::read_manifest(folder, name)?, options)
    }

    /// What users call it.
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

    /// Separates `mix` and returns the `wanted` stems in the order asked for, like
    /// [`separate`](crate::separate()). Channels beyond two are separated pair by pair.
    pub fn separate(
        self: &Arc<Self>,
        mix: &Audio,
        wanted: &[Stem],
        control: Control<'_>,
    ) -> Result<Vec<(Stem, Audio)>, SeparateError> {
        let mut control = control;
        let mut separator = Separator::new(Arc::clone(self), Shape::of(mix), wanted)?;
        gather(mix, wanted, |write| {
            separator.push(mix.channels(), &mut control, write)?;
            separator.finish(&mut control, write)
        })
    }

    /// How a clip of so many samples at 44.1 kHz is cut into segments.
    fn plan(&self, frames: usize) -> Plan {
        match &self.family {
            Family::Mdx(mdx) => mdx.plan(frames),
            Family::HtDemucs(htdemucs) => htdemucs.plan(frames),
            Family::OpenUnmix(openunmix) => openunmix.plan(frames),
        }
    }

    /// What the clip's samples have to be brought to: this is subtracted, then multiplied.
    fn scale(&self, shape: Shape) -> (f32, f32) {
        match &self.family {
            Family::Mdx(_) => (0.0, mdx::PEAK / shape.peak),
            Family::HtDemucs(_) => (shape.mean, 1.0 / shape.deviation.max(1e-8)),
            Family::OpenUnmix(_) => (0.0, 1.0),
        }
    }

    /// Estimates of one segment, in the order of [`Formulas::new`].
    fn segment(&self, sound: &Stereo, stop: Stop<'_>) -> Result<Vec<Stereo>, SeparateError> {
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

/// Left and right, equally long.
type Stereo = [Vec<f32>; 2];

/// What is left and right, two and two.
fn pairs<T>(channels: Vec<T>) -> Vec<[T; 2]> {
    let mut channels = channels.into_iter();
    let mut pairs = Vec::new();
    while let (Some(left), Some(right)) = (channels.next(), channels.next()) {
        pairs.push([left, right]);
    }
    pairs
}

/// Names the stem's own field in an error about a graph's file.
fn in_table(error: ModelError, table: &str, stem: Stem) -> ModelError {
    match error {
        ModelError::Field { field, reason } if field == "file" => {
            ModelError::field(&format!("{table}.{stem}"), reason)
        }
        ModelError::Field { field, reason } if field == "sha256" => {
            ModelError::field(&format!("openunmix.sha256.{stem}"), reason)
        }
        other => other,
    }
}

/// Reads a graph and hands it to the runtime, if it is the file that the manifest means.
fn open(folder: &Path, graph: &GraphFile, options: &Options) -> Result<Net, ModelError> {
    let bytes = folder::read(folder, &graph.file)?;
    if let Some(expected) = &graph.sha256 {
        let found = hexadecimal(&Sha256::digest(&bytes));
        if found != *expected {
            let reason = format!("{} has the SHA-256 {found}", graph.file);
            return Err(ModelError::field("sha256", reason));
        }
    }
    Net::open(&bytes, options)
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // INVARIANT: writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
