//! Stored payloads and results of videos: those of earlier versions stay readable, and are written
//! unchanged.

use mediagate_model::media::MediaType;
use mediagate_model::task::{
    Choice, PictureRole, TaskPayload, TaskResult, VideoJob, VideoOptions, VideoOutput,
};
use serde_json::{Value, json};

/// Payloads as they were stored before options were one type, one a line.
const STORED: &str = include_str!("video_payloads.jsonl");

fn job(text: &str) -> VideoJob {
    match serde_json::from_str(text).unwrap() {
        TaskPayload::VideoV1(job) => job,
        other => panic!("{other:?}"),
    }
}

#[test]
fn stored_payloads_are_read_and_written_as_before() {
    for line in STORED.lines() {
        let written = serde_json::to_value(TaskPayload::VideoV1(job(line))).unwrap();
        let mut stored: Value = serde_json::from_str(line).unwrap();
        if stored["fps"] == 0 && stored["seed_is_asked"] == false {
            // Nothing has ever read the number of the video that stood here.
            stored["seed"] = 0.into();
        }
        assert_eq!(written, stored);
    }
}

#[test]
fn stored_choices_keep_who_made_them() {
    use Choice::{Asked, Default};
    let jobs: Vec<VideoJob> = STORED.lines().map(job).collect();
    let choices = jobs.iter().map(|job| {
        let options = &job.options;
        (job.fps, options.seed, options.audio)
    });
    let expected = [
        // An engine of the gateway, without a seed and with one.
        (Some(30), Some(Default(0)), None),
        (Some(30), Some(Asked(77)), None),
        // Providers.
        (None, Some(Asked(5)), None),
        (None, None, None),
        (None, None, None),
        (None, None, Some(Asked(false))),
        (None, None, Some(Default(true))),
        // The first and the second video of one chat.
        (None, None, None),
        (None, None, None),
    ];
    assert_eq!(choices.collect::<Vec<_>>(), expected);
    assert!(jobs[0].options.label);
    let options = &jobs[2].options;
    assert_eq!(options.negative_prompt.as_deref(), Some("rain"));
    assert_eq!(options.user.as_deref(), Some("ada"));
    assert_eq!(options.provider_options["style"], "ink");
    assert_eq!(jobs[8].options.conversation[0].text, "be brief");
}

#[test]
fn stored_pictures_keep_their_roles() {
    use Choice::{Asked, Default};
    use PictureRole::{FirstFrame, LastFrame, Reference};
    let roles = STORED.lines().map(|line| {
        let pictures = job(line).pictures.into_iter();
        pictures.map(|picture| picture.role).collect::<Vec<_>>()
    });
    let by_position = vec![Default(FirstFrame), Default(LastFrame)];
    let expected = [
        vec![],
        vec![Default(FirstFrame)],
        vec![Default(FirstFrame)],
        vec![Default(FirstFrame), Asked(LastFrame)],
        vec![Asked(Reference), Asked(Reference)],
        vec![],
        vec![],
        by_position.clone(),
        by_position,
    ];
    assert_eq!(roles.collect::<Vec<_>>(), expected);
}

#[test]
fn stored_videos_may_lack_a_codec() {
    let stored = json!({"type": "video_v1", "video": "0193a000-0000-7000-8000-000000000020", "poster": null,
        "sheet": null, "width": 480, "height": 480, "milliseconds": 1000, "size_bytes": 9, "sha256": "0a",
        "expires_at_micros": 0, "direction": []});
    let TaskResult::VideoV1(first) = serde_json::from_value(stored).unwrap() else {
        panic!("not a video")
    };
    assert_eq!(
        (first.media, first.codec.as_deref()),
        (MediaType::Mp4, None)
    );
    let video = VideoOutput {
        codec: Some("av1".into()),
        ..first
    };
    let written = serde_json::to_value(TaskResult::VideoV1(video.clone())).unwrap();
    assert_eq!(written["codec"], "av1");
    let read: TaskResult = serde_json::from_value(written).unwrap();
    assert_eq!(read, TaskResult::VideoV1(video));
}

#[test]
fn the_first_payloads_had_fewer_fields() {
    let stored = r#"{"type": "video_v1", "prompt": "a lake", "picture": null, "width": 480, "height": 480,
        "milliseconds": 1000, "fps": 30, "seed": 7, "user": null}"#;
    let expected = VideoJob {
        prompt: "a lake".into(),
        width: 480,
        height: 480,
        milliseconds: 1000,
        fps: Some(30),
        options: VideoOptions {
            seed: Some(Choice::Default(7)),
            ..VideoOptions::default()
        },
        ..VideoJob::default()
    };
    assert_eq!(job(stored), expected);
}
