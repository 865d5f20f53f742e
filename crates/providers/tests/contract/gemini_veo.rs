//! `gemini-veo`.

use providers::order::{Choice, PictureRole};
use serde_json::{Value, json};

use crate::suite::{Case, Makes, orders};

/// Made for these tests; it gives access to nothing.
const ACCOUNT: &str = include_str!("../data/service-account.json");

fn case(name: &'static str, model: &'static str, options: Value) -> Case {
    let is_vertex = options["api"] == "vertex";
    Case {
        name,
        protocol: "gemini-veo",
        cancels: options["api"] == "interactions",
        options,
        model,
        secret: if is_vertex {
            ACCOUNT
        } else {
            "AIza-simulated-0123456789"
        },
        order: orders::video(model),
        makes: Makes::Video,
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let preview = "veo-3.1-generate-preview";
    let frames = orders::with_picture_as(
        orders::with_picture(orders::video(preview)),
        PictureRole::LastFrame,
    );
    let vertex = json!({"api": "vertex", "project": "simulated", "location": "europe-west4"});
    let seeded = orders::video_with("veo-3.1-generate-001", |video| {
        video.options.seed = Some(Choice::Asked(7));
        video.size = (1080, 1920);
    });
    let interactions = json!({"api": "interactions"});
    let omni = "gemini-omni-1.2-flash";
    vec![
        case("gemini-veo: text", preview, json!({})),
        case("gemini-veo: the second", "veo-2.0-generate-001", json!({})),
        Case {
            order: frames,
            ..case(
                "gemini-veo: two frames",
                preview,
                json!({"person_generation": "allow_adult"}),
            )
        },
        Case {
            order: seeded,
            ..case("gemini-veo: Vertex", "veo-3.1-generate-001", vertex)
        },
        case("gemini-veo: interactions", omni, interactions.clone()),
        Case {
            order: orders::song("lyria-3.5", "generate"),
            makes: Makes::Clips(1),
            ..case("gemini-veo: song", "lyria-3.5", json!({}))
        },
        Case {
            order: orders::with_picture(orders::video(omni)),
            ..case("gemini-veo: interactions, picture", omni, interactions)
        },
    ]
}
