//! Credentials, and the tokens for which some are exchanged. A token is cached until a minute
//! before it expires, and exchanged by one caller at a time.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use locks::lock;
use tokio::time::Instant;

use super::provider::Provider;
use super::step::FREE_CALL_RETRIES;
use crate::error::ProviderError;
use crate::port::{AuthHeader, Authorization, Call, CallSigner, OutgoingCall};
use crate::secret::Secret;

/// A token is not used in its last minute.
const EXPIRY_MARGIN: Duration = Duration::from_mins(1);

/// Tokens, by the secret that they were exchanged for.
#[derive(Default)]
pub(super) struct TokenCache(Mutex<HashMap<Secret, Arc<TokenSlot>>>);

#[derive(Default)]
struct TokenSlot {
    /// Locked during an exchange, so that there is one at a time.
    exchange: tokio::sync::Mutex<()>,
    token: Mutex<Option<CachedToken>>,
}

#[derive(Clone)]
struct CachedToken {
    headers: Vec<AuthHeader>,
    valid_until: Instant,
}

impl TokenSlot {
    fn token(&self) -> Option<Vec<AuthHeader>> {
        let token = lock(&self.token);
        let valid = token
            .as_ref()
            .filter(|token| Instant::now() < token.valid_until);
        valid.map(|token| token.headers.clone())
    }

    fn set(&self, token: Option<CachedToken>) -> Option<CachedToken> {
        let mut slot = lock(&self.token);
        std::mem::replace(&mut *slot, token)
    }
}

impl TokenCache {
    fn slot(&self, secret: &Secret) -> Arc<TokenSlot> {
        let mut slots = lock(&self.0);
        slots.entry(secret.clone()).or_default().clone()
    }

    /// Forgets the token of a secret; returns whether there was one.
    pub(super) fn forget(&self, secret: &Secret) -> bool {
        let slots = lock(&self.0);
        let slot = slots.get(secret);
        slot.is_some_and(|slot| slot.set(None).is_some())
    }
}

/// The authentication of a call.
pub(super) enum CallCredential {
    /// These headers, with any call.
    Headers(Vec<AuthHeader>),
    /// A signature of each call.
    Sign(Box<dyn CallSigner>),
}

impl CallCredential {
    /// The headers for a call.
    pub(super) fn headers_for(
        &self,
        call: OutgoingCall<'_>,
    ) -> Result<Vec<AuthHeader>, ProviderError> {
        match self {
            Self::Headers(headers) => Ok(headers.clone()),
            Self::Sign(signer) => signer.sign(&call),
        }
    }
}

/// The system time, by which providers check signatures.
#[expect(
    clippy::disallowed_methods,
    reason = "the provider checks signatures against the real time"
)]
pub(super) fn now() -> SystemTime {
    SystemTime::now()
}

impl Provider {
    /// The authentication of a call; no headers if it is not sent.
    pub(super) async fn credential(
        &self,
        secret: &Secret,
        is_sent: bool,
    ) -> Result<CallCredential, ProviderError> {
        if !is_sent {
            return Ok(CallCredential::Headers(Vec::new()));
        }
        match self.adapter().authorize(secret, now())? {
            Authorization::Headers(headers) => Ok(CallCredential::Headers(headers)),
            Authorization::Sign(signer) => Ok(CallCredential::Sign(signer)),
            Authorization::Exchange(call) => {
                let headers = self.exchange(secret, *call).await?;
                Ok(CallCredential::Headers(headers))
            }
        }
    }

    /// The headers of the cached token, or of a new one. Boxed, because the exchange is a call as
    /// well.
    fn exchange<'a>(
        &'a self,
        secret: &'a Secret,
        call: Call,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<AuthHeader>, ProviderError>> + Send + 'a>> {
        Box::pin(async move {
            let slot = self.tokens().slot(secret);
            if let Some(headers) = slot.token() {
                return Ok(headers);
            }
            // Many calls find the token expired at the same time. One exchanges, and the others
            // find its token when they get the lock.
            let _exchange_lock = slot.exchange.lock().await;
            if let Some(headers) = slot.token() {
                return Ok(headers);
            }
            // With a credential this call would need an exchange itself, without end.
            let call = call.without_credential();
            let (headers, lifetime) = self
                .call_with_retries(secret, &call, FREE_CALL_RETRIES, |context, answer| {
                    self.adapter().read_exchange(context, answer)
                })
                .await?;
            slot.set(Some(CachedToken {
                headers: headers.clone(),
                valid_until: Instant::now() + lifetime.saturating_sub(EXPIRY_MARGIN),
            }));
            Ok(headers)
        })
    }
}
