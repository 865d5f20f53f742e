//! `/v1/admin/keys`: the API keys of every account.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::Response;
use serde_json::json;

use super::account_of_filter;
use super::write::OperatorWrite;
use crate::auth::{Admin, AllowedCaller};
use crate::body::JsonBody;
use crate::error::ErrorResponse;
use crate::fields::parameters::{invalid, parameters};
use crate::fields::types::OptionalText;
use crate::idempotency::Fingerprint;
use crate::orders::admin::keys::{
    KeyChange, KeyRequest, KeyRotation, read_change, read_new, read_rotation,
};
use crate::page_params::{FlagField, ListPage};
use crate::query::Query;
use crate::wire::admin::keys::AdminKey;
use crate::wire::list::List;
use mediagate_core::app::App;
use mediagate_core::domain::accounts;
use mediagate_core::domain::keys::{self, IssuedKey, RevocationOptions};
use mediagate_core::domain::operator::OperatorAction;
use mediagate_model::account::TasksAtEnd;
use mediagate_model::error::Error;
use mediagate_model::ids::KeyId;

/// Create an API key.
///
/// The secret is returned only once. If the request is repeated, the secret is null.
#[utoipa::path(post, path = "/v1/admin/keys", tag = "admin", request_body = KeyRequest,
    responses((status = 200, description = "The key", body = AdminKey)))]
pub(crate) async fn create(
    write: OperatorWrite,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    let now = app.clock.now();
    let ((account, new_key), fingerprint) = write
        .read(&app, body, move |body| read_new(body, now))
        .await?;
    let author = write.actor();
    let make = async |operation: OperatorAction<'_, IssuedKey>| {
        let handle = account.as_deref().unwrap_or(accounts::DEFAULT_HANDLE);
        // Checked before the account is created: a refused request must not leave a new account
        // behind.
        keys::check_models(&app, new_key.models.as_deref())?;
        let account = accounts::ensure_by(&app, handle, author).await?;
        keys::issue(&app, operation, &account, new_key).await
    };
    Ok(write
        .make(&app, fingerprint, make, AdminKey::with_secret)
        .await?)
}

parameters! {
    /// The parameters of the list.
    pub(crate) struct KeyParameters {
        /// Only for the account with this handle
        account: OptionalText<100>,
        + page: ListPage<KeyId>,
    }
}

/// List API keys, newest first, including revoked keys.
#[utoipa::path(get, path = "/v1/admin/keys", tag = "admin", params(KeyParameters),
    responses((status = 200, description = "A page of keys", body = List<AdminKey>)))]
pub(crate) async fn list(
    _: AllowedCaller<Admin>,
    Query(query): Query<KeyParameters>,
    State(app): State<App>,
) -> Result<Json<List<AdminKey>>, ErrorResponse> {
    let account = account_of_filter(&app, query.account).await?;
    let (keys, has_more) = keys::page(&app, account, query.page.into_query()).await?;
    let objects = keys.iter().map(AdminKey::new).collect();
    Ok(Json(List::new(objects, has_more, |key: &AdminKey| {
        key.id.clone()
    })))
}

/// Get an API key.
#[utoipa::path(get, path = "/v1/admin/keys/{id}", tag = "admin",
    params(("id" = String, Path, description = "The key's id")),
    responses((status = 200, description = "The key", body = AdminKey)))]
pub(crate) async fn get(
    _: AllowedCaller<Admin>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Json<AdminKey>, ErrorResponse> {
    let record = keys::get(&app, parse(&id)?).await?;
    Ok(Json(AdminKey::new(&record)))
}

/// Change an API key's settings.
///
/// The change applies from the key's next request.
#[utoipa::path(patch, path = "/v1/admin/keys/{id}", tag = "admin", request_body = KeyChange,
    params(("id" = String, Path, description = "The key's id")),
    responses((status = 200, description = "The key", body = AdminKey)))]
pub(crate) async fn change(
    write: OperatorWrite,
    Path(id): Path<String>,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    let id = parse(&id)?;
    let (change, fingerprint) = write.read(&app, body, read_change).await?;
    let change = async |operation: OperatorAction<'_, IssuedKey>| {
        keys::change(&app, operation, id, change).await
    };
    let show = |issued: &IssuedKey, _| AdminKey::new(&issued.record);
    Ok(write.change(&app, fingerprint, change, show).await?)
}

parameters! {
    /// What a request asks to do besides revoking keys.
    pub(crate) struct RevocationParameters {
        /// Whether to delete the webhook endpoints of the keys that are revoked. Default: they are
        /// disabled and their events are held
        end_webhooks: FlagField,
        /// Whether all open tasks continue. Default: those that have not begun are cancelled
        keep_tasks: FlagField,
        /// Whether to cancel also the tasks that have begun. What their providers make anyway is
        /// charged as after any cancellation
        cancel_running: FlagField,
    }
}

/// Revoke an API key.
///
/// It stops working from its next request. Its sessions and its open streams end, and its webhook
/// endpoints receive no more events. Its tasks that were neither sent to a provider nor begun here
/// are cancelled, and what was held for them is released. The response lists the endpoints, and says
/// how many tasks continue and what is held for these.
///
/// A revocation can be repeated with other parameters.
#[utoipa::path(delete, path = "/v1/admin/keys/{id}", tag = "admin",
    params(("id" = String, Path, description = "The key's id"), RevocationParameters),
    responses((status = 200, description = "The revoked key", body = AdminKey)))]
pub(crate) async fn revoke(
    write: OperatorWrite,
    Path(id): Path<String>,
    Query(query): Query<RevocationParameters>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let (id, fingerprint) = (parse(&id)?, write.fingerprint());
    let options = query.options()?;
    let fingerprint = with_options(fingerprint, options);
    let revoke = async |operation: OperatorAction<'_, (IssuedKey, bool)>| {
        keys::revoke(&app, operation, id, options).await
    };
    let show = |(issued, _): &(IssuedKey, bool), _| AdminKey::with_dependents(issued);
    Ok(write.change(&app, fingerprint, revoke, show).await?)
}

/// A fingerprint that covers the options, which are in the query and not in the path.
pub(super) fn with_options(fingerprint: Fingerprint, options: RevocationOptions) -> Fingerprint {
    if options == RevocationOptions::default() {
        return fingerprint;
    }
    let tasks = options.tasks.name();
    fingerprint.with_json(&json!({"end_webhooks": options.ends_webhooks, "tasks": tasks}))
}

impl RevocationParameters {
    pub(super) fn options(&self) -> Result<RevocationOptions, Error> {
        let is_set = |flag: Option<bool>| flag.unwrap_or(false);
        let tasks = match (is_set(self.keep_tasks), is_set(self.cancel_running)) {
            (true, true) => {
                let message = "Cannot be combined with keep_tasks.";
                return Err(invalid("cancel_running", message));
            }
            (true, false) => TasksAtEnd::Keep,
            (false, true) => TasksAtEnd::Cancel,
            (false, false) => TasksAtEnd::CancelUnsent,
        };
        Ok(RevocationOptions {
            ends_webhooks: is_set(self.end_webhooks),
            tasks,
        })
    }
}

/// Rotate an API key.
///
/// The new key has the same id, settings and budget. The secret is returned only once. The key's
/// sessions end. Its webhook endpoints stay active unless `end_webhooks` is true; the response
/// lists them.
#[utoipa::path(post, path = "/v1/admin/keys/{id}/rotate", tag = "admin",
    request_body = Option<KeyRotation>,
    params(("id" = String, Path, description = "The key's id")),
    responses((status = 200, description = "The key", body = AdminKey)))]
pub(crate) async fn rotate(
    write: OperatorWrite,
    Path(id): Path<String>,
    State(app): State<App>,
    body: Option<JsonBody>,
) -> Result<Response, ErrorResponse> {
    let id = parse(&id)?;
    let ((grace, ends_webhooks), fingerprint) = write.read_any(&app, body, read_rotation).await?;
    let rotate = async |operation: OperatorAction<'_, IssuedKey>| {
        keys::rotate(&app, operation, id, grace, ends_webhooks).await
    };
    Ok(write
        .change(&app, fingerprint, rotate, AdminKey::with_secret)
        .await?)
}

fn parse(id: &str) -> Result<KeyId, Error> {
    id.parse().map_err(|_| keys::not_found())
}
