//! The effective settings as TOML that can be read back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Table;

use crate::Config;
use crate::providers::{ModelSettings, ProviderTable};

/// The providers and models as written in the file. References are shown, not the values that they
/// refer to.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct FileTables {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    providers: BTreeMap<String, ProviderTable>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    models: BTreeMap<String, ModelSettings>,
}

pub(super) fn toml(config: &Config) -> String {
    let mut top = Table::try_from(config).unwrap_or_default();
    // From the file and not from `config`, which has the secrets in place of the references.
    if let Some(source) = &config.models.source {
        let tables: FileTables = toml::from_str(&source.text).unwrap_or_default();
        top.extend(Table::try_from(tables).unwrap_or_default());
    }
    toml::to_string(&top).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;
    use crate::{Settings, file};
    use mediagate_model::secret::SecretSource;

    /// Texts with a secret in every place that may have one; every secret begins with "hunter".
    const PLANTED_SECRETS: [&str; 4] = [
        "https://hunter1:hunter2@a.example:81/b?hunter3=hunter4#hunter5",
        "postgres://hunter1:hunter2@a.example/b?password=hunter3",
        "redis://hunter1:hunter2@a.example:6379",
        "hunter1-hunter2-hunter3-hunter4-hunter5-hunter6",
    ];
    /// Flags whose value is a name and not a secret.
    const NAMES: [&str; 8] = [
        "brand",
        "persona-brand-field",
        "default-model",
        "default-music-model",
        "log",
        "media-region",
        "media-kms-key",
        "media-host",
    ];
    /// Flags that may be a file's path, which an error names if the file cannot be read.
    const PATHS: [&str; 2] = ["provenance-certificate", "provenance-key"];

    fn everything_shown(config: Result<Config, crate::ConfigError>) -> String {
        match config {
            Ok(config) => format!("{}\n{config:?}", config.show()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn no_flag_shows_what_may_be_secret() {
        let command = Settings::augment_args(clap::Command::new("mediagate"));
        let (mut secrets, mut tried) = (0, 0);
        for arg in command.get_arguments() {
            let flag = arg.get_long().unwrap();
            let kind = arg.get_value_parser().type_id();
            if kind == std::any::TypeId::of::<SecretSource>() {
                assert!(arg.is_hide_env_values_set(), "--help shows --{flag}");
                secrets += 1;
            }
            let is_path = kind == std::any::TypeId::of::<std::path::PathBuf>();
            if is_path || NAMES.contains(&flag) || PATHS.contains(&flag) {
                continue;
            }
            for planted in PLANTED_SECRETS {
                let arguments = ["mediagate".to_owned(), format!("--{flag}={planted}")];
                let Ok(matches) = command.clone().try_get_matches_from(arguments) else {
                    continue; // The setting's type does not accept such a text.
                };
                let settings = Settings::from_arg_matches(&matches).unwrap();
                let shown = everything_shown(Config::of(settings));
                assert!(!shown.contains("hunter"), "--{flag}={planted}: {shown}");
                tried += 1;
            }
        }
        assert!(secrets >= 14 && tried >= 50, "{secrets} {tried}");
    }

    #[test]
    fn no_table_of_the_file_shows_what_may_be_secret() {
        let text = r#"
[webhooks]
proxy = "http://hunter1:hunter2@proxy.example:3128"
[provenance]
timestamp = "https://hunter1:hunter2@stamp.example/tsa?token=hunter3"
[telemetry]
otlp = "https://collector.example/v1/traces?api-key=hunter3"
[bell]
database = "postgres://hunter1:hunter2@bell.example/b"
[[moderation.checks]]
protocol = "openai"
endpoint = "https://judge.example/v1?key=hunter1"
api_key = "hunter2"
[[moderation.checks]]
protocol = "webhook"
endpoint = "https://desk.example/check"
secret = "hunter1-hunter2-hunter3-hunter4"
[media]
access_key = "hunter1"
secret_key = "hunter2"
[providers.one]
protocol = "fal"
base_url = "https://hunter1:hunter2@fal.example/x#hunter3"
api_keys = ["hunter4", "hunter5"]
hosts = ["cdn.example"]
upload_url = "https://hunter1:hunter2@up.example"
duration = "whole"
[providers.two]
protocol = "comfyui"
api_key = "hunter1"
base_url = "http://comfy.example"
graph = '{"1": "hunter2"}'
graphs = { a = "hunter3" }
patch = { prompt = ["hunter4"] }
fps = 24
[providers.three]
protocol = "recipe"
recipe = "base_url = 'https://hunter1:hunter2@recipe.example'"
[models.film]
kind = "video"
price = { unit = "second", usd = "0.10", usd_without_audio = "0.05" }
routes = [{ provider = "one", model = "m", cost = [{ unit = "video", usd = "1" }], extra = { callback = "https://a.example/?hunter1", auth = { token = "hunter2" }, list = ["hunter3"], number = 4711 } }]
limits = { sizes = ["1280x720"], seconds = { min = 1, max = 5 } }
"#;
        let config = Config::of(file::parse("m.toml", text).unwrap()).unwrap();
        let shown = config.show();
        assert!(
            !shown.contains("hunter") && !shown.contains("4711"),
            "{shown}"
        );
        let printed = format!("{config:?}");
        assert!(!printed.contains("hunter"), "{printed}");
        for expected in [
            "proxy = \"http://proxy.example:3128/\"",
            "timestamp = \"https://stamp.example/tsa\"",
            "otlp = \"https://collector.example/v1/traces\"",
            "endpoint = \"https://judge.example/v1\"",
            "base_url = \"https://fal.example/x\"",
            "hosts = [\"cdn.example\"]",
            "duration = \"whole\"",
            "fps = 24",
            "recipe = \"********\"",
            "callback = \"********\"",
            "usd_without_audio = \"0.05\"",
            "sizes = [\"1280x720\"]",
        ] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        let reread = Config::of(file::parse("m.toml", &shown).unwrap()).unwrap();
        assert_eq!(reread.show(), shown, "the shown settings can be read back");
    }

    #[test]
    fn references_are_shown_instead_of_the_values() {
        let folder = tempfile::tempdir().unwrap();
        let write_file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            format!("file:{}", path.display())
        };
        let proxy = write_file("proxy", "http://u:hunter1@proxy.example\n");
        let token = write_file("token", "hunter2");
        let text = format!(
            "[webhooks]\nproxy = '{proxy}'\n[providers.a]\nprotocol = \"fal\"\napi_key = \"k\"\n[models.film]\nkind = \"video\"\nprice = \"free\"\nroutes = [{{ provider = \"a\", model = \"m\", extra = {{ auth = {{ token = '{token}' }}, secret = '{token}' }} }}]\n"
        );
        let config = Config::of(file::parse("m.toml", &text).unwrap()).unwrap();
        let proxy_url = config.webhooks.proxy.as_ref().unwrap().url();
        assert_eq!(proxy_url.password(), Some("hunter1"));
        let routes = config.models.models["film"].routes.as_ref().unwrap();
        let fields = routes[0].extra.fields();
        assert_eq!(fields["secret"], "hunter2");
        assert_eq!(fields["auth"]["token"], "hunter2");
        let shown = config.show();
        assert!(!shown.contains("hunter"), "{shown}");
        assert!(shown.contains(&proxy) && shown.contains(&token), "{shown}");

        let missing = text.replace(&token, "env:MEDIAGATE_NO_SUCH");
        let settings = || file::parse("m.toml", &missing).unwrap();
        let error = Config::of(settings()).unwrap_err().to_string();
        assert!(
            error.contains("`models.film.routes`") && error.contains("MEDIAGATE_NO_SUCH"),
            "{error}"
        );
    }
}
