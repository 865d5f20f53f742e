//! Signs with the operator's certificate or the self-made one, and verifies.

use provenance::credentials::{self, Ingredient, MAX_TEXT_CHARS, PemSigner, Sign, SourceType};

use super::asked::{Asker, Asking, Signer};
use super::{Format, Made, NotSigned, Statement, chain};
use crate::seal::Seal;
use mediagate_config::Config;
use mediagate_store::Store;

/// This deployment's signature.
pub(super) struct Signing {
    signer: Asking,
}

impl Signing {
    /// With its certificates, PEM.
    pub(super) fn open(
        config: &Config,
        store: &Store,
        seal: &Seal,
    ) -> Result<(Self, String), NotSigned> {
        let rules = &config.provenance;
        let (signer, certificates) = if let Some(identity) = &rules.identity {
            let signer = Signer::of(identity).map_err(NotSigned)?;
            (signer, identity.certificates.clone())
        } else {
            let kept = chain::kept(config, store, seal)?;
            let made = PemSigner::new(&kept.certificates_pem, &kept.key_pem, chain::ALGORITHM);
            let made = made.map_err(|error| NotSigned(error.to_string()))?;
            (Signer::Here(made), kept.certificates_pem)
        };
        let signer = Asking {
            signer,
            timestamp: rules
                .timestamp
                .as_ref()
                .map(|address| address.url().clone()),
            asker: Asker::new().map_err(NotSigned)?,
        };
        Ok((Self { signer }, certificates))
    }

    pub(super) fn signer(&self) -> &dyn Sign {
        &self.signer
    }

    /// Whether an authority stamps what is signed.
    pub(super) fn stamps(&self) -> bool {
        self.signer.timestamp.is_some()
    }
}

/// Signs a file with any signer. What it was made of is parsed by a library that has recursive parsers: a
/// stranger's file is signed with in a child process only.
pub fn sign(
    file: &[u8],
    format: Format,
    statement: &Statement<'_>,
    tells_prompt: bool,
    signer: &dyn Sign,
) -> Result<Vec<u8>, NotSigned> {
    let failed = |error: &dyn std::fmt::Display| NotSigned(error.to_string());
    let made = match statement.made {
        Made::Drawn => credentials::Made::Created(SourceType::AlgorithmicMedia),
        Made::DrawnFrom => credentials::Made::Created(SourceType::Composite),
        Made::Generated => credentials::Made::Created(SourceType::TrainedAlgorithmicMedia),
        Made::Edited { title, source } => {
            let kind = kind_of(source)
                .ok_or_else(|| NotSigned("what it was made of is of an unknown kind".to_owned()))?;
            credentials::Made::Edited(Ingredient {
                title,
                format: kind,
                bytes: source,
            })
        }
    };
    let prompt: String = statement.prompt.chars().take(MAX_TEXT_CHARS).collect();
    let title: String = statement.title.chars().take(MAX_TEXT_CHARS).collect();
    let stated = credentials::Statement {
        title: &title,
        generator: ("Mediagate", env!("CARGO_PKG_VERSION")),
        model: statement.model,
        provider: statement.provider,
        prompt: Some(prompt.as_str()).filter(|prompt| tells_prompt && !prompt.is_empty()),
        when: statement.when,
        made,
    };
    let format = match format {
        Format::Mp4 => credentials::Format::Mp4,
        Format::Flac => credentials::Format::Flac,
        Format::Png => credentials::Format::Png,
        Format::Jpeg => credentials::Format::Jpeg,
    };
    credentials::sign(file, format, &stated, signer).map_err(|error| failed(&error))
}

/// `None` if it is of a kind that cannot be an ingredient.
fn kind_of(file: &[u8]) -> Option<credentials::Format> {
    use credentials::Format;
    use provenance::marks::{Kind, read};
    let marks = read(std::io::Cursor::new(file)).ok()?;
    Some(match marks.kind {
        Kind::Mp4 => Format::M4a,
        Kind::Png => Format::Png,
        Kind::Jpeg => Format::Jpeg,
        Kind::Wav => Format::Wav,
        Kind::Flac => Format::Flac,
        Kind::Mp3 => Format::Mp3,
    })
}
