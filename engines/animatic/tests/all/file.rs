//! The finished file, as other programs read it and its boxes say: profile, colour tags, key
//! frames, exact lengths, the sound track, the ceiling.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a helper that fails has failed its test"
)]

use std::process::Command;

use crate::common::{detailed, film, options};
use animatic::{Ambience, FPS, Picture, RenderControl, RenderOptions, RenderRequest, Video};

/// A video's file on disk while a program reads it.
struct OnDisk(std::path::PathBuf);

impl OnDisk {
    fn new(name: &str, video: &Video) -> Self {
        let path = format!("animatic-file-{}-{name}.mp4", std::process::id());
        let path = std::env::temp_dir().join(path);
        std::fs::write(&path, &video.mp4).unwrap();
        Self(path)
    }

    /// The output of ffmpeg or ffprobe for the file; it must not warn.
    fn run(&self, program: &str, args: &[&str]) -> String {
        let output = Command::new(program)
            .args(["-v", "warning"])
            .args(if program == "ffmpeg" {
                &["-i"][..]
            } else {
                &[]
            })
            .arg(&self.0)
            .args(args)
            .output()
            .expect("this test needs ffmpeg and ffprobe: apt-get install ffmpeg");
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn probe(&self, stream: &str, entries: &str) -> String {
        let show = format!("stream={entries}:format=duration");
        let layout = "default=nk=0:nw=1";
        self.run(
            "ffprobe",
            &[
                "-count_frames",
                "-select_streams",
                stream,
                "-of",
                layout,
                "-show_entries",
                &show,
            ],
        )
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn with_sound(kinds: &[Ambience], options: RenderOptions) -> Video {
    let request = RenderRequest {
        picture: Some(&detailed(320, 240)),
        prompt: "push in",
        options,
    };
    animatic::make_with(&request, kinds, &mut RenderControl::unattended()).unwrap()
}

#[test]
fn ffprobe_finds_high_profile_and_the_colour_tags() {
    let video = film(
        Some(&detailed(640, 480)),
        "zoom in",
        options((854, 480), 3.0, 24, 0),
    );
    let entries = "codec_name,profile,width,height,pix_fmt,has_b_frames,color_range,color_space,\
                   color_transfer,color_primaries,r_frame_rate,nb_read_frames,duration";
    let stdout = OnDisk::new("tags", &video).probe("v", entries);
    for line in [
        "codec_name=h264",
        "profile=High",
        "width=854",
        "height=480",
        "pix_fmt=yuv420p",
        "has_b_frames=0",
        "color_range=tv",
        "color_space=bt709",
        "color_transfer=bt709",
        "color_primaries=bt709",
        "r_frame_rate=24/1",
        "nb_read_frames=72",
        "duration=3.000000",
    ] {
        assert!(stdout.lines().any(|l| l == line), "no {line} in\n{stdout}");
    }
}

#[test]
fn every_group_of_pictures_stands_alone() {
    let video = film(
        Some(&detailed(480, 480)),
        "pan left",
        options((480, 480), 8.0, 25, 0),
    );
    let file = OnDisk::new("groups", &video);
    let entries = ["-select_streams", "v", "-of", "csv=p=0", "-show_entries"];
    let stdout = file.run(
        "ffprobe",
        &[&entries[..], &["packet=pts_time,flags"]].concat(),
    );
    let keys: Vec<&str> = stdout.lines().filter(|l| l.contains(",K")).collect();
    let times: Vec<&str> = keys.iter().filter_map(|l| l.split(',').next()).collect();
    assert_eq!(times, ["0.000000", "4.160000"]);
    // What follows the second key frame decodes alone without a warning.
    let tail = file.run("ffmpeg", &["-ss", "4.16", "-f", "framemd5", "-"]);
    assert!(tail.lines().any(|l| l.starts_with("0,")), "{tail}");
}

#[test]
fn lengths_are_exact_at_every_rate_with_sound_and_without() {
    for &fps in FPS {
        let options = options((480, 480), 1.3, fps, 0);
        let exact = f64::from(options.frames()) / f64::from(fps);
        for kinds in [&[][..], &[Ambience::Wind]] {
            let file = OnDisk::new("length", &with_sound(kinds, options));
            let stdout = file.probe("v", "nb_read_frames,duration");
            let frames = format!("nb_read_frames={}", options.frames());
            assert!(stdout.lines().any(|l| l == frames), "{fps}: {stdout}");
            let track = format!("duration={exact:.6}");
            assert!(
                stdout.lines().any(|l| l == track),
                "{fps} {kinds:?}: {stdout}"
            );
            // The file's header counts in milliseconds.
            let lengths = stdout.lines().filter_map(|l| l.strip_prefix("duration="));
            let longest = lengths
                .map(|l| l.parse::<f64>().unwrap())
                .fold(0.0, f64::max);
            assert!((longest - exact).abs() < 0.001, "{fps} {kinds:?}: {stdout}");
        }
    }
}

#[test]
fn an_ambience_is_a_stereo_aac_track_that_decodes_without_complaint() {
    let options = options((480, 480), 2.0, 30, 4);
    let video = with_sound(&[Ambience::Rain, Ambience::Thunder], options);
    let file = OnDisk::new("sound", &video);
    let stdout = file.probe("a", "codec_name,profile,sample_rate,channels,start_time");
    for line in [
        "codec_name=aac",
        "profile=LC",
        "sample_rate=48000",
        "channels=2",
        "start_time=0.000000",
    ] {
        assert!(stdout.lines().any(|l| l == line), "no {line} in\n{stdout}");
    }
    file.run("ffmpeg", &["-f", "null", "-"]);
    assert!(video.mp4 == with_sound(&[Ambience::Thunder, Ambience::Rain], options).mp4);
    let silent = with_sound(&[], options);
    assert!(silent.mp4.len() < video.mp4.len());
}

/// The loudness of a sound's channels together, in steps of a hundredth of a second.
fn envelope(samples: &[f32]) -> Vec<f32> {
    let step = samples.chunks_exact(2 * 480);
    step.map(|s| s.iter().map(|v| v * v).sum::<f32>().sqrt())
        .collect()
}

#[test]
fn the_sound_begins_and_ends_with_the_picture() {
    let options = options((480, 480), 2.0, 30, 4);
    let file = OnDisk::new("begins", &with_sound(&[Ambience::Sea], options));
    let decode = |flags: &[&str], out: &str| {
        let path = file.0.with_extension(out);
        let status = Command::new("ffmpeg")
            .args(["-v", "error", "-y"])
            .args(flags)
            .arg("-i")
            .arg(&file.0)
            .args(["-vn", "-f", "f32le"])
            .arg(&path)
            .status()
            .expect("this test needs ffmpeg: apt-get install ffmpeg");
        assert!(status.success());
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (samples, _) = bytes.as_chunks::<4>();
        samples
            .iter()
            .map(|s| f32::from_le_bytes(*s))
            .collect::<Vec<f32>>()
    };
    let played = decode(&[], "heard");
    let all_samples = decode(&["-ignore_editlist", "1"], "whole");
    // 93 packets fit into two seconds; the first only primes the decoder.
    assert_eq!(
        (played.len(), all_samples.len()),
        (92 * 1024 * 2, 93 * 1024 * 2)
    );
    assert!(all_samples[1024 * 2..] == played[..]);
    // It fades in from silence within 0.6 seconds, and fades out in the same way.
    let levels = envelope(&played);
    let steady = levels[70..120].iter().sum::<f32>() / 50.0;
    assert!(levels[0] < steady * 0.01 && levels[levels.len() - 1] < steady * 0.01);
    assert!(levels[20] < steady && levels[levels.len() - 20] < steady);
}

#[test]
fn the_hardest_picture_stays_under_the_ceiling() {
    let mut state = 1_u32;
    let noise: Vec<u8> = (0..900 * 900 * 3)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            u8::try_from(state >> 24).unwrap()
        })
        .collect();
    let picture = Picture::from_rgb(900, 900, noise).unwrap();
    for (prompt, size) in [("fast pan right", (480, 480)), ("handheld", (854, 480))] {
        let options = options(size, 2.0, 30, 0);
        let video = film(Some(&picture), prompt, options);
        let ceiling = options.max_video_bytes();
        let bytes = video.mp4.len() as u64;
        // The index comes on top: some bytes for each frame.
        assert!(bytes < ceiling + 4096, "{prompt}: {bytes} of {ceiling}");
        assert!(bytes > ceiling / 3, "{prompt}: {bytes} wastes {ceiling}");
        assert_eq!(video.frames, 60);
    }
}

#[test]
fn uncompressed_frames_are_as_many_as_the_videos_and_complete() {
    let picture = detailed(480, 480);
    let request = RenderRequest {
        picture: Some(&picture),
        prompt: "static",
        options: options((480, 480), 1.0, 24, 0),
    };
    let mut out = Vec::new();
    animatic::write_y4m(&request, &mut out, &mut RenderControl::unattended()).unwrap();
    let header = b"YUV4MPEG2 W480 H480 F24:1 Ip A1:1 C420mpeg2 XCOLORRANGE=LIMITED\n";
    assert!(out.starts_with(header));
    assert_eq!(out.len(), header.len() + 24 * (6 + 480 * 480 * 3 / 2));
    let first = &out[header.len() + 6..][..480 * 480];
    let expected = crate::common::luma_of(&picture);
    assert!(first.iter().zip(expected).all(|(a, b)| a.abs_diff(b) <= 1));
}
