//! `POST /v1/quote`: what a request would cost, without making anything.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde_json::Value;

use crate::auth::{AllowedCaller, AnyKey};
use crate::body::JsonBody;
use crate::error::ErrorResponse;
use crate::fields::types::{AnyObject, RequiredField, TextField};
use crate::fields::{self, request};
use crate::orders::{self, terms::cost_limit};
use crate::wire::quotes::QuoteObject;
use mediagate_core::app::App;
use mediagate_core::domain::keys;
use mediagate_core::domain::order_terms::OrderTerms;
use mediagate_core::domain::quotes::{self, QuotedOrder};
use mediagate_model::account::{Caller, Scope};
use mediagate_model::error::{Error, ErrorCode, FieldError};

request! {
    /// The request to quote.
    #[expect(dead_code, reason = "some fields are only checked")]
    pub(super) struct QuoteRequest {
        /// Path of the endpoint to quote: `/v1/chat/completions`, `/v1/videos`, the same of
        /// `/api/v1`, or a music, persona or upload path of this gateway.
        endpoint: RequiredField<TextField<200>>,
        /// The JSON body of the request to that endpoint.
        body: RequiredField<AnyObject>,
    }
}

/// Get the cost and the routes of a request without executing it.
#[utoipa::path(post, path = "/v1/quote", tag = "account", request_body = QuoteRequest,
    responses((status = 200, description = "The quote", body = QuoteObject)))]
pub(super) async fn quote(
    allowed: AllowedCaller<AnyKey>,
    State(app): State<App>,
    headers: HeaderMap,
    body: JsonBody,
) -> Result<Json<QuoteObject>, ErrorResponse> {
    let caller = &allowed.caller;
    let (quoting_caller, brand) = (caller.clone(), app.config.brand.clone());
    let read = body.read(&app, move |body| {
        read_quote_subject(&quoting_caller, &brand, body)
    });
    // The order can contain a picture, so its share of memory is kept until the quote is made.
    let ((path, order), _memory) = read.await?;
    let mut terms = OrderTerms {
        max_cost: order.max_cost(),
        ..OrderTerms::default()
    };
    terms.limit_cost(cost_limit(&headers)?);
    let quote = quotes::quote(&app, caller, order).await;
    let quote = quote.map_err(inside_body)?;
    let shows_providers =
        app.models.catalog.load().shows_providers() || caller.key.may(Scope::Admin);
    let object = QuoteObject::new(path, &quote, shows_providers);
    Ok(Json(object.with_limit(&quote, terms.max_cost)))
}

/// The endpoint, and the order in the body.
fn read_quote_subject(
    caller: &Caller,
    brand: &str,
    body: &Value,
) -> Result<(String, QuotedOrder), Error> {
    let path = fields::read(body, |body| QuoteRequest::read(body).endpoint)?;
    let endpoints = orders::ALL.map(|(endpoint, _, read)| (endpoint.path(brand), endpoint, read));
    let Some((_, endpoint, read)) = endpoints
        .iter()
        .find(|(known_path, ..)| *known_path == path)
    else {
        let paths = endpoints.map(|(path, ..)| path).join(", ");
        let message = format!("Must be one of {paths}.");
        return Err(Error::at_field(
            ErrorCode::UnsupportedValue,
            "endpoint",
            message,
        ));
    };
    keys::require_scope(caller, endpoint.scope)?;
    let order = read(&body["body"]).map_err(inside_body)?;
    Ok((path, order))
}

/// The error with its field named as part of the field `body`: `body.prompt`.
fn inside_body(error: Error) -> Error {
    let nested_param = |param: String| {
        if param.is_empty() {
            "body".to_owned()
        } else {
            format!("body.{param}")
        }
    };
    match error {
        Error::Invalid(faults) => Error::Invalid(
            faults
                .into_iter()
                .map(|fault| FieldError {
                    param: nested_param(fault.param),
                    ..fault
                })
                .collect(),
        ),
        Error::Plain {
            code,
            message,
            param: Some(param),
        } => Error::at_field(code, nested_param(param), message),
        other => other,
    }
}
