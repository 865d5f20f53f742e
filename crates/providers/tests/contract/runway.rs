//! `runway`.

use providers::order::{Choice, PictureRole};
use serde_json::json;

use crate::suite::{Case, Makes, orders};

fn case(name: &'static str, model: &'static str) -> Case {
    Case {
        name,
        protocol: "runway",
        options: json!({}),
        model,
        secret: "key_simulated0123456789",
        order: orders::video(model),
        makes: Makes::Video,
        cancels: true,
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let frames = |model| {
        let order = orders::with_picture(orders::video(model));
        orders::with_picture_as(order, PictureRole::LastFrame)
    };
    let seeded = orders::video_with("gen4.5", |video| {
        video.options.seed = Some(Choice::Asked(u64::MAX));
    });
    // Too large for the body, so each is uploaded first.
    let large = |video: &mut providers::order::VideoSpec| {
        for role in [PictureRole::FirstFrame, PictureRole::LastFrame] {
            let mut file = orders::picture();
            file.bytes = vec![0; 4_000_000].into();
            video
                .pictures
                .push(providers::order::SourcePicture { role, file });
        }
    };
    vec![
        Case {
            order: seeded,
            ..case("runway: text", "gen4.5")
        },
        Case {
            order: orders::with_picture(orders::video("gen4_turbo")),
            ..case("runway: picture", "gen4_turbo")
        },
        Case {
            order: frames("kling2.5_turbo_pro"),
            ..case("runway: frames", "kling2.5_turbo_pro")
        },
        Case {
            order: frames("seedance2_5"),
            ..case("runway: seedance 2.5, frames", "seedance2_5")
        },
        Case {
            order: orders::video_with("veo3.1", large),
            ..case("runway: large frames", "veo3.1")
        },
    ]
}
