//! `minimax`, both of its APIs.

use providers::order::PictureRole;
use serde_json::json;

use crate::suite::{Case, Makes, orders};

fn case(name: &'static str, api: &str, model: &'static str) -> Case {
    Case {
        name,
        protocol: "minimax",
        options: json!({"api": api}),
        model,
        secret: "eyJ-simulated-0123456789",
        order: orders::video(model),
        makes: Makes::Video,
        cancels: false,
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let frames = |model| {
        let order = orders::with_picture(orders::video(model));
        orders::with_picture_as(order, PictureRole::LastFrame)
    };
    let character = orders::with_picture_as(orders::video("S2V-01"), PictureRole::Reference);
    vec![
        case("minimax v1: text", "v1", "MiniMax-Hailuo-2.3"),
        Case {
            order: frames("MiniMax-Hailuo-02"),
            ..case("minimax v1: frames", "v1", "MiniMax-Hailuo-02")
        },
        Case {
            order: character,
            ..case("minimax v1: character", "v1", "S2V-01")
        },
        Case {
            order: orders::song("music-2.0", "generate"),
            makes: Makes::Clips(1),
            ..case("minimax: song", "v1", "music-2.0")
        },
        Case {
            cancels: true,
            ..case("minimax v2: text", "v2", "MiniMax-H3")
        },
        Case {
            cancels: true,
            order: frames("MiniMax-H3"),
            ..case("minimax v2: frames", "v2", "MiniMax-H3")
        },
    ]
}
