//! `/v1/admin/submissions`: submissions to providers, all or only the unconfirmed ones, and how an
//! operator resolves these.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::Response;

use super::write::OperatorWrite;
use crate::auth::{Admin, AllowedCaller};
use crate::body::JsonBody;
use crate::error::ErrorResponse;
use crate::fields::parameters::parameters;
use crate::orders::admin::submissions::{ResolutionRequest, read};
use crate::page_params::{ListPage, WordField};
use crate::query::Query;
use crate::wire::admin::submissions::SubmissionObject;
use crate::wire::list::List;
use mediagate_core::app::App;
use mediagate_core::domain::operator::OperatorAction;
use mediagate_core::domain::submissions;
use mediagate_model::error::Error;
use mediagate_model::ids::SubmissionId;
use mediagate_model::submission::{SubmissionFilter, SubmissionRecord};

parameters! {
    /// The parameters of the list.
    pub(crate) struct SubmissionParameters {
        /// `unconfirmed`: only submissions with an unknown outcome, and jobs that were found later,
        /// until they are resolved. Default: all submissions
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
    let (records, has_more) = submissions::page(&app, query.state, page).await?;
    let objects = records.iter().map(SubmissionObject::new).collect();
    Ok(Json(List::new(
        objects,
        has_more,
        |submission: &SubmissionObject| submission.id.clone(),
    )))
}

/// Resolve an unconfirmed submission by hand.
///
/// It leaves the list of unconfirmed submissions, and the gateway no longer looks for its job. No
/// money moves: the caller was not charged.
#[utoipa::path(post, path = "/v1/admin/submissions/{id}/resolve", tag = "admin",
    request_body = ResolutionRequest,
    params(("id" = String, Path, description = "The submission's id")),
    responses((status = 200, description = "The submission", body = SubmissionObject)))]
pub(crate) async fn resolve(
    write: OperatorWrite,
    Path(id): Path<String>,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    let id = parse(&id)?;
    let ((note, job), fingerprint) = write.read(&app, body, read).await?;
    let resolve = async |operation: OperatorAction<'_, SubmissionRecord>| {
        submissions::resolve(&app, operation, id, note, job).await
    };
    let show = |record: &SubmissionRecord, _| SubmissionObject::new(record);
    Ok(write.make(&app, fingerprint, resolve, show).await?)
}

fn parse(id: &str) -> Result<SubmissionId, Error> {
    id.parse().map_err(|_| submissions::not_found())
}
