//! `/v1/admin/accounts`: every account and its money.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::Response;

use super::keys::{RevocationParameters, with_options};
use super::write::OperatorWrite;
use crate::auth::{Admin, AllowedCaller};
use crate::body::JsonBody;
use crate::error::ErrorResponse;
use crate::orders::admin::money::{
    AccountChange, AccountRequest, CreditRequest, read_account, read_change, read_credit,
};
use crate::page_params::ListPage;
use crate::query::Query;
use crate::wire::admin::money::AdminAccount;
use crate::wire::list::List;
use mediagate_core::app::App;
use mediagate_core::domain::keys::ClosedAccount;
use mediagate_core::domain::operator::OperatorAction;
use mediagate_core::domain::{accounting, accounts, keys};
use mediagate_model::account::AccountRecord;
use mediagate_model::error::Error;
use mediagate_model::ids::AccountId;

/// Create an account.
#[utoipa::path(post, path = "/v1/admin/accounts", tag = "admin", request_body = AccountRequest,
    responses((status = 200, description = "The account", body = AdminAccount)))]
pub(crate) async fn create(
    write: OperatorWrite,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    let ((handle, changes), fingerprint) = write.read(&app, body, read_account).await?;
    let make = async |operation: OperatorAction<'_, AccountRecord>| {
        accounting::create(&app, operation, &handle, changes).await
    };
    Ok(write.make(&app, fingerprint, make, account_object).await?)
}

/// List accounts, newest first.
#[utoipa::path(get, path = "/v1/admin/accounts", tag = "admin", params(ListPage<AccountId>),
    responses((status = 200, description = "A page of accounts", body = List<AdminAccount>)))]
pub(crate) async fn list(
    _: AllowedCaller<Admin>,
    Query(page): Query<ListPage<AccountId>>,
    State(app): State<App>,
) -> Result<Json<List<AdminAccount>>, ErrorResponse> {
    let (accounts, has_more) = accounting::account_page(&app, page.into_query()).await?;
    let objects = accounts.iter().map(AdminAccount::new).collect();
    Ok(Json(List::new(
        objects,
        has_more,
        |account: &AdminAccount| account.id.clone(),
    )))
}

/// Change an account's name, payment mode or budget.
#[utoipa::path(patch, path = "/v1/admin/accounts/{handle}", tag = "admin",
    request_body = AccountChange,
    params(("handle" = String, Path, description = "The account's handle")),
    responses((status = 200, description = "The account", body = AdminAccount)))]
pub(crate) async fn change(
    write: OperatorWrite,
    Path(handle): Path<String>,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    let account = find(&app, &handle).await?;
    let (changes, fingerprint) = write.read(&app, body, read_change).await?;
    let change = async |operation: OperatorAction<'_, AccountRecord>| {
        accounting::change(&app, operation, account, changes).await
    };
    Ok(write
        .change(&app, fingerprint, change, account_object)
        .await?)
}

/// Close an account.
///
/// All of its keys are revoked, as `DELETE /v1/admin/keys/{id}` does it, and it gets no new ones. Its
/// tasks that have not begun are cancelled. Its money, its tasks and their results remain. A closing
/// can be repeated with other parameters.
#[utoipa::path(delete, path = "/v1/admin/accounts/{handle}", tag = "admin",
    params(("handle" = String, Path, description = "The account's handle"), RevocationParameters),
    responses((status = 200, description = "The closed account", body = AdminAccount)))]
pub(crate) async fn close(
    write: OperatorWrite,
    Path(handle): Path<String>,
    Query(query): Query<RevocationParameters>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let account = find(&app, &handle).await?;
    let options = query.options()?;
    let fingerprint = with_options(write.fingerprint(), options);
    let close = async |operation: OperatorAction<'_, ClosedAccount>| {
        keys::close_account(&app, operation, account, options).await
    };
    let show = |closed: &ClosedAccount, _| AdminAccount::after_closing(closed);
    Ok(write.change(&app, fingerprint, close, show).await?)
}

/// Add credit to an account.
///
/// A negative amount withdraws credit. An unlimited account becomes prepaid.
#[utoipa::path(post, path = "/v1/admin/accounts/{handle}/credits", tag = "admin",
    request_body = CreditRequest,
    params(("handle" = String, Path, description = "The account's handle")),
    responses((status = 200, description = "The account", body = AdminAccount)))]
pub(crate) async fn credit(
    write: OperatorWrite,
    Path(handle): Path<String>,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    let account = find(&app, &handle).await?;
    let ((amount, note), fingerprint) = write.read(&app, body, read_credit).await?;
    let make = async |operation: OperatorAction<'_, accounting::CreditResult>| {
        accounting::credit(&app, operation, account, amount, note).await
    };
    let show = |result: &accounting::CreditResult, _| AdminAccount::new(&result.account);
    Ok(write.make(&app, fingerprint, make, show).await?)
}

fn account_object(record: &AccountRecord, _: bool) -> AdminAccount {
    AdminAccount::new(record)
}

async fn find(app: &App, handle: &str) -> Result<AccountId, Error> {
    let account = accounts::by_handle(app, handle).await?;
    Ok(account.ok_or_else(accounts::not_found)?.id)
}
