//! `GET /v1/admin/requests`: the log of all requests.

use axum::Json;
use axum::extract::State;

use super::account_of_filter;
use crate::auth::{Admin, AllowedCaller};
use crate::error::ErrorResponse;
use crate::fields::parameters::parameters;
use crate::fields::types::OptionalText;
use crate::query::Query;
use crate::requests;
use crate::wire::requests::{RequestList, RequestObject, RequestParameters};
use mediagate_core::app::App;

parameters! {
    /// The filters of the log of all requests.
    pub(crate) struct AdminRequestParameters {
        /// Only for the account with this handle
        account: OptionalText<100>,
        + requests: RequestParameters,
    }
}

/// List the requests of all accounts, and those without a valid key, newest first, or count errors.
#[utoipa::path(get, path = "/v1/admin/requests", tag = "admin", params(AdminRequestParameters),
    responses((status = 200, description = "A page of the log. With `group_by`, the numbers of errors", body = RequestList)))]
pub(crate) async fn list(
    _: AllowedCaller<Admin>,
    Query(query): Query<AdminRequestParameters>,
    State(app): State<App>,
) -> Result<Json<RequestList>, ErrorResponse> {
    let account = account_of_filter(&app, query.account).await?;
    let list = requests::read(&app, query.requests, account, RequestObject::for_operator).await?;
    Ok(Json(list))
}
