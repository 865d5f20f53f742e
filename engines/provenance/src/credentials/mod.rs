//! Content Credentials: signs files, and reports a file's credentials and whether they are valid.
//! It needs the feature `c2pa`.
//!
//! Only this module uses the crate `c2pa`. It sets the limits of incoming files. It must not know
//! about tasks, the current time, or where certificates are stored. No connection is opened: remote
//! manifests and revocation lists are not fetched, and time stamps come through a callback.

use c2pa::Context;
use c2pa::http::http::{Request, Response};
use c2pa::http::{HttpResolverError, SyncHttpResolver};
use serde_json::json;

use crate::marks::MarksError;

mod cbor_depth;
mod certificate_chain;
mod container_limits;
mod read;
mod sign;
mod signer;
mod signer_check;

pub use cbor_depth::MAX_CBOR_DEPTH;
pub use certificate_chain::{SELF_MADE, SelfMadeChain, self_made};
pub use read::{
    CredentialsReport, CredentialsStatus, ManifestAction, SignerIdentity, TrustAnchors, read,
};
pub use sign::{AssetOrigin, Ingredient, OriginStatement, SourceType, sign};
pub use signer::{ContentSigner, PemSigner, SignFailure, SignatureAlgorithm};
pub use signer_check::try_out;

/// Maximum size in bytes of a file that is signed or read.
pub const MAX_FILE_BYTES: usize = 1 << 30;
/// Maximum size in bytes of an incoming manifest store, including its ingredients' manifests.
pub const MAX_MANIFEST_BYTES: u64 = 16 << 20;
/// Maximum number of actions, of problems and of ingredients that are reported for one manifest.
pub const MAX_LISTED: usize = 64;
/// Maximum length in characters of a text that is written or reported.
pub const MAX_TEXT_CHARS: usize = 512;

/// The kind of a file that is signed or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MediaFormat {
    Mp4,
    M4a,
    Wav,
    Flac,
    Mp3,
    Png,
    Jpeg,
}

impl MediaFormat {
    pub fn mime(self) -> &'static str {
        match self {
            Self::Mp4 => "video/mp4",
            Self::M4a => "audio/mp4",
            Self::Wav => "audio/wav",
            Self::Flac => "audio/flac",
            Self::Mp3 => "audio/mpeg",
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
        }
    }
}

/// Why a file was not signed, or could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error("the file has {0} bytes, more than {MAX_FILE_BYTES}")]
    FileTooLong(usize),
    /// The incoming manifest is larger than [`MAX_MANIFEST_BYTES`].
    #[error("a manifest of {0} bytes is too large to be read")]
    ManifestTooLong(u64),
    /// Values in the incoming manifest are nested deeper than [`MAX_CBOR_DEPTH`].
    #[error("a manifest with values nested more than {MAX_CBOR_DEPTH} deep is not read")]
    ManifestTooDeep,
    /// A value in the incoming manifest extends beyond its container, or its parts overlap.
    #[error("a manifest whose parts overlap or exceed their containers is not read")]
    ManifestMalformed,
    /// A text of the statement is longer than [`MAX_TEXT_CHARS`].
    #[error("{0} is too long")]
    TextTooLong(&'static str),
    /// The certificates or the key cannot be used, or do not belong together.
    #[error("the certificate or key cannot be used: {0}")]
    Key(String),
    #[error("the file's parts cannot be read: {0}")]
    Marks(#[from] MarksError),
    /// The signer, or the library, failed.
    #[error("not signed: {0}")]
    Sign(String),
    /// The library could not be set up: for example because the trust anchors are not PEM.
    #[error("settings: {0}")]
    Settings(String),
}

/// The label of the metadata assertion, which CAWG defines: Metadata Assertion 1.0, 2024.
const METADATA: &str = "cawg.metadata";
/// IPTC's extension schema for XMP, which has had [`PROMPT`] since 2025.1.
const IPTC: (&str, &str) = ("Iptc4xmpExt", "http://iptc.org/std/Iptc4xmpExt/2008-02-29/");
/// The property for the prompt that was given to the service.
const PROMPT: &str = "AIPromptInformation";

fn check_length(file: &[u8]) -> Result<(), CredentialsError> {
    if file.len() > MAX_FILE_BYTES {
        return Err(CredentialsError::FileTooLong(file.len()));
    }
    Ok(())
}

/// The library's settings: nothing is fetched, no thumbnails are drawn, nothing is added
/// automatically.
fn context(anchors: Option<&str>) -> Result<Context, CredentialsError> {
    // Thumbnails are off, so that no part of the file goes into its manifest: an external signer
    // sees what it signs.
    let mut settings = json!({
        "verify": {
            "verify_after_sign": false,
            "remote_manifest_fetch": false,
            "ocsp_fetch": false,
        },
        "core": {
            "allowed_network_hosts": [],
            "decode_identity_assertions": false,
            "max_decompressed_manifest_size_in_mb": MAX_MANIFEST_BYTES >> 20,
        },
        "builder": { "thumbnail": { "enabled": false } },
    });
    if let (Some(anchors), Some(settings)) = (anchors, settings.as_object_mut()) {
        settings.insert("trust".to_owned(), json!({ "user_anchors": anchors }));
    }
    Context::new()
        .with_settings(settings.to_string().as_str())
        .map(|context| context.with_resolver(NoHttpResolver))
        .map_err(|error| CredentialsError::Settings(error.to_string()))
}

/// Refuses every request, whatever features of `c2pa` other crates enable.
struct NoHttpResolver;

impl SyncHttpResolver for NoHttpResolver {
    fn http_resolve(
        &self,
        _: Request<Vec<u8>>,
    ) -> Result<Response<Box<dyn std::io::Read>>, HttpResolverError> {
        Err(HttpResolverError::SyncHttpResolverNotImplemented)
    }
}
