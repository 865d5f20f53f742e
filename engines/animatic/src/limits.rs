//! Limits that several modules share.

/// The shortest video, in seconds.
pub const MIN_SECONDS: f64 = 1.0;

/// The longest video, in seconds.
pub const MAX_SECONDS: f64 = 20.0;

/// How many of a prompt's titles are shown, each of one or more lines.
pub(crate) const MAX_TITLES: usize = 3;
