//! Provenance of media files: reading and writing statements of their origin.
//!
//! It owns: the marks that a file carries when it comes in ([`marks`]), watermarks for films and
//! sound ([`watermark`]), fingerprints that survive re-encoding ([`fingerprint`]) and, with the
//! feature `c2pa`, signed Content Credentials (`credentials`). It must not know: HTTP, SQL, async,
//! tasks, accounts, the clock, or the caller. Bytes and planes in, results out; nothing here opens
//! a connection. Begin with [`marks`].

#[cfg(feature = "c2pa")]
pub mod credentials;
pub mod fingerprint;
pub mod marks;
pub mod watermark;
