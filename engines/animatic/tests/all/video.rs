//! Finished videos: their files, their pictures and their motion.
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails has failed its test"
)]

use std::cell::Cell;

use crate::common::{byte, detailed, film, luma_of, options};
use crate::reading::{boxes, decoded, inside, number, ssim};
use animatic::{FPS, MakeError, Picture, RenderControl, RenderOptions, RenderRequest, SIZES};

#[test]
fn the_file_is_ready_to_stream_and_as_long_as_it_says() {
    let video = film(
        Some(&detailed(640, 480)),
        "pan left",
        options((640, 480), 2.0, 25, 0),
    );
    assert_eq!((video.frames, video.seconds), (50, 2.0));
    let kinds: Vec<String> = boxes(&video.mp4).into_iter().map(|b| b.0).collect();
    assert_eq!(kinds, ["ftyp", "moov", "mdat"]);

    let header = inside(&video.mp4, &["moov", "mvhd"]);
    assert_eq!(number(header, 4), 0, "the creation time is fixed");
    let (scale, length) = (number(header, 12), number(header, 16));
    assert_eq!(length, 2 * scale);
    let table = ["moov", "trak", "mdia", "minf", "stbl"];
    let table = inside(&video.mp4, &table);
    assert_eq!(number(inside(table, &["stsz"]), 8), 50);
    let keys = inside(table, &["stss"]);
    assert_eq!(
        (number(keys, 4), number(keys, 8)),
        (1, 1),
        "a short film is one group"
    );
}

#[test]
fn a_static_shot_shows_the_picture() {
    let picture = detailed(960, 720);
    let video = film(Some(&picture), "static", options((960, 720), 1.0, 30, 0));
    assert!(
        video.poster() == &picture,
        "a picture of the frame's size is shown as it is"
    );
    let expected = luma_of(&picture);
    let frames = decoded(&video);
    assert_eq!(frames.len(), 30);
    for (i, frame) in frames.iter().enumerate() {
        let similarity = ssim(&expected, frame, 960);
        assert!(similarity >= 0.97, "frame {i}: {similarity}");
    }
}

#[test]
fn the_first_decoded_frame_resembles_the_poster() {
    // The poster is the first frame before encoding.
    let video = film(
        Some(&detailed(1600, 900)),
        "pan right",
        options((854, 480), 1.0, 30, 0),
    );
    let frames = decoded(&video);
    let similarity = ssim(&luma_of(video.poster()), &frames[0], 854);
    assert!(similarity >= 0.96, "{similarity}");
}

/// A bright bar on a dark ground.
fn bar(width: u32, height: u32) -> Picture {
    let mut rgb = Vec::new();
    for _ in 0..height {
        for x in 0..width {
            let offset = (f64::from(x) - f64::from(width) / 2.0) / 14.0;
            rgb.extend([byte(20.0 + 215.0 * (-offset * offset).exp()); 3]);
        }
    }
    Picture::from_rgb(width, height, rgb).unwrap()
}

/// The centre of what is bright, in pixels from the left.
fn centroid(luma: &[u8], width: usize) -> f64 {
    let (mut sum, mut weight) = (0.0, 0.0);
    for row in luma.chunks_exact(width) {
        for (x, value) in (0_u32..).zip(row) {
            let bright = f64::from(value.saturating_sub(60));
            sum += bright * f64::from(x);
            weight += bright;
        }
    }
    sum / weight
}

#[test]
fn a_pan_moves_one_way_without_a_jump() {
    let video = film(
        Some(&bar(1280, 720)),
        "pan right",
        options((854, 480), 3.0, 30, 0),
    );
    let path: Vec<f64> = decoded(&video).iter().map(|f| centroid(f, 854)).collect();
    let steps: Vec<f64> = path.windows(2).map(|w| w[0] - w[1]).collect();
    assert!(
        path[0] - path[path.len() - 1] > 60.0,
        "it moves far enough: {path:?}"
    );
    assert!(
        steps.iter().all(|s| *s > -0.12),
        "it never goes back: {steps:?}"
    );
    assert!(
        steps[0] < 0.3 && steps[steps.len() - 1] < 0.3,
        "it starts and ends softly"
    );
    let jolt = steps
        .windows(2)
        .map(|w| (w[1] - w[0]).abs())
        .fold(0.0, f64::max);
    // The frames themselves move far more evenly (see `flow.rs`); this is what encoding adds to a
    // blurred bar, the hardest thing to keep in its place.
    assert!(jolt < 0.5, "no frame jumps: {jolt} pixels");
}

#[test]
fn rolls_and_orbits_are_filmed_too() {
    let picture = detailed(800, 600);
    for prompt in ["roll clockwise", "orbit left", "handheld"] {
        let video = film(Some(&picture), prompt, options((640, 480), 1.0, 24, 0));
        let frames = decoded(&video);
        assert_eq!(frames.len(), 24);
        let similarity = ssim(&frames[0], &frames[23], 640);
        assert!(similarity < 0.95, "{prompt} moves: {similarity}");
        let next_similarity = ssim(&frames[11], &frames[12], 640);
        assert!(
            next_similarity > similarity,
            "{prompt} is smooth: {next_similarity} {similarity}"
        );
    }
}

#[test]
fn the_same_request_gives_the_same_bytes_and_another_gives_others() {
    let make = |prompt: &str, seed| film(None, prompt, options((480, 480), 1.0, 24, seed)).mp4;
    let first = make("a harbour at night, handheld", 5);
    assert!(first == make("a harbour at night, handheld", 5));
    assert!(first != make("a harbour at night, handheld", 6));
    assert!(first != make("a desert at noon, handheld", 5));
}

#[test]
fn every_size_and_every_rate_is_made() {
    let picture = detailed(500, 400);
    for size in SIZES {
        // What a size can break is the encoder and the file; a still camera costs least.
        let video = film(Some(&picture), "static", options(*size, 1.0, 24, 0));
        assert_eq!(
            (video.width, video.height, video.frames),
            (size.0, size.1, 24)
        );
        assert_eq!(video.poster().size(), *size);
        let config = inside(&video.mp4, &["moov", "trak", "tkhd"]);
        assert_eq!((number(config, 76) >> 16, number(config, 80) >> 16), *size);
    }
    for fps in FPS {
        let video = film(Some(&picture), "push in", options((480, 480), 1.5, *fps, 0));
        assert_eq!(video.frames, fps * 3 / 2 + fps % 2);
        assert_eq!(decoded(&video).len(), video.frames as usize);
    }
}

#[test]
fn stills_and_sheet_come_with_the_video() {
    let video = film(
        Some(&detailed(800, 450)),
        "zoom in",
        options((854, 480), 1.0, 24, 0),
    );
    assert_eq!(video.stills().len(), 16);
    assert!(video.stills().iter().all(|s| s.size() == (320, 180)));
    assert_eq!(video.sheet().size(), (1280, 720));
    let sheet = video.sheet();
    assert_eq!(&sheet.rgb()[..960], &video.stills()[0].rgb()[..960]);
    for jpeg in [video.poster_jpeg().unwrap(), video.sheet_jpeg().unwrap()] {
        let picture =
            animatic::picture::decode(&jpeg, &animatic::PictureLimits::default()).unwrap();
        assert!(picture.size() == (854, 480) || picture.size() == (1280, 720));
    }
}

#[test]
fn progress_rises_to_one_and_a_cancel_ends_the_work() {
    let picture = detailed(320, 240);
    let options = options((480, 480), 2.0, 24, 0);
    let request = RenderRequest {
        picture: Some(&picture),
        prompt: "",
        options,
    };

    let mut shares = Vec::new();
    let mut progress = |share: f32| shares.push(share);
    animatic::make(
        &request,
        &mut RenderControl {
            progress: &mut progress,
            cancelled: &|| false,
        },
    )
    .unwrap();
    assert!(shares.windows(2).all(|w| w[0] < w[1]));
    assert!((shares[shares.len() - 1] - 1.0).abs() < 1e-6);

    let calls = Cell::new(0);
    let mut frames = 0;
    let cancelled = || {
        calls.set(calls.get() + 1);
        calls.get() > 10
    };
    let mut progress = |_: f32| frames += 1;
    let stopped = animatic::make(
        &request,
        &mut RenderControl {
            progress: &mut progress,
            cancelled: &cancelled,
        },
    );
    assert_eq!(stopped.map(|v| v.frames), Err(MakeError::Cancelled));
    assert!(frames < 12, "{frames}");
}

#[test]
fn options_outside_the_offer_are_refused_before_any_work() {
    let options = RenderOptions {
        width: 100,
        height: 100,
        seconds: 5.0,
        fps: 30,
        seed: 0,
    };
    let request = RenderRequest {
        picture: None,
        prompt: "",
        options,
    };
    let refused = animatic::make(&request, &mut RenderControl::unattended());
    assert!(matches!(refused.map(|v| v.frames), Err(MakeError::Options(e)) if e.field() == "size"));
}

#[test]
fn tiny_and_odd_pictures_are_filmed() {
    for (width, height) in [(1, 1), (3, 700), (700, 3), (17, 19)] {
        let picture = detailed(width, height);
        for prompt in ["pan left then fast roll ccw", "zoom out"] {
            let video = film(Some(&picture), prompt, options((480, 480), 1.0, 24, 0));
            assert_eq!(video.frames, 24, "{width}x{height}");
        }
    }
}

/// For each pixel, the length of its run of equal pixels, along rows of `width`.
fn runs(luma: &[u8], width: usize) -> Vec<usize> {
    luma.chunks_exact(width)
        .flat_map(|row| row.chunk_by(|a, b| a == b))
        .flat_map(|run| std::iter::repeat_n(run.len(), run.len()))
        .collect()
}

#[test]
fn the_sky_of_a_sunset_does_not_break_into_bands() {
    let (width, height) = (854, 240);
    let prompt = "desert dunes at sunset, slow pan left";
    let frames = decoded(&film(None, prompt, options((854, 480), 1.0, 24, 3)));
    for frame in [0, 23] {
        let sky = &frames[frame][..width * height];
        let columns: Vec<u8> = (0..sky.len())
            .map(|i| sky[i % height * width + i / height])
            .collect();
        let (across, down) = (runs(sky, width), runs(&columns, height));
        let flat = (0..sky.len())
            .filter(|i| across[*i] > 6 && down[i % width * height + i / width] > 6)
            .count();
        // With a dither of half a step, which the encoder drops, a twentieth of the sky is flat.
        assert!(flat * 50 < sky.len(), "frame {frame}: {flat} pixels");
    }
}
