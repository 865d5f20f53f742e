//! Values of a direction: camera moves, shapes, looks, weather, fades, easing.

/// Moves that happen together; at most one per axis, never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShotLeg {
    /// The moves, in the order in which the prompt names them.
    pub moves: Vec<CameraMove>,
}

/// One camera move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CameraMove {
    /// Which move.
    pub kind: MoveKind,
    /// The speed of the move.
    pub pace: MovePace,
}

/// The camera moves that are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MoveKind {
    /// The camera travels towards the scene (dolly in, push in).
    PushIn,
    /// The camera travels away (dolly out, pull back).
    PullOut,
    /// The lens closes in.
    ZoomIn,
    /// The lens widens.
    ZoomOut,
    /// The camera turns to its left.
    PanLeft,
    /// The camera turns to its right.
    PanRight,
    /// The camera looks up.
    TiltUp,
    /// The camera looks down.
    TiltDown,
    TruckLeft,
    TruckRight,
    /// The camera rises.
    PedestalUp,
    /// The camera sinks.
    PedestalDown,
    /// The camera rolls clockwise about its line of sight.
    RollClockwise,
    /// The camera rolls counterclockwise.
    RollCounterclockwise,
    /// The camera circles the scene to the left.
    OrbitLeft,
    /// The camera circles the scene to the right.
    OrbitRight,
    /// The camera is held by hand.
    Handheld,
    /// The camera does not move.
    Static,
}

/// What a move changes. Two moves on one axis can't happen together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MoveAxis {
    Depth,
    Side,
    Height,
    Roll,
    Orbit,
    Shake,
    Nothing,
}

/// How fast a move is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MovePace {
    /// Barely noticeable.
    Slow,
    /// Clearly noticeable.
    #[default]
    Medium,
    /// Quick.
    Fast,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameShape {
    /// 16:9.
    Wide,
    /// 9:16.
    Vertical,
    /// 1:1.
    Square,
    /// 4:3.
    Classic,
    /// 3:4.
    ClassicVertical,
    /// 21:9.
    Cinema,
}

/// A treatment of the finished picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FilmLook {
    /// Greys only.
    BlackAndWhite,
    /// Browned greys.
    Sepia,
    /// The faded colours of an old print.
    Vintage,
    /// Shifts colours towards orange.
    Warm,
    /// Shifts colours towards blue.
    Cold,
    /// Deeper shadows, brighter lights.
    HighContrast,
    /// Darker corners.
    Vignette,
    /// The grain of film.
    FilmGrain,
    /// A day that looks like a moonlit night.
    DayForNight,
}

/// What falls or floats in front of the scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ParticleKind {
    /// Streaks of rain.
    Rain,
    /// Flakes of snow.
    Snow,
    /// Drifting fog.
    Fog,
    /// Motes of dust in the light.
    Dust,
    /// Glowing embers that rise.
    Embers,
    /// Stars that twinkle.
    Stars,
    /// Coloured paper.
    Confetti,
}

/// Density of the particles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParticleAmount {
    Light,
    /// Clearly visible.
    #[default]
    Usual,
    /// Dense.
    Heavy,
}

/// Weather in the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeatherEffect {
    /// Kind of particles.
    pub particles: ParticleKind,
    /// Density.
    pub amount: ParticleAmount,
}

/// What a fade comes from or goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FadeColour {
    Black,
    /// White.
    White,
}

/// How a move starts and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Easing {
    /// Softly at both ends.
    #[default]
    Smooth,
    /// At one speed.
    Linear,
    /// Accelerating to the end.
    In,
    /// Decelerating to rest.
    Out,
}

impl CameraMove {
    pub(crate) fn words(self) -> String {
        let pace = match (self.kind, self.pace) {
            // A still camera has no pace.
            (MoveKind::Static, _) | (_, MovePace::Medium) => "",
            (_, MovePace::Slow) => "slow ",
            (_, MovePace::Fast) => "fast ",
        };
        format!("{pace}{}", self.kind.words())
    }
}

impl MoveKind {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::PushIn => "push in",
            Self::PullOut => "pull out",
            Self::ZoomIn => "zoom in",
            Self::ZoomOut => "zoom out",
            Self::PanLeft => "pan left",
            Self::PanRight => "pan right",
            Self::TiltUp => "tilt up",
            Self::TiltDown => "tilt down",
            Self::TruckLeft => "truck left",
            Self::TruckRight => "truck right",
            Self::PedestalUp => "pedestal up",
            Self::PedestalDown => "pedestal down",
            Self::RollClockwise => "roll clockwise",
            Self::RollCounterclockwise => "roll counterclockwise",
            Self::OrbitLeft => "orbit left",
            Self::OrbitRight => "orbit right",
            Self::Handheld => "handheld camera",
            Self::Static => "static camera",
        }
    }

    pub(crate) fn axis(self) -> MoveAxis {
        match self {
            Self::PushIn | Self::PullOut | Self::ZoomIn | Self::ZoomOut => MoveAxis::Depth,
            // An axis is what changes on the screen: a pan and a truck both shift the picture
            // sideways.
            Self::PanLeft | Self::PanRight | Self::TruckLeft | Self::TruckRight => MoveAxis::Side,
            Self::TiltUp | Self::TiltDown | Self::PedestalUp | Self::PedestalDown => {
                MoveAxis::Height
            }
            Self::RollClockwise | Self::RollCounterclockwise => MoveAxis::Roll,
            Self::OrbitLeft | Self::OrbitRight => MoveAxis::Orbit,
            Self::Handheld => MoveAxis::Shake,
            Self::Static => MoveAxis::Nothing,
        }
    }
}

impl FrameShape {
    /// The shape nearest to a picture of this size.
    pub fn nearest((width, height): (u32, u32)) -> Self {
        // Logarithms make 2:1 and 1:2 equally far from a square.
        let target = (f64::from(width.max(1)) / f64::from(height.max(1))).ln();
        let mut best = Self::Wide;
        for &shape in Self::ALL {
            if (shape.ratio().ln() - target).abs() < (best.ratio().ln() - target).abs() {
                best = shape;
            }
        }
        best
    }

    fn ratio(self) -> f64 {
        match self {
            Self::Wide => 16.0 / 9.0,
            Self::Vertical => 9.0 / 16.0,
            Self::Square => 1.0,
            Self::Classic => 4.0 / 3.0,
            Self::ClassicVertical => 3.0 / 4.0,
            Self::Cinema => 21.0 / 9.0,
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Wide => "landscape 16:9",
            Self::Vertical => "vertical 9:16",
            Self::Square => "square 1:1",
            Self::Classic => "landscape 4:3",
            Self::ClassicVertical => "vertical 3:4",
            Self::Cinema => "cinematic 21:9",
        }
    }

    const ALL: &[Self] = &[
        Self::Wide,
        Self::Vertical,
        Self::Square,
        Self::Classic,
        Self::ClassicVertical,
        Self::Cinema,
    ];
}
