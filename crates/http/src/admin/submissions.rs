//! `/v1/admin/submissions`: submissions to providers, all or only the unconfirmed ones.

use axum::Json;
use axum::extract::State;

use crate::auth::{Admin, AllowedCaller};
use crate::error::ErrorResponse;
use crate::page_params::{enum_param, page};
use crate::query::Query;
use crate::wire::admin::submissions::SubmissionObject;
use crate::wire::list::List;
use mediagate_core::app::App;
use mediagate_core::domain::routes;
use mediagate_model::submission::SubmissionFilter;

/// List submissions to providers, newest first.
#[utoipa::path(get, path = "/v1/admin/submissions", tag = "admin", params(
    ("state" = Option<String>, Query, description = "`unconfirmed`: only submissions with an unknown outcome, and jobs that were found later. Default: all submissions"),
    ("limit" = Option<u32>, Query, description = "Number of items, 1 to 100. Default: 20"),
    ("after" = Option<String>, Query, description = "`last_id` of the previous page"),
), responses((status = 200, description = "A page of submissions", body = List<SubmissionObject>)))]
pub(crate) async fn list(
    _: AllowedCaller<Admin>,
    query: Query,
    State(app): State<App>,
) -> Result<Json<List<SubmissionObject>>, ErrorResponse> {
    let (filter, page) = query.read(|query| {
        let filter: Option<SubmissionFilter> = enum_param(query, "state", "unconfirmed");
        Some((filter, page(query, |text| text.parse().ok())))
    })?;
    let (records, has_more) = routes::submissions(&app, filter, page).await?;
    let objects = records.iter().map(SubmissionObject::new).collect();
    Ok(Json(List::new(
        objects,
        has_more,
        |submission: &SubmissionObject| submission.id.clone(),
    )))
}
