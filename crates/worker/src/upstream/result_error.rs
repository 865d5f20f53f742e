//! Reasons why the results of a job cannot be stored, and the files that are to blame.

use mediagate_core::domain::provenance::marking::MarkError;
use mediagate_model::error::Error;

/// Why a result could not be stored.
#[derive(Debug)]
pub(super) enum ResultError {
    /// Its host did not answer, or cannot serve it now.
    Unavailable(String),
    /// There is nothing at its URL, or the URL has expired: its host may get it late, and polling
    /// again may return a new URL.
    Missing(String),
    /// It was not downloaded completely; polling again may return a new URL.
    Incomplete(String),
    /// The downloaded file is broken; another download may be intact.
    Broken(String),
    /// It is too large or not what was ordered, and another download would not change that.
    Useless(String),
    /// Its URL is forbidden for downloads and for callers.
    ForbiddenAddress(String),
    /// The database or the files failed.
    Internal(Error),
}

impl From<MarkError> for ResultError {
    fn from(error: MarkError) -> Self {
        match error {
            MarkError::Internal(error) => Self::Internal(error),
            MarkError::NoChild(error) => Self::Internal(error.into()),
            // The signing service may answer later.
            MarkError::NotSigned(reason) => {
                Self::Unavailable(format!("the result was not signed: {reason}"))
            }
        }
    }
}

impl From<Error> for ResultError {
    fn from(error: Error) -> Self {
        Self::Internal(error)
    }
}

/// Why the results of a job were not stored.
pub(super) struct StoreFailure {
    pub(super) error: ResultError,
    /// The files to blame, by their places in the job's outputs. The others may be stored without
    /// them. Empty if the error concerns the whole result.
    pub(super) files: Vec<usize>,
}

impl StoreFailure {
    /// An error of these files.
    pub(super) const fn of_files(error: ResultError, files: Vec<usize>) -> Self {
        Self { error, files }
    }
}

impl From<ResultError> for StoreFailure {
    fn from(error: ResultError) -> Self {
        Self::of_files(error, Vec::new())
    }
}

impl From<MarkError> for StoreFailure {
    fn from(error: MarkError) -> Self {
        ResultError::from(error).into()
    }
}

impl From<Error> for StoreFailure {
    fn from(error: Error) -> Self {
        ResultError::from(error).into()
    }
}
