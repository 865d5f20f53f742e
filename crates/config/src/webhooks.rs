//! `[webhooks]`: delivery of events to callers.

use std::time::Duration;

use serde::Serialize;

use crate::masked_url::MaskedUrl;
use crate::settings::WebhooksSettings;
use crate::{ConfigError, NotifyHookBody, values, wrong};

/// The rules, complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WebhookRules {
    /// Whether addresses may be http.
    pub allow_http: bool,
    /// Timeout of one attempt.
    #[serde(serialize_with = "values::time")]
    pub timeout: Duration,
    /// How long failed deliveries are kept.
    #[serde(serialize_with = "values::time")]
    pub log_ttl: Duration,
    pub notify_hook_body: NotifyHookBody,
    /// Egress proxy that webhooks go through.
    pub proxy: Option<MaskedUrl>,
}

impl Default for WebhookRules {
    fn default() -> Self {
        Self {
            allow_http: false,
            timeout: Duration::from_secs(15),
            log_ttl: Duration::from_hours(30 * 24),
            notify_hook_body: NotifyHookBody::default(),
            proxy: None,
        }
    }
}

impl WebhookRules {
    pub(super) fn of(set: &WebhooksSettings) -> Result<Self, ConfigError> {
        let usual = Self::default();
        Ok(Self {
            allow_http: set.allow_http.unwrap_or(usual.allow_http),
            timeout: set.timeout.unwrap_or(usual.timeout),
            log_ttl: set.log_ttl.unwrap_or(usual.log_ttl),
            notify_hook_body: set.notify_hook_body.unwrap_or(usual.notify_hook_body),
            proxy: MaskedUrl::read_if_set("webhooks.proxy", set.proxy.as_ref())?,
        })
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let seconds = Duration::from_secs;
        if !(seconds(1)..=seconds(60)).contains(&self.timeout) {
            return Err(wrong("webhooks.timeout", "must be from 1s to 60s"));
        }
        if self.log_ttl < Duration::from_mins(1) {
            return Err(wrong("webhooks.log_ttl", "must be at least a minute"));
        }
        if self.proxy.as_ref().is_some_and(|proxy| !proxy.is_http()) {
            return Err(wrong("webhooks.proxy", "must be an http or https URL"));
        }
        Ok(())
    }
}
