//! The time of day and the sky condition of a scene.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TimeOfDay {
    Dawn,
    Day,
    Sunset,
    Night,
}

/// The weather that is visible in the sky.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SkyCondition {
    Fair,
    Cloudy,
    /// Dark clouds that cover the whole sky.
    Stormy,
    Foggy,
}
