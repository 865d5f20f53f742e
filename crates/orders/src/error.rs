//! Errors of providers, in the classes that decide what happens next.

use std::time::Duration;

use serde_json::Value;

/// The contents of an error body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorDescription {
    /// The provider's own code.
    pub code: Option<String>,
    /// The error message.
    pub message: Option<String>,
}

impl ErrorDescription {
    /// Reads code and message at these places (JSON pointers), if they contain text or a number.
    pub fn at(body: &Value, code: &str, message: &str) -> Self {
        Self {
            code: text_at(body, code),
            message: text_at(body, message),
        }
    }
}

/// The text or number at a JSON pointer, as text; empty text counts as none.
pub fn text_at(body: &Value, pointer: &str) -> Option<String> {
    match body.pointer(pointer)? {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The class of an error: its consequence for the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// Too many requests. Nothing was accepted; the same call can succeed later.
    RateLimited,
    /// The provider is unavailable. This does not prove that an order was not accepted, unless the
    /// protocol's table says so (`providers::RefusalRule`).
    Unavailable,
    /// It is unknown whether the provider accepted the order: the answer was lost, incomplete, or
    /// undocumented.
    Unclear,
    /// The credential is wrong, or may not do this. Nothing was accepted; the operator must act.
    Credentials,
    /// The account at the provider has no money or no quota left. Nothing was accepted; waiting
    /// does not help.
    Account,
    /// The provider considers the request wrong. Nothing was accepted; a retry would be rejected
    /// again.
    Rejected,
    /// The provider's rules forbid this content.
    Refused,
    /// The provider accepted the order and the job failed.
    Failed,
    /// The provider accepted the order, and the job failed because of the order's content, such as
    /// an unknown field: the same order would fail again.
    Unfit,
    /// The provider no longer works on the job, or has let it expire.
    Lost,
    /// The provider, a gateway itself, says that it does not know what became of the order, and will
    /// not find out.
    Unconfirmed,
    /// The provider does not know the job. One of its servers may say so although the job exists,
    /// so this is accepted only if it persists (`providers::driver::schedule::EndDoubt`).
    Missing,
}

impl ErrorClass {
    /// The name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
            Self::Unclear => "unclear",
            Self::Credentials => "credentials",
            Self::Account => "account",
            Self::Rejected => "rejected",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Unfit => "unfit",
            Self::Lost => "lost",
            Self::Unconfirmed => "unconfirmed",
            Self::Missing => "missing",
        }
    }

    /// Whether it is worth retrying a call that changes nothing at the provider.
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::RateLimited | Self::Unavailable | Self::Unclear | Self::Missing
        )
    }

    /// Whether an error of this class ends the job when a poll returns it. No other error of a poll
    /// ends a paid job, except a `Missing` that persists.
    pub const fn ends_job(self) -> bool {
        matches!(
            self,
            Self::Failed | Self::Unfit | Self::Refused | Self::Lost | Self::Unconfirmed
        )
    }

    /// Whether this class means that the provider did not accept the order. Whether that is proved
    /// depends on the protocol's table (`providers::RefusalRule`).
    pub const fn is_refusal(self) -> bool {
        matches!(
            self,
            Self::RateLimited
                | Self::Unavailable
                | Self::Credentials
                | Self::Account
                | Self::Rejected
                | Self::Refused
        )
    }

    /// Whether an order with this rejection may succeed on another route.
    pub const fn allows_fail_over(self) -> bool {
        matches!(
            self,
            Self::RateLimited | Self::Unavailable | Self::Credentials | Self::Account
        )
    }
}

/// The evidence that a job has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorBasis {
    /// The job's own record says so.
    Record,
    /// An answer in place of the record, such as one with an error status. A proxy may have sent
    /// it, or it may be temporary, so it is accepted only if it persists
    /// (`providers::driver::schedule::EndDoubt`).
    Answer,
}

/// A provider's error. The message is the provider's own and may contain URLs and keys until the
/// driver has removed them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", class.name())]
pub struct ProviderError {
    /// The error's class: its meaning for the order.
    pub class: ErrorClass,
    /// The provider's own code, where it gives one.
    pub code: Option<String>,
    /// What went wrong, as a sentence.
    pub message: String,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// The basis of an error that ends a job. If the adapter does not set it, the status of the
    /// answer decides: a success means that it is the job's record.
    pub basis: Option<ErrorBasis>,
}

impl ProviderError {
    /// An error with a message.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            code: None,
            message: message.into(),
            retry_after: None,
            basis: None,
        }
    }

    /// The error of a job that ended badly, with the provider's message.
    pub fn from_job(class: ErrorClass, description: ErrorDescription) -> Self {
        Self {
            class,
            code: description.code,
            message: description
                .message
                .unwrap_or_else(|| "the provider failed to process the job".into()),
            retry_after: None,
            basis: None,
        }
    }

    /// Sets the provider's own code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Sets another class, if the status alone is not sufficient.
    #[must_use]
    pub const fn with_class(mut self, class: ErrorClass) -> Self {
        self.class = class;
        self
    }

    /// Sets its basis.
    #[must_use]
    pub const fn with_basis(mut self, basis: ErrorBasis) -> Self {
        self.basis = Some(basis);
        self
    }

    /// Whether the provider has no such model, or has retired it: it rejects every order for it. Its
    /// code says so, or else the beginning of its message, which no order can shape.
    pub fn rejects_model(&self) -> bool {
        const CODES: [&str; 8] = [
            "model_not_found",
            "model_not_available",
            "model_not_supported",
            "model_deprecated",
            "invalid_model",
            "unknown_model",
            "unsupported_model",
            "no_such_model",
        ];
        const ENDS: [&str; 4] = [
            "does not exist",
            "not found",
            "is no longer available",
            "was retired",
        ];
        let code = self.code.as_deref().unwrap_or_default();
        let message = self.message.to_lowercase();
        let mut names = ["model ", "the model ", "this model "].into_iter();
        let is_about_model = names.any(|name| message.starts_with(name));
        self.class == ErrorClass::Rejected
            && (CODES.iter().any(|known| code.eq_ignore_ascii_case(known))
                || (is_about_model && ENDS.iter().any(|end| message.contains(end))))
    }

    /// Whether this error of a poll ends the job.
    pub fn ends_job(&self) -> bool {
        self.class.ends_job() && self.basis != Some(ErrorBasis::Answer)
    }

    /// Whether this error of a poll ends the job if it persists.
    pub fn may_end_job(&self) -> bool {
        self.class == ErrorClass::Missing || (self.class.ends_job() && !self.ends_job())
    }

    /// The answer is not what the protocol says: it is unknown what happened.
    pub fn unreadable(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Unclear, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_model_is_told_from_a_rejected_order() {
        let rejects_model = |class, code: &str, message: &str| {
            let error = ProviderError::new(class, message).with_code(code);
            error.rejects_model()
        };
        let rejected = ErrorClass::Rejected;
        assert!(rejects_model(rejected, "model_not_found", "No."));
        assert!(rejects_model(rejected, "Invalid_Model", "No."));
        assert!(rejects_model(
            rejected,
            "",
            "The model sora-2 does not exist"
        ));
        assert!(!rejects_model(
            rejected,
            "invalid_size",
            "The model takes no such size."
        ));
        assert!(!rejects_model(
            rejected,
            "",
            "The prompt names a file that does not exist."
        ));
        assert!(!rejects_model(ErrorClass::Failed, "model_not_found", "No."));
    }
}
