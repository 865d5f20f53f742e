//! `GET /v1/requests`: the log of an account's requests.

use axum::Json;
use axum::extract::State;

use crate::auth::{AllowedCaller, TasksRead};
use crate::error::ErrorResponse;
use crate::query::Query;
use crate::wire::requests::{
    ErrorCountList, RequestList, RequestObject, RequestParameters, RequestQuery,
};
use mediagate_core::app::App;
use mediagate_core::domain::request_log::{self, ListedRequest};
use mediagate_model::error::Error;
use mediagate_model::ids::AccountId;

/// List requests, newest first, or count errors.
///
/// The log has every request that failed, and every one that made or changed something. It is kept
/// for `requests_ttl` (7 days by default).
#[utoipa::path(get, path = "/v1/requests", tag = "tasks", params(RequestParameters),
    responses((status = 200, description = "A page of the log. With `group_by`, the numbers of errors", body = RequestList)))]
pub(super) async fn list_requests(
    allowed: AllowedCaller<TasksRead>,
    Query(query): Query<RequestParameters>,
    State(app): State<App>,
) -> Result<Json<RequestList>, ErrorResponse> {
    let account = allowed.caller.account.id;
    let list = read(&app, query, Some(account), RequestObject::for_account).await?;
    Ok(Json(list))
}

/// The response to a query of the log of an account, or of all.
pub(super) async fn read(
    app: &App,
    query: RequestParameters,
    account: Option<AccountId>,
    show: impl Fn(ListedRequest) -> RequestObject,
) -> Result<RequestList, Error> {
    Ok(match query.into_query() {
        RequestQuery::List(mut filter, page) => {
            filter.account = account;
            let (listed, has_more) = request_log::page(app, filter, page).await?;
            RequestList::entries(listed.into_iter().map(show).collect(), has_more)
        }
        RequestQuery::Count(mut filter, grouping) => {
            filter.account = account;
            let (counts, total) = request_log::error_counts(app, filter, grouping).await?;
            RequestList::Errors(ErrorCountList::new(counts, total, grouping))
        }
    })
}
