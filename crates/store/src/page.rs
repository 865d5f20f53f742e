//! Pages of lists.

/// Which page of a list to read.
#[derive(Debug, Clone, Copy)]
pub struct PageQuery<Id> {
    pub after: Option<Id>,
    /// Maximum number of rows.
    pub limit: u32,
    /// Oldest first instead of newest first.
    pub ascending: bool,
}

impl<Id> PageQuery<Id> {
    /// The same page plus one row, to see whether another page follows.
    #[must_use]
    pub fn with_one_more(self) -> Self {
        Self {
            limit: self.limit + 1,
            ..self
        }
    }
}

/// Removes the extra row of [`PageQuery::with_one_more`], if it is there; returns whether it was.
pub fn truncate_to_limit<T>(rows: &mut Vec<T>, limit: u32) -> bool {
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    has_more
}
