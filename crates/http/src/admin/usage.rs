//! `GET /v1/admin/usage`: the work of every account, what was charged for it, and what providers were
//! paid.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::named;
use crate::auth::{Admin, AllowedCaller};
use crate::error::ErrorResponse;
use crate::page_params::csv_wanted;
use crate::query::Query;
use crate::usage::table;
use crate::wire::admin::usage::{AdminUsageList, KNOWN, read};
use mediagate_core::app::App;
use mediagate_core::domain::usage;
use mediagate_model::error::{Error, ErrorCode};

/// Get the usage of all accounts, with charges and provider costs.
#[utoipa::path(get, path = "/v1/admin/usage", tag = "admin", params(
    ("from" = Option<String>, Query, description = "The first day, in UTC, as in 2026-01-31; 30 days up to `to` by default, 400 at most"),
    ("to" = Option<String>, Query, description = "The last day; today by default"),
    ("group_by" = Option<String>, Query, description = "Any of `day`, `hour`, `account`, `provider`, `model`, `key` and `outcome`, separated by commas; day, account, provider and model by default"),
    ("account" = Option<String>, Query, description = "Only of the account with this handle"),
    ("provider" = Option<String>, Query, description = "Only by this provider; `embedded` for models in the gateway itself"),
    ("model" = Option<String>, Query, description = "Only by this model"),
    ("key" = Option<String>, Query, description = "Only with the key of this id"),
    ("outcome" = Option<String>, Query, description = "`succeeded`, `failed` or `cancelled`"),
    ("format" = Option<String>, Query, description = "`json` or `csv`; by default what `Accept` says"),
), responses((status = 200, description = "The rows, 10000 at most, and their sum; as CSV the rows alone", content(
    (AdminUsageList = "application/json"), (String = "text/csv")))))]
pub(crate) async fn usage(
    _: AllowedCaller<Admin>,
    query: Query,
    headers: HeaderMap,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let now = app.clock.now();
    let (mut query, csv) = query.read_only(KNOWN, |query| {
        let csv = csv_wanted(query, &headers);
        Some((read(query, now), csv))
    })?;
    query.wanted.account = named(&app, query.account.take()).await?;
    let found = usage::of_all(&app, query.wanted.clone()).await?;
    let found = found.ok_or_else(too_many)?;
    let list = AdminUsageList::new(&query, &found);
    let name = format!("usage-{}-{}.csv", list.from, list.to);
    Ok(table(csv.then(|| (name, list.csv(&query))), list)?)
}

fn too_many() -> Error {
    let most = usage::MOST_ROWS;
    let message = format!("These are more than {most} rows: group by less, or ask for fewer days.");
    Error::at(ErrorCode::InvalidValue, "group_by", message)
}
