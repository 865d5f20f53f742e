//! `fal`.

use providers::order::{Choice, PictureRole};
use providers::{Order, StemGroup, StemTarget, WorkSpec};
use serde_json::json;

use crate::suite::{Case, Makes, orders};

const STABLE_AUDIO: &str = "fal-ai/stable-audio-25/text-to-audio";
const STABLE_AUDIO_3: &str = "fal-ai/stable-audio-3/medium/text-to-audio";
const KLING_4: &str = "kling/v4/text-to-video";
const SEEDANCE: &str = "bytedance/seedance-2.5/text-to-video";

fn case(name: &'static str, model: &'static str) -> Case {
    Case {
        name,
        protocol: "fal",
        options: json!({}),
        model,
        secret: "simulated:0123456789abcdef",
        order: orders::video(model),
        makes: Makes::Video,
        cancels: true,
    }
}

/// The same order with pictures that do not fit into a request.
fn with_large_pictures(mut order: Order) -> Order {
    if let WorkSpec::Video(video) = &mut order.work {
        for picture in &mut video.pictures {
            picture.file.bytes = vec![0; 1_200_000].into();
        }
    }
    order
}

pub(crate) fn cases() -> Vec<Case> {
    let veo = "fal-ai/veo3.1";
    // All three endpoints of Veo take these fields.
    let veo_order = || {
        orders::video_with(veo, |video| {
            video.options.negative_prompt = Some("rain".into());
            video.options.seed = Some(Choice::Asked(7));
        })
    };
    let frames = orders::with_picture_as(orders::with_picture(veo_order()), PictureRole::LastFrame);
    let sora = "fal-ai/sora-2/text-to-video";
    let kling = "fal-ai/kling-video/v2.5-turbo/pro/text-to-video";
    let all: Vec<StemTarget> = [
        StemGroup::Vocals,
        StemGroup::Drums,
        StemGroup::Bass,
        StemGroup::Guitar,
        StemGroup::Keyboard,
    ]
    .into_iter()
    .map(StemTarget::Only)
    .chain([StemTarget::Other])
    .collect();
    vec![
        Case {
            order: veo_order(),
            ..case("fal: text", veo)
        },
        Case {
            order: orders::with_picture(veo_order()),
            ..case("fal: picture", veo)
        },
        Case {
            order: with_large_pictures(frames),
            ..case("fal: two large frames", veo)
        },
        Case {
            order: orders::video_with(kling, |video| {
                video.options.negative_prompt = Some("rain".into());
            }),
            ..case("fal: kling", kling)
        },
        Case {
            order: orders::with_picture(orders::video(kling)),
            ..case("fal: kling, picture", kling)
        },
        Case {
            order: orders::video_with(KLING_4, |video| {
                (video.seconds, video.size) = (30, (1080, 1920));
            }),
            ..case("fal: kling 4", KLING_4)
        },
        Case {
            order: orders::with_picture(orders::video(KLING_4)),
            ..case("fal: kling 4, picture", KLING_4)
        },
        case("fal: seedance 2.5", SEEDANCE),
        Case {
            order: orders::with_picture(orders::video(SEEDANCE)),
            ..case("fal: seedance 2.5, first frame", SEEDANCE)
        },
        Case {
            order: orders::video_with(sora, |video| video.seconds = 20),
            ..case("fal: sora", sora)
        },
        Case {
            order: orders::song(STABLE_AUDIO, "generate"),
            makes: Makes::Clips(1),
            ..case("fal: music", STABLE_AUDIO)
        },
        Case {
            order: orders::song(STABLE_AUDIO_3, "generate"),
            makes: Makes::Clips(1),
            ..case("fal: music by version 3", STABLE_AUDIO_3)
        },
        Case {
            order: orders::full_stems("fal-ai/demucs", all.clone()),
            makes: Makes::Stems(all),
            ..case("fal: stems", "fal-ai/demucs")
        },
    ]
}
