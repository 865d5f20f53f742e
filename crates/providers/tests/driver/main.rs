//! The driver against servers that misbehave in ways that no provider's model
//! does, with an adapter made for it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod download;
mod find;
mod plain;
mod poll;
mod server;
mod submit;
mod trust;
