//! `GET /v1/account`.

use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use mediagate_model::error::{Error, ErrorCode};
use serde_json::{Value, json};

use super::{PRICES, verify_and_stop};
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
        .toml(PRICES)
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
    let answer = caller.post("/v1/videos", &videos_order()).await;
    let task = answer.header("x-task-id").unwrap();
    let task = crate::support::gateway::finished(&caller, task).await;
    assert_eq!(task["billing"]["status"], "settled");
    let settled = account(&caller).await;
    assert_eq!(figures(&settled), ["-0.10", "0.00", "0.10", "0.00", "null"]);
    assert_eq!(settled["key"]["spent_usd"], "0.10");
    verify_and_stop(gateway).await;
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
    let revoked_key = gateway.new_key("owls", named("gone", Vec::new())).await;
    assert!(gateway.revoke(&revoked_key).await);
    gateway.new_key("foxes", named("foreign", Vec::new())).await;
    let names = |account: &Value| -> Vec<String> {
        let keys = account["keys"].as_array().unwrap().iter();
        keys.map(|key| key["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let view = account(&own).await;
    assert_eq!(names(&view), ["own"]);
    assert!(view.get("ledger_mismatches").is_none());
    assert_eq!(view["keys"][0], view["key"]);

    let operator = gateway
        .caller("owls", named("operator", vec![Scope::Admin]))
        .await;
    let view = account(&operator).await;
    assert_eq!(names(&view), ["own", "gone", "operator"]);
    assert!(view["keys"][1]["revoked_at"].is_string());
    assert_eq!(view["ledger_mismatches"], 0);
    assert_eq!(view["key"]["name"], "operator");

    // Any key may read the account, whatever its scopes.
    let limited = gateway
        .caller("owls", named("poor", vec![Scope::WebhooksManage]))
        .await;
    assert_eq!(account(&limited).await["key"]["name"], "poor");
    gateway
        .without_key()
        .get("/v1/account")
        .await
        .refused(401, "missing_api_key");
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn the_operator_sees_that_a_ledger_does_not_add_up() {
    let mut gateway = TestGateway::builder()
        .without_workers()
        .toml(PRICES)
        .start()
        .await;
    gateway.post("/v1/videos", &videos_order()).await.ok();
    tamper(&gateway, 1).await;
    // Workers start with the upkeep, which checks the ledger.
    gateway.start_workers().await;
    let new = NewKey {
        name: "operator".into(),
        scopes: vec![Scope::Admin],
        ..NewKey::default()
    };
    let operator = gateway.caller("default", new).await;
    let mismatches = crate::support::eventually("the operator learns of it", async || {
        account(&operator).await["ledger_mismatches"]
            .as_u64()
            .filter(|count| *count > 0)
    });
    assert!(mismatches.await >= 1);
    tamper(&gateway, -1).await;
    verify_and_stop(gateway).await;
}

/// Falsifies a key's sum.
async fn tamper(gateway: &TestGateway, amount: i64) {
    let tampered = gateway.app.store.write(move |conn| -> Result<_, Error> {
        let sql = "UPDATE api_keys SET spent_micros = spent_micros + ?1 WHERE name = ''";
        Ok(conn.execute(sql, &[amount.into()])?)
    });
    assert_eq!(tampered.await.unwrap(), 1);
}
