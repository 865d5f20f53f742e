//! Calls that are authenticated by a signature over their content.

use std::fmt;
use std::time::SystemTime;

use http::Method;
use url::Url;

use super::AuthHeader;
use crate::error::ProviderError;

/// A call as it is sent.
#[derive(Debug, Clone, Copy)]
pub struct OutgoingCall<'a> {
    /// The call's method.
    pub method: &'a Method,
    /// Its URL, with the query.
    pub url: &'a Url,
    /// The media type of its body.
    pub mime: Option<&'a str>,
    /// The call's body.
    pub body: &'a [u8],
    /// The time of signing.
    pub now: SystemTime,
}

/// Signs calls.
pub trait CallSigner: fmt::Debug + Send + Sync {
    /// The headers that authenticate it.
    fn sign(&self, call: &OutgoingCall<'_>) -> Result<Vec<AuthHeader>, ProviderError>;
}
