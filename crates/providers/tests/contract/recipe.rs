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

/// A recipe that is part of the program.
fn shipped(name: &'static str, protocol: &'static str, model: &'static str) -> Case {
    Case {
        protocol,
        options: json!({}),
        ..case(name, "", model)
    }
}

/// The orders of the recipes that are part of the program.
fn shipped_cases() -> Vec<Case> {
    let (openrouter, wavespeed, kie) = ("recipe:openrouter", "recipe:wavespeed", "recipe:kie");
    let veo = "google/veo-3.1";
    let first = |model| orders::with_picture(orders::video(model));
    let frames = |model| orders::with_picture_as(first(model), PictureRole::LastFrame);
    let eight = |mut order: providers::Order| {
        if let providers::Work::Video(video) = &mut order.work {
            (video.seconds, video.seed) = (8, Some(7));
        }
        order
    };
    let addressed = |mut order: providers::Order| {
        if let providers::Work::Video(video) = &mut order.work {
            for picture in &mut video.pictures {
                picture.file.url = Some("https://media.example.com/p.png".into());
            }
        }
        order
    };
    let (wan_text, wan_picture) = (
        "alibaba/wan-3.0/text-to-video",
        "alibaba/wan-3.0/image-to-video",
    );
    let seedance = "bytedance/seedance-2-5";
    vec![
        Case {
            order: eight(orders::video(veo)),
            ..shipped("recipe/openrouter: text", openrouter, veo)
        },
        Case {
            order: eight(frames(veo)),
            ..shipped("recipe/openrouter: two frames", openrouter, veo)
        },
        shipped("recipe/wavespeed: text", wavespeed, wan_text),
        Case {
            order: first(wan_picture),
            ..shipped("recipe/wavespeed: picture", wavespeed, wan_picture)
        },
        shipped("recipe/kie: text", kie, seedance),
        Case {
            order: addressed(frames(seedance)),
            ..shipped("recipe/kie: two frames", kie, seedance)
        },
    ]
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
    let own = vec![
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
    ];
    [own, shipped_cases()].concat()
}
