//! Secrets: text that cannot be printed, logged or serialised by accident.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize, Serializer};

pub use orders::Secret;

/// Where a secret comes from: the value itself, `env:NAME`, or `file:PATH`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum SecretSource {
    Value(Secret),
    Env(String),
    /// Surrounding white space is trimmed.
    File(PathBuf),
}

/// Why a secret could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    #[error("the environment variable {0} is not set")]
    NoSuchVariable(String),
    /// There is nothing but white space at this place.
    #[error("{0} is empty")]
    Empty(String),
    /// The file cannot be read.
    #[error("the file {path} cannot be read: {reason}")]
    Unreadable { path: String, reason: String },
}

impl From<String> for SecretSource {
    fn from(text: String) -> Self {
        if let Some(name) = text.strip_prefix("env:") {
            Self::Env(name.to_owned())
        } else if let Some(path) = text.strip_prefix("file:") {
            Self::File(PathBuf::from(path))
        } else {
            Self::Value(Secret::new(text))
        }
    }
}

impl std::str::FromStr for SecretSource {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::from(text.to_owned()))
    }
}

impl SecretSource {
    pub fn read(&self) -> Result<Secret, SecretError> {
        let secret = self.read_text()?;
        if secret.expose().trim().is_empty() {
            return Err(SecretError::Empty(match self {
                Self::Value(_) => "the value".into(),
                Self::Env(name) => format!("the environment variable {name}"),
                Self::File(path) => format!("the file {}", path.display()),
            }));
        }
        Ok(secret)
    }

    fn read_text(&self) -> Result<Secret, SecretError> {
        match self {
            Self::Value(secret) => Ok(secret.clone()),
            Self::Env(name) => std::env::var(name)
                .map(Secret::new)
                .map_err(|_| SecretError::NoSuchVariable(name.clone())),
            Self::File(path) => std::fs::read_to_string(path)
                // Wrapped twice: the text before trimming contains the secret too, and is wiped
                // when dropped.
                .map(|text| Secret::new(Secret::new(text).expose().trim()))
                .map_err(|error| SecretError::Unreadable {
                    path: path.display().to_string(),
                    reason: error.to_string(),
                }),
        }
    }
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for SecretSource {
    /// For display: a value is masked, a reference is not secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(secret) => secret.fmt(f),
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl Serialize for SecretSource {
    /// Serializes the text that [`Display`](std::fmt::Display) writes, never the secret.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print() {
        let secret = Secret::new("hunter2");
        let source = SecretSource::from("hunter2".to_owned());
        assert!(!format!("{secret} {secret:?} {source} {source:?}").contains("hunter2"));
        assert_eq!(source.read().unwrap().expose(), "hunter2");
    }

    #[test]
    fn an_empty_source_is_named() {
        for (source, place) in [
            ("", "the value"),
            (" \t", "the value"),
            ("file:/dev/null", "the file "),
        ] {
            let error = SecretSource::from(source.to_owned()).read().unwrap_err();
            let message = error.to_string();
            assert!(
                message.starts_with(place) && message.ends_with(" is empty"),
                "{source:?}: {message}"
            );
        }
    }

    #[test]
    fn a_missing_source_is_named() {
        let error = SecretSource::from("env:MEDIAGATE_NO_SUCH".to_owned())
            .read()
            .unwrap_err();
        assert!(error.to_string().contains("MEDIAGATE_NO_SUCH"));
        assert!(
            SecretSource::from("file:/no/such".to_owned())
                .read()
                .is_err()
        );
    }
}
