//! `recipe`: the shipped recipes, against the models of the providers that they
//! describe.

use providers::order::PictureRole;
use serde_json::json;

use crate::suite::{Case, Makes, orders};

fn case(name: &'static str, recipe: &str, model: &'static str) -> Case {
    Case {
        name,
        protocol: "recipe",
        options: json!({"recipe": recipe}),
        model,
        secret: "sk-simulated-0123456789",
        order: orders::video(model),
        makes: Makes::Video,
        cancels: false,
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let openai = include_str!("../../../../recipes/openai-videos.toml");
    let modelark = include_str!("../../../../recipes/modelark.toml");
    let minimax = include_str!("../../../../recipes/minimax.toml");
    let seedance = "seedance-1-5-pro-251215";
    let frames = |model| {
        let with_first = orders::with_picture(orders::video(model));
        orders::with_picture_as(with_first, PictureRole::LastFrame)
    };
    vec![
        Case {
            cancels: true,
            ..case("recipe/openai-videos: text", openai, "sora-2")
        },
        Case {
            cancels: true,
            order: orders::with_picture(orders::video("sora-2")),
            ..case("recipe/openai-videos: picture", openai, "sora-2")
        },
        Case {
            cancels: true,
            ..case("recipe/modelark: text", modelark, seedance)
        },
        Case {
            cancels: true,
            order: frames(seedance),
            ..case("recipe/modelark: two frames", modelark, seedance)
        },
        case("recipe/minimax: text", minimax, "MiniMax-Hailuo-2.3"),
        Case {
            order: frames("MiniMax-Hailuo-02"),
            ..case("recipe/minimax: two frames", minimax, "MiniMax-Hailuo-02")
        },
    ]
}
