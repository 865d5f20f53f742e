//! Orders for testing adapters, with small, real media.

use base64::Engine as _;
use bytes::Bytes;
use providers::order::{
    Choice, MediaFile, PersonaSpec, PictureRole, SeparationSpec, SongSpec, SourcePicture,
    SourceRecording, VideoOptions, VideoSpec,
};
use providers::{MediaKind, Order, StemGroup, StemTarget, WorkSpec};
use serde_json::json;

use super::Makes;

/// 16×9 pixels of blue.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAABAAAAAJCAIAAAC0SDtlAAAAFElEQVR42mPQiFpAEmIY1TAoNAAAR32jIURhtrkAAAAASUVORK5CYII=";

/// Length of [`recording`] in milliseconds.
const MILLISECONDS: u64 = 500;

fn order(model: &str, work: WorkSpec) -> Order {
    Order {
        idempotency_key: "01970000-0000-4000-8000-00000000c0de".into(),
        model: model.into(),
        extra: serde_json::Map::new(),
        work,
    }
}

/// A five-second video from a prompt.
pub(crate) fn video(model: &str) -> Order {
    order(
        model,
        WorkSpec::Video(VideoSpec {
            prompt: "a lighthouse in a storm".into(),
            pictures: Vec::new(),
            seconds: 5,
            size: (1280, 720),
            options: VideoOptions::default(),
        }),
    )
}

/// The same video with some fields changed.
pub(crate) fn video_with(model: &str, change: impl FnOnce(&mut VideoSpec)) -> Order {
    let mut order = video(model);
    if let WorkSpec::Video(video) = &mut order.work {
        change(video);
    }
    order
}

/// The order of a video with an additional picture in this role.
pub(crate) fn with_picture_as(mut order: Order, role: PictureRole) -> Order {
    if let WorkSpec::Video(video) = &mut order.work {
        let file = picture();
        video.pictures.push(SourcePicture { role, file });
    }
    order
}

/// The order of a video, with a first frame.
pub(crate) fn with_picture(order: Order) -> Order {
    with_picture_as(order, PictureRole::FirstFrame)
}

/// A picture.
pub(crate) fn picture() -> MediaFile {
    let bytes = base64::engine::general_purpose::STANDARD.decode(PNG);
    MediaFile {
        name: "picture.png".into(),
        mime: "image/png",
        bytes: bytes.unwrap().into(),
        url: None,
    }
}

/// A recording that the provider does not have.
pub(crate) fn recording() -> SourceRecording {
    SourceRecording {
        file: MediaFile {
            name: "song.wav".into(),
            mime: "audio/wav",
            bytes: wav(),
            url: None,
        },
        milliseconds: MILLISECONDS,
        upstream: None,
    }
}

fn wav() -> Bytes {
    simulator::media::audio(MILLISECONDS, 440.0)
}

fn separation(model: &str, targets: Vec<StemTarget>, full: bool) -> Order {
    order(
        model,
        WorkSpec::Stems(SeparationSpec {
            source: recording(),
            targets,
            full,
            title: "Song".into(),
        }),
    )
}

/// Vocals and the rest.
pub(crate) fn stems(model: &str) -> Order {
    let vocals = StemGroup::Vocals;
    let targets = vec![StemTarget::Only(vocals), StemTarget::Without(vocals)];
    separation(model, targets, false)
}

/// A full split into these.
pub(crate) fn full_stems(model: &str, targets: Vec<StemTarget>) -> Order {
    separation(model, targets, true)
}

/// A song by an operation of the music API.
pub(crate) fn song(model: &str, task: &str) -> Order {
    let fields =
        json!({"title": "Song", "tags": "calm piano", "prompt": "[Verse] rain on the sea"});
    order(
        model,
        WorkSpec::Song(SongSpec {
            task: task.into(),
            fields: fields.as_object().cloned().unwrap_or_default(),
            uploads: Vec::new(),
        }),
    )
}

/// A persona of a clip that the provider has.
pub(crate) fn persona(model: &str) -> Order {
    order(
        model,
        WorkSpec::Persona(PersonaSpec {
            root_clip: "00000000-0000-4000-8000-00000000c11b".into(),
            root_job: Some("00000000-0000-4000-8000-00000000c10b".into()),
            clips: vec!["00000000-0000-4000-8000-00000000c11b".into()],
            name: "A voice".into(),
            description: "low and slow".into(),
            is_public: false,
        }),
    )
}

#[test]
fn every_kind_of_work_can_be_ordered() {
    let seeded = video_with("m", |video| video.options.seed = Some(Choice::Asked(1)));
    for (order, kind) in [
        (with_picture(seeded), MediaKind::Video),
        (stems("m"), MediaKind::Music),
        (full_stems("m", vec![StemTarget::Other]), MediaKind::Music),
        (song("m", "create"), MediaKind::Music),
        (persona("m"), MediaKind::Music),
    ] {
        assert_eq!(order.work.kind(), kind);
        let makes = match order.work {
            WorkSpec::Video(_) => Makes::Video,
            WorkSpec::Stems(stems) => Makes::Stems(stems.targets),
            WorkSpec::Song(_) => Makes::Clips(2),
            WorkSpec::Persona(_) => Makes::Persona,
        };
        assert_eq!(matches!(makes, Makes::Video), kind == MediaKind::Video);
    }
}
