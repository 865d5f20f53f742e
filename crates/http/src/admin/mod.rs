//! `/v1/admin`: what operators can see and change, for all accounts.
//!
//! Reads need the scope `admin` (`AllowedCaller<Admin>`). Writes are an
//! [`OperatorWrite`](write::OperatorWrite), which adds the audit log and the `Idempotency-Key`.

mod accounts;
mod audit;
mod config;
mod events;
mod keys;
mod ledger;
mod moderation;
mod providers;
mod requests;
mod submissions;
mod tasks;
mod usage;
mod users;
mod write;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use mediagate_core::app::App;
use mediagate_core::domain::accounts as all_accounts;
use mediagate_model::error::Error;
use mediagate_model::ids::AccountId;

/// The endpoints that the `OpenAPI` document lists.
pub(super) fn api() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(keys::create, keys::list))
        .routes(routes!(keys::get, keys::change, keys::revoke))
        .routes(routes!(keys::rotate))
        .routes(routes!(accounts::create, accounts::list))
        .routes(routes!(accounts::change, accounts::close))
        .routes(routes!(accounts::credit))
        .routes(routes!(ledger::list))
        .routes(routes!(ledger::verify))
        .routes(routes!(ledger::adjust))
        .routes(routes!(tasks::list))
        .routes(routes!(tasks::get))
        .routes(routes!(requests::list))
        .routes(routes!(moderation::count))
        .routes(routes!(providers::list))
        .routes(routes!(providers::try_again))
        .routes(routes!(providers::pause))
        .routes(routes!(providers::resume))
        .routes(routes!(submissions::list))
        .routes(routes!(submissions::resolve))
        .routes(routes!(usage::usage))
        .routes(routes!(users::list))
        .routes(routes!(users::put, users::get, users::remove))
        .routes(routes!(events::events))
        .routes(routes!(config::get))
        .routes(routes!(audit::list))
}

/// The account with the handle of a filter, if one is given.
async fn account_of_filter(app: &App, handle: Option<String>) -> Result<Option<AccountId>, Error> {
    match handle {
        None => Ok(None),
        Some(handle) => {
            let record = all_accounts::by_handle(app, &handle).await?;
            let record = record.ok_or_else(all_accounts::not_found)?;
            Ok(Some(record.id))
        }
    }
}
