//! The camera: turns direction into one view of the plate per frame.
//!
//! The plate is the picture as an endless-distance backdrop. A view says which part of it fills
//! the frame. Every quantity moves on a curve whose speed and acceleration are continuous, so a
//! move starts and ends softly and no frame jumps. The whole path is laid out first and then
//! scaled and placed as one piece until every view lies within the plate; that is why a pan over
//! a picture of the frame's own shape is seen through a slightly closer lens.
//!
//! It knows nothing of pixels' values. Angles are radians, positive is clockwise on the screen.

use crate::direction::{Axis, Direction, Leg, Move, MoveKind, Pace};
use crate::scene::noise;

/// What fills the frame, in plate pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct View {
    /// The plate point on the camera's axis.
    pub(crate) centre: (f64, f64),
    /// The plate pixels across the frame's width, where the plate is met head-on.
    pub(crate) width: f64,
    /// Rotation about the line of sight.
    pub(crate) roll: f64,
    /// How far the camera has walked around the plate's centre; 0 is head-on.
    pub(crate) yaw: f64,
}

impl View {
    /// Whether the view is an upright rectangle of the plate.
    pub(crate) fn is_upright(&self) -> bool {
        self.roll == 0.0 && self.yaw == 0.0
    }

    /// What carries points of the frame to points of the plate.
    pub(crate) fn lens(&self) -> Lens {
        Lens {
            centre: self.centre,
            width: self.width,
            plane: Plane::new(self.roll, self.yaw),
        }
    }
}

/// A view made ready for many points.
pub(crate) struct Lens {
    centre: (f64, f64),
    width: f64,
    plane: Plane,
}

impl Lens {
    /// The plate point seen at `(u, v)` of the frame: both in frame widths from its centre.
    #[inline]
    pub(crate) fn project(&self, u: f64, v: f64) -> (f64, f64) {
        let (x, y) = self.plane.meet(u, v);
        (
            self.centre.0 + x * self.width,
            self.centre.1 + y * self.width,
        )
    }
}

/// Plans a shot: one view for each frame.
pub(crate) fn plan(
    direction: &Direction,
    plate: (u32, u32),
    frame: (u32, u32),
    timing: Timing,
    seed: u64,
) -> Vec<View> {
    let room = Room::new(plate, frame);
    let poses = poses(direction, &room, timing, seed);
    place(&poses, &room)
}

/// How many frames, and how fast they follow each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) frames: u32,
    pub(crate) fps: u32,
}

/// The camera's state, relative to the shot's base window: lengths in widths of that window.
#[derive(Debug, Clone, Copy, Default)]
struct Pose {
    x: f64,
    y: f64,
    /// Natural logarithm of the magnification: equal steps look equally fast.
    zoom: f64,
    roll: f64,
    yaw: f64,
}

/// The plate and the frame, measured in widths of the largest window that fits.
struct Room {
    /// Plate pixels across the largest window of the frame's shape.
    cover: f64,
    plate: (f64, f64),
    /// Frame height over frame width.
    tall: f64,
}

impl Room {
    fn new(plate: (u32, u32), frame: (u32, u32)) -> Self {
        let plate = (f64::from(plate.0), f64::from(plate.1));
        let tall = f64::from(frame.1) / f64::from(frame.0);
        let cover = plate.0.min(plate.1 / tall);
        Self { cover, plate, tall }
    }

    /// How far the largest window can slide, in its own widths and heights.
    fn slack(&self) -> (f64, f64) {
        (
            self.plate.0 / self.cover - 1.0,
            self.plate.1 / (self.cover * self.tall) - 1.0,
        )
    }
}

fn poses(direction: &Direction, room: &Room, timing: Timing, seed: u64) -> Vec<Pose> {
    let legs = &direction.legs;
    let total = f64::from(timing.frames) / f64::from(timing.fps);
    #[expect(clippy::cast_precision_loss, reason = "a handful of legs")]
    let leg_share = 1.0 / legs.len() as f64;
    // Where each leg ends; the first starts at rest in the origin.
    let mut ends = vec![Pose::default()];
    for leg in legs {
        let from = ends.last().copied().unwrap_or_default();
        ends.push(moved(from, leg, total * leg_share, room));
    }
    let shake = shake_strength(legs);
    let last = f64::from(timing.frames.saturating_sub(1).max(1));
    let mut poses: Vec<Pose> = (0..timing.frames)
        .map(|frame| {
            let at = f64::from(frame) / last / leg_share;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 0 and the number of legs"
            )]
            let leg = (at as usize).min(legs.len() - 1);
            #[expect(clippy::cast_precision_loss, reason = "a handful of legs")]
            let within = ease(at - leg as f64);
            let pose = between(&ends[leg], &ends[leg + 1], within);
            shaken(pose, shake, f64::from(frame) / f64::from(timing.fps), seed)
        })
        .collect();
    // An orbit swings through the head-on view in its middle, where the picture is at its best.
    let (low, high) = range(poses.iter().map(|p| p.yaw));
    for pose in &mut poses {
        pose.yaw -= f64::midpoint(low, high);
    }
    poses
}

/// Where a leg takes the camera.
fn moved(from: Pose, leg: &Leg, seconds: f64, room: &Room) -> Pose {
    let mut to = from;
    let slack = room.slack();
    for Move { kind, pace } in &leg.moves {
        let amount = match kind.axis() {
            Axis::Depth => DEPTH.amount(*pace, seconds),
            Axis::Side => stretched(SLIDE.amount(*pace, seconds), slack.0),
            Axis::Height => stretched(SLIDE.amount(*pace, seconds), slack.1) * room.tall,
            Axis::Roll => ROLL.amount(*pace, seconds).to_radians(),
            Axis::Orbit => ORBIT.amount(*pace, seconds).to_radians(),
            Axis::Shake | Axis::Nothing => 0.0,
        };
        match kind {
            MoveKind::PushIn | MoveKind::ZoomIn => to.zoom += amount,
            MoveKind::PullOut | MoveKind::ZoomOut => to.zoom -= amount,
            MoveKind::PanLeft | MoveKind::TruckLeft => to.x -= amount,
            MoveKind::PanRight | MoveKind::TruckRight => to.x += amount,
            MoveKind::TiltUp | MoveKind::PedestalUp => to.y -= amount,
            MoveKind::TiltDown | MoveKind::PedestalDown => to.y += amount,
            MoveKind::RollClockwise => to.roll += amount,
            MoveKind::RollCounterclockwise => to.roll -= amount,
            MoveKind::OrbitLeft => to.yaw -= amount,
            MoveKind::OrbitRight => to.yaw += amount,
            MoveKind::Handheld | MoveKind::Static => {}
        }
    }
    to
}

/// A picture wider than the frame has more to show: go up to twice as far where it costs nothing.
fn stretched(amount: f64, slack: f64) -> f64 {
    amount.max(slack.min(amount * 2.0))
}

/// The size of a move: a speed per second for each pace, within bounds that keep a short shot's
/// move visible and a long one's from tearing through the picture.
struct Reach {
    speed: [f64; 3],
    least: [f64; 3],
    most: [f64; 3],
}

impl Reach {
    fn amount(&self, pace: Pace, seconds: f64) -> f64 {
        let i = match pace {
            Pace::Slow => 0,
            Pace::Medium => 1,
            Pace::Fast => 2,
        };
        (self.speed[i] * seconds).clamp(self.least[i], self.most[i])
    }
}

/// Magnification, as its logarithm.
const DEPTH: Reach = Reach {
    speed: [0.024, 0.05, 0.13],
    least: [0.05, 0.12, 0.3],
    most: [0.2, 0.45, 0.8],
};

/// Sideways and up and down, in frame widths and heights.
const SLIDE: Reach = Reach {
    speed: [0.025, 0.05, 0.13],
    least: [0.05, 0.1, 0.25],
    most: [0.2, 0.4, 0.7],
};

/// Degrees of roll.
const ROLL: Reach = Reach {
    speed: [1.2, 2.5, 6.0],
    least: [3.0, 6.0, 12.0],
    most: [8.0, 15.0, 30.0],
};

/// Degrees of orbit.
const ORBIT: Reach = Reach {
    speed: [2.2, 4.5, 9.0],
    least: [6.0, 12.0, 20.0],
    most: [14.0, 26.0, 40.0],
};

fn between(a: &Pose, b: &Pose, t: f64) -> Pose {
    let mix = |a: f64, b: f64| a + (b - a) * t;
    Pose {
        x: mix(a.x, b.x),
        y: mix(a.y, b.y),
        zoom: mix(a.zoom, b.zoom),
        roll: mix(a.roll, b.roll),
        yaw: mix(a.yaw, b.yaw),
    }
}

/// Progress of a move at time `t` of it, both 0 to 1: speed rises smoothly over the first part,
/// holds, and falls the same way. A plain S-curve would rush through the middle.
fn ease(t: f64) -> f64 {
    const RAMP: f64 = 0.3;
    let t = t.clamp(0.0, 1.0);
    // The integral of smoothstep(t / RAMP) over the ramp.
    let risen = |t: f64| {
        let s = t / RAMP;
        RAMP * (s.powi(3) - s.powi(4) / 2.0)
    };
    let way = if t < RAMP {
        risen(t)
    } else if t <= 1.0 - RAMP {
        RAMP / 2.0 + (t - RAMP)
    } else {
        1.0 - RAMP - risen(1.0 - t)
    };
    way / (1.0 - RAMP)
}

fn shake_strength(legs: &[Leg]) -> f64 {
    let held = legs
        .iter()
        .flat_map(|leg| &leg.moves)
        .find(|m| m.kind == MoveKind::Handheld);
    match held.map(|m| m.pace) {
        None => 0.0,
        Some(Pace::Slow) => 0.6,
        Some(Pace::Medium) => 1.0,
        Some(Pace::Fast) => 1.7,
    }
}

/// Adds the sway of a hand: slow drift with a little tremor on top, in place and in roll.
fn shaken(pose: Pose, strength: f64, seconds: f64, seed: u64) -> Pose {
    if strength == 0.0 {
        return pose;
    }
    let sway = |lane: u64| {
        let slow = noise::wave(seconds * 0.8, seed.wrapping_add(lane));
        let quick = noise::wave(seconds * 2.6, seed.wrapping_add(lane + 100));
        strength * (slow + 0.28 * quick)
    };
    Pose {
        x: pose.x + 0.011 * sway(1),
        y: pose.y + 0.009 * sway(2),
        roll: pose.roll + 0.011 * sway(3),
        ..pose
    }
}

/// Fits the path of poses into the plate as one piece.
fn place(poses: &[Pose], room: &Room) -> Vec<View> {
    let corners = || {
        poses.iter().flat_map(|pose| {
            let half = (0.5, 0.5 * room.tall);
            let plane = Plane::new(pose.roll, pose.yaw);
            [(-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0), (1.0, 1.0)].map(move |(sx, sy)| {
                let (x, y) = plane.meet(sx * half.0, sy * half.1);
                let scale = (-pose.zoom).exp();
                (pose.x + x * scale, pose.y + y * scale)
            })
        })
    };
    let (left, right) = range(corners().map(|c| c.0));
    let (top, bottom) = range(corners().map(|c| c.1));
    // The largest base window with which the whole path stays inside. A hair less than exact:
    // rounding must not put a crop a billionth of a pixel outside the plate.
    let fit = (room.plate.0 / (right - left)).min(room.plate.1 / (bottom - top));
    let base = fit.min(room.cover) * (1.0 - 1e-9);
    let spare = (
        room.plate.0 - base * (right - left),
        room.plate.1 - base * (bottom - top),
    );
    // Of a picture much taller than the frame, faces and skylines are above the middle.
    let above = if spare.1 > 0.15 * room.plate.1 {
        0.38
    } else {
        0.5
    };
    let origin = (spare.0 * 0.5 - base * left, spare.1 * above - base * top);
    poses
        .iter()
        .map(|pose| View {
            centre: (origin.0 + base * pose.x, origin.1 + base * pose.y),
            width: base * (-pose.zoom).exp(),
            roll: pose.roll,
            yaw: pose.yaw,
        })
        .collect()
}

/// The plate as the camera meets it.
///
/// The camera stands `DISTANCE` frame widths from the plate, rolled by `roll`, having walked
/// around the plate's centre by `yaw` while looking at it.
struct Plane {
    roll: (f64, f64),
    yaw: (f64, f64),
}

impl Plane {
    fn new(roll: f64, yaw: f64) -> Self {
        Self {
            roll: roll.sin_cos(),
            yaw: yaw.sin_cos(),
        }
    }

    /// Where the ray through `(u, v)` of the frame meets the plate, in the unit of `u` and `v`.
    #[inline]
    fn meet(&self, u: f64, v: f64) -> (f64, f64) {
        let (sin, cos) = self.roll;
        let (u, v) = (u * cos - v * sin, u * sin + v * cos);
        let (sin, cos) = self.yaw;
        let nearness = DISTANCE / (DISTANCE * cos + u * sin);
        (u * nearness, cos * v * nearness)
    }
}

/// A normal lens: about 45 degrees across.
const DISTANCE: f64 = 1.2;

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
        (low.min(v), high.max(v))
    })
}

#[cfg(test)]
mod tests;
