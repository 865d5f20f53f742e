//! `recipe`: the shipped recipes, against simulations of the providers that they describe.

use providers::order::{Choice, PictureRole};
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
fn shipped_case(name: &'static str, protocol: &'static str, model: &'static str) -> Case {
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
    let with_first_frame = |model| orders::with_picture(orders::video(model));
    let with_two_frames =
        |model| orders::with_picture_as(with_first_frame(model), PictureRole::LastFrame);
    let with_eight_seconds = |mut order: providers::Order| {
        if let providers::WorkSpec::Video(video) = &mut order.work {
            video.seconds = 8;
            video.options.seed = Some(Choice::Asked(7));
        }
        order
    };
    let with_urls = |mut order: providers::Order| {
        if let providers::WorkSpec::Video(video) = &mut order.work {
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
    let with_length_and_size = |mut order: providers::Order, seconds: u32, size: (u32, u32)| {
        if let providers::WorkSpec::Video(video) = &mut order.work {
            (video.seconds, video.size) = (seconds, size);
        }
        order
    };
    let (pixverse, vidu, ltx) = ("recipe:pixverse", "recipe:vidu", "recipe:ltx");
    let full_hd = (1920, 1080);
    let with_three_references = |model| {
        let references = |order| orders::with_picture_as(order, PictureRole::Reference);
        references(references(references(orders::video(model))))
    };
    let hunyuan = |name, order| Case {
        order,
        secret: "simulated-id:simulated-key",
        ..shipped_case(name, "recipe:hunyuan", "hunyuan")
    };
    vec![
        shipped_case("recipe/pixverse: text", pixverse, "v6"),
        Case {
            order: with_first_frame("v6"),
            ..shipped_case("recipe/pixverse: picture", pixverse, "v6")
        },
        Case {
            order: with_two_frames("v5.5"),
            ..shipped_case("recipe/pixverse: two frames", pixverse, "v5.5")
        },
        hunyuan("recipe/hunyuan: text", orders::video("hunyuan")),
        hunyuan("recipe/hunyuan: picture", with_first_frame("hunyuan")),
        shipped_case("recipe/vidu: text", vidu, "viduq3-pro"),
        Case {
            order: with_two_frames("viduq3-turbo"),
            ..shipped_case("recipe/vidu: two frames", vidu, "viduq3-turbo")
        },
        Case {
            order: with_three_references("viduq2"),
            ..shipped_case("recipe/vidu: references", vidu, "viduq2")
        },
        Case {
            order: with_length_and_size(orders::video("ltx-2-3-pro"), 8, full_hd),
            ..shipped_case("recipe/ltx: text", ltx, "ltx-2-3-pro")
        },
        Case {
            order: with_length_and_size(with_first_frame("ltx-2-5-fast"), 5, full_hd),
            ..shipped_case("recipe/ltx: picture", ltx, "ltx-2-5-fast")
        },
        Case {
            order: with_eight_seconds(orders::video(veo)),
            ..shipped_case("recipe/openrouter: text", openrouter, veo)
        },
        Case {
            order: with_eight_seconds(with_two_frames(veo)),
            ..shipped_case("recipe/openrouter: two frames", openrouter, veo)
        },
        Case {
            order: with_first_frame("bytedance/seedance-2.5"),
            ..shipped_case(
                "recipe/openrouter: seedance 2.5, first frame",
                openrouter,
                "bytedance/seedance-2.5",
            )
        },
        shipped_case("recipe/wavespeed: text", wavespeed, wan_text),
        Case {
            order: with_first_frame(wan_picture),
            ..shipped_case("recipe/wavespeed: picture", wavespeed, wan_picture)
        },
        shipped_case("recipe/kie: text", kie, seedance),
        Case {
            order: with_urls(with_two_frames(seedance)),
            ..shipped_case("recipe/kie: two frames", kie, seedance)
        },
    ]
}

/// Songs by recipes that are part of the program.
fn song_cases() -> Vec<Case> {
    let (mureka, suno) = ("recipe:mureka", "recipe:kie-suno");
    let song = |name, protocol, model, fields: serde_json::Value| {
        let mut order = orders::song(model, "generate");
        if let providers::WorkSpec::Song(song) = &mut order.work {
            song.fields = fields.as_object().cloned().unwrap();
        }
        Case {
            order,
            makes: Makes::Clips(if protocol == suno { 2 } else { 1 }),
            ..shipped_case(name, protocol, model)
        }
    };
    let cover = |name, fields| {
        let mut case = song(name, suno, "V5", fields);
        if let providers::WorkSpec::Song(song) = &mut case.order.work {
            "cover".clone_into(&mut song.task);
            let recording = orders::recording();
            song.uploads = vec![("cover_clip_id".into(), recording)];
        }
        case
    };
    let (with_lyrics, with_description) = (
        json!({"prompt": "[Verse] rain", "tags": "blues"}),
        json!({"prompt": "about rain"}),
    );
    let extension = json!({"prompt": "[Verse] rain", "tags": "blues", "continue_clip_id": "clip", "continue_at": 12.5});
    let instrumental = json!({"prompt": "slow", "tags": "blues", "make_instrumental": true});
    vec![
        song(
            "recipe/mureka: words",
            mureka,
            "mureka-9",
            with_lyrics.clone(),
        ),
        song(
            "recipe/mureka: description",
            mureka,
            "auto",
            with_description.clone(),
        ),
        song(
            "recipe/mureka: nobody sings",
            mureka,
            "auto",
            instrumental.clone(),
        ),
        song(
            "recipe/mureka: a song goes on",
            mureka,
            "auto",
            extension.clone(),
        ),
        song("recipe/kie-suno: words", suno, "V5", with_lyrics.clone()),
        song(
            "recipe/kie-suno: description",
            suno,
            "V5",
            with_description.clone(),
        ),
        song("recipe/kie-suno: nobody sings", suno, "V5", instrumental),
        song("recipe/kie-suno: a song goes on", suno, "V5", extension),
        cover("recipe/kie-suno: a cover in words", with_lyrics),
        cover("recipe/kie-suno: a cover", with_description),
        Case {
            order: orders::persona("V5"),
            makes: Makes::Persona,
            ..shipped_case("recipe/kie-suno: persona", suno, "V5")
        },
    ]
}

pub(crate) fn cases() -> Vec<Case> {
    let openai = include_str!("../../../../recipes/openai-videos.toml");
    let openai_cases = vec![
        Case {
            cancels: true,
            ..case("recipe/openai-videos: text", openai, "sora-2")
        },
        Case {
            cancels: true,
            order: orders::with_picture(orders::video("sora-2")),
            ..case("recipe/openai-videos: picture", openai, "sora-2")
        },
    ];
    [openai_cases, shipped_cases(), song_cases()].concat()
}
