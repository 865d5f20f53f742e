//! Moves: how far each takes the camera, by pace and length.

use super::pose::{CameraPose, PlateGeometry};
use crate::direction::{CameraMove, MoveAxis, MoveKind, MovePace, ShotLeg};

/// Where a leg takes the camera.
pub(super) fn leg_end(
    from: CameraPose,
    leg: &ShotLeg,
    seconds: f64,
    geometry: &PlateGeometry,
) -> CameraPose {
    let mut end = from;
    let slack = geometry.slack();
    for CameraMove { kind, pace } in &leg.moves {
        // Slides up and down are in frame heights, but poses count in frame widths, hence the
        // factor `aspect`.
        let amount = match kind.axis() {
            MoveAxis::Depth => DEPTH.amount(*pace, seconds),
            MoveAxis::Side => extend_to_slack(SLIDE.amount(*pace, seconds), slack.0),
            MoveAxis::Height => {
                extend_to_slack(SLIDE.amount(*pace, seconds), slack.1) * geometry.aspect
            }
            MoveAxis::Roll => ROLL.amount(*pace, seconds).to_radians(),
            MoveAxis::Orbit => ORBIT.amount(*pace, seconds).to_radians(),
            MoveAxis::Shake | MoveAxis::Nothing => 0.0,
        };
        // A pan or tilt turns the camera, so it shifts all layers alike (`x`, `y`). A truck or
        // pedestal carries it, so near layers shift more (`travel`).
        match kind {
            MoveKind::PushIn => end.dolly += amount,
            MoveKind::PullOut => end.dolly -= amount,
            MoveKind::ZoomIn => end.zoom += amount,
            MoveKind::ZoomOut => end.zoom -= amount,
            MoveKind::PanLeft => end.x -= amount,
            MoveKind::PanRight => end.x += amount,
            MoveKind::TruckLeft => end.travel.0 -= amount,
            MoveKind::TruckRight => end.travel.0 += amount,
            MoveKind::TiltUp => end.y -= amount,
            MoveKind::TiltDown => end.y += amount,
            MoveKind::PedestalUp => end.travel.1 -= amount,
            MoveKind::PedestalDown => end.travel.1 += amount,
            MoveKind::RollClockwise => end.roll += amount,
            MoveKind::RollCounterclockwise => end.roll -= amount,
            MoveKind::OrbitLeft => end.yaw -= amount,
            MoveKind::OrbitRight => end.yaw += amount,
            MoveKind::Handheld | MoveKind::Static => {}
        }
    }
    end
}

/// Lets a move go up to twice as far if the picture extends beyond the frame that way.
fn extend_to_slack(amount: f64, slack: f64) -> f64 {
    amount.max(slack.min(amount * 2.0))
}

/// The size of a move: a speed per second for each pace, within bounds that keep a short shot's
/// move visible and a long one's from tearing through the picture.
struct MoveExtent {
    speed: [f64; 3],
    min: [f64; 3],
    max: [f64; 3],
}

impl MoveExtent {
    fn amount(&self, pace: MovePace, seconds: f64) -> f64 {
        let i = match pace {
            MovePace::Slow => 0,
            MovePace::Medium => 1,
            MovePace::Fast => 2,
        };
        (self.speed[i] * seconds).clamp(self.min[i], self.max[i])
    }
}

/// Magnification, as its logarithm.
const DEPTH: MoveExtent = MoveExtent {
    speed: [0.024, 0.05, 0.13],
    min: [0.05, 0.12, 0.3],
    max: [0.2, 0.45, 0.8],
};

/// Sideways and up and down, in frame widths and heights.
const SLIDE: MoveExtent = MoveExtent {
    speed: [0.025, 0.05, 0.13],
    min: [0.05, 0.1, 0.25],
    max: [0.2, 0.4, 0.7],
};

/// Degrees of roll.
const ROLL: MoveExtent = MoveExtent {
    speed: [1.2, 2.5, 6.0],
    min: [3.0, 6.0, 12.0],
    max: [8.0, 15.0, 30.0],
};

/// Degrees of orbit.
const ORBIT: MoveExtent = MoveExtent {
    speed: [2.2, 4.5, 9.0],
    min: [6.0, 12.0, 20.0],
    max: [14.0, 26.0, 40.0],
};
