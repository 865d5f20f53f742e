//! Provenance: results are marked, and any file can be checked for these marks.

pub mod check;
pub mod marking;
pub mod post_processing;
