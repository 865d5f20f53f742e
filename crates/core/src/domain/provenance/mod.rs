//! Provenance: what is made here is marked, and anybody's file can be checked for those marks.

pub mod check;
pub mod marking;
pub mod post_processing;
