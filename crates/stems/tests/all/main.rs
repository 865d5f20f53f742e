//! What the crate promises, by its public functions and its program.

mod bad_input;
mod decode;
mod fuzz;
mod manifest;
mod onnx;
mod program;
mod separate;
