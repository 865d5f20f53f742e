//! `GET /v1/usage`: an account's work and costs, as JSON or CSV.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::auth::{AllowedCaller, TasksRead};
use crate::error::ErrorResponse;
use crate::query::Query;
use crate::wire::usage::{UsageList, UsageParameters, UsageQuery};
use mediagate_core::app::App;
use mediagate_core::domain::usage;
use mediagate_model::error::Error;

/// Get usage and costs by UTC day, model and key.
#[utoipa::path(get, path = "/v1/usage", tag = "account", params(UsageParameters),
    responses((status = 200, description = "The rows and their total. CSV contains only the rows", content(
        (UsageList = "application/json"), (String = "text/csv")))))]
pub(super) async fn usage(
    allowed: AllowedCaller<TasksRead>,
    Query(query): Query<UsageParameters>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let is_csv = query.format.is_csv(&allowed.headers);
    let query = UsageQuery::new(query, allowed.caller.account.id, app.clock.now())?;
    let report = usage::usage(&app, query.selection.clone()).await?;
    let list = UsageList::new(&query, &report);
    let name = format!("usage-{}-{}.csv", list.from, list.to);
    Ok(csv_or_json(
        is_csv.then(|| (name, list.csv(&query.selection))),
        list,
    )?)
}

/// The CSV file, given as its name and text, if the caller requested one; otherwise JSON.
pub(super) fn csv_or_json(
    csv: Option<(String, String)>,
    json: impl Serialize,
) -> Result<Response, Error> {
    let mut response = match csv {
        Some((name, text)) => csv_file(&name, text)?,
        None => Json(json).into_response(),
    };
    // Caches must keep CSV and JSON of the same URL apart.
    let vary = HeaderValue::from_static("accept");
    response.headers_mut().insert(header::VARY, vary);
    Ok(response)
}

/// A response with a CSV file of this name.
fn csv_file(name: &str, text: String) -> Result<Response, Error> {
    let content_type = HeaderValue::from_static("text/csv; charset=utf-8");
    let disposition = HeaderValue::try_from(format!("attachment; filename=\"{name}\""));
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (
            header::CONTENT_DISPOSITION,
            disposition.map_err(Error::internal)?,
        ),
    ];
    Ok((headers, text).into_response())
}
