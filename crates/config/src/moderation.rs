//! `[moderation]`: checks of the content of orders, before anything is held or sent.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::moderation::terms::{self, TermList};
use ::moderation::{openai, webhook};
use serde::{Serialize, Serializer};
use url::{Host, Url};

use crate::masked_url::MaskedUrl;
use crate::settings::{
    CheckProtocol, CheckSettings, CheckStage, ModerationFallback, ModerationSettings,
};
use crate::{ConfigError, values, wrong};
use mediagate_model::secret::{Secret, SecretSource};

/// Maximum number of checks.
const MAX_CHECKS: usize = 20;
/// The last part of the path of the moderation API.
const MODERATIONS: &str = "moderations";

/// The rules, complete.
#[derive(Debug, Clone, Serialize)]
pub struct ModerationRules {
    /// What becomes of an order that a check could not judge.
    pub on_error: ModerationFallback,
    /// Whether results are checked too. Always false in this version.
    pub results: bool,
    /// Whether texts are kept with their verdicts.
    pub keep: bool,
    /// How long a service may take to respond.
    #[serde(serialize_with = "values::time")]
    pub timeout: Duration,
    /// In the order in which they are asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<ModerationCheck>,
}

/// A check of orders.
#[derive(Debug, Clone)]
pub struct ModerationCheck {
    pub kind: CheckKind,
    /// The settings as written, to be shown.
    shown: CheckSettings,
}

/// How a check judges. Printed without its URL, whose query may be secret.
#[derive(Clone)]
pub enum CheckKind {
    Terms(Arc<TermList>),
    OpenAi {
        /// The URL that ends in `/moderations`.
        url: Url,
        api_key: Option<Secret>,
        model: String,
    },
    Webhook {
        url: Url,
        secret: Secret,
    },
}

impl CheckKind {
    /// Its protocol, as the settings name it.
    pub const fn protocol(&self) -> &'static str {
        match self {
            Self::Terms(_) => "terms",
            Self::OpenAi { .. } => "openai",
            Self::Webhook { .. } => "webhook",
        }
    }
}

impl fmt::Debug for CheckKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.protocol())
    }
}

impl Serialize for ModerationCheck {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.shown.serialize(serializer)
    }
}

impl ModerationRules {
    /// `config_file` is the configuration file, beside which files of terms may be.
    pub(super) fn of(
        settings: ModerationSettings,
        config_file: Option<&Path>,
    ) -> Result<Self, ConfigError> {
        if settings.results == Some(true) {
            let message = "must be false: this version checks orders, not results";
            return Err(wrong("moderation.results", message));
        }
        let timeout = settings.timeout.unwrap_or(Duration::from_secs(5));
        let seconds = Duration::from_secs;
        if !(Duration::from_millis(100)..=seconds(60)).contains(&timeout) {
            return Err(wrong("moderation.timeout", "must be from 100ms to 60s"));
        }
        if settings.checks.len() > MAX_CHECKS {
            let message = format!("must be at most {MAX_CHECKS}");
            return Err(wrong("moderation.checks", &message));
        }
        let checks = settings.checks.into_iter().enumerate();
        let checks = checks.map(|(number, check)| {
            let prefix = format!("moderation.checks[{number}]");
            ModerationCheck::read(&prefix, check, config_file)
        });
        Ok(Self {
            on_error: settings.on_error.unwrap_or_default(),
            results: false,
            keep: settings.keep.unwrap_or(false),
            timeout,
            checks: checks.collect::<Result<_, _>>()?,
        })
    }

    /// What the operator of a public gateway without checks should know. `public_url` is where
    /// callers reach it.
    pub fn warning(&self, public_url: Option<&str>) -> Option<ConfigError> {
        let url = Url::parse(public_url?).ok()?;
        let is_public = match url.host()? {
            Host::Domain(name) => {
                let name = name.trim_end_matches('.');
                name.contains('.') && !name.ends_with(".localhost") && !name.ends_with(".internal")
            }
            Host::Ipv4(ip) => !ip.is_loopback() && !ip.is_private() && !ip.is_link_local(),
            Host::Ipv6(ip) => !ip.is_loopback() && !ip.is_unique_local(),
        };
        (is_public && self.checks.is_empty()).then(|| {
            wrong(
                "moderation.checks",
                "there are none, and this gateway is public. From 2 December 2026, Regulation (EU) \
                 2026/1744 forbids to offer systems that can make intimate pictures, films or sound \
                 of identifiable people without their consent, or material of child sexual abuse, \
                 where reasonable safeguards are lacking: see docs/moderation.md",
            )
        })
    }
}

impl ModerationCheck {
    /// Reads the entry whose keys begin with `prefix`.
    fn read(
        prefix: &str,
        settings: CheckSettings,
        config_file: Option<&Path>,
    ) -> Result<Self, ConfigError> {
        let key = |name: &str| format!("{prefix}.{name}");
        if let Some(stages) = &settings.stages
            && !stages.contains(&CheckStage::Order)
        {
            let message = "must contain \"order\": this version checks no results, so the check \
                           would never be asked";
            return Err(wrong(&key("stages"), message));
        }
        let foreign = settings.foreign_key();
        if let Some(name) = foreign {
            let message = "is for checks of another protocol";
            return Err(wrong(&key(name), message));
        }
        let kind = match settings.protocol {
            CheckProtocol::Terms => {
                let terms = read_terms(&key("file"), settings.file.as_deref(), config_file)?;
                CheckKind::Terms(Arc::new(terms))
            }
            CheckProtocol::OpenAi => CheckKind::OpenAi {
                url: moderations_url(read_url(&key("endpoint"), settings.endpoint.as_ref())?),
                api_key: match &settings.api_key {
                    Some(source) => Some(read_header_secret(&key("api_key"), source)?),
                    None => None,
                },
                model: match &settings.model {
                    None => openai::DEFAULT_MODEL.to_owned(),
                    Some(model) if (1..=200).contains(&model.trim().len()) => model.clone(),
                    Some(_) => return Err(wrong(&key("model"), "must have 1 to 200 characters")),
                },
            },
            CheckProtocol::Webhook => CheckKind::Webhook {
                url: read_url(&key("endpoint"), settings.endpoint.as_ref())?,
                secret: read_signing_secret(&key("secret"), settings.secret.as_ref())?,
            },
            CheckProtocol::Pictures => {
                let message = "\"pictures\" is not possible in this version: it has no classifier. \
                               Use \"openai\" or \"webhook\", which get pictures too";
                return Err(wrong(&key("protocol"), message));
            }
        };
        Ok(Self {
            kind,
            shown: settings,
        })
    }
}

impl CheckSettings {
    /// A key that its protocol does not use.
    fn foreign_key(&self) -> Option<&'static str> {
        let is_set = [
            ("endpoint", self.endpoint.is_some()),
            ("api_key", self.api_key.is_some()),
            ("secret", self.secret.is_some()),
            ("model", self.model.is_some()),
            ("file", self.file.is_some()),
            ("threshold", self.threshold.is_some()),
        ];
        let known: &[&str] = match self.protocol {
            CheckProtocol::Terms => &["file"],
            CheckProtocol::OpenAi => &["endpoint", "api_key", "model"],
            CheckProtocol::Webhook => &["endpoint", "secret"],
            CheckProtocol::Pictures => &["model", "file", "threshold"],
        };
        let mut foreign = is_set.iter();
        let foreign = foreign.find(|(name, is_set)| *is_set && !known.contains(name));
        foreign.map(|(name, _)| *name)
    }
}

fn read_url(key: &str, source: Option<&SecretSource>) -> Result<Url, ConfigError> {
    let source = source.ok_or_else(|| wrong(key, "is required"))?;
    let url = MaskedUrl::read(key, source)?;
    let plain = url.url();
    if !url.is_http() || !plain.has_host() || url.has_user() || plain.fragment().is_some() {
        return Err(wrong(key, "must be an http or https URL without a user"));
    }
    Ok(plain.clone())
}

/// The URL of the API below that of a service, which may have its path already.
fn moderations_url(mut url: Url) -> Url {
    let path = url.path().trim_end_matches('/').to_owned();
    if !path.ends_with(MODERATIONS) {
        url.set_path(&format!("{path}/{MODERATIONS}"));
    }
    url
}

fn read_secret(key: &str, source: &SecretSource) -> Result<Secret, ConfigError> {
    source
        .read()
        .map_err(|error| wrong(key, &error.to_string()))
}

/// A secret that can be the value of a header.
fn read_header_secret(key: &str, source: &SecretSource) -> Result<Secret, ConfigError> {
    let secret = read_secret(key, source)?;
    let is_plain = |byte: u8| (b'!'..=b'~').contains(&byte);
    if secret.expose().bytes().all(is_plain) {
        Ok(secret)
    } else {
        Err(wrong(key, "must be visible ASCII characters"))
    }
}

fn read_signing_secret(key: &str, source: Option<&SecretSource>) -> Result<Secret, ConfigError> {
    let source = source.ok_or_else(|| wrong(key, "is required"))?;
    let secret = read_secret(key, source)?;
    match webhook::signing_key(secret.expose()) {
        Ok(_) => Ok(secret),
        Err(fault) => Err(wrong(key, &fault.to_string())),
    }
}

/// The list in a file, or the list that the program ships.
fn read_terms(
    key: &str,
    file: Option<&Path>,
    config_file: Option<&Path>,
) -> Result<TermList, ConfigError> {
    let Some(file) = file else {
        return TermList::shipped().map_err(|fault| wrong(key, &fault.to_string()));
    };
    // A path begins at the current folder, as that of every setting. A list is often beside the
    // configuration file, whose folder a service manager need not start in.
    let beside = config_file
        .and_then(Path::parent)
        .map(|folder| folder.join(file));
    let path = match beside {
        Some(beside) if !file.exists() && beside.exists() => beside,
        _ => file.to_owned(),
    };
    let unreadable = |reason: String| {
        let message = format!("the file {} cannot be read: {reason}", path.display());
        wrong(key, &message)
    };
    let size = std::fs::metadata(&path).map_err(|error| unreadable(error.to_string()))?;
    if size.len() > terms::MAX_BYTES {
        return Err(unreadable("it is larger than 1 MiB".to_owned()));
    }
    let text = std::fs::read_to_string(&path).map_err(|error| unreadable(error.to_string()))?;
    TermList::parse(&text).map_err(|fault| {
        let message = format!("the file {} {fault}", path.display());
        wrong(key, &message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_rules(toml: &str) -> Result<ModerationRules, String> {
        let rules = ModerationRules::of(toml::from_str(toml).unwrap(), None);
        rules.map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_checked_by_default() {
        let rules = load_rules("").unwrap();
        assert!(rules.checks.is_empty() && !rules.keep && !rules.results);
        assert_eq!(rules.on_error, ModerationFallback::Refuse);
        assert_eq!(rules.timeout, Duration::from_secs(5));
    }

    #[test]
    fn every_fault_is_named() {
        let check = |rest: &str| format!("[[checks]]\n{rest}");
        for (toml, expected) in [
            (
                "results = true".to_owned(),
                "moderation.results: must be false",
            ),
            ("timeout = \"2m\"".to_owned(), "moderation.timeout: must be"),
            (
                check("protocol = \"openai\""),
                "moderation.checks[0].endpoint: is required",
            ),
            (
                check("protocol = \"openai\"\nendpoint = \"ftp://a/\""),
                "moderation.checks[0].endpoint: must be an http",
            ),
            (
                check(
                    "protocol = \"openai\"\nendpoint = \"http://a/\"\napi_key = \"env:MEDIAGATE_NO_SUCH\"",
                ),
                "moderation.checks[0].api_key: the environment variable MEDIAGATE_NO_SUCH",
            ),
            (
                check("protocol = \"webhook\"\nendpoint = \"http://a/\""),
                "moderation.checks[0].secret: is required",
            ),
            (
                check("protocol = \"webhook\"\nendpoint = \"http://a/\"\nsecret = \"whsec_AA==\""),
                "moderation.checks[0].secret: must have at least",
            ),
            (
                check("protocol = \"webhook\"\nendpoint = \"http://a/\"\napi_key = \"k\""),
                "moderation.checks[0].api_key: is for checks of another protocol",
            ),
            (
                check("protocol = \"terms\"\nfile = \"/no/such.toml\""),
                "moderation.checks[0].file: the file /no/such.toml cannot be read",
            ),
            (
                check("protocol = \"pictures\"\nmodel = \"opennsfw\""),
                "moderation.checks[0].protocol: \"pictures\" is not possible",
            ),
            (
                check("protocol = \"terms\"\nstages = [\"result\"]"),
                "moderation.checks[0].stages: must contain \"order\"",
            ),
        ] {
            let error = load_rules(&toml).unwrap_err();
            assert!(error.starts_with(expected), "{toml}: {error}");
        }
        let many = check("protocol = \"terms\"\n").repeat(MAX_CHECKS + 1);
        let error = load_rules(&many).unwrap_err();
        assert!(error.starts_with("moderation.checks: must be"), "{error}");
    }

    #[test]
    fn a_list_may_be_beside_the_configuration_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own-terms.toml");
        let toml = "[[checks]]\nprotocol = \"terms\"\nfile = \"own-terms.toml\"";
        let settings = || toml::from_str(toml).unwrap();
        let config_file = folder.path().join("mediagate.toml");
        std::fs::write(&path, "[[terms]]\ncategory = \"c\"\nwords = [\"owl\"]").unwrap();
        let rules = ModerationRules::of(settings(), Some(&config_file)).unwrap();
        let CheckKind::Terms(list) = &rules.checks[0].kind else {
            panic!("{rules:?}");
        };
        assert_eq!(list.find("an owl"), Some("c"));
        std::fs::write(&path, "[[terms]]\ncategory = \"c\"\npatterns = ['(']").unwrap();
        let error = ModerationRules::of(settings(), Some(&config_file)).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("own-terms.toml \"c\" has an invalid"),
            "{error}"
        );
    }

    #[test]
    fn secrets_are_masked_and_what_is_shown_can_be_read_again() {
        let toml = r#"keep = true
[[checks]]
protocol = "openai"
endpoint = "https://a.example/v1?hunter1"
api_key = "hunter2"
[[checks]]
protocol = "webhook"
endpoint = "https://b.example/moderate"
secret = "hunter3-hunter3-hunter3-hunter3"
[[checks]]
protocol = "terms"
stages = ["order", "result"]
"#;
        let rules = load_rules(toml).unwrap();
        let shown = toml::to_string(&rules).unwrap();
        assert!(!shown.contains("hunter"), "{shown}");
        assert!(!format!("{rules:?}").contains("hunter"), "{rules:?}");
        let again = toml::to_string(&load_rules(&shown).unwrap()).unwrap();
        assert_eq!(again, shown);
    }

    #[test]
    fn the_api_is_below_the_endpoint() {
        for (endpoint, url) in [
            ("https://a.example/v1", "https://a.example/v1/moderations"),
            ("https://a.example/v1/", "https://a.example/v1/moderations"),
            (
                "https://a.example/v1/moderations",
                "https://a.example/v1/moderations",
            ),
            ("http://127.0.0.1:9", "http://127.0.0.1:9/moderations"),
        ] {
            let found = moderations_url(Url::parse(endpoint).unwrap());
            assert_eq!(found.as_str(), url);
        }
    }

    #[test]
    fn only_a_public_gateway_without_checks_is_warned() {
        let rules = load_rules("").unwrap();
        for url in ["https://media.example.com", "http://93.184.215.14"] {
            assert!(rules.warning(Some(url)).is_some(), "{url}");
        }
        for url in [
            "http://localhost:8080",
            "http://127.0.0.1:8080",
            "http://10.0.0.1",
            "http://gateway",
        ] {
            assert!(rules.warning(Some(url)).is_none(), "{url}");
        }
        assert!(rules.warning(None).is_none());
        let checked = load_rules("[[checks]]\nprotocol = \"terms\"").unwrap();
        assert!(checked.warning(Some("https://media.example.com")).is_none());
    }
}
