//! Errors of providers, in the classes that decide what happens next.

use std::time::Duration;

/// What an error body says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorDescription {
    /// The provider's own code.
    pub code: Option<String>,
    /// Its sentence.
    pub message: Option<String>,
}

/// What an error means for the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// Too many, too fast. Nothing was taken; the same call can succeed later.
    RateLimited,
    /// The provider is not there, or says that it cannot now. Of an order that
    /// was sent it proves nothing, but where the protocol's table says so
    /// ([`crate::RefusalRule`]).
    Unavailable,
    /// Nobody can tell whether the provider took the order: the answer was
    /// lost, broke off, or says something that no document explains.
    Unclear,
    /// The credential is wrong, or may not do this. Nothing was taken; the
    /// operator must act.
    Credentials,
    /// The account at the provider has no money or no quota left. Nothing was
    /// taken; a wait does not mend it.
    Account,
    /// The provider calls the request wrong. Nothing was taken; it would say so again.
    Rejected,
    /// The provider's rules forbid this content.
    Refused,
    /// The provider took the order and failed at it.
    Failed,
    /// The provider took the order and failed at what it says, such as a field
    /// that its model does not know: the same order would fail again.
    Unfit,
    /// The provider no longer works on the job, or let it expire.
    Lost,
    /// The provider says that it knows no such job. One machine of several may
    /// say so of a job that is there, so only a provider that keeps saying it
    /// is believed ([`crate::driver::schedule::EndDoubt`]).
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
            Self::Missing => "missing",
        }
    }

    /// Whether a call that changes nothing at the provider is worth repeating.
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::RateLimited | Self::Unavailable | Self::Unclear | Self::Missing
        )
    }

    /// Whether, as the error of a poll, it speaks of the end of the job. Nothing
    /// else that is wrong with asking ends a job that is paid for.
    pub const fn ends_job(self) -> bool {
        matches!(
            self,
            Self::Failed | Self::Unfit | Self::Refused | Self::Lost
        )
    }

    /// Whether it says of an order that the provider did not take it. Whether
    /// that is proved, the protocol's table tells ([`crate::RefusalRule`]).
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

    /// Whether another route may fare better with an order that was refused so.
    pub const fn allows_fail_over(self) -> bool {
        matches!(
            self,
            Self::RateLimited | Self::Unavailable | Self::Credentials | Self::Account
        )
    }
}

/// What it rests on that a job has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorBasis {
    /// The job's own record says so.
    Record,
    /// An answer in place of the record, such as an error by its status. Anything
    /// on the way to the provider may have said it, or the provider for this
    /// moment only, so it is believed when it is said for a while
    /// ([`crate::driver::schedule::EndDoubt`]).
    Answer,
}

/// A provider's error. The message is the provider's own and may hold
/// addresses and keys until the driver has cut them out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", class.name())]
pub struct ProviderError {
    /// What it means.
    pub class: ErrorClass,
    /// The provider's own code, where it gives one.
    pub code: Option<String>,
    /// A sentence.
    pub message: String,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// For one that ends a job. Where the adapter does not say, the status of the
    /// answer tells: a record comes with a success.
    pub basis: Option<ErrorBasis>,
}

impl ProviderError {
    /// An error with a sentence.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            code: None,
            message: message.into(),
            retry_after: None,
            basis: None,
        }
    }

    /// The error of a job that ended badly, in the provider's words.
    pub fn from_job(class: ErrorClass, said: ErrorDescription) -> Self {
        Self {
            class,
            code: said.code,
            message: said
                .message
                .unwrap_or_else(|| "the provider failed to process the job".into()),
            retry_after: None,
            basis: None,
        }
    }

    /// Names the provider's own code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Sets another class, for what a status alone cannot tell.
    #[must_use]
    pub const fn with_class(mut self, class: ErrorClass) -> Self {
        self.class = class;
        self
    }

    /// Says what it rests on.
    #[must_use]
    pub const fn with_basis(mut self, basis: ErrorBasis) -> Self {
        self.basis = Some(basis);
        self
    }

    /// Whether, as the error of a poll, it is the end of the job.
    pub fn ends_job(&self) -> bool {
        self.class.ends_job() && self.basis != Some(ErrorBasis::Answer)
    }

    /// Whether, as the error of a poll, it is the end of the job if it is said
    /// again for a while.
    pub fn may_end_job(&self) -> bool {
        self.class == ErrorClass::Missing || (self.class.ends_job() && !self.ends_job())
    }

    /// The answer is not what the protocol says: nobody can tell what happened.
    pub fn unreadable(what: impl Into<String>) -> Self {
        Self::new(ErrorClass::Unclear, what)
    }
}
