//! Signing and time-stamping services: the operator's own signer, and an RFC 3161 authority.
//!
//! The bytes to be signed (the COSE structure of C2PA: hashes and the claim, no part of the file)
//! are posted to the signer, which answers with the bare signature. Blocks, so it runs on threads
//! that may block.

use std::time::Duration;

use outbound::{OutboundClient, OutboundRules};
use provenance::credentials::{ContentSigner, PemSigner, SignFailure, SignatureAlgorithm};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use url::Url;

use mediagate_config::{KeyHolder, SigningIdentity};

/// Timeout of one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of an answer: time stamps carry certificates.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// Calls the operator's services.
pub(super) struct ServiceClient {
    client: OutboundClient,
}

impl ServiceClient {
    pub(super) fn new() -> Result<Self, String> {
        // The services are trusted as configured, private networks included.
        let all_networks = ["0.0.0.0/0", "::/0"].iter();
        let rules = OutboundRules {
            allow_networks: all_networks.filter_map(|net| net.parse().ok()).collect(),
            allow_ports: None,
        };
        let client = OutboundClient::new(rules, ANSWER_TIMEOUT)?;
        Ok(Self { client })
    }

    fn post(
        &self,
        url: &Url,
        kind: &'static str,
        algorithm: Option<&'static str>,
        body: &[u8],
    ) -> Result<Vec<u8>, SignFailure> {
        let failed =
            |reason: &str| SignFailure(format!("{} {reason}", url.host_str().unwrap_or("it")));
        let request = self.client.request(Method::POST, url);
        let request = request.map_err(|_| failed("cannot be called"))?;
        let mut request = request.header(CONTENT_TYPE, kind).body(body.to_vec());
        if let Some(algorithm) = algorithm {
            request = request.header("x-mediagate-algorithm", algorithm);
        }
        let exchange = async {
            let mut response = request
                .send()
                .await
                .map_err(|_| failed("does not respond"))?;
            if !response.status().is_success() {
                let status = response.status().as_u16();
                return Err(failed(&format!("responded with status {status}")));
            }
            let mut bytes = Vec::new();
            loop {
                match response.chunk().await {
                    Ok(Some(chunk)) if bytes.len() + chunk.len() <= MAX_RESPONSE_BYTES => {
                        bytes.extend_from_slice(&chunk);
                    }
                    Ok(None) => return Ok(bytes),
                    _ => return Err(failed("sent an incomplete or oversized response")),
                }
            }
        };
        let runtime = tokio::runtime::Handle::try_current();
        let runtime = runtime.map_err(|_| failed("cannot be called here"))?;
        runtime.block_on(async {
            tokio::time::timeout(ANSWER_TIMEOUT, exchange)
                .await
                .unwrap_or_else(|_| Err(failed("took too long")))
        })
    }
}

/// A certificate with a local or remote key, and the service that stamps its signatures.
pub(super) struct CertificateSigner {
    pub(super) signer: KeySigner,
    pub(super) timestamp: Option<Url>,
    pub(super) client: ServiceClient,
}

/// The signer that has the key.
pub(super) enum KeySigner {
    Local(PemSigner),
    Remote {
        url: Url,
        algorithm: SignatureAlgorithm,
        certificates: Vec<Vec<u8>>,
    },
}

impl KeySigner {
    /// A signer for a certificate that was checked.
    pub(super) fn for_identity(identity: &SigningIdentity) -> Result<Self, String> {
        let algorithm = identity.algorithm();
        let algorithm = algorithm.ok_or("the certificate's key has an unknown type")?;
        match &identity.holder {
            KeyHolder::Local(key) => {
                let signer = PemSigner::new(&identity.certificates, key.expose(), algorithm);
                signer.map(Self::Local).map_err(|error| error.to_string())
            }
            KeyHolder::Remote(url) => {
                let certificates = CertificateDer::pem_slice_iter(identity.certificates.as_bytes());
                let certificates: Result<Vec<_>, _> = certificates.collect();
                let certificates = certificates.map_err(|_| "the certificates are damaged")?;
                Ok(Self::Remote {
                    url: url.url().clone(),
                    algorithm,
                    certificates: certificates
                        .iter()
                        .map(|certificate| certificate.to_vec())
                        .collect(),
                })
            }
        }
    }
}

impl ContentSigner for CertificateSigner {
    fn algorithm(&self) -> SignatureAlgorithm {
        match &self.signer {
            KeySigner::Local(signer) => signer.algorithm(),
            KeySigner::Remote { algorithm, .. } => *algorithm,
        }
    }

    fn certificates(&self) -> Result<Vec<Vec<u8>>, SignFailure> {
        match &self.signer {
            KeySigner::Local(signer) => signer.certificates(),
            KeySigner::Remote { certificates, .. } => Ok(certificates.clone()),
        }
    }

    fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, SignFailure> {
        match &self.signer {
            KeySigner::Local(signer) => signer.sign(bytes),
            KeySigner::Remote { url, algorithm, .. } => {
                let name = match algorithm {
                    SignatureAlgorithm::Es256 => "es256",
                    SignatureAlgorithm::Es384 => "es384",
                    SignatureAlgorithm::Ed25519 => "ed25519",
                };
                self.client
                    .post(url, "application/octet-stream", Some(name), bytes)
            }
        }
    }

    fn time_stamp(&self, request: &[u8]) -> Option<Result<Vec<u8>, SignFailure>> {
        let url = self.timestamp.as_ref()?;
        let kind = "application/timestamp-query";
        Some(self.client.post(url, kind, None, request))
    }
}
