//! How the caller of a separation follows and stops it.

/// The caller's two handles on a running separation. The default shows nothing and never stops.
pub struct Control<'a> {
    /// Told the finished part, from 0 to 1; it only grows, and 1 comes last.
    pub progress: &'a mut dyn FnMut(f32),
    /// Asked every few milliseconds of work, from several threads; `true` ends the run.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl Default for Control<'_> {
    fn default() -> Self {
        // A closure without captures has no size, so that this box allocates nothing.
        Self {
            progress: Box::leak(Box::new(|_| ())),
            cancelled: &|| false,
        }
    }
}
