//! Calls that prove who sends them by a signature over what they say.

use std::fmt;
use std::time::SystemTime;

use http::Method;
use url::Url;

use super::AuthHeader;
use crate::error::ProviderError;

/// A call as it leaves.
#[derive(Debug, Clone, Copy)]
pub struct OutgoingCall<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Where it goes, with its query.
    pub url: &'a Url,
    /// The media type of its body.
    pub mime: Option<&'a str>,
    /// Its body.
    pub body: &'a [u8],
    /// When.
    pub now: SystemTime,
}

/// Signs calls.
pub trait CallSigner: fmt::Debug + Send + Sync {
    /// The headers that prove who sends it.
    fn sign(&self, call: &OutgoingCall<'_>) -> Result<Vec<AuthHeader>, ProviderError>;
}
