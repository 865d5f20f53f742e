//! `[provenance]`: signing, watermarking and checking of results.

use serde::{Serialize, Serializer};

use crate::masked_url::MaskedUrl;
use crate::settings::ProvenanceSettings;
use crate::{ConfigError, wrong};
use mediagate_model::secret::{Secret, SecretSource};

/// The rules, complete.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting")]
pub struct ProvenanceRules {
    /// The operator's certificate, and the holder of its key; a self-signed one if `None`.
    pub identity: Option<SigningIdentity>,
    /// RFC 3161 authority.
    pub timestamp: Option<MaskedUrl>,
    /// Whether films that the embedded model draws are watermarked.
    pub watermark: bool,
    /// Whether stems that are separated here are watermarked, which changes their sum.
    pub watermark_audio: bool,
    /// Whether files can be checked without a key.
    pub public: bool,
    /// Whether prompts are stated.
    pub prompt: bool,
}

/// A certificate and the holder of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningIdentity {
    /// PEM, the signer's first.
    pub certificates: String,
    pub holder: KeyHolder,
    /// The settings as written, to be shown.
    shown: [Option<String>; 2],
}

/// The holder of a certificate's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyHolder {
    /// This process: PKCS #8 in PEM.
    Local(Secret),
    /// A service, which is called for each signature.
    Remote(MaskedUrl),
}

impl Default for ProvenanceRules {
    fn default() -> Self {
        Self {
            identity: None,
            timestamp: None,
            watermark: true,
            watermark_audio: false,
            public: false,
            prompt: false,
        }
    }
}

impl ProvenanceRules {
    pub(super) fn of(settings: ProvenanceSettings) -> Result<Self, ConfigError> {
        let defaults = Self::default();
        Ok(Self {
            identity: SigningIdentity::read(settings.certificate, settings.key, settings.signer)?,
            timestamp: MaskedUrl::read_if_set("provenance.timestamp", settings.timestamp.as_ref())?,
            watermark: settings.watermark.unwrap_or(defaults.watermark),
            watermark_audio: settings.watermark_audio.unwrap_or(defaults.watermark_audio),
            public: settings.public.unwrap_or(defaults.public),
            prompt: settings.prompt.unwrap_or(defaults.prompt),
        })
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.timestamp.as_ref().is_some_and(|url| !url.is_http()) {
            return Err(wrong(
                "provenance.timestamp",
                "must be an http or https URL",
            ));
        }
        let Some(identity) = &self.identity else {
            return Ok(());
        };
        if let KeyHolder::Remote(url) = &identity.holder
            && !url.is_http()
        {
            return Err(wrong("provenance.signer", "must be an http or https URL"));
        }
        identity.check()
    }

    /// The table's settings, to be shown.
    fn shown_settings(&self) -> Vec<(&'static str, toml::Value)> {
        let text = |text: &String| toml::Value::String(text.clone());
        let mut entries = vec![
            ("watermark", toml::Value::Boolean(self.watermark)),
            (
                "watermark_audio",
                toml::Value::Boolean(self.watermark_audio),
            ),
            ("public", toml::Value::Boolean(self.public)),
            ("prompt", toml::Value::Boolean(self.prompt)),
        ];
        if let Some(identity) = &self.identity {
            let [certificate, key] = &identity.shown;
            entries.extend(
                certificate
                    .as_ref()
                    .map(|shown| ("certificate", text(shown))),
            );
            entries.extend(key.as_ref().map(|shown| ("key", text(shown))));
            if let KeyHolder::Remote(url) = &identity.holder {
                entries.push(("signer", text(&url.to_string())));
            }
        }
        let timestamp = self.timestamp.as_ref();
        entries.extend(timestamp.map(|url| ("timestamp", text(&url.to_string()))));
        entries
    }
}

impl Serialize for ProvenanceRules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.shown_settings())
    }
}

impl SigningIdentity {
    fn read(
        certificate: Option<SecretSource>,
        key: Option<SecretSource>,
        signer: Option<SecretSource>,
    ) -> Result<Option<Self>, ConfigError> {
        let Some(certificate) = certificate else {
            return match (key, signer) {
                (None, None) => Ok(None),
                (Some(_), _) => Err(wrong("provenance.key", "requires a certificate")),
                (None, Some(_)) => Err(wrong("provenance.signer", "requires a certificate")),
            };
        };
        let shown = [Some(pem_source(&certificate)), key.as_ref().map(pem_source)];
        let certificates = read_pem("provenance.certificate", certificate, "CERTIFICATE")?;
        let holder = match (key, signer) {
            (Some(key), None) => KeyHolder::Local(read_pem("provenance.key", key, "PRIVATE KEY")?),
            (None, Some(signer)) => {
                KeyHolder::Remote(MaskedUrl::read("provenance.signer", &signer)?)
            }
            (Some(_), Some(_)) => {
                return Err(wrong("provenance.signer", "cannot be combined with key"));
            }
            (None, None) => {
                return Err(wrong(
                    "provenance.certificate",
                    "requires a key or a signer",
                ));
            }
        };
        Ok(Some(Self {
            certificates: certificates.expose().to_owned(),
            holder,
            shown,
        }))
    }

    #[cfg(feature = "c2pa")]
    fn check(&self) -> Result<(), ConfigError> {
        use provenance::credentials::{PemSigner, try_out};
        let algorithm = self.algorithm().ok_or_else(|| {
            let message = "must have a key for ES256 (P-256), ES384 (P-384) or Ed25519";
            wrong("provenance.certificate", message)
        })?;
        let KeyHolder::Local(key) = &self.holder else {
            return Ok(());
        };
        let invalid_key = |error: provenance::credentials::CredentialsError| {
            wrong("provenance.key", &error.to_string())
        };
        let signer =
            PemSigner::new(&self.certificates, key.expose(), algorithm).map_err(invalid_key)?;
        // Signs once, so that a key that does not match the certificate is noticed at startup and
        // not at the first result.
        try_out(&signer).map_err(invalid_key)
    }

    #[cfg(not(feature = "c2pa"))]
    #[expect(clippy::unused_self, reason = "the build with the feature uses it")]
    fn check(&self) -> Result<(), ConfigError> {
        let message = "this program cannot sign: it was built without the feature `c2pa`. Use a \
                       packaged build, or build with `cargo build --release --features c2pa`";
        Err(wrong("provenance.certificate", message))
    }

    /// How the first certificate's key signs; `None` for any other kind of key.
    #[cfg(feature = "c2pa")]
    pub fn algorithm(&self) -> Option<provenance::credentials::SignatureAlgorithm> {
        use provenance::credentials::SignatureAlgorithm;
        use rustls::pki_types::{CertificateDer, pem::PemObject as _};
        /// Object identifiers in DER: of the curves, and of Ed25519.
        const KINDS: [(&[u8], SignatureAlgorithm); 3] = [
            (
                b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07",
                SignatureAlgorithm::Es256,
            ),
            (b"\x06\x05\x2b\x81\x04\x00\x22", SignatureAlgorithm::Es384),
            (b"\x06\x03\x2b\x65\x70", SignatureAlgorithm::Ed25519),
        ];
        let leaf = CertificateDer::from_pem_slice(self.certificates.as_bytes()).ok()?;
        // A curve's identifier occurs only in the certificate's own key. Ed25519's also occurs if
        // the issuer signed with it, so it is looked for last.
        let has_oid = |kind: &[u8]| leaf.windows(kind.len()).any(|window| window == kind);
        let kind = KINDS.iter().find(|(kind, _)| has_oid(kind));
        kind.map(|(_, algorithm)| *algorithm)
    }
}

/// Where a PEM comes from: text that is neither PEM nor a reference is a path.
fn pem_source(source: &SecretSource) -> String {
    match source {
        SecretSource::Value(text) if !text.expose().starts_with("-----BEGIN") => {
            format!("file:{}", text.expose())
        }
        other => other.to_string(),
    }
}

fn read_pem(key: &'static str, source: SecretSource, kind: &str) -> Result<Secret, ConfigError> {
    let source = match source {
        SecretSource::Value(text) if !text.expose().starts_with("-----BEGIN") => {
            SecretSource::File(text.expose().into())
        }
        other => other,
    };
    let text = source
        .read()
        .map_err(|error| ConfigError::Secret { key, error })?;
    if !text.expose().contains(&format!("-----BEGIN {kind}-----")) {
        return Err(wrong(key, &format!("must be PEM with a {kind}")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_rules(toml: &str) -> Result<ProvenanceRules, String> {
        let rules = ProvenanceRules::of(toml::from_str(toml).unwrap());
        let rules = rules.map_err(|error| error.to_string())?;
        rules.check().map_err(|error| error.to_string())?;
        Ok(rules)
    }

    #[test]
    fn films_are_watermarked_and_nothing_is_public_by_default() {
        let rules = load_rules("").unwrap();
        assert_eq!(rules, ProvenanceRules::default());
        assert!(rules.watermark && !rules.watermark_audio);
        assert!(!rules.public && !rules.prompt);
    }

    #[test]
    fn every_fault_is_named() {
        let pem = "-----BEGIN CERTIFICATE-----\\nAA==\\n-----END CERTIFICATE-----";
        for (toml, expected) in [
            (
                "key = \"k.pem\"".to_owned(),
                "provenance.key: requires a certificate",
            ),
            (
                "signer = \"http://127.0.0.1:1/\"".to_owned(),
                "provenance.signer: requires a certificate",
            ),
            (
                format!("certificate = \"{pem}\""),
                "requires a key or a signer",
            ),
            (
                format!("certificate = \"{pem}\"\nkey = \"/no/such\""),
                "provenance.key: the file /no/such cannot be read",
            ),
            (
                "certificate = \"env:MEDIAGATE_NO_SUCH\"\nkey = \"k\"".to_owned(),
                "MEDIAGATE_NO_SUCH",
            ),
            (
                format!("certificate = \"{pem}\"\nkey = \"{pem}\""),
                "provenance.key: must be PEM with a PRIVATE KEY",
            ),
            (
                format!("certificate = \"{pem}\"\nkey = \"k\"\nsigner = \"http://a/\""),
                "provenance.signer: cannot be combined with key",
            ),
            (
                "timestamp = \"ftp://a/\"".to_owned(),
                "provenance.timestamp: must be an http or https URL",
            ),
        ] {
            let error = load_rules(&toml).unwrap_err();
            assert!(error.contains(expected), "{toml}: {error}");
        }
    }

    #[test]
    fn services_are_shown_without_credentials() {
        let toml = r#"certificate = "-----BEGIN CERTIFICATE-----"
signer = "https://hunter1:hunter2@signer.example/sign?hunter3"
timestamp = "https://hunter1:hunter2@stamp.example/?hunter3"
"#;
        let rules = ProvenanceRules::of(toml::from_str(toml).unwrap()).unwrap();
        let shown = toml::to_string(&rules).unwrap();
        for (text, urls) in [
            (
                &shown,
                ["https://signer.example/sign", "https://stamp.example/"],
            ),
            (&format!("{rules:?}"), ["signer.example", "stamp.example"]),
        ] {
            assert!(!text.contains("hunter"), "{text}");
            assert!(urls.iter().all(|url| text.contains(url)), "{text}");
        }
    }

    #[test]
    #[cfg(not(feature = "c2pa"))]
    fn a_build_that_cannot_sign_refuses_a_certificate() {
        let pem = "-----BEGIN CERTIFICATE-----\\nAA==\\n-----END CERTIFICATE-----";
        let toml = format!("certificate = \"{pem}\"\nsigner = \"http://127.0.0.1:1/\"");
        assert!(load_rules(&toml).unwrap_err().contains("--features c2pa"));
    }

    #[test]
    #[cfg(feature = "c2pa")]
    fn a_key_must_be_the_certificates_own() {
        use provenance::credentials::{SignatureAlgorithm, self_made};
        let chains = [
            SignatureAlgorithm::Es256,
            SignatureAlgorithm::Es384,
            SignatureAlgorithm::Ed25519,
        ]
        .map(|algorithm| self_made("a", algorithm, 1_767_225_600).unwrap());
        let toml = |certificate: &str, key: &str| {
            format!("certificate = '''{certificate}'''\nkey = '''{key}'''")
        };
        for chain in &chains {
            load_rules(&toml(&chain.certificates_pem, &chain.key_pem)).unwrap();
        }
        let [one, other, _] = &chains;
        let error = load_rules(&toml(&one.certificates_pem, &other.key_pem)).unwrap_err();
        assert!(error.starts_with("provenance.key: "), "{error}");
        let broken = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----";
        let error = load_rules(&toml(broken, &one.key_pem)).unwrap_err();
        assert!(error.contains("ES256"), "{error}");
    }
}
