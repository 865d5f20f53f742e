//! Progress and cancellation of a separation.

/// Progress and cancellation of a separation. The default reports nothing and never cancels.
pub struct SeparationControl<'a> {
    /// Receives the finished part, 0 to 1; never decreasing, and 1 at the end.
    pub progress: &'a mut dyn FnMut(f32),
    /// Called often during the work, from several threads; `true` cancels. While a model runs, a
    /// thread calls it every 20 ms.
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
