//! The operator's separation models: ONNX graphs of three published families.
//!
//! A graph does not say how its spectra were made, so a [`ModelManifest`] next to it does. A
//! [`ModelFolder`] finds both, and a [`SeparationModel`] separates as the built-in engine does:
//! with the same inputs, outputs and exact sums. The runtime is a library that is loaded when it is
//! first needed; nothing is ever downloaded.
//!
//! ```text
//! clip -> 44.1 kHz stereo -> overlapping segments -> spectra -> graph -> spectra -> stitched
//!      -> the clip's rate and channels -> sums
//! ```
//!
//! A graph runs with the process's rights and may need any amount of memory and time: only files
//! that the operator trusts belong in the folder.

mod error;
mod files;
mod folder;
mod formulas;
mod htdemucs;
mod manifest;
mod mdx;
mod model;
mod openunmix;
mod runtime;
mod separator;
mod spectrum;
mod stereo;
mod stitch;
pub mod uvr;
mod wiener_refine;

pub use error::ModelError;
pub use folder::{ModelFolder, RefusedModel};
pub use manifest::{
    FamilySettings, GraphFile, HtDemucsSettings, MdxSettings, ModelManifest, OpenUnmixSettings,
    PortNames, StftPlacement,
};
pub use model::SeparationModel;
pub use runtime::RuntimeOptions;
pub use separator::ModelSeparator;
