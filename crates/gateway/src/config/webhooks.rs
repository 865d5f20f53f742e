//! `[webhooks]`: how callers are told what happened.

use std::time::Duration;

use serde::Deserialize;
use url::Url;

use crate::config::file::duration;
use crate::config::{ConfigError, Overrides, wrong};

/// The table in the file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebhooksTable {
    pub allow_http: Option<bool>,
    #[serde(deserialize_with = "duration")]
    pub timeout: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub log_ttl: Option<Duration>,
    pub notify_hook_body: Option<NotifyHookBody>,
    pub proxy: Option<Url>,
}

/// What a music task's callback is sent.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum NotifyHookBody {
    /// The event, as every webhook.
    #[default]
    Event,
    /// The job record of the music dialect, for its clients.
    Job,
}

/// The rules, complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookRules {
    /// Whether addresses may be http.
    pub allow_http: bool,
    /// For one try.
    pub timeout: Duration,
    /// How long what failed is kept.
    pub log_ttl: Duration,
    pub notify_hook_body: NotifyHookBody,
    /// Egress proxy that webhooks go through.
    pub proxy: Option<Url>,
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
    pub(super) fn layer(flags: &Overrides, file: WebhooksTable) -> Self {
        let usual = Self::default();
        Self {
            allow_http: flags
                .webhooks_allow_http
                .or(file.allow_http)
                .unwrap_or(usual.allow_http),
            timeout: flags
                .webhooks_timeout
                .or(file.timeout)
                .unwrap_or(usual.timeout),
            log_ttl: flags
                .webhooks_log_ttl
                .or(file.log_ttl)
                .unwrap_or(usual.log_ttl),
            notify_hook_body: flags
                .webhooks_notify_hook_body
                .or(file.notify_hook_body)
                .unwrap_or(usual.notify_hook_body),
            proxy: flags.webhooks_proxy.clone().or(file.proxy),
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let seconds = Duration::from_secs;
        if !(seconds(1)..=seconds(60)).contains(&self.timeout) {
            return Err(wrong("webhooks.timeout", "must be from 1s to 60s"));
        }
        if self.log_ttl < Duration::from_mins(1) {
            return Err(wrong("webhooks.log_ttl", "must be at least a minute"));
        }
        let is_http = |proxy: &Url| matches!(proxy.scheme(), "http" | "https");
        if self.proxy.as_ref().is_some_and(|proxy| !is_http(proxy)) {
            return Err(wrong("webhooks.proxy", "must be an http or https URL"));
        }
        Ok(())
    }
}
