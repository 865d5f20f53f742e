//! Self-made certificate chains, for operators who have none. They prove that two files come from
//! the same installation, but not whose it is.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

use super::{CredentialsError, MAX_TEXT_CHARS, SignatureAlgorithm};

/// The organisation in every such certificate, which readers of the certificate see.
pub const SELF_MADE: &str = "Self-made certificate, verified by nobody";
/// How long a chain is valid: files are checked years later, and a chain is not renewed.
const YEARS: i64 = 10;

/// Certificates and key, to be kept: the key with owner-only permissions.
pub struct SelfMadeChain {
    /// The signer's certificate, then its issuer's.
    pub certificates_pem: String,
    /// PKCS #8.
    pub key_pem: String,
}

/// Makes a chain with this name, which is valid from a day before `now` (seconds since 1970).
pub fn self_made(
    name: &str,
    algorithm: SignatureAlgorithm,
    now: i64,
) -> Result<SelfMadeChain, CredentialsError> {
    // X.520 allows 64 characters in a common name.
    if name.chars().count() > MAX_TEXT_CHARS.min(64) {
        return Err(CredentialsError::TextTooLong("the name"));
    }
    let failed = |error: rcgen::Error| CredentialsError::Key(error.to_string());
    let now = OffsetDateTime::from_unix_timestamp(now)
        .map_err(|error| CredentialsError::Key(error.to_string()))?;
    let key = |algorithm: SignatureAlgorithm| {
        KeyPair::generate_for(match algorithm {
            SignatureAlgorithm::Es256 => &rcgen::PKCS_ECDSA_P256_SHA256,
            SignatureAlgorithm::Es384 => &rcgen::PKCS_ECDSA_P384_SHA384,
            SignatureAlgorithm::Ed25519 => &rcgen::PKCS_ED25519,
        })
    };
    let params = |name: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params
            .distinguished_name
            .push(DnType::OrganizationName, SELF_MADE);
        // Otherwise a reader with a slow clock would find the certificate not yet valid.
        params.not_before = now - Duration::days(1);
        params.not_after = now + Duration::days(365 * YEARS);
        // C2PA's profile of certificates requires it.
        params.use_authority_key_identifier_extension = true;
        params
    };
    // A separate issuer, because C2PA does not allow a signer's certificate to be signed by itself.
    // A path length of 0 lets it issue no further issuers.
    let mut issuer = params(&format!("{name} (issuer)"));
    issuer.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    issuer.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    // The issuer's key is thrown away: it never signs a second certificate.
    let issuer =
        CertifiedIssuer::self_signed(issuer, key(algorithm).map_err(failed)?).map_err(failed)?;
    let mut leaf = params(name);
    leaf.is_ca = IsCa::ExplicitNoCa;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // C2PA's profile requires one usage out of a short list, which includes this one.
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::EmailProtection];
    let leaf_key = key(algorithm).map_err(failed)?;
    let leaf = leaf.signed_by(&leaf_key, &issuer).map_err(failed)?;
    Ok(SelfMadeChain {
        certificates_pem: format!("{}{}", leaf.pem(), issuer.pem()),
        key_pem: leaf_key.serialize_pem(),
    })
}
