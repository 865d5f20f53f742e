//! `GET /v1/account`.

use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use mediagate_model::error::{Error, ErrorCode};
use serde_json::{Value, json};

use super::{PRICED, end};
use crate::support::{Client, TestGateway, videos_order};

async fn account(caller: &Client) -> Value {
    caller.get("/v1/account").await.ok()
}

fn figures(account: &Value) -> [&str; 5] {
    [
        "balance_usd",
        "held_usd",
        "spent_usd",
        "credit_usd",
        "available_usd",
    ]
    .map(|name| account[name].as_str().unwrap_or("null"))
}

#[tokio::test]
async fn the_figures_follow_a_tasks_life() {
    let mut gateway = TestGateway::builder()
        .without_workers()
        .toml(PRICED)
        .start()
        .await;
    let new = NewKey {
        name: "laptop".into(),
        budget: Some("5".parse().unwrap()),
        ..NewKey::default()
    };
    let caller = gateway.caller("owls", new).await;
    let fresh = account(&caller).await;
    assert_eq!(
        [
            &fresh["object"],
            &fresh["handle"],
            &fresh["policy"],
            &fresh["budget_usd"]
        ],
        [
            &json!("account"),
            &json!("owls"),
            &json!("unlimited"),
            &Value::Null
        ]
    );
    assert_eq!(figures(&fresh), ["0.00", "0.00", "0.00", "0.00", "null"]);
    assert_eq!(fresh["key"]["name"], "laptop");
    assert_eq!(fresh["key"]["budget_usd"], "5.00");
    let limits = json!({"requests_per_minute": 600, "max_running_tasks": 100, "open_tasks": 0});
    assert_eq!(fresh["key"]["limits"], limits);

    caller.post("/v1/videos", &videos_order()).await.ok();
    let held = account(&caller).await;
    assert_eq!(figures(&held), ["0.00", "0.10", "0.00", "0.00", "null"]);
    assert_eq!(held["key"]["available_usd"], "4.90");
    assert_eq!(held["key"]["limits"]["open_tasks"], 1);

    let task = gateway.claim().await;
    gateway.fail(task.id, ErrorCode::GenerationFailed).await;
    let released = account(&caller).await;
    assert_eq!(figures(&released), ["0.00", "0.00", "0.00", "0.00", "null"]);

    gateway.start_workers().await;
    let made = caller.post("/v1/videos", &videos_order()).await;
    let task = made.header("x-task-id").unwrap();
    let task = crate::support::gateway::finished(&caller, task).await;
    assert_eq!(task["billing"]["status"], "settled");
    let settled = account(&caller).await;
    assert_eq!(figures(&settled), ["-0.10", "0.00", "0.10", "0.00", "null"]);
    assert_eq!(settled["key"]["spent_usd"], "0.10");
    end(gateway).await;
}

#[tokio::test]
async fn only_the_operator_sees_the_other_keys() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let named = |name: &str, scopes: Vec<Scope>| NewKey {
        name: name.into(),
        scopes,
        ..NewKey::default()
    };
    let own = gateway.caller("owls", named("own", Vec::new())).await;
    let gone = gateway.new_key("owls", named("gone", Vec::new())).await;
    assert!(gateway.revoke(&gone).await);
    gateway.new_key("foxes", named("foreign", Vec::new())).await;
    let names = |account: &Value| -> Vec<String> {
        let keys = account["keys"].as_array().unwrap().iter();
        keys.map(|key| key["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let seen = account(&own).await;
    assert_eq!(names(&seen), ["own"]);
    assert!(seen.get("ledger_mismatches").is_none());
    assert_eq!(seen["keys"][0], seen["key"]);

    let operator = gateway
        .caller("owls", named("operator", vec![Scope::Admin]))
        .await;
    let seen = account(&operator).await;
    assert_eq!(names(&seen), ["own", "gone", "operator"]);
    assert!(seen["keys"][1]["revoked_at"].is_string());
    assert_eq!(seen["ledger_mismatches"], 0);
    assert_eq!(seen["key"]["name"], "operator");

    // Any key may ask, whatever else it may do.
    let poor = gateway
        .caller("owls", named("poor", vec![Scope::WebhooksManage]))
        .await;
    assert_eq!(account(&poor).await["key"]["name"], "poor");
    gateway
        .without_key()
        .get("/v1/account")
        .await
        .refused(401, "missing_api_key");
    end(gateway).await;
}

#[tokio::test]
async fn the_operator_is_told_of_a_ledger_that_does_not_add_up() {
    let mut gateway = TestGateway::builder()
        .without_workers()
        .toml(PRICED)
        .start()
        .await;
    gateway.post("/v1/videos", &videos_order()).await.ok();
    tamper(&gateway, 1).await;
    // Looked at by the upkeep, which workers begin with.
    gateway.start_workers().await;
    let new = NewKey {
        name: "operator".into(),
        scopes: vec![Scope::Admin],
        ..NewKey::default()
    };
    let operator = gateway.caller("default", new).await;
    let shown = crate::support::eventually("the operator is told", async || {
        account(&operator).await["ledger_mismatches"]
            .as_u64()
            .filter(|count| *count > 0)
    });
    assert!(shown.await >= 1);
    tamper(&gateway, -1).await;
    end(gateway).await;
}

/// Moves a key's sum as no part of the program would.
async fn tamper(gateway: &TestGateway, by: i64) {
    let tampered = gateway.app.store.write(move |conn| -> Result<_, Error> {
        let sql = "UPDATE api_keys SET spent_micros = spent_micros + ?1 WHERE name = ''";
        Ok(conn.execute(sql, &[by.into()])?)
    });
    assert_eq!(tampered.await.unwrap(), 1);
}
