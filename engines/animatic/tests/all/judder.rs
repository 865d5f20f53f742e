//! The steps of finished films, which are the motion from each frame to the next: in the decoded
//! frames they must be as long as in the frames that the encoder was given.
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails has failed its test"
)]

use crate::common::{byte, film, options};
use crate::reading::decoded;
use crate::steps::Frames;
use animatic::{Picture, RenderControl, RenderRequest};

const SIZE: (u32, u32) = (854, 480);

/// The largest error of any step that a viewer may be shown, in pixels.
const LIMIT: f32 = 0.25;

/// The error of the measurement itself behind rain or snow, against the same scene without them:
/// only a part of each square is visible then.
const BEHIND_WEATHER: f32 = 0.11;

/// A card full of fine detail that repeats nowhere, so that a block that stays behind shows.
fn card() -> Picture {
    paint(3, 20.0, 15.0)
}

/// Out of focus everywhere: a block that stays behind is off by little, and yet the eye sees it.
fn soft() -> Picture {
    paint(9, 2.5, 0.0)
}

/// Waves, squares of contrast `squares`, and noise of strength `grains` in grains of `side` pixels.
fn paint(side: u32, grains: f64, squares: f64) -> Picture {
    let (width, height) = (1280, 720);
    let mut state = 7_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1 << 24) - 0.5
    };
    let grain: Vec<f64> = (0..width * height).map(|_| noise()).collect();
    let mut rgb = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let neighbours = (0..side * side).map(|i| {
                let (x, y) = ((x + i % side) % width, (y + i / side) % height);
                grain[(y * width + x) as usize]
            });
            let (fx, fy) = (f64::from(x), f64::from(y));
            let coarse = ((fx / 37.0).sin() + (fy / 29.0).cos()) * 30.0;
            let sign = if (x / 40 + y / 40) % 2 == 0 {
                1.0
            } else {
                -1.0
            };
            let value = 128.0 + coarse + sign * squares + grains * neighbours.sum::<f64>();
            rgb.extend([byte(value), byte(0.9 * value), byte(0.8 * value)]);
        }
    }
    Picture::from_rgb(width, height, rgb).unwrap()
}

/// The largest error of a step in the film of a prompt.
fn largest_error(picture: Option<&Picture>, prompt: &str) -> f32 {
    let options = options(SIZE, 1.0, 24, 3);
    let decoded_frames = decoded(&film(picture, prompt, options));
    let request = RenderRequest {
        picture,
        prompt,
        options,
    };
    let mut input = Vec::new();
    animatic::write_y4m(&request, &mut input, &mut RenderControl::unattended()).unwrap();
    let start = input.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let luma = (SIZE.0 * SIZE.1) as usize;
    let input = input[start..].chunks_exact("FRAME\n".len() + luma * 3 / 2);
    let width = SIZE.0 as usize;
    let input = Frames::new(width, input.map(|frame| &frame["FRAME\n".len()..][..luma]));
    Frames::new(width, decoded_frames.iter().map(Vec::as_slice)).largest_error(&input)
}

fn check(picture: Option<&Picture>, prompts: &[&str]) {
    check_within(LIMIT, picture, prompts);
}

fn check_within(limit: f32, picture: Option<&Picture>, prompts: &[&str]) {
    for prompt in prompts {
        let error = largest_error(picture, prompt);
        assert!(error <= limit, "{prompt}: {error} pixels");
    }
}

#[test]
fn zooms_and_dollies_do_not_judder() {
    check(
        Some(&card()),
        &[
            "zoom in",
            "slow zoom out",
            "push in",
            "slow push in",
            "pull out",
            "fast pull out",
        ],
    );
}

#[test]
fn pans_and_trucks_do_not_judder() {
    check(
        Some(&card()),
        &[
            "pan left",
            "slow pan right",
            "fast pan right",
            "truck right",
            "slow truck left",
        ],
    );
}

#[test]
fn tilts_and_pedestals_do_not_judder() {
    check(
        Some(&card()),
        &[
            "tilt up",
            "slow tilt down",
            "pedestal up",
            "slow pedestal down",
        ],
    );
}

#[test]
fn turns_and_hands_do_not_judder() {
    check(
        Some(&card()),
        &[
            "roll clockwise",
            "slow roll",
            "orbit left",
            "slow orbit right",
            "handheld",
        ],
    );
}

#[test]
fn soft_pictures_do_not_judder() {
    check(Some(&soft()), &["slow push in", "slow pan right"]);
}

#[test]
fn scenes_do_not_judder_behind_rain_and_snow() {
    check_within(
        LIMIT + BEHIND_WEATHER,
        None,
        &[
            "a snowy forest, heavy snowfall, slow push in",
            "a city at night, heavy rain, truck right",
        ],
    );
}

#[test]
fn a_static_shot_stands_still() {
    let frames = decoded(&film(Some(&card()), "static", options(SIZE, 1.0, 24, 3)));
    let still = frames.iter().filter(|&frame| *frame == frames[0]).count();
    assert_eq!(still, frames.len());
}

#[test]
fn the_measure_sees_a_frame_that_stayed_behind() {
    let card = card();
    let options = options(SIZE, 1.0, 24, 3);
    let mut frames = decoded(&film(Some(&card), "pan left", options));
    let original = Frames::new(SIZE.0 as usize, frames.iter().map(Vec::as_slice));
    frames[12] = frames[11].clone();
    let stuck = Frames::new(SIZE.0 as usize, frames.iter().map(Vec::as_slice));
    let error = stuck.largest_error(&original);
    assert!(error > 0.5, "{error} pixels");
}
