//! Moderation of what callers order: lists of terms, and the protocols of moderation services as
//! pure functions.
//!
//! [`terms`] finds words and patterns in a text. [`openai`] and [`webhook`] build the requests to a
//! service and read its responses. This crate does no I/O, and knows neither tasks nor accounts.
//! Begin with [`PolicyFinding`].

pub mod openai;
pub mod terms;
pub mod webhook;

/// Longest category that is kept, in characters.
const MAX_CATEGORY: usize = 100;
/// Longest reason that is kept, in characters.
const MAX_REASON: usize = 300;

/// What a check objects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFinding {
    /// The kind of content, in the words of the check.
    pub category: String,
    /// Further words of the check.
    pub reason: Option<String>,
    /// The name of the input, as the service wrote it.
    pub input: Option<String>,
}

impl PolicyFinding {
    /// A finding of this category. A service's category is cut, and has no control characters.
    pub fn new(category: &str) -> Self {
        let category = printable(category, MAX_CATEGORY);
        Self {
            category: if category.is_empty() {
                UNNAMED.to_owned()
            } else {
                category
            },
            reason: None,
            input: None,
        }
    }
}

/// The category of a finding for which the service names none.
const UNNAMED: &str = "unnamed";

/// A response that is not what the protocol says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the response cannot be read: {0}")]
pub struct UnreadableResponse(pub String);

/// The beginning of a text without control characters.
fn printable(text: &str, max: usize) -> String {
    let shown = text.trim().chars().filter(|c| !c.is_control());
    shown.take(max).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_category_is_short_and_printable() {
        assert_eq!(PolicyFinding::new(" a\u{1b}[31m\n").category, "a[31m");
        assert_eq!(PolicyFinding::new("\n ").category, UNNAMED);
        let long = "x".repeat(2 * MAX_CATEGORY);
        assert_eq!(PolicyFinding::new(&long).category.len(), MAX_CATEGORY);
    }
}
