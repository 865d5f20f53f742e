//! Tests of whole recipes.

mod answers;
mod any;
mod find;
mod requests;
mod sign;
mod songs;
mod upload;
mod wrong;

use serde_json::{Value, json};

use super::*;
use crate::adapters::tests::{adapter, picture, stems, video};
use crate::error::ErrorClass;
use crate::order::{Choice, PictureRole, SourcePicture, VideoSpec};
use crate::port::{CallEffect, CallTarget, FormPart, OutputKind, OutputSource, RequestBody};

const OPENAI: &str = include_str!("../../../../../../recipes/openai-videos.toml");
/// A recipe with errors in an envelope, and with JSON in a text.
const KIE: &str = include_str!("../../../../../../recipes/kie.toml");

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

fn adapter_of(recipe: &str) -> Result<Arc<dyn Adapter>, SettingsError> {
    let options = json!({"recipe": recipe});
    let options = options.as_object().cloned().unwrap_or_default();
    build(&ProviderSettings::new("test", options))
}

/// The short recipe with signed calls.
fn signing_recipe() -> String {
    format!("{SHORT}\n[auth]\nsign = {{ method = \"tc3\", service = \"vclm\" }}\n")
}

/// The short recipe with additional lines.
fn adapter_with(lines: &str) -> Arc<dyn Adapter> {
    adapter_of(&format!("{SHORT}\n{lines}")).unwrap()
}

/// The short recipe with a part changed.
fn short_recipe_with(from: &str, to: &str) -> String {
    assert!(SHORT.contains(from), "{from}");
    SHORT.replacen(from, to, 1)
}

fn video_with(model: &str, change: impl FnOnce(&mut VideoSpec)) -> Order {
    let mut order = video(model);
    if let WorkSpec::Video(video) = &mut order.work {
        change(video);
    }
    order
}

fn frame(role: PictureRole) -> SourcePicture {
    SourcePicture {
        role,
        file: picture(),
    }
}

/// A body's content, independent of the order of its fields.
fn content(body: &RequestBody) -> Value {
    match body {
        RequestBody::Json(body) => body.clone(),
        RequestBody::Multipart(parts) => parts
            .iter()
            .map(|part| match part {
                FormPart::Text { name, value } => (name.clone(), json!(value)),
                FormPart::File {
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

/// The error for a wrong recipe, with its line.
fn fault(recipe: &str) -> (usize, String) {
    let error = adapter_of(recipe).unwrap_err();
    assert_eq!(error.key.as_deref(), Some("recipe"));
    (error.line.unwrap(), error.message)
}

#[test]
fn a_recipe_sends_what_the_native_adapter_sends() {
    let name = "openai-videos";
    let (native, recipe_adapter) = (adapter(name, &json!({})), adapter_of(OPENAI).unwrap());
    let protocol_url = crate::adapters::protocol(name).unwrap().base_url;
    assert_eq!(
        recipe_adapter.base_url(),
        native.base_url().or(protocol_url)
    );
    assert_eq!(recipe_adapter.pace(), native.pace());
    let with_picture = video_with("sora-2", |video| {
        video.pictures.push(frame(PictureRole::FirstFrame));
    });
    let with_settings = video_with("wan", |video| {
        video.options.seed = Some(Choice::Asked(7));
        video.options.negative_prompt = Some("fog".into());
    });
    for order in [video("sora-2"), with_picture, with_settings] {
        let (theirs, ours) = (
            native.start(&order).unwrap(),
            recipe_adapter.start(&order).unwrap(),
        );
        assert_eq!((ours.method, ours.target), (theirs.method, theirs.target));
        assert_eq!((ours.query, ours.headers), (theirs.query, theirs.headers));
        assert_eq!(content(&ours.body), content(&theirs.body));
        assert_eq!(
            (ours.effect, theirs.effect),
            (CallEffect::Submission, CallEffect::Submission)
        );
    }
    let limits = |adapter: &dyn Adapter| match adapter.limits(MediaKind::Video, "sora-2") {
        Some(ModelLimits::Video(limits)) => limits,
        other => panic!("{other:?}"),
    };
    let (ours, theirs) = (limits(recipe_adapter.as_ref()), limits(native.as_ref()));
    assert!(ours.sizes.iter().all(|size| theirs.sizes.contains(size)));
    assert_eq!(
        (
            ours.pictures,
            ours.durations,
            ours.seed,
            ours.negative_prompt
        ),
        (
            theirs.pictures,
            theirs.durations,
            theirs.seed,
            theirs.negative_prompt
        )
    );
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
        adapter_of(recipe).unwrap();
    }
}

fn header_of(adapter: &dyn Adapter) -> Vec<(&'static str, String)> {
    let now = SystemTime::UNIX_EPOCH;
    match adapter.authorize(&Secret::new("k"), now).unwrap() {
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
        let headers = header_of(adapter_with(auth).as_ref());
        let sent = headers.first().map(|(name, value)| (*name, value.as_str()));
        assert_eq!(sent, header, "{auth}");
    }
}
