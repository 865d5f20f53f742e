//! `xai`.

use serde_json::json;

use crate::suite::{Case, Makes, orders};

fn case(name: &'static str) -> Case {
    Case {
        name,
        protocol: "xai",
        options: json!({}),
        model: "grok-imagine-video",
        secret: "xai-simulated-0123456789",
        order: orders::video("grok-imagine-video"),
        makes: Makes::Video,
        cancels: false,
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let order = orders::video_with("grok-imagine-video", |video| {
        video.size = (480, 854);
        video.options.user = Some("somebody".into());
    });
    vec![
        case("xai: text"),
        Case {
            order,
            ..case("xai: upright")
        },
        Case {
            order: orders::with_picture(orders::video("grok-imagine-video")),
            ..case("xai: picture")
        },
    ]
}
