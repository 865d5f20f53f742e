//! Media files: generation, marking, storage, signed URLs and fetching.
//!
//! [`engines`] makes films and stems in separate processes, [`origin`] marks results and reads the
//! marks of other files, [`blob`] stores files in a folder or a bucket, [`url_signer`] makes their
//! URLs, [`seal`] encrypts secrets, and [`fetch`] downloads callers' URLs without letting them
//! reach the private network. Only this crate knows object stores and media formats. It must not
//! know the life cycle of tasks, money or HTTP requests. Begin with [`engines`] and [`blob`].

pub mod blob;
pub mod engines;
pub mod fetch;
pub mod origin;
pub mod seal;
pub mod url_signer;
