//! What the crate promises, by its public functions and its program.

mod common;
mod demand;
mod file;
mod flow;
mod fuzz;
mod judder;
mod picture;
mod playback;
mod program;
mod reading;
mod steps;
mod video;
