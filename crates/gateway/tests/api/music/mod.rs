//! `/{brand}/…`.

mod clips;
mod fetch;
pub(crate) mod submit;
mod uploads;
