//! Faults in recipes: the line, the message, and what was probably meant.

use std::ops::Range;

/// A fault and its position.
#[derive(Debug)]
pub(super) struct RecipeFault {
    offset: usize,
    pub(super) message: String,
}

impl RecipeFault {
    pub(super) fn new(span: &Range<usize>, message: impl Into<String>) -> Self {
        Self {
            offset: span.start,
            message: message.into(),
        }
    }

    /// The line in the recipe's text, counting from 1.
    pub(super) fn line(&self, text: &str) -> usize {
        let before = text.as_bytes().iter().take(self.offset);
        before.filter(|byte| **byte == b'\n').count() + 1
    }
}

/// Success, or a fault.
pub(super) type CheckResult = Result<(), RecipeFault>;

/// Adds what was probably meant to "unknown field `x`, expected one of `a`, `b`".
pub(super) fn with_suggestion(message: &str) -> String {
    // serde's errors are text, with names in backquotes.
    let mut quoted = message.split('`').skip(1).step_by(2);
    match quoted.next() {
        Some(unknown) if message.starts_with("unknown") => {
            let suggestion = nearest(unknown, quoted);
            let message = message.replacen("unknown field", "unknown key", 1);
            format!("{message}{suggestion}")
        }
        Some(name) if message.starts_with("missing field") => {
            format!("{name} is missing")
        }
        _ if message.contains("enum Durations") => {
            "must be a list of lengths like [5, 10], or { min = 3, max = 15 }".to_owned()
        }
        _ => message.to_owned(),
    }
}

/// `; did you mean "…"?`, if one of the words is similar.
pub(super) fn nearest<'a>(wrong: &str, words: impl IntoIterator<Item = &'a str>) -> String {
    let wrong = wrong.to_lowercase();
    let words = words.into_iter();
    let distances = words.map(|word| (strsim::levenshtein(&wrong, &word.to_lowercase()), word));
    match distances.min() {
        Some((distance, word)) if distance <= 1 + wrong.chars().count() / 4 => {
            format!("; did you mean {word:?}?")
        }
        _ => String::new(),
    }
}
