//! Moderation by a webhook: a signed POST about an order, and the verdict in its response. It is
//! signed as Standard Webhooks 1.0.0 defines it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::hmac;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{MAX_REASON, PolicyFinding, UnreadableResponse, printable};

/// What secrets of Standard Webhooks begin with.
const PREFIX: &str = "whsec_";
/// Least number of bytes of a secret.
const MIN_BYTES: usize = 24;

/// Why a secret cannot sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretFault {
    #[error("must be base64 after \"whsec_\"")]
    NotBase64,
    #[error("must have at least {MIN_BYTES} bytes")]
    TooShort,
}

/// The key of a secret: what `whsec_` encodes, or the bytes of another text.
pub fn signing_key(secret: &str) -> Result<Vec<u8>, SecretFault> {
    let key = match secret.strip_prefix(PREFIX) {
        Some(encoded) => BASE64.decode(encoded).map_err(|_| SecretFault::NotBase64)?,
        None => secret.as_bytes().to_vec(),
    };
    if key.len() < MIN_BYTES {
        return Err(SecretFault::TooShort);
    }
    Ok(key)
}

/// The value of `webhook-signature` for a message with this id, sent at this second.
pub fn signature(key: &[u8], id: &str, seconds: i64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let tag = hmac::sign(&key, format!("{id}.{seconds}.{body}").as_bytes());
    format!("v1,{}", BASE64.encode(tag))
}

/// The body of the request.
#[derive(Debug, Serialize)]
pub struct ModerationQuestion {
    /// `order`.
    pub stage: &'static str,
    /// The id that the task will have; null if the order makes none.
    pub task: Option<String>,
    /// `video`, `music` or `persona`.
    pub kind: &'static str,
    pub model: String,
    /// The caller's id of its end user.
    pub user: Option<String>,
    /// All texts, separated by blank lines.
    pub text: String,
    /// Pictures as `data:` URLs.
    pub images: Vec<String>,
    /// The names of the fields that contain them.
    pub inputs: InputNames,
}

/// The fields of a request, in the order of its texts and pictures.
#[derive(Debug, Serialize)]
pub struct InputNames {
    pub text: Vec<String>,
    pub images: Vec<String>,
}

#[derive(Deserialize)]
struct WebhookVerdict {
    allow: bool,
    #[serde(default)]
    category: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    /// A name, or the number of a picture.
    #[serde(default)]
    input: Option<Value>,
}

/// What the receiver objects to; `None` if it allows the order.
pub fn read(body: &[u8]) -> Result<Option<PolicyFinding>, UnreadableResponse> {
    let verdict: WebhookVerdict =
        serde_json::from_slice(body).map_err(|error| UnreadableResponse(error.to_string()))?;
    if verdict.allow {
        return Ok(None);
    }
    let input = match verdict.input {
        Some(Value::String(name)) => Some(name),
        Some(Value::Number(number)) => Some(format!("images[{number}]")),
        _ => None,
    };
    let reason = verdict.reason.map(|reason| printable(&reason, MAX_REASON));
    Ok(Some(PolicyFinding {
        reason: reason.filter(|reason| !reason.is_empty()),
        input,
        ..PolicyFinding::new(verdict.category.as_deref().unwrap_or_default())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_standards_example() {
        let key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = signature(
            &key,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            "{\"test\": 2432232314}",
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_weak_secret_is_refused() {
        assert_eq!(signing_key("whsec_*"), Err(SecretFault::NotBase64));
        assert_eq!(signing_key("whsec_AAAA"), Err(SecretFault::TooShort));
        assert_eq!(signing_key("short"), Err(SecretFault::TooShort));
        assert!(signing_key(&"x".repeat(MIN_BYTES)).is_ok());
    }

    #[test]
    fn a_verdict_is_read() {
        assert_eq!(read(b"{\"allow\": true, \"category\": \"x\"}"), Ok(None));
        let body = br#"{"allow": false, "category": "minors", "reason": "no\n", "input": "text"}"#;
        let finding = read(body).unwrap().unwrap();
        assert_eq!(finding.category, "minors");
        assert_eq!(finding.reason.as_deref(), Some("no"));
        assert_eq!(finding.input.as_deref(), Some("text"));
        let body = br#"{"allow": false, "input": 1}"#;
        let finding = read(body).unwrap().unwrap();
        assert_eq!(finding.input.as_deref(), Some("images[1]"));
        assert_eq!(finding.category, crate::UNNAMED);
        for body in ["", "{}", "true", "{\"allow\": \"yes\"}"] {
            assert!(read(body.as_bytes()).is_err(), "{body}");
        }
    }
}
