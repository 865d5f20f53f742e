//! `replicate`.

use providers::order::Choice;
use providers::{Order, StemGroup, StemTarget, WorkSpec};
use serde_json::json;

use crate::suite::{Case, Makes, orders};

const DEMUCS: &str =
    "cjwbw/demucs:25a173108cff36ef9f80f854c162d01df9e6528be175794b81158fa03836d953";

const STABLE_AUDIO: &str = "stability-ai/stable-audio-2.5";

fn case(name: &'static str, model: &'static str) -> Case {
    Case {
        name,
        protocol: "replicate",
        options: json!({}),
        model,
        secret: "r8_simulated0123456789",
        order: orders::video(model),
        makes: Makes::Video,
        cancels: true,
    }
}

/// The same order with files that do not fit into a request.
fn with_large_files(mut order: Order) -> Order {
    match &mut order.work {
        WorkSpec::Video(video) => {
            for picture in &mut video.pictures {
                picture.file.bytes = vec![0; 300_000].into();
            }
        }
        WorkSpec::Stems(stems) => {
            stems.source.file.bytes = simulator::media::audio(3_000, 440.0);
        }
        _ => {}
    }
    order
}

pub(crate) fn cases() -> Vec<Case> {
    let veo = "google/veo-3.1";
    let kling = "kwaivgi/kling-v2.5-turbo-pro";
    let vocals = StemGroup::Vocals;
    let all: Vec<StemTarget> = [
        vocals,
        StemGroup::Drums,
        StemGroup::Bass,
        StemGroup::Guitar,
        StemGroup::Keyboard,
    ]
    .into_iter()
    .map(StemTarget::Only)
    .chain([StemTarget::Other])
    .collect();
    let seeded = orders::video_with(veo, |video| {
        video.options.seed = Some(Choice::Asked(7));
        video.options.negative_prompt = Some("rain".into());
    });
    vec![
        Case {
            order: seeded,
            ..case("replicate: text", veo)
        },
        Case {
            order: with_large_files(orders::with_picture(orders::video(veo))),
            ..case("replicate: large picture", veo)
        },
        Case {
            order: orders::with_picture(orders::video(kling)),
            ..case("replicate: picture", kling)
        },
        Case {
            order: orders::song(STABLE_AUDIO, "generate"),
            makes: Makes::Clips(1),
            ..case("replicate: music", STABLE_AUDIO)
        },
        Case {
            order: orders::stems(DEMUCS),
            makes: Makes::Stems(vec![StemTarget::Only(vocals), StemTarget::Without(vocals)]),
            ..case("replicate: two stems", DEMUCS)
        },
        Case {
            order: with_large_files(orders::full_stems(DEMUCS, all.clone())),
            makes: Makes::Stems(all),
            ..case("replicate: all stems", DEMUCS)
        },
    ]
}
