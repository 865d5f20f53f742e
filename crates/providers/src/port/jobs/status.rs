//! Status words of providers, and their meaning.

use crate::error::ErrorClass;

/// What a word says of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    /// It waits.
    Queued,
    /// It is worked on.
    Running,
    /// It is done.
    Done,
    /// It ended otherwise.
    Ended(ErrorClass),
}

impl JobStatus {
    /// It failed, for a reason that the answer tells.
    pub const FAILED: Self = Self::Ended(ErrorClass::Failed);
    /// The provider no longer works on it.
    pub const LOST: Self = Self::Ended(ErrorClass::Lost);

    /// Whether it goes on.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }
}

/// What a word means by a list of them; `None` where no document has it.
pub fn meaning<'w>(
    words: impl IntoIterator<Item = (&'w str, JobStatus)>,
    word: &str,
) -> Option<JobStatus> {
    let mut words = words.into_iter();
    words
        .find(|(known, _)| *known == word)
        .map(|(_, status)| status)
}
