//! `/{brand}/…`.

mod submit;
