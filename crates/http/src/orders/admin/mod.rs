//! The requests by which an operator changes something.

pub mod fields;
pub mod keys;
pub mod money;
pub mod submissions;
pub mod users;
