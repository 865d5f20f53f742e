//! Checks of a video order against what a model, or one of its routes, offers.

use providers::port::prompt_settings;
use providers::{Durations, ModelLimits, PicturePurpose, VideoLimits};
use serde_json::{Map, Value};

use crate::app::{App, AppParts};
use crate::domain::assets;
use crate::domain::video::VideoOrder;
use mediagate_model::catalog::{Model, Route};
use mediagate_model::error::{Error, ErrorCode, FieldError};
use mediagate_model::task::{Choice, PictureRole, VideoJob};

/// The limits of a video model.
pub(super) fn video_limits(limits: &ModelLimits) -> Result<&VideoLimits, Error> {
    match limits {
        ModelLimits::Video(video) => Ok(video),
        ModelLimits::Music(_) => Err(Error::internal("a video model without video limits")),
    }
}

/// Whether a route offers what a job needs.
pub fn fits(app: &AppParts, route: &Route, job: &VideoJob) -> bool {
    let ModelLimits::Video(offered) = &route.limits else {
        return false;
    };
    if setting_in(app, route, &job.prompt).is_some() {
        return false;
    }
    #[expect(clippy::cast_precision_loss, reason = "a video's length is small")]
    let seconds = job.milliseconds as f64 / 1000.0;
    let count = |role| {
        let pictures = job.pictures.iter().filter(|picture| picture.role == role);
        pictures.count()
    };
    let last_frames = count(Choice::Asked(PictureRole::LastFrame));
    let references = count(Choice::Asked(PictureRole::Reference));
    let pictures = job.pictures.len();
    let frames = pictures - last_frames - references;
    offered.durations.contains(seconds)
        && offered.sizes.contains(&(job.width, job.height))
        && accepts_pictures(offered, frames, last_frames > 0, references)
        && (pictures == 0 || assets::can_be_handed(app, offered.pictures.handover))
        && (pictures > 0 || !offered.pictures.needed)
        && (job.options.negative_prompt.is_none() || offered.negative_prompt)
        && (job.options.seed.and_then(Choice::asked).is_none() || offered.seed)
        && (job.options.audio.and_then(Choice::asked).is_none() || offered.audio.is_some())
        && job.prompt.chars().count() <= offered.max_prompt
}

/// Text in a prompt that a route's provider would interpret as a setting, bypassing the order and
/// its price.
fn setting_in(app: &AppParts, route: &Route, text: &str) -> Option<&'static str> {
    let sites = app.models.upstream.sites();
    let adapter = sites.get(&route.provider)?.provider.adapter();
    prompt_settings::setting_in(text, adapter.prompt_settings(&route.model))
}

/// Whether these numbers of pictures are accepted; [`refusals`] gives the reason if not.
fn accepts_pictures(
    offered: &VideoLimits,
    frames: usize,
    has_end: bool,
    references: usize,
) -> bool {
    let pictures = &offered.pictures;
    let share_slots = pictures.purpose == PicturePurpose::References;
    let in_slots = if share_slots {
        frames + references
    } else {
        frames
    };
    in_slots <= pictures.max
        && (!has_end || (frames == 1 && pictures.takes_last_frame()))
        && references <= pictures.most_references()
        && (references == 0 || share_slots || (frames == 0 && !has_end))
}

/// Refuses an order that no single route of its model can make.
pub(super) fn check(app: &App, model: &Model, order: &VideoOrder) -> Result<(), Error> {
    let is_hosted = !model.routes().is_empty();
    // First against all routes together: a fault here is one for every route, and the message names
    // all that the model can do. What passes may still fit no single route.
    let mut faults = refusals(&model.id, video_limits(&model.limits)?, order, is_hosted);
    faults.extend(blocked_options(model, order));
    if faults.is_empty() && is_hosted {
        let mut first_faults = None;
        for route in model.routes() {
            let offered = video_limits(&route.limits)?;
            let mut route_faults = refusals(&model.id, offered, order, true);
            if let Some((_, param)) = order.every_picture().next()
                && !assets::can_be_handed(app, offered.pictures.handover)
            {
                let message = "This model's provider fetches images by URL, but this gateway has no public_url.";
                route_faults.push(fault(param, message.into()));
            }
            if let Some(setting) = setting_in(app, route, &order.prompt) {
                let message = format!(
                    "{} would interpret --{setting} in the prompt as a setting. Remove it, and use the \
                     corresponding field instead.",
                    model.id
                );
                route_faults.push(fault(order.params.prompt, message));
            }
            if route_faults.is_empty() {
                return Ok(());
            }
            // Only the first route's faults are returned. Those of several could contradict each
            // other.
            first_faults.get_or_insert(route_faults);
        }
        faults = first_faults.unwrap_or_default();
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Error::Invalid(faults))
    }
}

/// The faults of an order: what it asks for that is not offered.
pub(super) fn refusals(
    model: &str,
    offered: &VideoLimits,
    order: &VideoOrder,
    is_hosted: bool,
) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let mut refuse = |param: &str, message: String| faults.push(fault(param, message));
    // Hosted models take whole seconds; the embedded one takes any length.
    let is_whole = |seconds: f64| !is_hosted || seconds.fract() == 0.0;
    if let Some(seconds) = order.seconds
        && !(offered.durations.contains(seconds) && is_whole(seconds))
    {
        let lengths = match &offered.durations {
            Durations::Range { min, max } if is_hosted => format!("{min} to {max} whole"),
            Durations::Range { min, max } => format!("{min} to {max}"),
            Durations::Only(list) => comma_list(list),
        };
        refuse(
            order.params.seconds,
            format!("{model} supports lengths of {lengths} seconds."),
        );
    }
    if let Some(param) = missing_size(offered, order) {
        let sizes = offered.sizes.iter().map(|(w, h)| format!("{w}x{h}"));
        let sizes = comma_list(&sizes.collect::<Vec<_>>());
        refuse(param, format!("{model} supports the sizes {sizes}."));
    }
    if order.options.audio.is_some() && offered.audio.is_none() {
        refuse(
            order.params.audio,
            format!("{model} does not let you choose whether the video has sound."),
        );
    }
    if order.options.label && is_hosted {
        refuse(
            order.params.label,
            format!(
                "{model} does not support a label: videos of hosted models are stored unchanged."
            ),
        );
    }
    if order.options.negative_prompt.is_some() && !offered.negative_prompt {
        refuse(
            order.params.negative_prompt,
            format!("{model} does not support a negative prompt."),
        );
    }
    if order.options.seed.is_some() && !offered.seed {
        refuse(
            order.params.seed,
            format!("{model} does not support a seed."),
        );
    }
    if order.prompt.chars().count() > offered.max_prompt {
        refuse(
            order.params.prompt,
            format!(
                "{model} supports prompts of at most {} characters.",
                offered.max_prompt
            ),
        );
    }
    faults.extend(refused_pictures(model, offered, order));
    faults
}

/// The field with a size that is not offered.
fn missing_size(offered: &VideoLimits, order: &VideoOrder) -> Option<&'static str> {
    if let Some(size) = order.size {
        return (!offered.sizes.contains(&size)).then_some(order.params.size);
    }
    let frame = order.frame;
    if frame.is_unspecified() || frame.best_match(&offered.sizes, None).is_some() {
        return None;
    }
    // Determines which of the two fields cannot be satisfied.
    let shape_alone = super::FrameShape {
        resolution: None,
        ..frame
    };
    let has_shape =
        shape_alone.is_unspecified() || shape_alone.best_match(&offered.sizes, None).is_some();
    Some(if has_shape {
        order.params.resolution
    } else {
        order.params.aspect_ratio
    })
}

fn refused_pictures(model: &str, offered: &VideoLimits, order: &VideoOrder) -> Vec<FieldError> {
    let pictures = &offered.pictures;
    let (frames, references) = (order.pictures.len(), order.references.len());
    let share_slots = pictures.purpose == PicturePurpose::References;
    let mut faults = Vec::new();
    let mut refuse = |param: &str, message: String| faults.push(fault(param, message));
    if let Some((_, param)) = order.pictures.get(pictures.max) {
        let message = format!("{model} supports at most {} image(s).", pictures.max);
        refuse(param, message);
    }
    if let Some((_, param)) = &order.end_picture {
        if !pictures.takes_last_frame() {
            refuse(param, format!("{model} does not support a last frame."));
        } else if frames != 1 {
            let message = "A last frame requires exactly one other image, the first frame.";
            refuse(param, message.into());
        }
    }
    let limit = pictures.most_references();
    let free = if share_slots {
        limit.saturating_sub(frames)
    } else {
        limit
    };
    if let Some((_, param)) = order.references.get(free) {
        let message = match limit {
            0 => format!("{model} does not support reference images."),
            limit => format!("{model} supports at most {limit} reference image(s)."),
        };
        refuse(param, message);
    } else if references > 0 && !share_slots && (frames > 0 || order.end_picture.is_some()) {
        let message = format!("{model} supports either reference images or frames, not both.");
        refuse(order.params.references, message);
    }
    if pictures.needed && order.every_picture().next().is_none() {
        let message = format!("{model} requires an image as the first frame.");
        refuse(order.params.picture, message);
    }
    faults
}

/// Faults for provider options that the operator does not allow to be passed.
fn blocked_options(model: &Model, order: &VideoOrder) -> Vec<FieldError> {
    let (options, param) = (
        &order.options.provider_options,
        order.params.provider_options,
    );
    let mut names = Vec::new();
    collect_blocked(&model.passthrough_fields, "", options, &mut names);
    let passes = match model.passthrough_fields.as_slice() {
        [] => "none".to_owned(),
        names => comma_list(names),
    };
    let message = format!(
        "{} does not pass this field to its provider. Fields that are passed: {passes}.",
        model.id
    );
    names
        .into_iter()
        .map(|name| fault(&format!("{param}.{name}"), message.clone()))
        .collect()
}

/// Collects the dotted names of fields for which `pass` lists neither the field nor a parent.
fn collect_blocked(
    pass: &[String],
    parent: &str,
    options: &Map<String, Value>,
    names: &mut Vec<String>,
) {
    for (name, value) in options {
        let path = if parent.is_empty() {
            name.clone()
        } else {
            format!("{parent}.{name}")
        };
        if pass.contains(&path) {
            continue;
        }
        let child_prefix = format!("{path}.");
        match value {
            Value::Object(inner)
                if pass
                    .iter()
                    .any(|allowed| allowed.starts_with(&child_prefix)) =>
            {
                collect_blocked(pass, &path, inner, names);
            }
            _ => names.push(path),
        }
    }
}

fn fault(param: &str, message: String) -> FieldError {
    FieldError {
        code: ErrorCode::UnsupportedValue,
        param: param.to_owned(),
        message,
    }
}

fn comma_list<T: std::fmt::Display>(list: &[T]) -> String {
    list.iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_listed_fields_pass() {
        let pass = ["style".to_owned(), "input.steps".to_owned()];
        let names = |options: Value| {
            let mut names = Vec::new();
            collect_blocked(&pass, "", options.as_object().unwrap(), &mut names);
            names
        };
        assert!(names(json!({"style": {"any": 1}, "input": {"steps": 4}})).is_empty());
        assert_eq!(
            names(json!({"input": {"steps": 4, "n": 9}, "model": "x"})),
            ["input.n", "model"]
        );
        assert_eq!(names(json!({"input": 1, "styles": 1})), ["input", "styles"]);
    }
}
