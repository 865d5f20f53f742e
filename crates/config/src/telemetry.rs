//! `[telemetry]`: OpenTelemetry export.

use serde::Serialize;
use url::Url;

use crate::masked_url::MaskedUrl;
use crate::settings::TelemetrySettings;
use crate::{ConfigError, wrong};

/// The path for traces below a collector's URL (OTLP).
const TRACES: &str = "v1/traces";

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TelemetryConfig {
    /// The collector; traces are off if `None`.
    otlp: Option<MaskedUrl>,
    /// Share of traces that are kept, including callers' traces.
    pub sample: f64,
}

impl TelemetryConfig {
    pub(super) fn of(settings: &TelemetrySettings) -> Result<Self, ConfigError> {
        Ok(Self {
            otlp: MaskedUrl::read_if_set("telemetry.otlp", settings.otlp.as_ref())?,
            sample: settings.sample.unwrap_or(1.0),
        })
    }

    /// Where traces are posted.
    pub fn traces(&self) -> Option<Url> {
        let mut url = self.otlp.as_ref()?.url().clone();
        let path = url.path().trim_end_matches('/').to_owned();
        // Some write a collector's URL with this path and some without.
        if !path.ends_with(TRACES) {
            url.set_path(&format!("{path}/{TRACES}"));
        }
        Some(url)
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let fits = |address: &MaskedUrl| {
            let url = address.url();
            address.is_http() && url.has_host() && !address.has_user() && url.fragment().is_none()
        };
        if self.otlp.as_ref().is_some_and(|address| !fits(address)) {
            return Err(wrong(
                "telemetry.otlp",
                "must be an http or https URL without a user",
            ));
        }
        if !(0.0..=1.0).contains(&self.sample) {
            return Err(wrong("telemetry.sample", "must be from 0 to 1"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(otlp: &str, sample: f64) -> TelemetryConfig {
        TelemetryConfig::of(&TelemetrySettings {
            otlp: Some(otlp.parse().unwrap()),
            sample: Some(sample),
        })
        .unwrap()
    }

    #[test]
    fn an_address_may_have_the_path_or_not() {
        for (otlp, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            (
                "https://all.example/otlp/",
                "https://all.example/otlp/v1/traces",
            ),
            ("http://c:4318/v1/traces", "http://c:4318/v1/traces"),
        ] {
            let settings = settings(otlp, 1.0);
            settings.check().unwrap();
            assert_eq!(settings.traces().unwrap().as_str(), url);
        }
    }

    #[test]
    fn invalid_settings_are_named() {
        for (otlp, sample, key) in [
            ("grpc://c:4317", 1.0, "telemetry.otlp"),
            ("http://user:hunter2@c", 1.0, "telemetry.otlp"),
            ("http://c", 1.5, "telemetry.sample"),
            ("http://c", f64::NAN, "telemetry.sample"),
        ] {
            let message = settings(otlp, sample).check().unwrap_err().to_string();
            assert!(
                message.starts_with(key) && !message.contains("hunter2"),
                "{message}"
            );
        }
    }
}
