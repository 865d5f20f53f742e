//! Request extensions, shared by the layers around every endpoint and the key check.

use std::sync::{Arc, OnceLock};

use axum::http::request::Parts;

use mediagate_core::limits::RateState;
use mediagate_model::error::Error;
use mediagate_model::ids::RequestId;

/// The slot for the key's rate state, which authentication fills, for the response headers.
#[derive(Clone, Default)]
pub(super) struct RateSlot(pub(super) Arc<OnceLock<RateState>>);

/// Marks the request of an operator, who may see which provider did the work.
#[derive(Clone, Copy)]
pub(super) struct SeesProviders;

/// The id of a request, which a layer has set.
pub(super) fn request_id(parts: &Parts) -> Result<RequestId, Error> {
    let id = parts.extensions.get().cloned();
    id.ok_or_else(|| Error::internal("a request outside the frame"))
}
