//! The hour and the air of a scene.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hour {
    Dawn,
    Day,
    Sunset,
    Night,
}

/// What hangs in the air.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    Fair,
    Cloudy,
    Foggy,
}
