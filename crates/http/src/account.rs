//! `GET /v1/account`: an account's money, storage and keys.

use axum::Json;
use axum::extract::State;

use crate::auth::{AllowedCaller, AnyKey};
use crate::error::ErrorResponse;
use crate::wire::account::AccountObject;
use mediagate_core::app::App;
use mediagate_core::domain::accounting;

/// Get the key's account: balance, held amount, spending and limits.
#[utoipa::path(get, path = "/v1/account", tag = "account",
    responses((status = 200, description = "The account", body = AccountObject)))]
pub(super) async fn account(
    allowed: AllowedCaller<AnyKey>,
    State(app): State<App>,
) -> Result<Json<AccountObject>, ErrorResponse> {
    let summary = accounting::account_summary(&app, allowed.caller.account.id).await?;
    Ok(Json(AccountObject::new(&app, &allowed.caller, &summary)))
}
