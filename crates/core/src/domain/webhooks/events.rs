//! Webhook events, written in the transaction of the change that they report.

use serde::Serialize;
use url::Url;

use crate::app::{App, Ctx};
use crate::callback_urls;
use crate::domain::tasks;
use crate::records::budget_alert::BudgetAlertView;
use crate::records::music::JobRecord;
use crate::records::task::{TaskExtras, TaskView};
use crate::records::{Links, MediaGrant};
use mediagate_config::NotifyHookBody;
use mediagate_model::budget::BudgetAlert;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_model::ids::{AccountId, DeliveryId, EventId, TaskId};
use mediagate_model::music::Clip;
use mediagate_model::task::Task;
use mediagate_model::webhook::{
    DeliveryClearance, DeliveryState, DeliveryTarget, EventType, WebhookEndpoint, WebhookEvent,
};
use mediagate_store::webhooks::deliveries::{self, NewDelivery};
use mediagate_store::webhooks::endpoints;
use mediagate_store::{Conn, accounts};

/// The body that is sent.
#[derive(Serialize)]
struct EventBody<T> {
    #[serde(rename = "type")]
    kind: &'static str,
    timestamp: String,
    data: T,
}

/// Records the event and its deliveries for a task that has ended. Called after everything else
/// about the end is written.
pub fn task_ended(
    conn: &mut Conn<'_>,
    app: &App,
    task: &Task,
    now: Timestamp,
) -> Result<(), Error> {
    let Some(kind) = EventType::for_state(task.state) else {
        return Ok(());
    };
    let listeners = listening_endpoints(conn, task.account, kind, now)?;
    // Most tasks have no listener. For them neither a record is built nor an event written.
    if listeners.is_empty() && task.callback.is_none() {
        return Ok(());
    }
    let extras = tasks::task_extras(conn, task)?;
    // An endpoint receives it only if its key may read.
    let links = app.links(origin(app, task));
    let links = links.with_media(MediaGrant::cleared());
    let view = TaskView::new(&links, task, &extras);
    let callback = links.callback(task);
    let mut event = event(task.account, Some(task.id), kind, view, now)?;
    if callback.is_some() {
        event.body = encrypt(app, task.account, &event.body)?;
    }
    if !deliveries::insert_event(conn, &event)? {
        return Ok(());
    }
    insert_deliveries(conn, &event, &listeners)?;
    if let Some(url) = callback {
        let own_body = callback_body(conn, app, (task, &extras), &event, links)?;
        let own_body = own_body.map(|own_body| encrypt(app, task.account, &own_body));
        let own_body = own_body.transpose()?;
        let stored = encrypt(app, task.account, &url)?;
        insert_callback(conn, &event, &url, stored, own_body.as_deref())?;
    }
    Ok(())
}

/// Records the event and its deliveries for a task that waits for approval. Called after everything
/// else about the task is written.
pub fn approval_requested(
    conn: &mut Conn<'_>,
    app: &App,
    task: &Task,
    now: Timestamp,
) -> Result<(), Error> {
    let kind = EventType::ApprovalRequested;
    let listeners = listening_endpoints(conn, task.account, kind, now)?;
    if listeners.is_empty() {
        return Ok(());
    }
    let extras = tasks::task_extras(conn, task)?;
    let links = app.links(origin(app, task));
    let links = links.with_media(MediaGrant::cleared());
    let view = TaskView::new(&links, task, &extras);
    let mut event = event(task.account, Some(task.id), kind, view, now)?;
    // The task's callback is part of the body.
    if task.callback.is_some() {
        event.body = encrypt(app, task.account, &event.body)?;
    }
    deliveries::insert_event(conn, &event)?;
    insert_deliveries(conn, &event, &listeners)
}

fn encrypt(app: &App, account: AccountId, plain: &str) -> Result<String, Error> {
    callback_urls::encrypt(&app.secrets.seal, account, plain).map_err(Error::internal)
}

/// The gateway's URL as the client that ordered the task sees it.
fn origin(app: &Ctx, task: &Task) -> String {
    let url = app
        .config
        .public_url
        .clone()
        .or_else(|| task.request.origin.clone());
    url.unwrap_or_else(|| format!("http://{}", app.config.listen))
}

/// The body of a task's callback; `None` if it is that of the event. The callback was named by the
/// key that ordered the task: if that key may not read, its receiver gets what the task has made,
/// but nothing of the clips and pictures that it was made from.
fn callback_body(
    conn: &mut Conn<'_>,
    app: &Ctx,
    (task, extras): (&Task, &TaskExtras),
    event: &WebhookEvent,
    links: Links,
) -> Result<Option<String>, Error> {
    let key = accounts::key_by_id(conn, task.key)?
        .ok_or_else(|| Error::internal("a task without its key"))?;
    let grant = MediaGrant::for_maker(&key);
    let links = links.with_media(grant);
    let job = job_record(conn, app, task, &extras.clips, &links)?;
    if job.is_some() || grant == MediaGrant::cleared() {
        return Ok(job);
    }
    let view = TaskView::new(&links, task, extras);
    body(event.kind, view, event.created_at).map(Some)
}

/// The job record that a music task's callback gets instead of the event, if the operator chose so.
fn job_record(
    conn: &mut Conn<'_>,
    app: &Ctx,
    task: &Task,
    clips: &[Clip],
    links: &Links,
) -> Result<Option<String>, Error> {
    if app.config.webhooks.notify_hook_body != NotifyHookBody::Job {
        return Ok(None);
    }
    let account = accounts::account_by_id(conn, task.account)?
        .ok_or_else(|| Error::internal("a task without its account"))?;
    let record = JobRecord::new(task, clips, &account, links);
    let text = record.as_ref().map(serde_json::to_string);
    text.transpose().map_err(Error::internal)
}

/// An endpoint that receives an event.
struct ListeningEndpoint {
    endpoint: WebhookEndpoint,
    /// The initial state of its delivery.
    state: DeliveryState,
}

/// The endpoints of an account that receive such an event: those that subscribed to it and whose
/// key may see it. While one is disabled, or its key is no longer valid, its deliveries are held.
fn listening_endpoints(
    conn: &mut Conn<'_>,
    account: AccountId,
    kind: EventType,
    now: Timestamp,
) -> Result<Vec<ListeningEndpoint>, Error> {
    let is_of_task = kind.is_of_task();
    let mut listeners = Vec::new();
    for endpoint in endpoints::of_account(conn, account)? {
        if !endpoint.listens_to(kind) {
            continue;
        }
        let key = match endpoint.key {
            None => None,
            Some(id) => accounts::key_by_id(conn, id)?,
        };
        let clearance = DeliveryClearance::for_key(key.as_ref(), is_of_task, now);
        // A valid key without the scope gets nothing, now or later. If the key is no longer valid,
        // the delivery is held: another key may take over the endpoint and recover it.
        if clearance == DeliveryClearance::Withheld
            && key.as_ref().is_some_and(|key| key.is_valid_at(now))
        {
            continue;
        }
        let state = if endpoint.enabled && clearance == DeliveryClearance::Granted {
            DeliveryState::Waiting
        } else {
            DeliveryState::Held
        };
        listeners.push(ListeningEndpoint { endpoint, state });
    }
    Ok(listeners)
}

/// Records, for the account's other endpoints, the event that the gateway disabled this one.
pub fn endpoint_disabled(
    conn: &mut Conn<'_>,
    disabled: &WebhookEndpoint,
    now: Timestamp,
) -> Result<(), Error> {
    let kind = EventType::EndpointDisabled;
    let mut listeners = listening_endpoints(conn, disabled.account, kind, now)?;
    listeners.retain(|other| other.endpoint.id != disabled.id);
    if listeners.is_empty() {
        return Ok(());
    }
    let data = serde_json::json!({
        "endpoint_id": disabled.id.to_string(),
        "url": disabled.url,
        "reason": disabled.disabled_why.map(mediagate_model::webhook::DisableReason::name),
    });
    let event = event(disabled.account, None, kind, data, now)?;
    deliveries::insert_event(conn, &event)?;
    insert_deliveries(conn, &event, &listeners)
}

/// Records, for the endpoints of the account, that a part of a budget was used up.
pub fn budget_used(conn: &mut Conn<'_>, alert: &BudgetAlert) -> Result<(), Error> {
    let kind = EventType::BudgetThreshold;
    let listeners = listening_endpoints(conn, alert.account, kind, alert.at)?;
    if listeners.is_empty() {
        return Ok(());
    }
    let event = event(
        alert.account,
        None,
        kind,
        BudgetAlertView::new(alert),
        alert.at,
    )?;
    deliveries::insert_event(conn, &event)?;
    insert_deliveries(conn, &event, &listeners)
}

/// Adds a test event for this endpoint only. Returns its delivery.
pub fn insert_test_event(
    conn: &mut Conn<'_>,
    endpoint: &WebhookEndpoint,
    now: Timestamp,
) -> Result<DeliveryId, Error> {
    let data = serde_json::json!({
        "endpoint_id": endpoint.id.to_string(),
        "message": "This is a test. Nothing happened.",
    });
    let event = event(endpoint.account, None, EventType::Test, data, now)?;
    deliveries::insert_event(conn, &event)?;
    let (id, receiver) = (DeliveryId::new(), DeliveryTarget::Endpoint(endpoint.id));
    let delivery = NewDelivery {
        id,
        event: &event,
        to: &receiver,
        lane: &endpoint.id.to_string(),
        body: None,
        state: DeliveryState::Waiting,
    };
    deliveries::insert(conn, &delivery)?;
    Ok(id)
}

fn event(
    account: AccountId,
    task: Option<TaskId>,
    kind: EventType,
    data: impl Serialize,
    now: Timestamp,
) -> Result<WebhookEvent, Error> {
    Ok(WebhookEvent {
        id: EventId::new(),
        account,
        task,
        kind,
        body: body(kind, data, now)?,
        created_at: now,
    })
}

fn body(kind: EventType, data: impl Serialize, at: Timestamp) -> Result<String, Error> {
    let body = EventBody {
        kind: kind.name(),
        timestamp: at.rfc3339(),
        data,
    };
    serde_json::to_string(&body).map_err(Error::internal)
}

/// One delivery for each listener.
fn insert_deliveries(
    conn: &mut Conn<'_>,
    event: &WebhookEvent,
    listeners: &[ListeningEndpoint],
) -> Result<(), Error> {
    for ListeningEndpoint { endpoint, state } in listeners {
        let delivery = NewDelivery {
            id: DeliveryId::new(),
            event,
            to: &DeliveryTarget::Endpoint(endpoint.id),
            lane: &endpoint.id.to_string(),
            body: None,
            state: *state,
        };
        deliveries::insert(conn, &delivery)?;
    }
    Ok(())
}

fn insert_callback(
    conn: &mut Conn<'_>,
    event: &WebhookEvent,
    url: &str,
    encrypted_url: String,
    body: Option<&str>,
) -> Result<(), Error> {
    // Callbacks to one host share a queue, so that a dead host delays no other.
    let host = Url::parse(url).ok();
    let host = host.as_ref().and_then(Url::host_str).unwrap_or_default();
    let delivery = NewDelivery {
        id: DeliveryId::new(),
        event,
        to: &DeliveryTarget::Callback(encrypted_url),
        lane: &format!("{} {host}", event.account),
        body,
        state: DeliveryState::Waiting,
    };
    Ok(deliveries::insert(conn, &delivery)?)
}
