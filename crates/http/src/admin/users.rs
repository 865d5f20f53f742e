//! `/v1/admin/users`: limits for end users, whom orders name in `user`.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::Response;

use super::account_of_filter;
use super::write::OperatorWrite;
use crate::auth::{Admin, AllowedCaller};
use crate::body::JsonBody;
use crate::error::ErrorResponse;
use crate::fields::check_text;
use crate::fields::parameters::parameters;
use crate::fields::types::OptionalText;
use crate::orders::admin::users::{self, UserLimitsRequest};
use crate::page_params::ListPage;
use crate::query::Query;
use crate::wire::admin::users::UserObject;
use crate::wire::list::List;
use mediagate_core::app::App;
use mediagate_core::domain::accounts;
use mediagate_core::domain::end_users::{self, UserRecord};
use mediagate_core::domain::operator::OperatorAction;
use mediagate_model::attribution::MAX_USER;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, UserLimitsId};

parameters! {
    /// The account of an end user.
    pub(crate) struct UserParameters {
        /// The handle of the account whose end user it is. Default: `default`
        account: OptionalText<100>,
    }
}

parameters! {
    /// The parameters of the list.
    pub(crate) struct UserListParameters {
        /// Only for the account with this handle
        account: OptionalText<100>,
        + page: ListPage<UserLimitsId>,
    }
}

/// Set the limits of an end user.
///
/// They replace earlier ones. `*` limits each end user without limits of their own.
#[utoipa::path(put, path = "/v1/admin/users/{user}", tag = "admin", request_body = UserLimitsRequest,
    params(("user" = String, Path, description = "The end user, as orders name it in `user`, or `*`"), UserParameters),
    responses((status = 200, description = "The end user", body = UserObject)))]
pub(crate) async fn put(
    write: OperatorWrite,
    Path(user): Path<String>,
    Query(query): Query<UserParameters>,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    check_user(&user)?;
    let ((named, limits), fingerprint) = write.read(&app, body, users::read).await?;
    let account = account_of(&app, agreed_account(query.account, named)?).await?;
    let fingerprint = fingerprint.with_json(&account.to_string().into());
    let change = async |operation: OperatorAction<'_, UserRecord>| {
        end_users::put(&app, operation, account, user, limits).await
    };
    Ok(write.change(&app, fingerprint, change, object).await?)
}

/// List the limits of end users, newest first.
#[utoipa::path(get, path = "/v1/admin/users", tag = "admin", params(UserListParameters),
    responses((status = 200, description = "A page of end users", body = List<UserObject>)))]
pub(crate) async fn list(
    _: AllowedCaller<Admin>,
    Query(query): Query<UserListParameters>,
    State(app): State<App>,
) -> Result<Json<List<UserObject>>, ErrorResponse> {
    let account = account_of_filter(&app, query.account).await?;
    let (records, has_more) = end_users::page(&app, account, query.page.into_query()).await?;
    let objects = records.iter().map(UserObject::new).collect();
    Ok(Json(List::new(objects, has_more, |user: &UserObject| {
        user.id.clone()
    })))
}

/// Get the limits of an end user, and what it has used.
#[utoipa::path(get, path = "/v1/admin/users/{user}", tag = "admin",
    params(("user" = String, Path, description = "The end user, or `*`"), UserParameters),
    responses((status = 200, description = "The end user", body = UserObject)))]
pub(crate) async fn get(
    _: AllowedCaller<Admin>,
    Path(user): Path<String>,
    Query(query): Query<UserParameters>,
    State(app): State<App>,
) -> Result<Json<UserObject>, ErrorResponse> {
    check_user(&user)?;
    let account = account_of(&app, query.account).await?;
    let record = end_users::get(&app, account, user).await?;
    Ok(Json(UserObject::new(&record)))
}

/// Remove the limits of an end user.
///
/// The limits for `*` apply from then on, if there are any.
#[utoipa::path(delete, path = "/v1/admin/users/{user}", tag = "admin",
    params(("user" = String, Path, description = "The end user, or `*`"), UserParameters),
    responses((status = 200, description = "The end user with the removed limits", body = UserObject)))]
pub(crate) async fn remove(
    write: OperatorWrite,
    Path(user): Path<String>,
    Query(query): Query<UserParameters>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    check_user(&user)?;
    let account = account_of(&app, query.account).await?;
    let fingerprint = write.fingerprint();
    let fingerprint = fingerprint.with_json(&account.to_string().into());
    let change = async |operation: OperatorAction<'_, UserRecord>| {
        end_users::remove(&app, operation, account, user).await
    };
    Ok(write.change(&app, fingerprint, change, object).await?)
}

fn object(record: &UserRecord, _: bool) -> UserObject {
    UserObject::new(record)
}

/// The account that the query or the body names; both may, if they agree.
fn agreed_account(query: Option<String>, body: Option<String>) -> Result<Option<String>, Error> {
    match (query, body) {
        (Some(query), Some(body)) if query != body => {
            let message = "Must be the account of the query, or be omitted.";
            Err(Error::at_field(ErrorCode::InvalidValue, "account", message))
        }
        (query, body) => Ok(query.or(body)),
    }
}

async fn account_of(app: &App, handle: Option<String>) -> Result<AccountId, Error> {
    let handle = handle.unwrap_or_else(|| accounts::DEFAULT_HANDLE.to_owned());
    let account = account_of_filter(app, Some(handle)).await?;
    account.ok_or_else(accounts::not_found)
}

/// Refuses a name that no order can have.
fn check_user(user: &str) -> Result<(), Error> {
    check_text(user, MAX_USER)
        .map_err(|message| Error::at_field(ErrorCode::InvalidValue, "user", message))
}
