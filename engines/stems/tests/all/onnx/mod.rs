//! The operator's models, run by the real ONNX runtime on small graphs whose answers are known.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "tests fail loudly, and their signals are short"
)]

mod clips;
mod families;
mod fixtures;
mod folder;
mod program;
mod refused;
