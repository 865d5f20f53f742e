//! Checks of a video order against what a model, or one of its routes, offers.

use orders::{Durations, ModelLimits, VideoDemand, VideoFault, VideoLimits};
use providers::port::prompt_settings;
use serde_json::{Map, Value};

use crate::app::{App, AppParts};
use crate::domain::assets;
use crate::domain::video::{RequestedPicture, VideoOrder};
use mediagate_model::catalog::{Model, Route};
use mediagate_model::error::{Error, ErrorCode, FieldError};

/// The limits of a video model.
pub(super) fn video_limits(limits: &ModelLimits) -> Result<&VideoLimits, Error> {
    match limits {
        ModelLimits::Video(video) => Ok(video),
        ModelLimits::Music(_) => Err(Error::internal("a video model without video limits")),
    }
}

/// Why a route cannot make a video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteFault {
    /// Its model does not offer something.
    Limits(VideoFault),
    /// Its provider fetches pictures, and cannot reach this gateway.
    Handover,
    /// Its provider would interpret this word of the prompt as a setting, bypassing the order and
    /// its price.
    PromptSetting(&'static str),
    /// It makes no videos.
    Kind,
}

/// What a route does not offer. It can make the video if that is nothing.
pub fn route_faults(app: &AppParts, route: &Route, demand: &VideoDemand<'_>) -> Vec<RouteFault> {
    let ModelLimits::Video(offered) = &route.limits else {
        return vec![RouteFault::Kind];
    };
    let faults = offered.faults(demand).into_iter().map(RouteFault::Limits);
    let mut faults: Vec<RouteFault> = faults.collect();
    if demand.has_pictures() && !assets::can_be_handed(app, offered.pictures.handover) {
        faults.push(RouteFault::Handover);
    }
    if let Some(setting) = setting_in(app, route, demand.prompt) {
        faults.push(RouteFault::PromptSetting(setting));
    }
    faults
}

/// Text in a prompt that a route's provider would interpret as a setting.
fn setting_in(app: &AppParts, route: &Route, text: &str) -> Option<&'static str> {
    let sites = app.models.upstream.sites();
    let adapter = sites.get(&route.provider)?.provider.adapter();
    prompt_settings::setting_in(text, adapter.prompt_settings(&route.model))
}

/// Refuses an order that no single route of its model can make.
pub(super) fn check(app: &App, model: &Model, order: &VideoOrder) -> Result<(), Error> {
    let demand = order.demand();
    // First against all routes together: a fault here is one for every route, and the message names
    // all that the model can do. What passes may still fit no single route.
    let offered = video_limits(&model.limits)?;
    let faults = offered.faults(&demand).into_iter();
    let mut faults: Vec<FieldError> = faults
        .map(|fault| limit_error(&model.id, offered, order, fault))
        .collect();
    faults.extend(keyframe_fault(model, order));
    faults.extend(blocked_options(model, order));
    if faults.is_empty() {
        let mut first_faults = None;
        for route in model.routes() {
            let route_faults = route_faults(app, route, &demand);
            if route_faults.is_empty() {
                return Ok(());
            }
            // Only the first route's faults are returned. Those of several could contradict each
            // other.
            first_faults.get_or_insert((route, route_faults));
        }
        if let Some((route, route_faults)) = first_faults {
            let offered = video_limits(&route.limits)?;
            let errors = route_faults.into_iter();
            faults.extend(errors.map(|fault| route_error(&model.id, offered, order, fault)));
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Error::Invalid(faults))
    }
}

/// The error for what a route does not offer.
fn route_error(
    model: &str,
    offered: &VideoLimits,
    order: &VideoOrder,
    fault: RouteFault,
) -> FieldError {
    match fault {
        RouteFault::Limits(fault) => limit_error(model, offered, order, fault),
        RouteFault::Handover => {
            let first = order.every_picture().next();
            let param = first.map_or(order.params.picture, |(_, param)| param);
            let message =
                "This model's provider fetches images by URL, but this gateway has no public_url.";
            field_error(param, message.into())
        }
        RouteFault::PromptSetting(setting) => field_error(
            order.params.prompt,
            format!(
                "{model} would interpret --{setting} in the prompt as a setting. Remove it, and use the \
                 corresponding field instead."
            ),
        ),
        RouteFault::Kind => field_error(order.params.prompt, format!("{model} makes no videos.")),
    }
}

/// The error for what a model does not offer: the field, and what is offered instead.
fn limit_error(
    model: &str,
    offered: &VideoLimits,
    order: &VideoOrder,
    fault: VideoFault,
) -> FieldError {
    let params = &order.params;
    let sizes = || {
        let sizes = offered.sizes.iter().map(|(w, h)| format!("{w}x{h}"));
        let sizes = comma_list(&sizes.collect::<Vec<_>>());
        format!("{model} supports the sizes {sizes}.")
    };
    let (param, message): (&str, String) = match fault {
        VideoFault::Seconds => {
            let lengths = match &offered.durations {
                Durations::Range { min, max } if offered.fractions => format!("{min} to {max}"),
                Durations::Range { min, max } => format!("{min} to {max} whole"),
                Durations::Only(list) => comma_list(list),
            };
            let message = format!("{model} supports lengths of {lengths} seconds.");
            (params.seconds, message)
        }
        VideoFault::Size => (params.size, sizes()),
        VideoFault::Resolution => (params.resolution, sizes()),
        VideoFault::AspectRatio => (params.aspect_ratio, sizes()),
        VideoFault::Audio => {
            let what = "does not let you choose whether the video has sound";
            (params.audio, format!("{model} {what}."))
        }
        VideoFault::Label => {
            let what = "does not support a label: videos of hosted models are stored unchanged";
            (params.label, format!("{model} {what}."))
        }
        VideoFault::NegativePrompt => {
            let message = format!("{model} does not support a negative prompt.");
            (params.negative_prompt, message)
        }
        VideoFault::Seed => (params.seed, format!("{model} does not support a seed.")),
        VideoFault::Prompt => {
            let most = offered.max_prompt;
            let message = format!("{model} supports prompts of at most {most} characters.");
            (params.prompt, message)
        }
        VideoFault::Frames
        | VideoFault::LastFrame
        | VideoFault::LastFrameAlone
        | VideoFault::References { .. }
        | VideoFault::ReferencesAndFrames
        | VideoFault::NoPicture => picture_error(model, offered, order, fault),
    };
    field_error(param, message)
}

/// The field and the message for pictures that a model does not take.
fn picture_error<'a>(
    model: &str,
    offered: &VideoLimits,
    order: &'a VideoOrder,
    fault: VideoFault,
) -> (&'a str, String) {
    let params = &order.params;
    let pictures = &offered.pictures;
    let param_of = |picture: Option<&'a RequestedPicture>, name: &'static str| -> &'a str {
        picture.map_or(name, |(_, param)| param)
    };
    let end_param = param_of(order.end_picture.as_ref(), params.end_picture);
    match fault {
        VideoFault::Frames => {
            let message = format!("{model} supports at most {} image(s).", pictures.max);
            let picture = order.pictures.get(pictures.max);
            (param_of(picture, params.picture), message)
        }
        VideoFault::LastFrame => (end_param, format!("{model} does not support a last frame.")),
        VideoFault::LastFrameAlone => {
            let message = "A last frame requires exactly one other image, the first frame.";
            (end_param, message.into())
        }
        VideoFault::References { free } => {
            let message = match pictures.most_references() {
                0 => format!("{model} does not support reference images."),
                limit => format!("{model} supports at most {limit} reference image(s)."),
            };
            (
                param_of(order.references.get(free), params.references),
                message,
            )
        }
        VideoFault::ReferencesAndFrames => {
            let message = format!("{model} supports either reference images or frames, not both.");
            (params.references, message)
        }
        _ => {
            let message = format!("{model} requires an image as the first frame.");
            (params.picture, message)
        }
    }
}

/// The fault of a first frame for a model that would take it as a reference.
fn keyframe_fault(model: &Model, order: &VideoOrder) -> Option<FieldError> {
    let keyframe = order
        .pictures
        .first()
        .filter(|_| order.has_first_frame && !model.takes_frames());
    let (_, param) = keyframe?;
    let message = format!(
        "{} takes images only as references, so none of them can be the first frame.",
        model.id
    );
    Some(field_error(param, message))
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
        .map(|name| field_error(&format!("{param}.{name}"), message.clone()))
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

fn field_error(param: &str, message: String) -> FieldError {
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
