//! The camera: turns direction into one station per frame, and a station into a view of each layer.
//!
//! A view says which part of the picture fills the frame. A camera that turns or zooms sees all
//! layers move alike; one that travels sees the near ones move more than the far, by each layer's
//! parallax. Every quantity moves on a curve whose speed and acceleration are continuous, so a
//! move starts and ends softly and no frame jumps. The whole path is laid out first and then
//! scaled and placed as one piece until every view lies within the plate; that is why a pan over
//! a picture of the frame's own shape is seen through a slightly closer lens.
//!
//! It knows nothing of pixels' values. Angles are radians, positive is clockwise on the screen.

mod easing;
mod moves;

use crate::direction::{Direction, Leg, MoveKind, Pace};
use crate::picture::Interest;
use crate::scene::noise;
use easing::eased;
use moves::moved;

/// What of a layer fills the frame, in picture pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct View {
    /// The picture's point on the camera's axis.
    pub(crate) centre: (f64, f64),
    /// The picture's pixels across the frame's width, where the layer is met head-on.
    pub(crate) width: f64,
    /// Rotation about the line of sight.
    pub(crate) roll: f64,
    /// How far the camera has walked around the picture's centre; 0 is head-on.
    pub(crate) yaw: f64,
}

impl View {
    /// Whether the view is an upright rectangle of the picture.
    pub(crate) fn is_upright(&self) -> bool {
        self.roll == 0.0 && self.yaw == 0.0
    }

    /// What carries points of the frame to points of the picture.
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
    /// The picture's point seen at `(u, v)` of the frame: both in frame widths from its centre.
    #[inline]
    pub(crate) fn project(&self, u: f64, v: f64) -> (f64, f64) {
        let (x, y) = self.plane.meet(u, v);
        (
            self.centre.0 + x * self.width,
            self.centre.1 + y * self.width,
        )
    }
}

/// Where the camera is at one frame, fitted to the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Station {
    pose: Pose,
    /// Where the shot's origin lies, in picture pixels.
    origin: (f64, f64),
    /// Picture pixels across the shot's base window.
    base: f64,
}

impl Station {
    /// The view of a layer that follows `parallax` of the camera's travel, 0 to 1.
    pub(crate) fn view(&self, parallax: f64) -> View {
        let seen = self.pose.seen(parallax);
        View {
            centre: (
                self.origin.0 + self.base * seen.x,
                self.origin.1 + self.base * seen.y,
            ),
            width: self.base * (-seen.zoom).exp(),
            roll: seen.roll,
            yaw: seen.yaw,
        }
    }
}

/// What a shot is planned over.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    /// Width and height of the picture in pixels.
    pub(crate) picture: (u32, u32),
    /// Width and height of the frame in pixels.
    pub(crate) frame: (u32, u32),
    /// Whether the picture has depth: then travel shows parallax, and is longer for it. In a flat
    /// one it looks like a turn or a zoom.
    pub(crate) deep: bool,
    /// What draws the eye, where the picture is more than the shot shows.
    pub(crate) interest: Option<&'a Interest>,
}

/// Plans a shot: one station for each frame.
pub(crate) fn plan(
    direction: &Direction,
    site: Site<'_>,
    timing: Timing,
    seed: u64,
) -> Vec<Station> {
    let room = Room::new(site.picture, site.frame);
    let mut poses = poses(direction, &room, timing, seed);
    if site.deep {
        deepen(&mut poses);
    } else {
        swing(&mut poses);
    }
    place(&poses, &room, site.interest)
}

/// How many frames, and how fast they follow each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) frames: u32,
    pub(crate) fps: u32,
}

/// The camera's state, relative to the shot's base window: lengths in widths of that window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Pose {
    /// Turned sideways and up or down.
    x: f64,
    y: f64,
    /// Natural logarithm of the magnification: equal steps look equally fast.
    zoom: f64,
    roll: f64,
    yaw: f64,
    /// Travelled sideways and up or down, as the nearest layer shows it.
    travel: (f64, f64),
    /// Travelled forward: the logarithm of the nearest layer's growth.
    dolly: f64,
    /// Walked around the nearest layer: how far the farthest moves past it.
    sweep: f64,
}

/// A pose as one layer shows it.
struct Apparent {
    x: f64,
    y: f64,
    zoom: f64,
    roll: f64,
    yaw: f64,
}

impl Pose {
    fn seen(&self, parallax: f64) -> Apparent {
        Apparent {
            x: self.x + parallax * self.travel.0 + (1.0 - parallax) * self.sweep,
            y: self.y + parallax * self.travel.1,
            zoom: self.zoom + parallax * self.dolly,
            roll: self.roll,
            yaw: self.yaw,
        }
    }
}

/// Makes travel show as depth: longer, because only the nearest layer follows all of it, and laid
/// around the picture's own standpoint, where the layers lie on each other as they were taken.
fn deepen(poses: &mut [Pose]) {
    let middle = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) = range(values);
        f64::midpoint(low, high)
    };
    let across = middle(&mut poses.iter().map(|p| p.travel.0));
    let down = middle(&mut poses.iter().map(|p| p.travel.1));
    let forward = middle(&mut poses.iter().map(|p| p.dolly));
    for pose in poses {
        pose.travel = (
            LONGER * (pose.travel.0 - across),
            LONGER * (pose.travel.1 - down),
        );
        pose.dolly = LONGER * (pose.dolly - forward);
        pose.sweep = SWEEP * pose.yaw;
        // The layers show the walk around; the sheets themselves need turn less.
        pose.yaw *= 0.5;
    }
}

/// Makes an orbit show in a flat picture, in which nothing moves past anything else: it turns
/// further, and drifts across the frame.
fn swing(poses: &mut [Pose]) {
    for pose in poses {
        pose.x += DRIFT * pose.yaw;
        pose.yaw *= FURTHER;
    }
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
            let within = eased(direction.easing.unwrap_or_default(), at - leg as f64);
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

fn between(a: &Pose, b: &Pose, t: f64) -> Pose {
    let mix = |a: f64, b: f64| a + (b - a) * t;
    Pose {
        x: mix(a.x, b.x),
        y: mix(a.y, b.y),
        zoom: mix(a.zoom, b.zoom),
        roll: mix(a.roll, b.roll),
        yaw: mix(a.yaw, b.yaw),
        travel: (mix(a.travel.0, b.travel.0), mix(a.travel.1, b.travel.1)),
        dolly: mix(a.dolly, b.dolly),
        sweep: 0.0,
    }
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
    // A hand both turns the camera and carries it.
    let (across, down) = (0.011 * sway(1), 0.009 * sway(2));
    Pose {
        x: pose.x + 0.5 * across,
        y: pose.y + 0.5 * down,
        travel: (pose.travel.0 + 0.5 * across, pose.travel.1 + 0.5 * down),
        roll: pose.roll + 0.011 * sway(3),
        ..pose
    }
}

/// Fits the path of poses into the picture as one piece, over what draws the eye.
fn place(poses: &[Pose], room: &Room, interest: Option<&Interest>) -> Vec<Station> {
    // The nearest layer moves the most and the farthest the least: the others lie between.
    let corners = || {
        let both = poses
            .iter()
            .flat_map(|pose| [pose.seen(1.0), pose.seen(0.0)]);
        both.flat_map(|seen| {
            let half = (0.5, 0.5 * room.tall);
            let plane = Plane::new(seen.roll, seen.yaw);
            [(-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0), (1.0, 1.0)].map(move |(sx, sy)| {
                let (x, y) = plane.meet(sx * half.0, sy * half.1);
                let scale = (-seen.zoom).exp();
                (seen.x + x * scale, seen.y + y * scale)
            })
        })
    };
    let (left, right) = range(corners().map(|c| c.0));
    let (top, bottom) = range(corners().map(|c| c.1));
    // The largest base window with which the whole path stays inside. A hair less than exact:
    // rounding must not put a crop a billionth of a pixel outside the picture.
    let fit = (room.plate.0 / (right - left)).min(room.plate.1 / (bottom - top));
    let base = fit.min(room.cover) * (1.0 - 1e-9);
    let window = (base * (right - left), base * (bottom - top));
    let corner = interest.map_or_else(
        || {
            (
                (room.plate.0 - window.0) / 2.0,
                (room.plate.1 - window.1) / 2.0,
            )
        },
        |interest| interest.best_corner(window),
    );
    let origin = (corner.0 - base * left, corner.1 - base * top);
    poses
        .iter()
        .map(|pose| Station {
            pose: *pose,
            origin,
            base,
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

/// How much longer a deep picture's travel is.
const LONGER: f64 = 1.5;

/// Frame widths that the farthest layer moves for each radian of orbit.
const SWEEP: f64 = 0.45;

/// Frame widths that a flat picture drifts for each radian of orbit.
const DRIFT: f64 = 0.35;

/// How much further a flat picture turns.
const FURTHER: f64 = 1.4;

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
        (low.min(v), high.max(v))
    })
}

#[cfg(test)]
mod tests;
