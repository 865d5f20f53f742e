//! Prints, as JSON, the bodies that a protocol's adapter sends for every model in the catalogue: of
//! each size, of the shortest, the default and the longest length, from text, from frames and from
//! references, without and with every optional setting. They are checked against an SDK's types:
//! `bodies runway`.

#![expect(clippy::print_stdout, reason = "a program of its own")]

use anyhow::Context as _;
use providers::catalogue::{Catalogue, KnownModel};
use providers::order::{Choice, MediaFile, MediaKind, PictureRole, SourcePicture};
use providers::order::{VideoOptions, VideoSpec};
use providers::{
    Adapter, CallTarget, ModelLimits, Order, PicturePurpose, ProviderSettings, RequestBody,
    VideoLimits, WorkSpec,
};
use serde_json::{Value, json};

fn main() -> anyhow::Result<()> {
    let name = std::env::args().nth(1).context("which protocol?")?;
    let protocol = providers::protocol(&name).context("no such protocol")?;
    let mut bodies = Vec::new();
    let catalogue = Catalogue::embedded();
    let models = catalogue.models();
    for model in models.filter(|model| model.provider == name && model.retired.is_none()) {
        let settings = ProviderSettings::new(&name, model.options.clone());
        let adapter = (protocol.build)(&settings)?;
        if let Some(ModelLimits::Video(limits)) = adapter.limits(MediaKind::Video, &model.id) {
            for video in videos(&limits) {
                bodies.push(body(&*adapter, model, video)?);
            }
        }
    }
    println!("{}", Value::Array(bodies));
    Ok(())
}

fn body(adapter: &dyn Adapter, model: &KnownModel, video: VideoSpec) -> anyhow::Result<Value> {
    let order = Order {
        idempotency_key: "key-of-the-order".into(),
        model: model.id.clone(),
        extra: serde_json::Map::new(),
        work: WorkSpec::Video(video),
    };
    let call = adapter.start(&order)?;
    let (CallTarget::Path(path), RequestBody::Json(body)) = (call.target, call.body) else {
        anyhow::bail!("{}: no JSON to a path", model.id);
    };
    Ok(json!({"path": path, "body": body}))
}

/// Every kind of order that a model takes.
fn videos(limits: &VideoLimits) -> Vec<VideoSpec> {
    use PictureRole::{FirstFrame, LastFrame, Reference};
    let pictures = limits.pictures;
    let mut sources: Vec<Vec<PictureRole>> = Vec::new();
    if !pictures.needed {
        sources.push(Vec::new());
    }
    if pictures.purpose == PicturePurpose::Frames && pictures.max >= 1 {
        sources.push(vec![FirstFrame]);
    }
    if pictures.takes_last_frame() {
        sources.push(vec![FirstFrame, LastFrame]);
    }
    for count in [1, pictures.most_references()] {
        if count > 0 && pictures.most_references() > 0 {
            sources.push(vec![Reference; count]);
        }
    }
    let lengths = [
        limits.durations.min(),
        limits.default_seconds,
        limits.durations.max(),
    ];
    let mut videos = Vec::new();
    for roles in &sources {
        for size in &limits.sizes {
            for seconds in lengths {
                let plain = VideoSpec {
                    prompt: "a lighthouse in a storm".into(),
                    pictures: roles.iter().map(|role| picture(*role)).collect(),
                    seconds,
                    size: *size,
                    options: VideoOptions::default(),
                };
                let mut with_options = plain.clone();
                with_options.options.negative_prompt =
                    limits.negative_prompt.then(|| "people".into());
                with_options.options.seed = limits.seed.then_some(Choice::Asked(7));
                with_options.options.audio = limits.audio.map(|usual| Choice::Asked(!usual));
                videos.extend([plain, with_options]);
            }
        }
    }
    videos
}

fn picture(role: PictureRole) -> SourcePicture {
    let file = MediaFile {
        name: "picture.png".into(),
        mime: "image/png",
        bytes: b"\x89PNG\r\n\x1a\n".as_slice().into(),
        url: None,
    };
    SourcePicture { role, file }
}
