//! Reading and verification of a file's credentials, independent of signing.

use std::io::Cursor;

use c2pa::assertions::Actions;
use c2pa::{Manifest, Reader, ValidationState};
use serde_json::Value;

use super::{
    CredentialsError, IPTC, MAX_LISTED, MAX_MANIFEST_BYTES, MAX_TEXT_CHARS, METADATA, MediaFormat,
    PROMPT, SELF_MADE, cbor_depth, check_length, context,
};
use crate::marks::{self, MarksError};

/// The certificates that the caller trusts.
#[derive(Debug, Clone, Copy, Default)]
pub struct TrustAnchors<'a> {
    /// Certificates of issuers, in PEM: C2PA's trust list, the operator's own.
    pub anchors_pem: Option<&'a str>,
    /// The operator's own certificate, in PEM, as used for signing.
    pub own_pem: Option<&'a str>,
}

/// Whether there are credentials and whether they are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CredentialsStatus {
    /// The file has none.
    None,
    /// They are damaged, or the file was changed after it was signed.
    Invalid,
    /// The file is unchanged since it was signed, by an unknown signer.
    Valid,
    /// The file is unchanged since it was signed, by a signer that an anchor vouches for.
    Trusted,
}

/// The signer according to the certificate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SignerIdentity {
    pub name: Option<String>,
    pub issuer: Option<String>,
    /// The certificate states that it is self-made.
    pub self_made: bool,
    /// It is the operator's own certificate.
    pub own: bool,
    /// The time of signing, according to an authority's time stamp.
    pub time: Option<String>,
}

/// An action in a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestAction {
    pub action: String,
    pub when: Option<String>,
    pub software: Option<String>,
    pub digital_source_type: Option<String>,
}

/// The contents of the active manifest; unreliable if it is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialsReport {
    pub status: CredentialsStatus,
    pub signer: Option<SignerIdentity>,
    /// The program that made the claim.
    pub generator: Option<String>,
    /// The source type of the first action that has one.
    pub digital_source_type: Option<String>,
    pub actions: Vec<ManifestAction>,
    /// Titles of the files that this one was made from.
    pub ingredients: Vec<String>,
    /// The prompt, according to CAWG's metadata.
    pub prompt: Option<String>,
    /// C2PA's codes of failed checks; `manifest.multiple`, `manifest.tooDeep` and
    /// `manifest.malformed` for files that are not given to the library.
    pub problems: Vec<String>,
}

impl CredentialsReport {
    fn with_status(status: CredentialsStatus) -> Self {
        Self {
            status,
            signer: None,
            generator: None,
            digital_source_type: None,
            actions: Vec::new(),
            ingredients: Vec::new(),
            prompt: None,
            problems: Vec::new(),
        }
    }

    fn invalid(problem: &str) -> Self {
        Self {
            problems: vec![short(problem)],
            ..Self::with_status(CredentialsStatus::Invalid)
        }
    }
}

/// Reads and verifies a file's credentials.
pub fn read(
    file: &[u8],
    format: MediaFormat,
    trust: &TrustAnchors<'_>,
) -> Result<CredentialsReport, CredentialsError> {
    check_length(file)?;
    // Our own reader comes first: it finds the store within fixed limits, so that size and number
    // are known before the library sees the file.
    let marks = match marks::read(Cursor::new(file)) {
        Ok(marks) => marks,
        Err(MarksError::Io(error)) => return Err(MarksError::Io(error).into()),
        Err(error) => return Ok(CredentialsReport::invalid(&error.to_string())),
    };
    let Some(range) = marks.manifest else {
        return Ok(CredentialsReport::with_status(CredentialsStatus::None));
    };
    let length = range.end - range.start;
    if length > MAX_MANIFEST_BYTES {
        return Err(CredentialsError::ManifestTooLong(length));
    }
    if marks.manifests > 1 {
        // The specification allows one store in a file. If there were several, the one that counts
        // would depend on the reader.
        return Ok(CredentialsReport::invalid("manifest.multiple"));
    }
    match cbor_depth::check(file, format) {
        Ok(()) => {}
        Err(CredentialsError::ManifestTooDeep) => {
            return Ok(CredentialsReport::invalid("manifest.tooDeep"));
        }
        Err(CredentialsError::ManifestMalformed) => {
            return Ok(CredentialsReport::invalid("manifest.malformed"));
        }
        Err(error) => return Err(error),
    }
    let reader = Reader::from_context(context(trust.anchors_pem)?)
        .with_stream(format.mime(), Cursor::new(file));
    Ok(match reader {
        Ok(reader) => build_report(&reader, trust),
        Err(c2pa::Error::JumbfNotFound) => CredentialsReport::with_status(CredentialsStatus::None),
        Err(error) => CredentialsReport::invalid(&error.to_string()),
    })
}

fn build_report(reader: &Reader, trust: &TrustAnchors<'_>) -> CredentialsReport {
    let mut report = CredentialsReport::with_status(match reader.validation_state() {
        ValidationState::Trusted => CredentialsStatus::Trusted,
        ValidationState::Valid => CredentialsStatus::Valid,
        ValidationState::Invalid => CredentialsStatus::Invalid,
    });
    let problems = reader.validation_status().unwrap_or_default().iter();
    report.problems = problems
        .take(MAX_LISTED)
        .map(|status| short(status.code()))
        .collect();
    let Some(manifest) = reader.active_manifest() else {
        return report;
    };
    report.signer = signer(manifest, trust);
    report.generator = generator(manifest);
    report.actions = actions(manifest);
    let mut sources = report.actions.iter();
    report.digital_source_type = sources.find_map(|action| action.digital_source_type.clone());
    let ingredients = manifest.ingredients().iter().take(MAX_LISTED);
    report.ingredients = ingredients
        .map(|ingredient| short(ingredient.title().unwrap_or_default()))
        .collect();
    report.prompt = prompt(manifest);
    report
}

/// The property is found by its schema, because any prefix may be bound to that.
fn prompt(manifest: &Manifest) -> Option<String> {
    let metadata: Value = manifest.find_assertion(METADATA).ok()?;
    let context = metadata.get("@context")?.as_object()?.iter();
    let mut prefixes = context.filter(|(_, schema)| schema.as_str() == Some(IPTC.1));
    let value = prefixes.find_map(|(prefix, _)| metadata.get(format!("{prefix}:{PROMPT}")))?;
    value.as_str().map(short)
}

fn signer(manifest: &Manifest, trust: &TrustAnchors<'_>) -> Option<SignerIdentity> {
    let info = manifest.signature_info()?;
    let signed_with = leaf(info.cert_chain());
    Some(SignerIdentity {
        name: info.common_name.as_deref().map(short),
        issuer: info.issuer.as_deref().map(short),
        self_made: info.issuer.as_deref() == Some(SELF_MADE),
        own: signed_with.is_some() && signed_with == trust.own_pem.and_then(leaf),
        time: info.time.as_deref().map(short),
    })
}

/// The first certificate in PEM, without line breaks.
fn leaf(pem: &str) -> Option<String> {
    let (_, rest) = pem.split_once("-----BEGIN CERTIFICATE-----")?;
    let (body, _) = rest.split_once("-----END CERTIFICATE-----")?;
    Some(body.split_whitespace().collect())
}

fn generator(manifest: &Manifest) -> Option<String> {
    let info = manifest.claim_generator_info.as_ref();
    let first = info.and_then(|info| info.first());
    match first {
        Some(info) => Some(short(&match &info.version {
            Some(version) => format!("{} {version}", info.name),
            None => info.name.clone(),
        })),
        None => manifest.claim_generator().map(short),
    }
}

fn actions(manifest: &Manifest) -> Vec<ManifestAction> {
    let assertion: Result<Actions, _> = manifest.find_assertion(Actions::LABEL);
    let actions = assertion
        .map(|assertion| assertion.actions().to_vec())
        .unwrap_or_default();
    let listed = actions.into_iter().take(MAX_LISTED).map(|action| {
        // Read as JSON, because a program's name is a text or an object, depending on the version
        // of the assertion.
        let value = serde_json::to_value(&action).unwrap_or_default();
        let agent = value.get("softwareAgent");
        let software = agent.and_then(|agent| agent.get("name").unwrap_or(agent).as_str());
        let source = value
            .get("digitalSourceType")
            .and_then(|source| source.as_str());
        ManifestAction {
            action: short(action.action()),
            when: action.when().map(short),
            software: software.map(short),
            digital_source_type: source.map(short),
        }
    });
    listed.collect()
}

fn short(text: &str) -> String {
    text.chars()
        // The text is shown in terminals and on pages, and is untrusted.
        .filter(|letter| !letter.is_control())
        .take(MAX_TEXT_CHARS)
        .collect()
}
