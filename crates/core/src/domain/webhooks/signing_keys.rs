//! The keys that webhooks are signed with: made, rotated and used, as Standard Webhooks 1.0.0
//! defines it (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::app::AppParts;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::secret::Secret;
use mediagate_model::webhook::SignatureScheme;

/// How long a key still signs after it was replaced.
const OVERLAP: Duration = Duration::from_hours(24);
/// Maximum number of replaced keys that still sign. It bounds the signature header.
const MAX_REPLACED: usize = 5;

/// The keys of one receiver, the newest first.
#[derive(Serialize, Deserialize)]
pub struct SigningKeys(Vec<SigningKey>);

#[derive(Serialize, Deserialize)]
struct SigningKey {
    /// 32 bytes in base64.
    seed: String,
    /// The end of its use, in microseconds; `None` for the newest.
    until: Option<i64>,
}

impl SigningKeys {
    pub fn generate() -> Result<Self, Error> {
        Ok(Self(vec![SigningKey::fresh()?]))
    }

    /// Adds a new key; the previous one is still used for a day.
    pub fn rotate(self, now: Timestamp) -> Result<Self, Error> {
        let mut keys = self.0;
        keys.retain(|key| key.is_in_use(now));
        // A repeated request must not end the key that receivers still have, so each replaced key
        // is used for its whole day.
        if keys.len() > MAX_REPLACED {
            let message = format!(
                "The secret was rotated {MAX_REPLACED} times within 24 hours, and the previous \
                 secrets are still valid. Rotate it later."
            );
            return Err(Error::plain(ErrorCode::LimitReached, message));
        }
        if let Some(newest) = keys.first_mut() {
            newest.until = Some(now.plus(OVERLAP).micros());
        }
        keys.insert(0, SigningKey::fresh()?);
        Ok(Self(keys))
    }

    /// Encrypts them for the database.
    pub fn seal(&self, app: &AppParts, owner: &str) -> Result<String, Error> {
        let plain = serde_json::to_string(self).map_err(Error::internal)?;
        app.secrets
            .seal
            .encrypt(owner, &plain)
            .map_err(Error::internal)
    }

    pub fn unseal(app: &AppParts, owner: &str, sealed: &str) -> Result<Self, Error> {
        let plain = app
            .secrets
            .seal
            .decrypt(owner, sealed)
            .map_err(Error::internal)?;
        serde_json::from_str(&plain).map_err(Error::internal)
    }

    /// The key with which the receiver checks signatures: `whsec_…`, or the public half, `whpk_…`.
    pub fn verification_key(&self, scheme: SignatureScheme) -> Result<Secret, Error> {
        let newest = self.0.first().ok_or_else(|| Error::internal("no key"))?;
        let seed = newest.seed()?;
        Ok(Secret::new(match scheme {
            SignatureScheme::Hmac => format!("whsec_{}", BASE64.encode(seed)),
            SignatureScheme::Ed25519 => {
                format!("whpk_{}", BASE64.encode(pair(&seed)?.public_key()))
            }
        }))
    }

    /// The value of `webhook-signature`: one signature for each key in use.
    pub fn sign(
        &self,
        scheme: SignatureScheme,
        message: &str,
        seconds: i64,
        body: &str,
        now: Timestamp,
    ) -> Result<String, Error> {
        // The signed text is defined by the standard. With the time in it, a receiver can reject a
        // delivery that was recorded and sent again.
        let signed = format!("{message}.{seconds}.{body}");
        let keys = self.0.iter().filter(|key| key.is_in_use(now));
        let signatures = keys.map(|key| {
            let seed = key.seed()?;
            Ok(match scheme {
                SignatureScheme::Hmac => format!("v1,{}", BASE64.encode(mac(&seed, &signed)?)),
                SignatureScheme::Ed25519 => {
                    let signature = pair(&seed)?.sign(signed.as_bytes());
                    format!("v1a,{}", BASE64.encode(signature))
                }
            })
        });
        let signatures: Result<Vec<String>, Error> = signatures.collect();
        Ok(signatures?.join(" "))
    }
}

impl SigningKey {
    fn fresh() -> Result<Self, Error> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(Error::internal)?;
        Ok(Self {
            seed: BASE64.encode(seed),
            until: None,
        })
    }

    fn is_in_use(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now.micros() < until)
    }

    fn seed(&self) -> Result<Vec<u8>, Error> {
        BASE64.decode(&self.seed).map_err(Error::internal)
    }
}

fn mac(seed: &[u8], signed: &str) -> Result<impl AsRef<[u8]>, Error> {
    let mut mac = Hmac::<Sha256>::new_from_slice(seed).map_err(Error::internal)?;
    mac.update(signed.as_bytes());
    Ok(mac.finalize().into_bytes())
}

fn pair(seed: &[u8]) -> Result<Ed25519KeyPair, Error> {
    // Unchecked, because there is no stored public half to compare the seed with.
    Ed25519KeyPair::from_seed_unchecked(seed).map_err(|error| Error::internal(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(seed: &[u8]) -> SigningKeys {
        SigningKeys(vec![SigningKey {
            seed: BASE64.encode(seed),
            until: None,
        }])
    }

    /// The example of the Standard Webhooks libraries.
    #[test]
    fn the_signature_is_that_of_the_standard() {
        let keys = keys(&BASE64.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap());
        let now = Timestamp::from_seconds(1_614_265_330);
        let body = "{\"test\": 2432232314}";
        let signed = keys.sign(
            SignatureScheme::Hmac,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            now.seconds(),
            body,
            now,
        );
        assert_eq!(
            signed.unwrap(),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
        assert_eq!(
            keys.verification_key(SignatureScheme::Hmac)
                .unwrap()
                .expose(),
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        );
    }

    #[test]
    fn the_public_half_checks_an_ed25519_signature() {
        let (keys, now) = (SigningKeys::generate().unwrap(), Timestamp::from_seconds(1));
        let signed = keys
            .sign(SignatureScheme::Ed25519, "msg_1", 1, "{}", now)
            .unwrap();
        let signature = BASE64.decode(signed.strip_prefix("v1a,").unwrap()).unwrap();
        let public_key = keys.verification_key(SignatureScheme::Ed25519).unwrap();
        let public = public_key.expose().strip_prefix("whpk_").unwrap();
        let public = BASE64.decode(public).unwrap();
        let key = ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, public);
        key.verify(b"msg_1.1.{}", &signature).unwrap();
        assert!(key.verify(b"msg_1.2.{}", &signature).is_err());
    }

    #[test]
    fn a_rotated_key_is_used_for_one_more_day() {
        let start = Timestamp::from_seconds(1_000_000);
        let count = |keys: &SigningKeys, now: Timestamp| {
            let signed = keys
                .sign(SignatureScheme::Hmac, "msg_1", 1, "{}", now)
                .unwrap();
            signed.split(' ').count()
        };
        let keys = SigningKeys::generate().unwrap();
        let old = keys.verification_key(SignatureScheme::Hmac).unwrap();
        assert_eq!(count(&keys, start), 1);
        let keys = keys.rotate(start).unwrap();
        assert_ne!(
            keys.verification_key(SignatureScheme::Hmac)
                .unwrap()
                .expose(),
            old.expose()
        );
        assert_eq!(count(&keys, start), 2);
        assert_eq!(count(&keys, start.plus(OVERLAP)), 1);
        // Rotated again within the day, each replaced key has its whole day.
        let later = start.plus(Duration::from_hours(1));
        let keys = keys.rotate(later).unwrap();
        assert_eq!(count(&keys, later), 3);
        assert_eq!(count(&keys, start.plus(OVERLAP)), 2);
        assert_eq!(count(&keys, later.plus(OVERLAP)), 1);
        let mut keys = keys;
        for _ in 2..MAX_REPLACED {
            keys = keys.rotate(later).unwrap();
        }
        assert_eq!(count(&keys, later), 1 + MAX_REPLACED);
        let sealed = serde_json::to_string(&keys).unwrap();
        let error = keys.rotate(later).err().unwrap();
        assert_eq!(error.code(), ErrorCode::LimitReached);
        // The oldest key has expired, so there is room for another.
        let keys: SigningKeys = serde_json::from_str(&sealed).unwrap();
        let keys = keys.rotate(start.plus(OVERLAP)).unwrap();
        assert_eq!(count(&keys, start.plus(OVERLAP)), 1 + MAX_REPLACED);
    }
}
