//! Request extensions that the layers around every endpoint and the key check share.

use std::sync::{Arc, OnceLock};

use axum::http::request::Parts;

use mediagate_core::limits::RateState;
use mediagate_model::error::Error;
use mediagate_model::ids::RequestId;

/// Where authentication puts the key's rate state, for the response headers.
#[derive(Clone, Default)]
pub(super) struct RateSlot(pub(super) Arc<OnceLock<RateState>>);

/// Marks the request of an operator, who is told which provider did the work.
#[derive(Clone, Copy)]
pub(super) struct SeesProviders;

/// The id of a request, which every request has by then.
pub(super) fn request_id(parts: &Parts) -> Result<RequestId, Error> {
    let id = parts.extensions.get().cloned();
    id.ok_or_else(|| Error::internal("a request outside the frame"))
}
