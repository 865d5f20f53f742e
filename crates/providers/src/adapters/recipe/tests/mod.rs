//! Recipes as a whole.

mod answers;
mod any;
mod find;
mod requests;
mod sign;
mod songs;
mod stems;
mod upload;
mod wrong;

use serde_json::{Value, json};

use super::*;
use crate::adapters::tests::{adapter, picture, stems, video};
use crate::order::{Picture, PictureRole, StemGroup, StemTarget, Video};
use crate::port::{Body, Effect, Output, Part, Source, Target, What};

const SHIPPED: [(&str, &str); 3] = [
    (
        "openai-videos",
        include_str!("../../../../../../recipes/openai-videos.toml"),
    ),
    (
        "modelark",
        include_str!("../../../../../../recipes/modelark.toml"),
    ),
    (
        "minimax",
        include_str!("../../../../../../recipes/minimax.toml"),
    ),
];

/// The shortest recipe.
const SHORT: &str = r#"base_url = "https://api.example.com"
[video]
sizes = ["1280x720"]
seconds = [5]
[submit]
path = "/jobs"
[submit.body]
prompt = "{prompt}"
[submit.keep]
id = "/id"
[poll]
path = "/jobs/{id}"
[state]
word = "/status"
running = ["running"]
done = ["done"]
failed = ["failed"]
[result]
address = "/url"
"#;

fn cook(recipe: &str) -> Result<Arc<dyn Adapter>, SettingsError> {
    build(&Settings {
        name: "test".into(),
        base_url: None,
        options: json!({"recipe": recipe})
            .as_object()
            .cloned()
            .unwrap_or_default(),
    })
}

/// The short recipe, its calls signed.
fn signed() -> String {
    format!("{SHORT}\n[auth]\nsign = {{ method = \"tc3\", service = \"vclm\" }}\n")
}

/// The short recipe with lines more.
fn with(lines: &str) -> Arc<dyn Adapter> {
    cook(&format!("{SHORT}\n{lines}")).unwrap()
}

/// The short recipe with a piece of it changed.
fn changed(from: &str, to: &str) -> String {
    assert!(SHORT.contains(from), "{from}");
    SHORT.replacen(from, to, 1)
}

fn video_with(model: &str, change: impl FnOnce(&mut Video)) -> Order {
    let mut order = video(model);
    if let Work::Video(video) = &mut order.work {
        change(video);
    }
    order
}

fn frame(role: PictureRole) -> Picture {
    Picture {
        role,
        file: picture(),
    }
}

/// What a body holds, whatever the order of its fields.
fn content(body: &Body) -> Value {
    match body {
        Body::Json(body) => body.clone(),
        Body::Multipart(parts) => parts
            .iter()
            .map(|part| match part {
                Part::Text { name, value } => (name.clone(), json!(value)),
                Part::File {
                    name,
                    file_name,
                    mime,
                    bytes,
                } => (name.clone(), json!([file_name, mime, bytes.len()])),
            })
            .collect(),
        other => panic!("{other:?}"),
    }
}

/// What is said of a wrong recipe, with the line.
fn fault(recipe: &str) -> (usize, String) {
    let error = cook(recipe).unwrap_err();
    assert_eq!(error.key.as_deref(), Some("recipe"));
    (error.line.unwrap(), error.message)
}

#[test]
fn shipped_recipes_send_what_the_native_adapters_send() {
    let pictured = |model: &str| {
        video_with(model, |video| {
            video.pictures.push(frame(PictureRole::FirstFrame));
        })
    };
    let between = |model: &str| {
        video_with(model, |video| {
            video.pictures.push(frame(PictureRole::FirstFrame));
            video.pictures.push(frame(PictureRole::LastFrame));
        })
    };
    let seeded = |model: &str| {
        video_with(model, |video| {
            video.seed = Some(7_000_000_000);
            video.size = (496, 864);
        })
    };
    let with_seed = |mut order: Order| {
        if let Work::Video(video) = &mut order.work {
            video.seed = Some(7);
        }
        order
    };
    let wide = |mut order: Order| {
        if let Work::Video(video) = &mut order.work {
            (video.size, video.seconds) = ((1366, 768), 6);
        }
        order
    };
    let orders = |name: &str| match name {
        "openai-videos" => vec![
            video("sora-2"),
            pictured("sora-2"),
            video_with("wan", |video| {
                (video.seed, video.negative_prompt) = (Some(7), Some("fog".into()));
            }),
        ],
        // The native one gives a seed to orders that name none.
        "modelark" => vec![
            with_seed(pictured("seedance-1-5-pro-251215")),
            with_seed(between("seedance-1-5-pro-251215")),
            seeded("seedance-1-5-pro-251215"),
        ],
        _ => vec![
            wide(video("MiniMax-Hailuo-2.3")),
            wide(pictured("MiniMax-Hailuo-2.3")),
            wide(between("MiniMax-Hailuo-02")),
        ],
    };
    for (name, recipe) in SHIPPED {
        let (native, cook) = (adapter(name, &json!({})), cook(recipe).unwrap());
        let own = crate::adapters::protocol(name).unwrap().base_url;
        assert_eq!(cook.base_url(), native.base_url().or(own), "{name}");
        for order in orders(name) {
            let (theirs, ours) = (native.start(&order).unwrap(), cook.start(&order).unwrap());
            assert_eq!(ours.method, theirs.method);
            assert_eq!(ours.to, theirs.to);
            assert_eq!((ours.query, ours.headers), (theirs.query, theirs.headers));
            assert_eq!(content(&ours.body), content(&theirs.body), "{name}");
            assert_eq!(
                (ours.effect, theirs.effect),
                (Effect::Submission, Effect::Submission)
            );
        }
        assert_eq!(cook.pace(), native.pace(), "{name}");
        let model = &orders(name)[0].model;
        let (Some(Limits::Video(ours)), Some(Limits::Video(theirs))) = (
            cook.limits(Kind::Video, model),
            native.limits(Kind::Video, model),
        ) else {
            panic!("no limits");
        };
        let allowed = |size| theirs.sizes.contains(size);
        assert!(ours.sizes.iter().all(allowed), "{name}: {ours:?}");
        assert_eq!(ours.pictures, theirs.pictures, "{name}");
        assert_eq!(ours.durations, theirs.durations, "{name}");
        assert_eq!(
            (ours.seed, ours.negative_prompt),
            (theirs.seed, theirs.negative_prompt)
        );
    }
}

#[test]
fn the_manual_holds_recipes_that_work() {
    let manual = include_str!("../../../../../../docs/providers/recipe.md");
    let blocks = manual.split("```toml recipe\n").skip(1);
    let recipes: Vec<&str> = blocks
        .map(|block| block.split("```").next().unwrap())
        .collect();
    assert!(!recipes.is_empty());
    for recipe in recipes {
        cook(recipe).unwrap();
    }
}

fn header_of(cook: &dyn Adapter) -> Vec<(&'static str, String)> {
    let now = SystemTime::UNIX_EPOCH;
    match cook.authorize(&Secret::new("k"), now).unwrap() {
        Authorization::Headers(headers) => headers,
        other => panic!("no headers: {}", matches!(other, Authorization::Sign(_))),
    }
}

#[test]
fn keys_are_sent_as_the_recipe_says() {
    for (auth, header) in [
        ("", Some(("authorization", "Bearer k"))),
        ("[auth]\nscheme = \"Key\"", Some(("authorization", "Key k"))),
        ("[auth]\nheader = \"X-Api-Key\"", Some(("x-api-key", "k"))),
        (
            "[auth]\nheader = \"authorization\"",
            Some(("authorization", "k")),
        ),
        (
            "[auth]\nheader = \"x-auth\"\nscheme = \"Token\"",
            Some(("x-auth", "Token k")),
        ),
        ("[auth]\nnone = true", None),
    ] {
        let headers = header_of(with(auth).as_ref());
        let sent = headers.first().map(|(name, value)| (*name, value.as_str()));
        assert_eq!(sent, header, "{auth}");
    }
}
