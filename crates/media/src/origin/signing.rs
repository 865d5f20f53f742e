//! Signing with the operator's certificate or the self-signed one.

use provenance::credentials::{
    self, ContentSigner, Ingredient, MAX_TEXT_CHARS, PemSigner, SourceType,
};

use super::signing_services::{CertificateSigner, KeySigner, ServiceClient};
use super::{CreationMethod, ResultStatement, SignedFormat, SigningError, self_signed};
use crate::seal::SecretSeal;
use mediagate_config::Config;
use mediagate_store::Store;

/// This deployment's signature.
pub(super) struct DeploymentSigner {
    signer: CertificateSigner,
}

impl DeploymentSigner {
    /// Opens the signer; returns it with its certificates as PEM.
    pub(super) fn open(
        config: &Config,
        store: &Store,
        seal: &SecretSeal,
    ) -> Result<(Self, String), SigningError> {
        let rules = &config.provenance;
        let (signer, certificates) = if let Some(identity) = &rules.identity {
            let signer = KeySigner::for_identity(identity).map_err(SigningError)?;
            (signer, identity.certificates.clone())
        } else {
            let chain = self_signed::load_or_create(config, store, seal)?;
            let pem_signer = PemSigner::new(
                &chain.certificates_pem,
                &chain.key_pem,
                self_signed::ALGORITHM,
            );
            let pem_signer = pem_signer.map_err(|error| SigningError(error.to_string()))?;
            (KeySigner::Local(pem_signer), chain.certificates_pem)
        };
        let signer = CertificateSigner {
            signer,
            timestamp: rules
                .timestamp
                .as_ref()
                .map(|address| address.url().clone()),
            client: ServiceClient::new().map_err(SigningError)?,
        };
        Ok((Self { signer }, certificates))
    }

    pub(super) fn signer(&self) -> &dyn ContentSigner {
        &self.signer
    }

    /// Whether an authority stamps the signatures.
    pub(super) fn stamps(&self) -> bool {
        self.signer.timestamp.is_some()
    }
}

/// Signs a file with any signer. Its source file is parsed by a library with recursive parsers: an
/// untrusted source is used only in a child process.
pub fn sign(
    file: &[u8],
    format: SignedFormat,
    statement: &ResultStatement<'_>,
    tells_prompt: bool,
    signer: &dyn ContentSigner,
) -> Result<Vec<u8>, SigningError> {
    let failed = |error: &dyn std::fmt::Display| SigningError(error.to_string());
    let origin = match statement.made {
        CreationMethod::Algorithmic => {
            credentials::AssetOrigin::Created(SourceType::AlgorithmicMedia)
        }
        CreationMethod::AlgorithmicComposite => {
            credentials::AssetOrigin::Created(SourceType::Composite)
        }
        CreationMethod::Generated => {
            credentials::AssetOrigin::Created(SourceType::TrainedAlgorithmicMedia)
        }
        CreationMethod::Edited { title, source } => {
            let kind = kind_of(source)
                .ok_or_else(|| SigningError("the type of the source file is unknown".to_owned()))?;
            credentials::AssetOrigin::Edited(Ingredient {
                title,
                format: kind,
                bytes: source,
            })
        }
    };
    let prompt: String = statement.prompt.chars().take(MAX_TEXT_CHARS).collect();
    let title: String = statement.title.chars().take(MAX_TEXT_CHARS).collect();
    let origin_statement = credentials::OriginStatement {
        title: &title,
        generator: ("Mediagate", env!("CARGO_PKG_VERSION")),
        model: statement.model,
        provider: statement.provider,
        prompt: Some(prompt.as_str()).filter(|prompt| tells_prompt && !prompt.is_empty()),
        when: statement.when,
        origin,
    };
    let format = match format {
        SignedFormat::Mp4 => credentials::MediaFormat::Mp4,
        SignedFormat::Flac => credentials::MediaFormat::Flac,
        SignedFormat::Png => credentials::MediaFormat::Png,
        SignedFormat::Jpeg => credentials::MediaFormat::Jpeg,
    };
    credentials::sign(file, format, &origin_statement, signer).map_err(|error| failed(&error))
}

/// `None` if it is of a kind that cannot be an ingredient.
fn kind_of(file: &[u8]) -> Option<credentials::MediaFormat> {
    use credentials::MediaFormat;
    use provenance::marks::{FileKind, read};
    let marks = read(std::io::Cursor::new(file)).ok()?;
    Some(match marks.kind {
        FileKind::Mp4 => MediaFormat::M4a,
        FileKind::Png => MediaFormat::Png,
        FileKind::Jpeg => MediaFormat::Jpeg,
        FileKind::Wav => MediaFormat::Wav,
        FileKind::Flac => MediaFormat::Flac,
        FileKind::Mp3 => MediaFormat::Mp3,
    })
}
