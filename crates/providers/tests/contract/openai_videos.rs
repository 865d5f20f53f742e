//! `openai-videos`.

use serde_json::{Value, json};

use crate::suite::{Case, Makes, orders};

fn case(name: &'static str, options: Value) -> Case {
    Case {
        name,
        protocol: "openai-videos",
        options,
        model: "sora-2",
        secret: "sk-simulated-0123456789",
        order: orders::video("sora-2"),
        makes: Makes::Video,
        cancels: true,
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let picture = orders::with_picture(orders::video("sora-2"));
    vec![
        case("openai-videos: text", json!({})),
        case(
            "openai-videos: text with a key",
            json!({"idempotency": true}),
        ),
        Case {
            order: picture.clone(),
            ..case("openai-videos: picture", json!({}))
        },
        Case {
            order: picture,
            ..case(
                "openai-videos: picture in JSON",
                json!({"encoding": "json", "seconds": "integer"}),
            )
        },
    ]
}
