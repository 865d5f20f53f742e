//! `modelark`.

use providers::order::{Choice, PictureRole};
use serde_json::json;

use crate::suite::{Case, Makes, orders};

const MODEL: &str = "seedance-1-5-pro-251215";

fn case(name: &'static str) -> Case {
    Case {
        name,
        protocol: "modelark",
        options: json!({}),
        model: MODEL,
        secret: "ark-simulated-0123456789",
        order: orders::video(MODEL),
        makes: Makes::Video,
        cancels: true,
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let seeded = orders::video_with(MODEL, |video| {
        video.options.seed = Some(Choice::Asked(u64::MAX));
        video.size = (1080, 1920);
    });
    let picture = orders::with_picture(orders::video(MODEL));
    let frames = orders::with_picture_as(picture.clone(), PictureRole::LastFrame);
    let newest = "dreamina-seedance-2-5-260628";
    let newest_frame = orders::with_picture(orders::video(newest));
    let newest_frames = orders::with_picture_as(newest_frame.clone(), PictureRole::LastFrame);
    let newest_case = |name, order| Case {
        order,
        model: newest,
        ..case(name)
    };
    vec![
        newest_case("modelark: seedance 2.5, text", orders::video(newest)),
        newest_case("modelark: seedance 2.5, first frame", newest_frame),
        newest_case("modelark: seedance 2.5, two frames", newest_frames),
        case("modelark: text"),
        Case {
            order: seeded,
            ..case("modelark: seed")
        },
        Case {
            order: picture,
            ..case("modelark: picture")
        },
        Case {
            order: frames,
            ..case("modelark: frames")
        },
    ]
}
