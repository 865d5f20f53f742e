//! The motion of finished shots, measured on their frames by matching a block of one frame in the
//! next to a fraction of a pixel.
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails has failed its test"
)]

use crate::common::{byte, luma_of, options};
use animatic::{Picture, RenderRequest};

/// A picture with detail everywhere that never repeats.
fn textured(width: u32, height: u32) -> Picture {
    let mut rgb = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let (x, y) = (f64::from(x), f64::from(y));
            let value = (x / 11.3 + (y / 37.0).sin() * 3.0).sin() * 45.0
                + (y / 13.7 + (x / 53.0).cos() * 2.0).sin() * 40.0;
            rgb.extend([byte(128.0 + value); 3]);
        }
    }
    Picture::from_rgb(width, height, rgb).unwrap()
}

/// How far to the right the middle of one frame lies in the next, in pixels: the shift with the
/// least squared difference, refined by a parabola through it and its neighbours.
fn shift(frame: &[u8], next: &[u8], width: usize) -> f64 {
    let height = frame.len() / width;
    let cost = |shift: i32| {
        let mut sum = 0.0;
        for y in (height / 4..3 * height / 4).step_by(3) {
            for x in width / 4..3 * width / 4 {
                let column = i32::try_from(x).unwrap() + shift;
                let other = next[y * width + usize::try_from(column).unwrap()];
                sum += (f64::from(frame[y * width + x]) - f64::from(other)).powi(2);
            }
        }
        sum
    };
    let best = (-12..=12)
        .min_by(|a, b| cost(*a).total_cmp(&cost(*b)))
        .unwrap();
    let (left, here, right) = (cost(best - 1), cost(best), cost(best + 1));
    f64::from(best) + 0.5 * (left - right) / (left - 2.0 * here + right)
}

#[test]
fn the_flow_of_a_pan_is_smooth() {
    let picture = textured(1100, 480);
    for prompt in ["pan right", "slow pan right", "pan right, constant speed"] {
        let options = options((640, 480), 2.0, 24, 0);
        let request = RenderRequest {
            picture: Some(&picture),
            prompt,
            options,
        };
        let frames: Vec<Vec<u8>> = (8..32)
            .map(|frame| luma_of(&animatic::still(&request, frame).unwrap()))
            .collect();
        let flow: Vec<f64> = frames
            .windows(2)
            .map(|w| -shift(&w[0], &w[1], 640))
            .collect();
        assert!(flow.iter().all(|step| *step > 0.1), "{prompt}: {flow:?}");
        let jump = flow
            .windows(2)
            .map(|w| (w[1] - w[0]).abs())
            .fold(0.0, f64::max);
        assert!(
            jump < 0.6,
            "{prompt}: {jump} pixels between two frames; {flow:?}"
        );
    }
}
