//! The identity of a video order: what decides the film, its price and its owner, however the
//! request is written.

use serde_json::{Value, json};

use super::VideoOrder;
use crate::app::AppParts;
use crate::domain::assets::sha256_hex;
use crate::domain::pictures::PictureSource;
use mediagate_model::task::{Choice, MediaKind};

/// Equal for two orders that ask for the same film. Pictures are in it by their digests.
pub fn identity(app: &AppParts, order: &VideoOrder) -> Value {
    let catalog = app.models.catalog.load();
    let model = order.model.as_deref();
    let model = model.unwrap_or_else(|| catalog.default_name(MediaKind::Video));
    let digests = |pictures: &[(PictureSource, String)]| -> Vec<String> {
        pictures.iter().map(|(source, _)| digest(source)).collect()
    };
    let conversation = order.options.conversation.iter();
    let conversation = conversation.map(|message| [&message.role, &message.text]);
    // Most protocols take only the prompt. Chat clients put the time of day into the other messages,
    // which would make each repetition an order of its own.
    let conversation = reads_conversation(app, model).then(|| conversation.collect::<Vec<_>>());
    let options = &order.options;
    json!({
        "model": model,
        "prompt": order.prompt,
        "pictures": digests(&order.pictures),
        "end_picture": digests(order.end_picture.as_slice()),
        "references": digests(&order.references),
        "seconds": order.seconds,
        "size": order.size,
        "resolution": order.frame.resolution,
        "aspect_ratio": order.frame.aspect_ratio,
        "audio": options.audio.map(Choice::value),
        "label": options.label,
        "seed": options.seed.map(Choice::value),
        "negative_prompt": options.negative_prompt,
        "provider_options": options.provider_options,
        "count": order.count,
        "user": options.user,
        "callback": order.callback.as_ref().map(|callback| &callback.url),
        "conversation": conversation,
    })
}

fn digest(source: &PictureSource) -> String {
    match source {
        PictureSource::Address(url) => sha256_hex(url.as_bytes()),
        PictureSource::Bytes(bytes) => sha256_hex(bytes),
        PictureSource::Stored(id) => sha256_hex(id.to_string().as_bytes()),
    }
}

/// Whether a provider of the model gets the messages before the prompt. Assumed of a model that is
/// not known.
fn reads_conversation(app: &AppParts, model: &str) -> bool {
    let catalog = app.models.catalog.load();
    let Some(model) = catalog.by_name(model) else {
        return true;
    };
    let sites = app.models.upstream.sites();
    let mut routes = model.routes().iter();
    routes.any(|route| {
        let site = sites.get(&route.provider);
        site.is_none_or(|site| site.provider.adapter().reads_conversation())
    })
}
