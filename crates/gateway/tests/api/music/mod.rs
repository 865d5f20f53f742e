//! `/{brand}/…`.

mod clips;
mod fetch;
mod submit;
mod uploads;
