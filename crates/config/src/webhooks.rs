//! `[webhooks]`: delivery of events to callers.

use std::time::Duration;

use serde::Serialize;

use crate::masked_url::MaskedUrl;
use crate::settings::WebhooksSettings;
use crate::{ConfigError, NotifyHookBody, values, wrong};

/// The rules, complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WebhookRules {
    /// Whether URLs may be http.
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
    pub(super) fn of(settings: &WebhooksSettings) -> Result<Self, ConfigError> {
        let defaults = Self::default();
        Ok(Self {
            allow_http: settings.allow_http.unwrap_or(defaults.allow_http),
            timeout: settings.timeout.unwrap_or(defaults.timeout),
            log_ttl: settings.log_ttl.unwrap_or(defaults.log_ttl),
            notify_hook_body: settings
                .notify_hook_body
                .unwrap_or(defaults.notify_hook_body),
            proxy: MaskedUrl::read_if_set("webhooks.proxy", settings.proxy.as_ref())?,
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
