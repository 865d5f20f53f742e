//! The list of predictions, in which a lost submission is searched for.

use std::time::SystemTime;

use serde_json::{Map, Value};

use super::inputs::PredictionInput;
use super::{handle, version};
use crate::error::ProviderError;
use crate::order::{Order, WorkSpec};
use crate::port::jobs::list::{JobList, agrees};
use crate::port::{Call, CallTarget, FoundJob, JobHandle, LookupPage, merge};
use crate::response::{text_at, time_at};

/// The first page, for orders whose prediction could be identified.
pub(super) fn first(order: &Order, prediction_input: PredictionInput<'_>) -> Option<Call> {
    listed_input(order, prediction_input).map(|_| page())
}

/// The predictions of a page that may be the order's.
pub(super) fn read(
    order: &Order,
    since: SystemTime,
    body: &Value,
    prediction_input: PredictionInput<'_>,
) -> Result<LookupPage, ProviderError> {
    let Some(input) = listed_input(order, prediction_input) else {
        return Err(ProviderError::unreadable("no look-up was started"));
    };
    let predictions = LIST.items(body)?;
    let jobs = predictions.iter().filter_map(|prediction| {
        let is_alike =
            is_of_model(&order.model, prediction) && agrees(&input, &prediction["input"]);
        let id = text_at(prediction, "/id").filter(|_| is_alike)?;
        let created_at = time_at(prediction, LIST.created_at);
        FoundJob::likely(order, JobHandle(handle(order, &id)), created_at, since)
    });
    let next = text_at(body, "/next").filter(|_| LIST.has_older_page(predictions, since));
    let next = next.map(|next| page().with_target(CallTarget::Address(next)));
    Ok(LookupPage::jobs(jobs).with_next_page(next))
}

const LIST: JobList = JobList {
    path: "/v1/predictions",
    query: &[],
    items: "/results",
    id: "/id",
    created_at: "/created_at",
};

pub(super) fn page() -> Call {
    let mut call = LIST.page();
    // Each prediction repeats its input, with files of up to 256 kB in it.
    call.limit_bytes = 64_000_000;
    call
}

/// The input, if a prediction contains all that was sent and something in it distinguishes orders.
fn listed_input(
    order: &Order,
    (mut input, files): PredictionInput<'_>,
) -> Option<Map<String, Value>> {
    for (name, value) in &order.extra {
        // Only the input is returned with a prediction.
        match value.as_object().filter(|_| name == "input") {
            Some(fields) => merge(&mut input, fields),
            None => return None,
        }
    }
    for (slot, file) in files {
        // It is unknown how inline content is returned, and what URL a lost upload has.
        slot.insert(&mut input, file.url.as_ref()?);
    }
    let identifying_field = match order.work {
        WorkSpec::Video(_) | WorkSpec::Song(_) => "prompt",
        _ => "audio",
    };
    input.contains_key(identifying_field).then_some(input)
}

/// Whether a prediction was made by the order's model. A prediction of a deployment names the model
/// behind it, which only the provider knows.
fn is_of_model(model: &str, prediction: &Value) -> bool {
    let text = |pointer| text_at(prediction, pointer);
    if let Some(name) = model.strip_prefix("deployments/") {
        return text("/deployment").is_none_or(|deployment| deployment == name);
    }
    let name = model.split_once(':').map_or(model, |(name, _)| name);
    match version(model) {
        Some(version) => text("/version").as_deref() == Some(version),
        None => text("/model").as_deref() == Some(name),
    }
}
