//! The camera: plans one station for each frame, and derives the view of each layer from it.
//!
//! A view says which part of the picture fills the frame. A camera that turns or zooms sees all
//! layers move alike; one that travels sees the near ones move more than the far, by each layer's
//! parallax. Every quantity moves on a curve whose speed and acceleration are continuous, so a
//! move starts and ends softly and no frame jumps. The whole path is laid out first and then
//! scaled and placed as one piece, so that every view lies within the picture (the plate). That is
//! why a pan over a picture of the frame's own shape shows it slightly magnified.
//!
//! This module reads no pixels. Angles are in radians; positive is clockwise on the screen.

mod easing;
mod moves;
mod pose;
pub(crate) mod view;

use crate::direction::{Direction, MoveKind, MovePace, ShotLeg};
use crate::picture::InterestMap;
use crate::scene::noise;
use easing::ease_progress;
use moves::leg_end;
use pose::{CameraPose, PlateGeometry};
use view::ViewPlane;
pub(crate) use view::{CameraStation, ViewProjection};

/// The geometry of a shot.
#[derive(Clone, Copy)]
pub(crate) struct ShotGeometry<'a> {
    pub(crate) picture: (u32, u32),
    pub(crate) frame: (u32, u32),
    /// Whether the picture has depth: travel then shows parallax, and goes further. In a flat
    /// picture travel looks like a turn or a zoom.
    pub(crate) deep: bool,
    /// What draws the eye, if the shot shows only part of the picture.
    pub(crate) interest: Option<&'a InterestMap>,
}

/// Plans a shot: one station for each frame.
pub(crate) fn plan(
    direction: &Direction,
    shot: ShotGeometry<'_>,
    timing: FrameTiming,
    seed: u64,
) -> Vec<CameraStation> {
    let geometry = PlateGeometry::new(shot.picture, shot.frame);
    let mut poses = poses(direction, &geometry, timing, seed);
    if shot.deep {
        deepen(&mut poses);
    } else {
        swing(&mut poses);
    }
    fit_path(&poses, &geometry, shot.interest)
}

/// Which part of a picture a shot shows, in words; `None` if nearly all of it.
pub(crate) fn framing_words(
    stations: &[CameraStation],
    picture: (u32, u32),
    frame: (u32, u32),
) -> Option<String> {
    let geometry = PlateGeometry::new(picture, frame);
    let slack = geometry.slack();
    let views = || stations.iter().map(|station| station.view(1.0).centre);
    let middle = |(low, high): (f64, f64), side: f64| f64::midpoint(low, high) / side;
    let name = |share: f64, names: [&'static str; 3]| {
        if share < 0.45 {
            names[0]
        } else if share > 0.55 {
            names[2]
        } else {
            names[1]
        }
    };
    let part = if slack.1 > MIN_CUT {
        let share = middle(range(views().map(|c| c.1)), geometry.plate.1);
        name(share, ["upper part", "middle", "lower part"])
    } else if slack.0 > MIN_CUT {
        let share = middle(range(views().map(|c| c.0)), geometry.plate.0);
        name(share, ["left part", "middle", "right part"])
    } else {
        return None;
    };
    Some(format!("picture cropped to its {part}"))
}

/// The cut that is not worth telling, as a share of what is shown.
const MIN_CUT: f64 = 0.05;

/// How many frames, and how fast they follow each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameTiming {
    pub(crate) frames: u32,
    pub(crate) fps: u32,
}

/// Makes travel show depth. Travel becomes longer, because only the nearest layer follows all of
/// it. It is also centred on the picture's own viewpoint, where the layers line up.
fn deepen(poses: &mut [CameraPose]) {
    let middle = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) = range(values);
        f64::midpoint(low, high)
    };
    let across = middle(&mut poses.iter().map(|p| p.travel.0));
    let down = middle(&mut poses.iter().map(|p| p.travel.1));
    let forward = middle(&mut poses.iter().map(|p| p.dolly));
    for pose in poses {
        pose.travel = (
            DEPTH_TRAVEL_GAIN * (pose.travel.0 - across),
            DEPTH_TRAVEL_GAIN * (pose.travel.1 - down),
        );
        pose.dolly = DEPTH_TRAVEL_GAIN * (pose.dolly - forward);
        pose.sweep = SWEEP * pose.yaw;
        // Parallax already shows the orbit, so the layers themselves need to turn less.
        pose.yaw *= 0.5;
    }
}

/// Makes an orbit visible in a flat picture, which has no parallax: the picture turns further and
/// drifts across the frame.
fn swing(poses: &mut [CameraPose]) {
    for pose in poses {
        pose.x += DRIFT * pose.yaw;
        pose.yaw *= FLAT_YAW_GAIN;
    }
}

fn poses(
    direction: &Direction,
    geometry: &PlateGeometry,
    timing: FrameTiming,
    seed: u64,
) -> Vec<CameraPose> {
    // Every leg gets the same time, because a prompt gives only the length of the whole film.
    let legs = &direction.legs;
    let total = f64::from(timing.frames) / f64::from(timing.fps);
    #[expect(clippy::cast_precision_loss, reason = "a handful of legs")]
    let leg_share = 1.0 / legs.len() as f64;
    // Where each leg ends; the first starts at rest at the origin.
    let mut ends = vec![CameraPose::default()];
    for leg in legs {
        let from = ends.last().copied().unwrap_or_default();
        ends.push(leg_end(from, leg, total * leg_share, geometry));
    }
    let shake = shake_strength(legs);
    let last = f64::from(timing.frames.saturating_sub(1).max(1));
    let mut poses: Vec<CameraPose> = (0..timing.frames)
        .map(|frame| {
            // Divided by the last frame's number, not by the count, so that the last frame is the
            // end of the path.
            let path_position = f64::from(frame) / last / leg_share;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 0 and the number of legs"
            )]
            let leg = (path_position as usize).min(legs.len() - 1);
            #[expect(clippy::cast_precision_loss, reason = "a handful of legs")]
            let leg_progress = ease_progress(
                direction.easing.unwrap_or_default(),
                path_position - leg as f64,
            );
            // Each leg is eased by itself, so the camera rests between two legs and does not jerk
            // where it turns around.
            let pose = interpolate_poses(&ends[leg], &ends[leg + 1], leg_progress);
            add_shake(pose, shake, f64::from(frame) / f64::from(timing.fps), seed)
        })
        .collect();
    // The picture looks best head-on, so that is the middle of an orbit.
    let (low, high) = range(poses.iter().map(|p| p.yaw));
    for pose in &mut poses {
        pose.yaw -= f64::midpoint(low, high);
    }
    poses
}

fn interpolate_poses(a: &CameraPose, b: &CameraPose, t: f64) -> CameraPose {
    let mix = |a: f64, b: f64| a + (b - a) * t;
    CameraPose {
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

fn shake_strength(legs: &[ShotLeg]) -> f64 {
    let handheld = legs
        .iter()
        .flat_map(|leg| &leg.moves)
        .find(|m| m.kind == MoveKind::Handheld);
    match handheld.map(|m| m.pace) {
        None => 0.0,
        Some(MovePace::Slow) => 0.6,
        Some(MovePace::Medium) => 1.0,
        Some(MovePace::Fast) => 1.7,
    }
}

/// Adds the sway of a hand: slow drift with a little tremor on top, in position and in roll.
fn add_shake(pose: CameraPose, strength: f64, seconds: f64, seed: u64) -> CameraPose {
    if strength == 0.0 {
        return pose;
    }
    // The sway follows the clock and not the film's length: a hand trembles equally fast in a long
    // film.
    let sway = |lane: u64| {
        let slow = noise::smooth_1d(seconds * 0.8, seed.wrapping_add(lane));
        let quick = noise::smooth_1d(seconds * 2.6, seed.wrapping_add(lane + 100));
        strength * (slow + 0.28 * quick)
    };
    // A hand both turns the camera and carries it.
    let (across, down) = (0.011 * sway(1), 0.009 * sway(2));
    CameraPose {
        x: pose.x + 0.5 * across,
        y: pose.y + 0.5 * down,
        travel: (pose.travel.0 + 0.5 * across, pose.travel.1 + 0.5 * down),
        roll: pose.roll + 0.011 * sway(3),
        ..pose
    }
}

/// Fits the path of poses into the picture as a whole, centred on the part that draws the eye.
fn fit_path(
    poses: &[CameraPose],
    geometry: &PlateGeometry,
    interest: Option<&InterestMap>,
) -> Vec<CameraStation> {
    // The nearest layer moves most and the farthest least. What fits both fits the layers between
    // them.
    let corners = || {
        let extremes = poses
            .iter()
            .flat_map(|pose| [pose.for_layer(1.0), pose.for_layer(0.0)]);
        extremes.flat_map(|layer_pose| {
            let half = (0.5, 0.5 * geometry.aspect);
            let plane = ViewPlane::new(layer_pose.roll, layer_pose.yaw);
            [(-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0), (1.0, 1.0)].map(move |(sx, sy)| {
                let (x, y) = plane.intersect(sx * half.0, sy * half.1);
                let scale = (-layer_pose.zoom).exp();
                (layer_pose.x + x * scale, layer_pose.y + y * scale)
            })
        })
    };
    let (left, right) = range(corners().map(|c| c.0));
    let (top, bottom) = range(corners().map(|c| c.1));
    // The largest base window that keeps the whole path inside, minus a hair: rounding must not put
    // a crop a billionth of a pixel outside the picture.
    let fit = (geometry.plate.0 / (right - left)).min(geometry.plate.1 / (bottom - top));
    let base = fit.min(geometry.cover) * (1.0 - 1e-9);
    let window = (base * (right - left), base * (bottom - top));
    // The path is placed as one piece. Steering single views towards the subject would bend the
    // move.
    let corner = interest.map_or_else(
        || {
            (
                (geometry.plate.0 - window.0) / 2.0,
                (geometry.plate.1 - window.1) / 2.0,
            )
        },
        |interest| interest.best_corner(window),
    );
    let origin = (corner.0 - base * left, corner.1 - base * top);
    poses
        .iter()
        .map(|pose| CameraStation {
            pose: *pose,
            origin,
            base,
        })
        .collect()
}

/// How much longer a deep picture's travel is.
const DEPTH_TRAVEL_GAIN: f64 = 1.5;

/// Frame widths that the farthest layer moves for each radian of orbit.
const SWEEP: f64 = 0.45;

/// Frame widths that a flat picture drifts for each radian of orbit.
const DRIFT: f64 = 0.35;

/// How much further a flat picture turns.
const FLAT_YAW_GAIN: f64 = 1.4;

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
        (low.min(v), high.max(v))
    })
}

#[cfg(test)]
mod tests;
