//! Media files: generation, marking, storage, signed URLs and fetching.
//!
//! [`engines`] makes films and stems in processes of their own, [`origin`] marks what is made here and
//! reads the marks of others, [`blob`] keeps files in a folder or a bucket, [`url_signer`] makes their
//! addresses, [`seal`] encrypts secrets, and [`fetch`] gets what callers name without being led into the
//! private network. Only this crate knows object stores and media formats. It must not know tasks'
//! lives, money or HTTP requests.

pub mod blob;
pub mod engines;
pub mod fetch;
pub mod origin;
pub mod seal;
pub mod url_signer;
