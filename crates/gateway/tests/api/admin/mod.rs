//! `/v1/admin`: what an operator sees and changes.

mod audit;
mod commands;
mod events;
mod key_limits;
mod keys;
mod lasting_requests;
mod money;
mod sessions;
mod settings;
mod tasks;

use mediagate_core::domain::endings;
use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use mediagate_model::error::Error;
use mediagate_model::money::ChargeState;
use mediagate_model::price::Bill;
use mediagate_model::task::TaskState;
use mediagate_store::tasks::TaskEnding;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::gateway::SCRIPT;
use crate::support::{Answer, Client, TestGateway};

/// A caller whose key has the scope `admin`.
pub(crate) async fn operator(gateway: &TestGateway) -> Client {
    let new = NewKey {
        name: "operator".into(),
        scopes: vec![Scope::Admin],
        ..NewKey::default()
    };
    gateway.caller("staff", new).await
}

/// A gateway on `SQLite` or Postgres with a priced model, and its operator.
async fn start(postgres: bool) -> (TestGateway, Client) {
    let mut builder = TestGateway::builder()
        .without_workers()
        .toml(crate::money::PRICES);
    if postgres {
        builder = builder.on_postgres();
    }
    let gateway = builder.start().await;
    let operator = operator(&gateway).await;
    (gateway, operator)
}

async fn patch(client: &Client, path: &str, body: &Value) -> Answer {
    let request = client.request(Method::PATCH, path).json(body);
    client.send(request).await
}

/// A request with an `Idempotency-Key`.
pub(crate) async fn send_with_key(
    client: &Client,
    method: Method,
    path: &str,
    key: &str,
    body: &Value,
) -> Answer {
    let request = client.request(method, path).header("idempotency-key", key);
    let request = if body.is_null() {
        request
    } else {
        request.json(body)
    };
    client.send(request).await
}

/// Entries of the operators' log with this action, newest first.
pub(crate) async fn audit_entries(operator: &Client, action: &str) -> Vec<Value> {
    log_entries(operator, &format!("action={action}")).await
}

/// Entries of audit logs by these parameters, newest first.
async fn log_entries(operator: &Client, parameters: &str) -> Vec<Value> {
    let path = format!("/v1/admin/audit?limit=100&{parameters}");
    let page = operator.get(&path).await.ok();
    page["data"].as_array().unwrap().clone()
}

/// Claims the next task and ends it as succeeded, at the reserved cost.
async fn settle_one(gateway: &TestGateway) {
    let task = gateway.claim().await;
    let tariff = task.tariff.clone().unwrap();
    let bill = Bill {
        cost: task.reserved,
        price: tariff.price,
        quantity: tariff.asked,
        delivered: None,
        partial: None,
    };
    let ending = TaskEnding {
        state: TaskState::Succeeded,
        cost: task.reserved,
        money: ChargeState::Settled,
        bill: Some(bill),
        output: None,
        failure: None,
    };
    let (app, now) = (gateway.app.clone(), gateway.app.clock.now());
    let ended = gateway.app.store.write(move |conn| -> Result<bool, Error> {
        endings::end(conn, &app, &task, Some(SCRIPT), &ending, now, |_| Ok(()))
    });
    assert!(ended.await.unwrap());
}

#[tokio::test]
async fn without_the_scope_nothing_is_seen_or_changed() {
    let (gateway, _) = start(false).await;
    let scopes: Vec<Scope> = Scope::default_scopes();
    let without_admin = NewKey {
        scopes,
        ..NewKey::default()
    };
    let caller = gateway.caller("default", without_admin).await;
    let id = "0193b000-0000-7000-8000-000000000001";
    for (method, path) in [
        (Method::GET, "/v1/admin/keys".to_owned()),
        (Method::POST, "/v1/admin/keys".to_owned()),
        (Method::GET, format!("/v1/admin/keys/{id}")),
        (Method::PATCH, format!("/v1/admin/keys/{id}")),
        (Method::DELETE, format!("/v1/admin/keys/{id}")),
        (Method::POST, format!("/v1/admin/keys/{id}/rotate")),
        (Method::GET, "/v1/admin/accounts".to_owned()),
        (Method::POST, "/v1/admin/accounts".to_owned()),
        (Method::PATCH, "/v1/admin/accounts/default".to_owned()),
        (Method::DELETE, "/v1/admin/accounts/default".to_owned()),
        (
            Method::POST,
            "/v1/admin/accounts/default/credits".to_owned(),
        ),
        (Method::GET, "/v1/admin/ledger".to_owned()),
        (Method::GET, "/v1/admin/ledger/verify".to_owned()),
        (Method::POST, "/v1/admin/ledger/adjustments".to_owned()),
        (Method::GET, "/v1/admin/tasks".to_owned()),
        (Method::GET, format!("/v1/admin/tasks/{id}")),
        (Method::GET, "/v1/admin/audit".to_owned()),
        (Method::GET, "/v1/admin/submissions".to_owned()),
        (Method::POST, format!("/v1/admin/submissions/{id}/resolve")),
        (Method::GET, "/v1/admin/config".to_owned()),
        (Method::GET, "/v1/admin/usage".to_owned()),
        (Method::GET, "/v1/admin/moderation".to_owned()),
        (Method::GET, "/v1/admin/users".to_owned()),
        (Method::GET, "/v1/admin/users/ada".to_owned()),
        (Method::PUT, "/v1/admin/users/ada".to_owned()),
        (Method::DELETE, "/v1/admin/users/ada".to_owned()),
        (Method::GET, "/v1/admin/events".to_owned()),
        (Method::GET, "/v1/admin/providers".to_owned()),
        (
            Method::POST,
            "/v1/admin/providers/acme/sora-2/try".to_owned(),
        ),
        (
            Method::POST,
            "/v1/admin/providers/acme/sora-2/pause".to_owned(),
        ),
        (
            Method::POST,
            "/v1/admin/providers/acme/sora-2/resume".to_owned(),
        ),
    ] {
        let request = caller.request(method.clone(), &path);
        let request = if [Method::POST, Method::PUT, Method::PATCH].contains(&method) {
            request.json(&json!({}))
        } else {
            request
        };
        let answer = caller.send(request).await;
        answer.refused(403, "insufficient_scope");
        assert!(answer.message().contains("admin"), "{}", answer.message());
    }
}
