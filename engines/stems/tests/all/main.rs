//! What the crate promises, by its public functions and its program.

mod bad_input;
mod decode;
mod fuzz;
#[cfg(feature = "onnx")]
mod manifest;
#[cfg(feature = "onnx")]
mod onnx;
mod program;
mod recordings;
mod separate;
