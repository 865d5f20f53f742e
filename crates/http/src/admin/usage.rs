//! `GET /v1/admin/usage`: the usage of every account, what was charged for it, and what providers
//! were paid.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::account_of_filter;
use crate::auth::{Admin, AllowedCaller};
use crate::error::ErrorResponse;
use crate::page_params::wants_csv;
use crate::query::Query;
use crate::usage::csv_or_json;
use crate::wire::admin::usage::{AdminUsageList, PARAMETERS, read};
use mediagate_core::app::App;
use mediagate_core::domain::usage;
use mediagate_model::error::{Error, ErrorCode};

/// Get the usage of all accounts, with charges and provider costs.
#[utoipa::path(get, path = "/v1/admin/usage", tag = "admin", params(
    ("from" = Option<String>, Query, description = "The first day in UTC, for example 2026-01-31. Default: 30 days up to `to`. At most 400 days"),
    ("to" = Option<String>, Query, description = "The last day in UTC. Default: today"),
    ("group_by" = Option<String>, Query, description = "Any of `day`, `hour`, `account`, `provider`, `model`, `key` and `outcome`, separated by commas. Default: day, account, provider and model"),
    ("account" = Option<String>, Query, description = "Only for the account with this handle"),
    ("provider" = Option<String>, Query, description = "Only usage of this provider; `embedded` for models that run in the gateway"),
    ("model" = Option<String>, Query, description = "Only usage of this model"),
    ("key" = Option<String>, Query, description = "Only usage of the API key with this id"),
    ("outcome" = Option<String>, Query, description = "`succeeded`, `failed` or `cancelled`"),
    ("format" = Option<String>, Query, description = "`json` or `csv`. Default: according to the `Accept` header"),
), responses((status = 200, description = "The rows (at most 10000) and their total. CSV contains only the rows", content(
    (AdminUsageList = "application/json"), (String = "text/csv")))))]
pub(crate) async fn usage(
    _: AllowedCaller<Admin>,
    query: Query,
    headers: HeaderMap,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let now = app.clock.now();
    let (mut query, is_csv) = query.read_only(PARAMETERS, |query| {
        let is_csv = wants_csv(query, &headers);
        Some((read(query, now), is_csv))
    })?;
    query.selection.account = account_of_filter(&app, query.account.take()).await?;
    let report = usage::all_accounts(&app, query.selection.clone()).await?;
    let report = report.ok_or_else(too_many)?;
    let list = AdminUsageList::new(&query, &report);
    let name = format!("usage-{}-{}.csv", list.from, list.to);
    Ok(csv_or_json(is_csv.then(|| (name, list.csv(&query))), list)?)
}

fn too_many() -> Error {
    let max_rows = usage::MOST_ROWS;
    let message = format!(
        "The result has more than {max_rows} rows. Group by fewer fields, or request fewer days."
    );
    Error::at_field(ErrorCode::InvalidValue, "group_by", message)
}
