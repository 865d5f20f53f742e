//! The time of day and the sky condition of a scene.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeOfDay {
    Dawn,
    Day,
    Sunset,
    Night,
}

/// The weather that is visible in the sky.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SkyCondition {
    Fair,
    Cloudy,
    Foggy,
}
