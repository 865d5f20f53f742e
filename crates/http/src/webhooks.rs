//! `/v1/webhooks`: endpoints of an account, the secret of its callbacks, and the log of deliveries.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;

use crate::auth::{AllowedCaller, CurrentSecret, NewOrder, WebhooksManage};
use crate::body::JsonBody;
use crate::context::RequestContext;
use crate::error::ErrorResponse;
use crate::fields::parameters::parameters;
use crate::fields::types::RequiredField;
use crate::fields::{self, request};
use crate::idempotency::{Creation, CreationOutcome, Fingerprint, IdempotentRequest, IntentAnswer};
use crate::orders::admin::fields::InstantField;
use crate::orders::webhook::{WebhookChange, WebhookRequest, read_change};
use crate::page_params::{ListPage, WordField};
use crate::query::Query;
use crate::tasks::task_id_header;
use crate::wire::list::List;
use crate::wire::webhooks::{
    DeliveryObject, DeliverySummary, WebhookDeleted, WebhookObject, WebhookRecovery, WebhookSecret,
};
use mediagate_core::app::App;
use mediagate_core::domain::tasks;
use mediagate_core::domain::webhooks::signing_keys::SigningKeys;
use mediagate_core::domain::webhooks::{self, NewEndpoint, delivery_log};
use mediagate_core::intents::{ClientGuard, IntentAttempt, IntentCloseTime};
use mediagate_model::error::Error;
use mediagate_model::ids::{DeliveryId, EndpointId};
use mediagate_model::secret::Secret;
use mediagate_model::webhook::{DeliveryState, SignatureScheme, WebhookEndpoint};

/// Register a webhook endpoint.
#[utoipa::path(post, path = "/v1/webhooks", tag = "webhooks", request_body = WebhookRequest,
    responses((status = 200, description = "The endpoint with its secret", body = WebhookObject)))]
pub(super) async fn create(
    new_order: NewOrder<CurrentSecret<NewEndpoint>>,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    let NewOrder {
        context, too_many, ..
    } = new_order;
    let (new_endpoint, fingerprint, _) = Fingerprint::read(&app, body).await?;
    let idempotent_request = IdempotentRequest::new(&app, &context, too_many, fingerprint)?;
    let creation = EndpointCreation {
        app: &app,
        context: &context,
    };
    Ok(idempotent_request.answer(creation, new_endpoint).await?)
}

/// The registration of an endpoint.
struct EndpointCreation<'a> {
    app: &'a App,
    context: &'a RequestContext,
}

impl Creation for EndpointCreation<'_> {
    type Order = NewEndpoint;
    /// Only the first response has the secret. That to a repeated request is generated again,
    /// without it, because no stored response may contain it.
    type Output = (WebhookEndpoint, Option<Secret>);
    type Id = EndpointId;

    async fn make(
        &self,
        new_endpoint: NewEndpoint,
        attempt: &IntentAttempt,
    ) -> Result<CreationOutcome<Self::Output>, Error> {
        let (caller, author) = (&self.context.caller, self.context.actor());
        let creation = webhooks::create(self.app, caller, author, attempt, new_endpoint);
        let (endpoint, secret) = creation.await?;
        Ok(CreationOutcome::Unanswered((endpoint, Some(secret))))
    }

    async fn load(&self, id: EndpointId) -> Result<Self::Output, Error> {
        let account = self.context.caller.account.id;
        Ok((webhooks::get(self.app, account, id).await?, None))
    }

    async fn respond(
        self,
        (endpoint, secret): Self::Output,
        _: &Arc<ClientGuard>,
        _: bool,
    ) -> Result<IntentAnswer, Error> {
        let object = object(self.app, &endpoint, secret.as_ref())?;
        Ok(IntentAnswer::not_stored(Json(object), IntentCloseTime::Now))
    }
}

/// An endpoint, with its secret if that is to be shown.
fn object(
    app: &App,
    endpoint: &WebhookEndpoint,
    secret: Option<&Secret>,
) -> Result<WebhookObject, Error> {
    let public_key = webhooks::public_key(app, endpoint)?;
    Ok(WebhookObject::new(endpoint, public_key.as_ref(), secret))
}

/// List webhook endpoints, newest first.
#[utoipa::path(get, path = "/v1/webhooks", tag = "webhooks", params(ListPage<EndpointId>),
    responses((status = 200, description = "A page of endpoints", body = List<WebhookObject>)))]
pub(super) async fn list(
    allowed: AllowedCaller<WebhooksManage>,
    Query(page): Query<ListPage<EndpointId>>,
    State(app): State<App>,
) -> Result<Json<List<WebhookObject>>, ErrorResponse> {
    let page = page.into_query();
    let (endpoints, has_more) = webhooks::list(&app, allowed.caller.account.id, page).await?;
    let objects = endpoints
        .iter()
        .map(|endpoint| object(&app, endpoint, None));
    let objects = objects.collect::<Result<Vec<_>, _>>()?;
    Ok(Json(List::new(objects, has_more, |object| {
        object.id.clone()
    })))
}

/// Get a webhook endpoint.
#[utoipa::path(get, path = "/v1/webhooks/{id}", tag = "webhooks", params(("id" = String, Path, description = "The endpoint's id")),
    responses((status = 200, description = "The endpoint", body = WebhookObject)))]
pub(super) async fn get(
    allowed: AllowedCaller<WebhooksManage>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Json<WebhookObject>, ErrorResponse> {
    let endpoint = webhooks::get(&app, allowed.caller.account.id, parse(&id)?).await?;
    Ok(object(&app, &endpoint, None).map(Json)?)
}

/// Change a webhook endpoint.
///
/// Events that were held while the endpoint was disabled are not sent when it is enabled; use
/// `recover` to send them.
#[utoipa::path(patch, path = "/v1/webhooks/{id}", tag = "webhooks", request_body = WebhookChange,
    params(("id" = String, Path, description = "The endpoint's id")),
    responses((status = 200, description = "The endpoint", body = WebhookObject)))]
pub(super) async fn change(
    allowed: AllowedCaller<CurrentSecret<WebhooksManage>>,
    Path(id): Path<String>,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Json<WebhookObject>, ErrorResponse> {
    let id = parse(&id)?;
    let (change, _) = body.read(&app, read_change).await?;
    let author = allowed.actor();
    let endpoint = webhooks::change(&app, allowed.caller.account.id, id, author, change).await?;
    Ok(object(&app, &endpoint, None).map(Json)?)
}

/// Delete a webhook endpoint.
///
/// Deliveries that are still waiting are dropped.
#[utoipa::path(delete, path = "/v1/webhooks/{id}", tag = "webhooks", params(("id" = String, Path, description = "The endpoint's id")),
    responses((status = 200, description = "The deleted endpoint", body = WebhookDeleted)))]
pub(super) async fn delete(
    allowed: AllowedCaller<CurrentSecret<WebhooksManage>>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Json<WebhookDeleted>, ErrorResponse> {
    let author = allowed.actor();
    let endpoint = webhooks::delete(&app, allowed.caller.account.id, parse(&id)?, author).await?;
    Ok(Json(WebhookDeleted {
        id: endpoint.id.to_string(),
        object: "webhook.deleted",
        deleted: true,
    }))
}

/// Rotate the secret of a webhook endpoint.
///
/// Deliveries are signed with both secrets for 24 hours. Each request makes a new secret; the sixth
/// within 24 hours is refused.
#[utoipa::path(post, path = "/v1/webhooks/{id}/rotate", tag = "webhooks", params(("id" = String, Path, description = "The endpoint's id")),
    responses((status = 200, description = "The endpoint with its new secret", body = WebhookObject)))]
pub(super) async fn rotate(
    allowed: AllowedCaller<CurrentSecret<WebhooksManage>>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Json<WebhookObject>, ErrorResponse> {
    let (account, author) = (allowed.caller.account.id, allowed.actor());
    let (_, secret) = webhooks::rotate(&app, account, parse(&id)?, author).await?;
    let endpoint = webhooks::get(&app, account, parse(&id)?).await?;
    Ok(object(&app, &endpoint, Some(&secret)).map(Json)?)
}

/// Send a `test` event to a webhook endpoint.
#[utoipa::path(post, path = "/v1/webhooks/{id}/test", tag = "webhooks", params(("id" = String, Path, description = "The endpoint's id")),
    responses((status = 200, description = "The delivery. Poll it to follow its status", body = DeliverySummary)))]
pub(super) async fn test(
    allowed: AllowedCaller<WebhooksManage>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Json<DeliverySummary>, ErrorResponse> {
    let delivery = delivery_log::test(&app, allowed.caller.account.id, parse(&id)?).await?;
    Ok(Json(DeliverySummary::new(&delivery)))
}

parameters! {
    /// The parameters of the list.
    pub(super) struct DeliveryParameters {
        /// `waiting`, `delivered`, `failed` or `held`
        state: WordField<DeliveryState>,
        + page: ListPage<DeliveryId>,
    }
}

/// List the deliveries of a webhook endpoint, newest first.
#[utoipa::path(get, path = "/v1/webhooks/{id}/deliveries", tag = "webhooks", params(
    ("id" = String, Path, description = "The endpoint's id"),
    DeliveryParameters,
), responses((status = 200, description = "A page of deliveries", body = List<DeliverySummary>)))]
pub(super) async fn deliveries(
    allowed: AllowedCaller<WebhooksManage>,
    Path(id): Path<String>,
    Query(query): Query<DeliveryParameters>,
    State(app): State<App>,
) -> Result<Json<List<DeliverySummary>>, ErrorResponse> {
    let (account, page) = (allowed.caller.account.id, query.page.into_query());
    let (deliveries, has_more) =
        delivery_log::endpoint_page(&app, account, parse(&id)?, query.state, page).await?;
    let summaries = deliveries.iter().map(DeliverySummary::new).collect();
    Ok(Json(List::new(
        summaries,
        has_more,
        |summary: &DeliverySummary| summary.id.clone(),
    )))
}

/// Get a delivery and its attempts.
#[utoipa::path(get, path = "/v1/webhooks/deliveries/{delivery}", tag = "webhooks",
    params(("delivery" = String, Path, description = "The delivery's id")),
    responses((status = 200, description = "The delivery", body = DeliveryObject)))]
pub(super) async fn delivery(
    allowed: AllowedCaller<WebhooksManage>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Json<DeliveryObject>, ErrorResponse> {
    let id = parse_delivery(&id)?;
    let (delivery, attempts) = delivery_log::get(&app, allowed.caller.account.id, id).await?;
    Ok(Json(DeliveryObject::new(&delivery, &attempts)))
}

/// Send a delivery again now.
#[utoipa::path(post, path = "/v1/webhooks/deliveries/{delivery}/redeliver", tag = "webhooks",
    params(("delivery" = String, Path, description = "The delivery's id")),
    responses((status = 200, description = "The delivery", body = DeliverySummary)))]
pub(super) async fn redeliver(
    allowed: AllowedCaller<WebhooksManage>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Json<DeliverySummary>, ErrorResponse> {
    let id = parse_delivery(&id)?;
    let delivery = delivery_log::redeliver(&app, allowed.caller.account.id, id).await?;
    Ok(Json(DeliverySummary::new(&delivery)))
}

request! {
    /// The start of the period to recover.
    pub(super) struct RecoverRequest {
        /// The time of the earliest event, RFC 3339.
        since: RequiredField<InstantField>,
    }
}

/// Send failed and held deliveries of a webhook endpoint again, from a given time on.
#[utoipa::path(post, path = "/v1/webhooks/{id}/recover", tag = "webhooks", request_body = RecoverRequest,
    params(("id" = String, Path, description = "The endpoint's id")),
    responses((status = 200, description = "The number of deliveries that will be sent again", body = WebhookRecovery)))]
pub(super) async fn recover(
    allowed: AllowedCaller<WebhooksManage>,
    Path(id): Path<String>,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Json<WebhookRecovery>, ErrorResponse> {
    let id = parse(&id)?;
    let read = |body: &Value| fields::read(body, |body| RecoverRequest::read(body).since);
    let (since, _) = body.read(&app, read).await?;
    let recovered = delivery_log::recover(&app, allowed.caller.account.id, id, since).await?;
    Ok(Json(WebhookRecovery {
        object: "webhook.recovery",
        recovered,
    }))
}

/// List the deliveries of a task, including callbacks.
#[utoipa::path(get, path = "/v1/tasks/{id}/deliveries", tag = "webhooks", params(("id" = String, Path, description = "The task's id")),
    responses((status = 200, description = "The deliveries", body = List<DeliverySummary>)))]
pub(super) async fn of_task(
    allowed: AllowedCaller<WebhooksManage>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let id = id.parse().map_err(|_| tasks::not_found())?;
    let deliveries = delivery_log::task_deliveries(&app, allowed.caller.account.id, id).await?;
    let summaries = deliveries.iter().map(DeliverySummary::new).collect();
    let list = List::new(summaries, false, |summary: &DeliverySummary| {
        summary.id.clone()
    });
    Ok((task_id_header(id), Json(list)).into_response())
}

/// Get the secret that signs callbacks.
#[utoipa::path(get, path = "/v1/webhooks/secret", tag = "webhooks",
    responses((status = 200, description = "The secret", body = WebhookSecret)))]
pub(super) async fn secret(
    allowed: AllowedCaller<CurrentSecret<WebhooksManage>>,
    State(app): State<App>,
) -> Result<Json<WebhookSecret>, ErrorResponse> {
    let keys = webhooks::account_keys(&app, allowed.caller.account.id).await?;
    Ok(secret_response(&keys)?)
}

/// Rotate the secret that signs callbacks.
///
/// Callbacks are signed with both secrets for 24 hours. Each request makes a new secret; the sixth
/// within 24 hours is refused.
#[utoipa::path(post, path = "/v1/webhooks/secret/rotate", tag = "webhooks",
    responses((status = 200, description = "The new secret", body = WebhookSecret)))]
pub(super) async fn rotate_secret(
    allowed: AllowedCaller<CurrentSecret<WebhooksManage>>,
    State(app): State<App>,
) -> Result<Json<WebhookSecret>, ErrorResponse> {
    let author = allowed.actor();
    let keys = webhooks::rotate_account(&app, allowed.caller.account.id, author).await?;
    Ok(secret_response(&keys)?)
}

fn secret_response(keys: &SigningKeys) -> Result<Json<WebhookSecret>, Error> {
    Ok(Json(WebhookSecret {
        object: "webhook_secret",
        secret: keys
            .verification_key(SignatureScheme::Hmac)?
            .expose()
            .to_owned(),
    }))
}

fn parse(id: &str) -> Result<EndpointId, Error> {
    id.parse().map_err(|_| webhooks::not_found())
}

fn parse_delivery(id: &str) -> Result<DeliveryId, Error> {
    id.parse().map_err(|_| delivery_log::not_found())
}
