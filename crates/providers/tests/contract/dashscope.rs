//! `dashscope`.

use providers::order::{Choice, PictureRole};
use serde_json::json;

use crate::suite::{Case, Makes, orders};

fn case(name: &'static str, model: &'static str) -> Case {
    Case {
        name,
        protocol: "dashscope",
        options: json!({}),
        model,
        secret: "sk-simulated-0123456789",
        order: orders::video(model),
        makes: Makes::Video,
        cancels: true,
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let picture = |model| orders::with_picture(orders::video(model));
    let frames = |model| orders::with_picture_as(picture(model), PictureRole::LastFrame);
    let wordy = orders::video_with("wan2.6-t2v", |video| {
        video.options.seed = Some(Choice::Asked(u64::MAX));
        video.options.negative_prompt = Some("rain".into());
    });
    vec![
        Case {
            order: wordy,
            ..case("dashscope: text", "wan2.6-t2v")
        },
        case("dashscope: text by 2.7", "wan2.7-t2v"),
        Case {
            order: picture("wan2.6-i2v"),
            ..case("dashscope: picture", "wan2.6-i2v")
        },
        Case {
            order: frames("wan2.2-kf2v-flash"),
            ..case("dashscope: frames", "wan2.2-kf2v-flash")
        },
        Case {
            order: frames("wan2.7-i2v"),
            ..case("dashscope: frames by 2.7", "wan2.7-i2v")
        },
        case("dashscope: happyhorse", "happyhorse-1.1-t2v"),
        Case {
            order: picture("happyhorse-1.0-i2v"),
            ..case("dashscope: happyhorse with a picture", "happyhorse-1.0-i2v")
        },
    ]
}
