//! `[auth] sign`: calls that are signed with a secret key that has an id, as Tencent
//! Cloud requires (TC3-HMAC-SHA256). The scheme is like Amazon's Signature Version 4, but has no
//! region, and other constants and headers.
//!
//! Source: `tencentcloud-sdk-python-common` 3.1.195 (`abstract_client.py`, `sign.py`), November
//! 2026; the tests contain a signature that it made.

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::calls::{BodyEncoding, Upload};
use super::fault::{CheckResult, RecipeFault};
use super::schema::Recipe;
use crate::error::{ErrorClass, ProviderError};
use crate::port::{AuthHeader, CallSigner, OutgoingCall};
use crate::secret::Secret;

/// The message for a credential that is not a pair.
pub(super) const PAIR: &str = "has two parts; use \"ID:KEY\"";

/// `sign = { method = "tc3", service = "vclm" }`.
#[derive(Debug, Deserialize)]
#[serde(tag = "method", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum SignatureMethod {
    Tc3 { service: String },
}

impl SignatureMethod {
    /// The signer for this key, written as `ID:KEY`.
    pub(super) fn signer(&self, secret: &Secret) -> Result<Tc3Signer, ProviderError> {
        let Self::Tc3 { service } = self;
        let pair = secret.expose().split_once(':');
        let (id, key) = pair
            .map(|(id, key)| (id.trim(), key.trim()))
            .filter(|(id, key)| !id.is_empty() && !key.is_empty())
            .ok_or_else(|| ProviderError::new(ErrorClass::Credentials, PAIR))?;
        Ok(Tc3Signer {
            service: service.clone(),
            id: Secret::new(id),
            key: Secret::new(key),
        })
    }
}

/// Signs calls.
#[derive(Debug)]
pub(super) struct Tc3Signer {
    service: String,
    id: Secret,
    key: Secret,
}

impl CallSigner for Tc3Signer {
    fn sign(&self, call: &OutgoingCall<'_>) -> Result<Vec<AuthHeader>, ProviderError> {
        let now = Timestamp::try_from(call.now).unwrap_or_default();
        let hash = hex(&Sha256::digest(call.body));
        let mime = call.mime.map(|mime| ("content-type", mime.to_owned()));
        let host = Some(("host", host(call.url)?));
        let signed: Vec<AuthHeader> = mime.into_iter().chain(host).collect();
        let names = signed.iter().map(|(name, _)| *name);
        let names = names.collect::<Vec<_>>().join(";");
        let lines = signed.iter().fold(String::new(), |lines, (name, value)| {
            lines + name + ":" + value.trim() + "\n"
        });
        let canonical = format!(
            "{}\n{}\n{}\n{lines}\n{names}\n{hash}",
            call.method,
            call.url.path(),
            query(call.url)
        );
        let canonical = hex(&Sha256::digest(canonical));
        let seconds = now.as_second().to_string();
        let date = now.strftime("%Y-%m-%d").to_string();
        let scope_parts = [&date, &self.service, "tc3_request"];
        let scope = scope_parts.join("/");
        let text = format!("TC3-HMAC-SHA256\n{seconds}\n{scope}\n{canonical}");
        // The key is derived from the date, the service and a fixed word, as in Amazon's scheme.
        let mut derived = format!("TC3{}", self.key.expose()).into_bytes();
        for part in scope_parts {
            derived = mac(&derived, part)?;
        }
        let signature = hex(&mac(&derived, &text)?);
        let id = self.id.expose();
        let authorization = format!(
            "TC3-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}"
        );
        Ok(vec![
            ("x-tc-timestamp", seconds),
            ("authorization", authorization),
        ])
    }
}

/// Bytes in lower-case hex.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn mac(key: &[u8], text: &str) -> Result<Vec<u8>, ProviderError> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key)
        .map_err(|_| ProviderError::new(ErrorClass::Credentials, PAIR))?;
    mac.update(text.as_bytes());
    Ok(mac.finalize().into_bytes().to_vec())
}

/// The host as it is sent: with its port unless it is the scheme's default.
fn host(url: &url::Url) -> Result<String, ProviderError> {
    let name = url
        .host_str()
        .ok_or_else(|| ProviderError::new(ErrorClass::Rejected, "the call has no host"))?;
    Ok(match url.port() {
        Some(port) => format!("{name}:{port}"),
        None => name.to_owned(),
    })
}

/// The query sorted by name, with all but unreserved characters escaped (RFC 3986).
fn query(url: &url::Url) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    let escaped = |text: &str| utf8_percent_encode(text, ESCAPED).to_string();
    let mut pairs: Vec<String> = url
        .query_pairs()
        .map(|(name, value)| format!("{}={}", escaped(&name), escaped(&value)))
        .collect();
    // The signature is over the sorted query, whatever order it is sent in.
    pairs.sort();
    pairs.join("&")
}

impl Recipe {
    pub(super) fn check_sign(&self) -> CheckResult {
        let auth = &self.auth;
        if auth.sign.is_none() {
            return Ok(());
        }
        let upload = self.upload.iter().map(Upload::call_template);
        for request in self.submit.requests().into_iter().chain(upload) {
            // A form with files is encoded while it is sent, after the signature.
            if request.encoding == BodyEncoding::Multipart {
                let message = "a form with files cannot be signed; use encoding = \"json\"";
                return Err(RecipeFault::new(&request.path.span(), message));
            }
        }
        if auth.header.is_some() || auth.scheme.is_some() || auth.none {
            let message = "[auth] must have either sign or a way to send the key, not both";
            return Err(RecipeFault::new(&self.submit.path.span(), message));
        }
        Ok(())
    }
}
