//! `kling`.

use providers::order::PictureRole;
use serde_json::json;

use crate::suite::{Case, Makes, orders};

fn case(name: &'static str, model: &'static str) -> Case {
    Case {
        name,
        protocol: "kling",
        options: json!({}),
        model,
        secret: "simulated-access:simulated-secret",
        order: orders::video(model),
        makes: Makes::Video,
        cancels: false,
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let picture = orders::with_picture(orders::video("kling-v2-6"));
    let frames = orders::with_picture_as(picture.clone(), PictureRole::LastFrame);
    let wordy = orders::video_with("kling-v3", |video| {
        video.options.negative_prompt = Some("rain".into());
        video.seconds = 12;
        video.size = (1080, 1920);
    });
    vec![
        case("kling: text", "kling-v2-master"),
        Case {
            order: wordy,
            ..case("kling: text by v3", "kling-v3")
        },
        Case {
            order: picture,
            ..case("kling: picture", "kling-v2-6")
        },
        Case {
            order: frames,
            ..case("kling: frames", "kling-v2-6")
        },
    ]
}
