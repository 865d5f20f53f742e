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
use crate::orders::admin::keys::{
    KeyChange, KeyRequest, KeyRotation, read_change, read_new, read_rotation,
};
use crate::page_params::{enum_param, page};
use crate::query::Query;
use crate::wire::admin::keys::AdminKey;
use crate::wire::list::List;
use mediagate_core::app::App;
use mediagate_core::domain::accounts;
use mediagate_core::domain::keys::{self, IssuedKey};
use mediagate_core::domain::operator::OperatorAction;
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

/// List API keys, newest first, including revoked keys.
#[utoipa::path(get, path = "/v1/admin/keys", tag = "admin", params(
    ("account" = Option<String>, Query, description = "Only for the account with this handle"),
    ("limit" = Option<u32>, Query, description = "Number of items, 1 to 100. Default: 20"),
    ("after" = Option<String>, Query, description = "`last_id` of the previous page"),
), responses((status = 200, description = "A page of keys", body = List<AdminKey>)))]
pub(crate) async fn list(
    _: AllowedCaller<Admin>,
    query: Query,
    State(app): State<App>,
) -> Result<Json<List<AdminKey>>, ErrorResponse> {
    let (account, page) = query.read(|query| {
        let account = query.filled_string("account", 100);
        Some((account, page(query, |text| text.parse().ok())))
    })?;
    let account = account_of_filter(&app, account).await?;
    let (keys, has_more) = keys::page(&app, account, page).await?;
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

/// Revoke an API key.
///
/// It stops working from its next request. Its sessions end, and its webhook endpoints receive no
/// more events. The response lists these endpoints.
#[utoipa::path(delete, path = "/v1/admin/keys/{id}", tag = "admin",
    params(("id" = String, Path, description = "The key's id"),
        ("end_webhooks" = Option<bool>, Query, description = "Whether to delete the key's webhook endpoints. Default: they are disabled and their events are held")),
    responses((status = 200, description = "The revoked key", body = AdminKey)))]
pub(crate) async fn revoke(
    write: OperatorWrite,
    Path(id): Path<String>,
    query: Query,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let (id, fingerprint) = (parse(&id)?, write.fingerprint());
    let ends_webhooks = query
        .read(|query| Some(enum_param(query, "end_webhooks", "true, false").unwrap_or(false)))?;
    // The flag is in the query, which a fingerprint of method and path does not cover.
    let fingerprint = if ends_webhooks {
        fingerprint.with_json(&json!({"end_webhooks": true}))
    } else {
        fingerprint
    };
    let revoke = async |operation: OperatorAction<'_, (IssuedKey, bool)>| {
        keys::revoke(&app, operation, id, ends_webhooks).await
    };
    let show = |(issued, _): &(IssuedKey, bool), _| AdminKey::with_dependents(issued);
    Ok(write.change(&app, fingerprint, revoke, show).await?)
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
