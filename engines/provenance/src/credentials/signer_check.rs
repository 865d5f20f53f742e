//! The signer check, before anything depends on a signer: whether key and certificates belong
//! together, are valid today, and are of a kind that C2PA allows.

use super::{
    AssetOrigin, ContentSigner, CredentialsError, CredentialsStatus, MediaFormat, OriginStatement,
    SourceType, TrustAnchors, read, sign,
};

/// One white pixel.
const PICTURE: [u8; 67] = [
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, 0x49, 0x48, 0x44, 0x52, 0, 0, 0,
    1, 0, 0, 0, 1, 8, 0, 0, 0, 0, 0x3a, 0x7e, 0x9b, 0x55, 0, 0, 0, 0x0a, 0x49, 0x44, 0x41, 0x54,
    0x78, 0x9c, 0x63, 0xf8, 0x0f, 0, 1, 1, 1, 0, 0x1b, 0xb6, 0xee, 0x56, 0, 0, 0, 0, 0x49, 0x45,
    0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];

/// Signs a picture of one pixel and reads it back. That takes as long as a signature does,
/// including an external signer's answer and a time stamp.
pub fn try_out(signer: &dyn ContentSigner) -> Result<(), CredentialsError> {
    let statement = OriginStatement {
        title: "trial",
        generator: ("trial", "0"),
        model: "trial",
        provider: None,
        prompt: None,
        when: "2026-01-01T00:00:00Z",
        origin: AssetOrigin::Created(SourceType::AlgorithmicMedia),
    };
    let signed = sign(&PICTURE, MediaFormat::Png, &statement, signer)?;
    let report = read(&signed, MediaFormat::Png, &TrustAnchors::default())?;
    match report.status {
        CredentialsStatus::Valid | CredentialsStatus::Trusted => Ok(()),
        CredentialsStatus::None | CredentialsStatus::Invalid => {
            Err(CredentialsError::Key(report.problems.join(", ")))
        }
    }
}
