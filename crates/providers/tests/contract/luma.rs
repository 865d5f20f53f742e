//! `luma`, both of its APIs.

use providers::order::PictureRole;
use serde_json::json;

use crate::suite::{Case, Makes, orders};

fn case(name: &'static str, api: &str, model: &'static str) -> Case {
    Case {
        name,
        protocol: "luma",
        options: json!({"api": api}),
        model,
        secret: "luma-simulated-0123456789",
        order: orders::video(model),
        makes: Makes::Video,
        cancels: api == "dream-machine",
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let frames = |model| {
        let order = orders::with_picture(orders::video(model));
        orders::with_picture_as(order, PictureRole::LastFrame)
    };
    let mut long = frames("ray-3.2");
    let mut fetched = frames("ray-2");
    if let providers::WorkSpec::Video(video) = &mut long.work {
        video.seconds = 10;
    }
    if let providers::WorkSpec::Video(video) = &mut fetched.work {
        for picture in &mut video.pictures {
            picture.file.url = Some("https://gateway.example/media/picture.png".into());
        }
    }
    vec![
        case("luma agents: text", "agents", "ray-3.2"),
        Case {
            order: frames("ray-3.2"),
            ..case("luma agents: frames", "agents", "ray-3.2")
        },
        Case {
            order: long,
            ..case("luma agents: frames of ten seconds", "agents", "ray-3.2")
        },
        case("luma dream-machine: text", "dream-machine", "ray-flash-2"),
        Case {
            order: fetched,
            ..case("luma dream-machine: frames", "dream-machine", "ray-2")
        },
    ]
}
