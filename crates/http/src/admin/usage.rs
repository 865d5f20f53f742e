//! `GET /v1/admin/usage`: the usage of every account, what was charged for it, and what providers
//! were paid.

use axum::extract::State;
use axum::response::Response;

use super::account_of_filter;
use crate::auth::{Admin, AllowedCaller};
use crate::error::ErrorResponse;
use crate::query::Query;
use crate::usage::csv_or_json;
use crate::wire::admin::usage::{AdminUsageList, AdminUsageParameters, AdminUsageQuery};
use mediagate_core::app::App;
use mediagate_core::domain::usage;
use mediagate_model::error::{Error, ErrorCode};

/// Get the usage of all accounts, with charges and provider costs.
#[utoipa::path(get, path = "/v1/admin/usage", tag = "admin", params(AdminUsageParameters),
    responses((status = 200, description = "The rows (at most 10000) and their total. CSV contains only the rows", content(
        (AdminUsageList = "application/json"), (String = "text/csv")))))]
pub(crate) async fn usage(
    allowed: AllowedCaller<Admin>,
    Query(query): Query<AdminUsageParameters>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let is_csv = query.format.is_csv(&allowed.headers);
    let account = query.account.clone();
    let mut query = AdminUsageQuery::new(query, app.clock.now())?;
    query.selection.account = account_of_filter(&app, account).await?;
    let attribute = query.attribute.clone();
    let filter = query.attribute_filter.clone();
    let report = usage::all_accounts(&app, query.selection.clone(), attribute, filter).await?;
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
