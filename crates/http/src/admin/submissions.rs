//! `/v1/admin/submissions`: submissions to providers, all or only the unconfirmed ones.

use axum::Json;
use axum::extract::State;

use crate::auth::{Admin, AllowedCaller};
use crate::error::ErrorResponse;
use crate::fields::parameters::parameters;
use crate::page_params::{ListPage, WordField};
use crate::query::Query;
use crate::wire::admin::submissions::SubmissionObject;
use crate::wire::list::List;
use mediagate_core::app::App;
use mediagate_core::domain::routes;
use mediagate_model::ids::SubmissionId;
use mediagate_model::submission::SubmissionFilter;

parameters! {
    /// The parameters of the list.
    pub(crate) struct SubmissionParameters {
        /// `unconfirmed`: only submissions with an unknown outcome, and jobs that were found later.
        /// Default: all submissions
        state: WordField<SubmissionFilter>,
        + page: ListPage<SubmissionId>,
    }
}

/// List submissions to providers, newest first.
#[utoipa::path(get, path = "/v1/admin/submissions", tag = "admin", params(SubmissionParameters),
    responses((status = 200, description = "A page of submissions", body = List<SubmissionObject>)))]
pub(crate) async fn list(
    _: AllowedCaller<Admin>,
    Query(query): Query<SubmissionParameters>,
    State(app): State<App>,
) -> Result<Json<List<SubmissionObject>>, ErrorResponse> {
    let page = query.page.into_query();
    let (records, has_more) = routes::submissions(&app, query.state, page).await?;
    let objects = records.iter().map(SubmissionObject::new).collect();
    Ok(Json(List::new(
        objects,
        has_more,
        |submission: &SubmissionObject| submission.id.clone(),
    )))
}
