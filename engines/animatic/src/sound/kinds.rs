//! The kinds of ambience.

/// A kind of ambience. Several may sound together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Ambience {
    /// Gusts over open land.
    Wind,
    /// Steady rain on leaves and stone.
    Rain,
    /// Thunder, rolling in every few seconds.
    Thunder,
    /// Waves that break and run back.
    Sea,
    /// A brook.
    Stream,
    /// Leaves and songbirds.
    Birds,
    /// Crickets of a warm night.
    Crickets,
    /// A crackling fire.
    Fire,
    /// Distant traffic.
    City,
    /// The faint background of a quiet room.
    RoomTone,
}

impl Ambience {
    /// Every kind.
    pub const ALL: &[Self] = &[
        Self::Wind,
        Self::Rain,
        Self::Thunder,
        Self::Sea,
        Self::Stream,
        Self::Birds,
        Self::Crickets,
        Self::Fire,
        Self::City,
        Self::RoomTone,
    ];

    /// The kind's name in a sentence or on a command line: `wind`, `room tone`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wind => "wind",
            Self::Rain => "rain",
            Self::Thunder => "thunder",
            Self::Sea => "sea",
            Self::Stream => "stream",
            Self::Birds => "birds",
            Self::Crickets => "crickets",
            Self::Fire => "fire",
            Self::City => "city",
            Self::RoomTone => "room tone",
        }
    }

    /// The kind of that [`Ambience::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}
