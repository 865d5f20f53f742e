//! Limits that apply to prompts and options alike.

/// The shortest video, in seconds.
pub const MIN_SECONDS: f64 = 1.0;

/// The longest video, in seconds.
pub const MAX_SECONDS: f64 = 20.0;

/// Lines of title that are shown.
pub(crate) const MAX_TITLES: usize = 3;
