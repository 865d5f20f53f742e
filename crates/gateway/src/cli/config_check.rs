//! `mediagate config check`: every fault of the configuration at once, with file, line and a
//! correction; for a valid configuration, its effective settings, and whether child processes can be
//! confined here.

use crate::cli::output::note;
use crate::cli::{CliError, confinement, serve, show};
use mediagate_config::{Config, ConfigError, Settings, fault_report};
use mediagate_core::catalog::{Catalog, config_lints, price_warnings, unverified_models};
use mediagate_core::upstream;
use mediagate_media::engines::own_models::InstalledModels;
use mediagate_model::clock::Clock;

pub(super) fn run(settings: &Settings, json: bool) -> Result<(), CliError> {
    let mut warnings = Vec::new();
    let faults = |config: &Config| check(config).map(|found| warnings = found);
    let config = fault_report::check(settings, faults).map_err(|faults| {
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        CliError::Usage(lines.join("\n"))
    })?;
    for warning in &warnings {
        note(&format!("warning: {warning}"));
    }
    if let Some(path) = config.path.as_ref().filter(|_| !json) {
        let models = &config.models;
        let (provider_count, model_count) = (models.providers.len(), models.models.len());
        // On standard error, so that standard output has nothing but the settings.
        note(&format!(
            "{} is valid: {provider_count} {}, {model_count} {}. Effective settings:",
            path.display(),
            if provider_count == 1 {
                "provider"
            } else {
                "providers"
            },
            if model_count == 1 { "model" } else { "models" },
        ));
    }
    show::toml(&config.show(), json)?;
    // Last: the settings are right even if the system is not.
    confinement::check(&config)
}

/// Checks that need all settings: providers, models, and conflicts between them. Returns warnings.
fn check(config: &Config) -> Result<Vec<ConfigError>, Vec<ConfigError>> {
    let to_located = |error: ConfigError| config.models.locate(error);
    let to_list = |error: ConfigError| vec![to_located(error)];
    serve::check(config).map_err(to_list)?;
    serve::check_listeners(config).map_err(to_list)?;
    let sites = upstream::sites(&config.models, config, None).map_err(to_list)?;
    let installed_models = InstalledModels::new(&config.models_folder, config.onnx_library.clone());
    installed_models.scan();
    let now = Clock::system().now();
    let catalog =
        Catalog::new(&config.models, installed_models.models(), &sites, now).map_err(to_list)?;
    let lints = config_lints::find(&config.models, &sites, &catalog, now);
    if lints.is_empty() {
        let mut warnings = price_warnings::find(&config.models, &sites, &catalog, now);
        warnings.extend(unverified_models::find(&config.models, &sites, &catalog));
        let public_url = config.public_url.as_deref();
        warnings.extend(config.moderation.warning(public_url).map(to_located));
        Ok(warnings)
    } else {
        Err(lints)
    }
}
