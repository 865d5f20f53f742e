//! `GET /v1/account`: an account's money, storage and keys.

use axum::Json;
use axum::extract::State;

use crate::auth::{Allowed, AnyKey};
use crate::error::ErrorResponse;
use crate::wire::account::AccountObject;
use mediagate_core::app::App;
use mediagate_core::domain::books;

/// Get the account of the key: balance, holds, spending and limits.
#[utoipa::path(get, path = "/v1/account", tag = "account",
    responses((status = 200, description = "The account", body = AccountObject)))]
pub(super) async fn account(
    allowed: Allowed<AnyKey>,
    State(app): State<App>,
) -> Result<Json<AccountObject>, ErrorResponse> {
    let standing = books::standing(&app, allowed.caller.account.id).await?;
    Ok(Json(AccountObject::new(&app, &allowed.caller, &standing)))
}
