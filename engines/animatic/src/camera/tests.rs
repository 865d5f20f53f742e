//! Shots as numbers: inside the plate, smooth, and in the direction named.

use super::view::LayerView;
use super::*;
use crate::direction::Easing;

const TIMING: FrameTiming = FrameTiming {
    frames: 150,
    fps: 30,
};

fn views(prompt: &str, plate: (u32, u32), frame: (u32, u32)) -> Vec<LayerView> {
    let stations = plan(&Direction::parse(prompt), flat(plate, frame), TIMING, 7);
    stations.iter().map(|s| s.view(1.0)).collect()
}

fn flat(picture: (u32, u32), frame: (u32, u32)) -> ShotGeometry<'static> {
    ShotGeometry {
        picture,
        frame,
        deep: false,
        interest: None,
    }
}

#[test]
fn easing_runs_from_rest_to_rest() {
    let ease = |t| ease_progress(Easing::Smooth, t);
    assert!(ease(0.0).abs() < 1e-12 && (ease(1.0) - 1.0).abs() < 1e-12);
    let speeds: Vec<f64> = (0..1000)
        .map(|i| ease(f64::from(i + 1) / 1e3) - ease(f64::from(i) / 1e3))
        .collect();
    assert!(speeds.iter().all(|s| *s >= 0.0));
    assert!(speeds[0] < 1e-5 && speeds[999] < 1e-5);
    let jolt = speeds
        .windows(2)
        .map(|w| (w[1] - w[0]).abs())
        .fold(0.0, f64::max);
    assert!(jolt < 1e-5, "{jolt}");
}

#[test]
fn every_view_of_every_move_lies_within_the_plate() {
    for prompt in [
        "push in",
        "fast zoom out",
        "pan left",
        "fast pan right",
        "tilt up",
        "pedestal down",
        "roll clockwise",
        "fast roll ccw",
        "orbit left",
        "handheld",
        "static",
        "fast pan left while zooming in, then tilt down, then fast roll cw, then orbit right",
    ] {
        for plate in [(1920, 1080), (600, 2400), (5000, 700), (64, 64)] {
            for frame in [(1280_u32, 720_u32), (480, 854), (2520, 1080)] {
                let aspect = f64::from(frame.1) / f64::from(frame.0);
                for view in views(prompt, plate, frame) {
                    for (u, v) in [(-0.5, -0.5), (0.5, -0.5), (-0.5, 0.5), (0.5, 0.5)] {
                        let (x, y) = view.lens().project(u, v * aspect);
                        let inside = x > -1e-6
                            && y > -1e-6
                            && x < f64::from(plate.0) + 1e-6
                            && y < f64::from(plate.1) + 1e-6;
                        assert!(inside, "{prompt} {plate:?} {frame:?} {x} {y}");
                    }
                }
            }
        }
    }
}

#[test]
fn moves_go_where_they_say_without_jumps() {
    let plate = (1920, 1080);
    let frame = (1280, 720);
    let first_last = |prompt: &str| {
        let views = views(prompt, plate, frame);
        (views[0], views[149])
    };
    let (a, b) = first_last("pan right");
    assert!(b.centre.0 > a.centre.0 + 100.0 && (b.centre.1 - a.centre.1).abs() < 1e-9);
    let (a, b) = first_last("tilt up");
    assert!(b.centre.1 < a.centre.1 - 50.0);
    let (a, b) = first_last("zoom in");
    assert!(b.width < a.width * 0.9);
    let (a, b) = first_last("pull out");
    assert!(a.width < b.width * 0.9 && b.width > 1919.9);
    let (a, b) = first_last("roll clockwise");
    assert!(a.roll.abs() < 1e-9 && b.roll > 0.1);
    let (a, b) = first_last("orbit right");
    assert!(a.yaw < -0.05 && b.yaw > 0.05);
    let (a, b) = first_last("static");
    assert_eq!(a, b);

    for prompt in [
        "fast pan left then fast pan right",
        "handheld",
        "zoom in then tilt up",
    ] {
        let views = views(prompt, plate, frame);
        let speed: Vec<f64> = views
            .windows(2)
            .map(|w| w[1].centre.0 - w[0].centre.0)
            .collect();
        let jolt = speed
            .windows(2)
            .map(|w| (w[1] - w[0]).abs())
            .fold(0.0, f64::max);
        assert!(
            jolt < 3.0,
            "{prompt}: {jolt} plate pixels per frame squared"
        );
    }
}

#[test]
fn only_a_held_camera_depends_on_the_seed() {
    let shot = |prompt: &str, seed| {
        let geometry = flat((1920, 1080), (1280, 720));
        plan(&Direction::parse(prompt), geometry, TIMING, seed)
    };
    assert_eq!(shot("pan left", 1), shot("pan left", 2));
    assert_ne!(shot("handheld", 1), shot("handheld", 2));
}
