//! What an operator is told.

pub mod audit;
pub mod keys;
pub mod money;
