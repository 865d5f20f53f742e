//! Signers: a key in PEM, or an external service that the caller calls.

use c2pa::{BoxedSigner, SigningAlg};

use super::CredentialsError;

/// Bytes that are reserved for a signature with its certificates and time stamp.
const RESERVED_BYTES: usize = 10_240;

/// The signature algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SignatureAlgorithm {
    Es256,
    Es384,
    Ed25519,
}

impl SignatureAlgorithm {
    fn to_c2pa(self) -> SigningAlg {
        match self {
            Self::Es256 => SigningAlg::Es256,
            Self::Es384 => SigningAlg::Es384,
            Self::Ed25519 => SigningAlg::Ed25519,
        }
    }
}

/// Why an external service did not sign, or gave no time stamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SignFailure(pub String);

/// Signs, in this process or through another: an HSM, a service.
pub trait ContentSigner: Send + Sync {
    fn algorithm(&self) -> SignatureAlgorithm;

    /// Certificates in DER, the signer's first, without the root, which verifiers know.
    fn certificates(&self) -> Result<Vec<Vec<u8>>, SignFailure>;

    /// A signature of these bytes, which are not hashed yet. An ECDSA signature is its two numbers
    /// one after the other (IEEE P1363), not ASN.1.
    fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, SignFailure>;

    /// Sends an RFC 3161 request (DER) to a time-stamp authority and returns its reply. `None`
    /// for no time stamp; a failure fails the signing.
    fn time_stamp(&self, request: &[u8]) -> Option<Result<Vec<u8>, SignFailure>> {
        let _ = request;
        None
    }
}

/// A key and its certificates in this process.
pub struct PemSigner {
    inner: BoxedSigner,
    algorithm: SignatureAlgorithm,
}

impl PemSigner {
    /// Certificates, the signer's first, and a key in PKCS #8. [`try_out`](super::try_out) checks
    /// whether they belong together and are valid today.
    pub fn new(
        certificates_pem: &str,
        key_pem: &str,
        algorithm: SignatureAlgorithm,
    ) -> Result<Self, CredentialsError> {
        let inner = c2pa::create_signer::from_keys(
            certificates_pem.as_bytes(),
            key_pem.as_bytes(),
            algorithm.to_c2pa(),
            None,
        )
        .map_err(|error| CredentialsError::Key(error.to_string()))?;
        Ok(Self { inner, algorithm })
    }
}

impl ContentSigner for PemSigner {
    fn algorithm(&self) -> SignatureAlgorithm {
        self.algorithm
    }

    fn certificates(&self) -> Result<Vec<Vec<u8>>, SignFailure> {
        self.inner
            .certs()
            .map_err(|error| SignFailure(error.to_string()))
    }

    fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, SignFailure> {
        self.inner
            .sign(bytes)
            .map_err(|error| SignFailure(error.to_string()))
    }
}

/// Adapts any signer to the library.
pub(super) struct C2paSigner<'a>(pub(super) &'a dyn ContentSigner);

fn c2pa_error(failure: SignFailure) -> c2pa::Error {
    c2pa::Error::OtherError(Box::new(failure))
}

impl c2pa::Signer for C2paSigner<'_> {
    fn sign(&self, data: &[u8]) -> c2pa::Result<Vec<u8>> {
        self.0.sign(data).map_err(c2pa_error)
    }

    fn alg(&self) -> SigningAlg {
        self.0.algorithm().to_c2pa()
    }

    fn certs(&self) -> c2pa::Result<Vec<Vec<u8>>> {
        self.0.certificates().map_err(c2pa_error)
    }

    fn reserve_size(&self) -> usize {
        // The space is reserved before the signature exists, and cannot grow afterwards: the file's
        // hash excludes it.
        let certificates = self.0.certificates().unwrap_or_default();
        RESERVED_BYTES + certificates.iter().map(Vec::len).sum::<usize>()
    }

    fn send_timestamp_request(&self, message: &[u8]) -> Option<c2pa::Result<Vec<u8>>> {
        let reply = match self.timestamp_request_body(message) {
            Ok(request) => self.0.time_stamp(&request)?.map_err(c2pa_error),
            Err(error) => Err(error),
        };
        Some(reply)
    }
}
