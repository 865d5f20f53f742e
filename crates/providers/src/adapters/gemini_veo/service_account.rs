//! A Google service account: its key signs an assertion, which is exchanged for an access token
//! (RFC 7523).

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::port::{AuthHeader, Authorization, Call, CallTarget, RequestBody};
use crate::response::{ProviderResponse, required_text};
use crate::secret::Secret;

/// The scope of the token.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// How long the assertion is valid; Google allows no more.
const LIFETIME: Duration = Duration::from_hours(1);

/// The key file that Google issues for a service account.
#[derive(Deserialize)]
struct ServiceAccount {
    client_email: String,
    private_key: String,
    private_key_id: Option<String>,
    token_uri: String,
}

/// The call that asks for a token.
pub(super) fn exchange(secret: &Secret, now: SystemTime) -> Result<Authorization, ProviderError> {
    // The parser's own message would quote the key.
    let account: ServiceAccount = serde_json::from_str(secret.expose()).map_err(|_| {
        credential_error("the credential is not the JSON file of a service account with client_email, private_key and token_uri")
    })?;
    let form = vec![
        (
            "grant_type".to_owned(),
            "urn:ietf:params:oauth:grant-type:jwt-bearer".to_owned(),
        ),
        ("assertion".to_owned(), assertion(&account, now)?),
    ];
    let call = Call::new("token", http::Method::POST, "")
        .with_target(CallTarget::Address(account.token_uri))
        .without_credential()
        .with_body(RequestBody::Form(form));
    Ok(Authorization::Exchange(Box::new(call)))
}

/// The token in the answer, as a header, and its lifetime.
pub(super) fn token(
    answer: &ProviderResponse,
) -> Result<(Vec<AuthHeader>, Duration), ProviderError> {
    let body = answer
        .success(|body| ErrorDescription::at(body, "/error", "/error_description"))
        .and_then(|body| Ok((required_text(&body, "/access_token")?, body)));
    let (token, body) = body.map_err(|error| match error.class {
        // "invalid_grant": the account or its key no longer exists.
        ErrorClass::Rejected => error.with_class(ErrorClass::Credentials),
        // Only a token was requested, so nothing is unclear.
        ErrorClass::Unclear => error.with_class(ErrorClass::Unavailable),
        _ => error,
    })?;
    // Five minutes if the answer has no lifetime: a value that is too short costs an exchange, one
    // that is too long a failed call.
    let lifetime = body["expires_in"].as_u64().unwrap_or(300);
    let header = ("authorization", format!("Bearer {token}"));
    Ok((vec![header], Duration::from_secs(lifetime)))
}

/// The signed assertion: a JWT with RS256.
fn assertion(account: &ServiceAccount, now: SystemTime) -> Result<String, ProviderError> {
    let now = now.duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_err(|_| credential_error("the clock is before 1970"))?;
    let mut header = json!({"alg": "RS256", "typ": "JWT"});
    if let Some(id) = &account.private_key_id {
        header["kid"] = json!(id);
    }
    let claims = json!({
        "iss": account.client_email,
        "scope": SCOPE,
        "aud": account.token_uri,
        "iat": now.as_secs(),
        "exp": (now + LIFETIME).as_secs(),
    });
    let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let signed = format!("{}.{}", encode(&header), encode(&claims));
    let key = PrivatePkcs8KeyDer::from_pem_slice(account.private_key.as_bytes()).map_err(|_| {
        credential_error("the service account's private_key is not PEM with PKCS#8")
    })?;
    let key = RsaKeyPair::from_pkcs8(key.secret_pkcs8_der())
        .map_err(|_| credential_error("the service account's private_key is not an RSA key"))?;
    let mut signature = vec![0; key.public().modulus_len()];
    // The random numbers blind the computation; the signature does not depend
    // on them.
    key.sign(
        &RSA_PKCS1_SHA256,
        &SystemRandom::new(),
        signed.as_bytes(),
        &mut signature,
    )
    .map_err(|_| credential_error("the service account's private_key cannot sign"))?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

fn credential_error(message: &str) -> ProviderError {
    ProviderError::new(ErrorClass::Credentials, message)
}
