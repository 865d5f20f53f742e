//! Progress and cancellation of a separation.

/// Progress and cancellation of a separation. The default reports nothing and never cancels.
pub struct SeparationControl<'a> {
    /// Receives the finished part, 0 to 1; never decreasing, and 1 at the end.
    pub progress: &'a mut dyn FnMut(f32),
    /// Called every few milliseconds of work, from several threads; `true` cancels.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl Default for SeparationControl<'_> {
    fn default() -> Self {
        // A closure without captures has no size, so this box allocates nothing.
        Self {
            progress: Box::leak(Box::new(|_| ())),
            cancelled: &|| false,
        }
    }
}
