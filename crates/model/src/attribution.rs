//! Attribution of a task: for whom, and for what of the caller's, it was ordered.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The caller's own names and values for an order.
pub type Metadata = BTreeMap<String, String>;

/// Maximum number of entries of the metadata.
pub const MAX_ENTRIES: usize = 16;
/// Longest name in the metadata, in characters.
pub const MAX_NAME: usize = 64;
/// Longest value in the metadata, in characters.
pub const MAX_VALUE: usize = 500;
/// Longest id of an end user, in characters.
pub const MAX_USER: usize = 512;

/// What a caller states about a task for its own accounting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attribution {
    /// The caller's id of its end user.
    pub user: Option<String>,
    pub metadata: Metadata,
}

/// The name of a part of an attribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attribute {
    User,
    /// The entry of the metadata with this name.
    Metadata(String),
}

const USER: &str = "user";
const METADATA_PREFIX: &str = "metadata.";

impl Attribution {
    /// The attributes with their values, always in the same order.
    pub fn attributes(&self) -> impl Iterator<Item = (Attribute, &str)> {
        let user = self.user.iter();
        let user = user.map(|user| (Attribute::User, user.as_str()));
        let metadata = self.metadata.iter();
        user.chain(
            metadata.map(|(name, value)| (Attribute::Metadata(name.clone()), value.as_str())),
        )
    }

    /// The value of an attribute.
    pub fn value(&self, attribute: &Attribute) -> Option<&str> {
        match attribute {
            Attribute::User => self.user.as_deref(),
            Attribute::Metadata(name) => self.metadata.get(name).map(String::as_str),
        }
    }
}

impl fmt::Display for Attribute {
    /// `user`, or `metadata.` and the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.write_str(USER),
            Self::Metadata(name) => write!(f, "{METADATA_PREFIX}{name}"),
        }
    }
}

/// The text names no attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write user, or metadata. and a name")]
pub struct NoSuchAttribute;

impl FromStr for Attribute {
    type Err = NoSuchAttribute;

    fn from_str(text: &str) -> Result<Self, NoSuchAttribute> {
        if text == USER {
            return Ok(Self::User);
        }
        let name = text.strip_prefix(METADATA_PREFIX).ok_or(NoSuchAttribute)?;
        let is_name = !name.is_empty() && name.chars().count() <= MAX_NAME;
        is_name
            .then(|| Self::Metadata(name.to_owned()))
            .ok_or(NoSuchAttribute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_written_as_they_are_read() {
        for text in ["user", "metadata.project", "metadata.a.b"] {
            assert_eq!(text.parse::<Attribute>().unwrap().to_string(), text);
        }
        for bad in ["", "users", "metadata", "metadata."] {
            assert_eq!(bad.parse::<Attribute>(), Err(NoSuchAttribute), "{bad}");
        }
    }
}
