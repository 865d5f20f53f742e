//! What a provider's status words mean.

use crate::error::Class;

/// What a word says of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It waits.
    Queued,
    /// It is worked on.
    Running,
    /// It is done.
    Done,
    /// It ended otherwise.
    Ended(Class),
}

impl Status {
    /// It failed, for a reason that the answer tells.
    pub const FAILED: Self = Self::Ended(Class::Failed);
    /// The provider no longer works on it.
    pub const LOST: Self = Self::Ended(Class::Lost);

    /// Whether it goes on.
    pub const fn goes_on(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }
}

/// What a word means by a list of them; `None` where no document has it.
pub fn meaning<'w>(
    words: impl IntoIterator<Item = (&'w str, Status)>,
    word: &str,
) -> Option<Status> {
    let mut words = words.into_iter();
    words
        .find(|(known, _)| *known == word)
        .map(|(_, status)| status)
}
