//! Status words of providers, and their meaning.

use crate::error::ErrorClass;

/// The meaning of a status word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    /// The job waits.
    Queued,
    /// It is running.
    Running,
    /// The job is done.
    Done,
    /// The job ended in another way.
    Ended(ErrorClass),
}

impl JobStatus {
    /// It failed, for a reason in the answer.
    pub const FAILED: Self = Self::Ended(ErrorClass::Failed);
    /// The provider no longer works on it.
    pub const LOST: Self = Self::Ended(ErrorClass::Lost);

    /// Whether the job has not ended.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }
}

/// The meaning of a word according to a list; `None` if it is undocumented.
pub fn meaning<'w>(
    words: impl IntoIterator<Item = (&'w str, JobStatus)>,
    word: &str,
) -> Option<JobStatus> {
    let mut words = words.into_iter();
    words
        .find(|(status_word, _)| *status_word == word)
        .map(|(_, status)| status)
}
