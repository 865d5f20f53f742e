//! Failure codes and words with which providers describe a job's failure.
//!
//! Most failures may be temporary: the order can be placed again. Some are caused by the order
//! itself, or its content: a repetition would fail again, and might be charged again.

use crate::error::{ErrorBasis, ErrorClass, ErrorDescription, ProviderError};

/// A provider's descriptions of failures. Anything in neither list is [`ErrorClass::Failed`],
/// except certain 4xx HTTP statuses as codes, which are `Unfit`.
#[derive(Debug, Clone, Copy)]
pub struct FailureTable {
    /// Prefixes of codes; the first match is used.
    pub codes: &'static [(&'static str, ErrorClass)],
    /// Words of messages in lower case, for failures whose code is not specific.
    pub words: &'static [(&'static str, ErrorClass)],
}

impl FailureTable {
    /// The error of a job that failed.
    pub fn error(&self, description: ErrorDescription) -> ProviderError {
        let class = self.class(&description).unwrap_or(ErrorClass::Failed);
        ProviderError::from_job(class, description)
    }

    /// The class according to the code, otherwise the message.
    pub fn class(&self, description: &ErrorDescription) -> Option<ErrorClass> {
        let code = description.code.as_deref().unwrap_or_default();
        let by_code = self
            .codes
            .iter()
            .find(|(prefix, _)| matches_prefix(code, prefix));
        let message = description
            .message
            .as_deref()
            .unwrap_or_default()
            .to_lowercase();
        let by_words = || self.words.iter().find(|(words, _)| message.contains(words));
        let class = by_code.or_else(by_words).map(|(_, class)| *class);
        class.or_else(|| class_of_status(code))
    }
}

/// Classifies the error of a poll: an accepted job does not end because of a wrong request.
/// `is_gone` if it means that there is no such job.
pub fn as_poll_error(error: ProviderError, is_gone: bool) -> ProviderError {
    let class = match error.class {
        ErrorClass::Rejected if is_gone => ErrorClass::Missing,
        ErrorClass::Rejected | ErrorClass::Account => ErrorClass::Unclear,
        class => class,
    };
    error.with_class(class).with_basis(ErrorBasis::Answer)
}

/// Whether a code begins with a prefix; a prefix that is a number must equal the code.
fn matches_prefix(code: &str, prefix: &str) -> bool {
    let is_number = prefix.bytes().all(|byte| byte.is_ascii_digit());
    // Google's `1` is CANCELLED and must not match `13`, which is INTERNAL.
    code == prefix || (!is_number && code.starts_with(prefix))
}

/// The class of a code that is an HTTP status, as some providers use.
fn class_of_status(code: &str) -> Option<ErrorClass> {
    matches!(code, "400" | "404" | "413" | "415" | "422").then_some(ErrorClass::Unfit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_takes_precedence_over_the_message() {
        let table = FailureTable {
            codes: &[
                ("SAFETY", ErrorClass::Refused),
                ("ASSET", ErrorClass::Unfit),
            ],
            words: &[("moderat", ErrorClass::Refused)],
        };
        let class = |code: &str, message: &str| {
            let description = ErrorDescription {
                code: Some(code.into()).filter(|_| !code.is_empty()),
                message: Some(message.into()),
            };
            table.error(description).class
        };
        assert_eq!(class("SAFETY.INPUT", ""), ErrorClass::Refused);
        assert_eq!(class("ASSET.INVALID", "Moderated"), ErrorClass::Unfit);
        assert_eq!(class("", "Moderated"), ErrorClass::Refused);
        assert_eq!(class("422", "no such field"), ErrorClass::Unfit);
        assert_eq!(class("500", "broken"), ErrorClass::Failed);
        assert_eq!(class("", ""), ErrorClass::Failed);
    }
}
