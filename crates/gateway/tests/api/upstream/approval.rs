//! Orders that wait for approval: nothing is sent before, exactly one order after, and what was
//! approved is what is charged.

use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use reqwest::Method;
use serde_json::{Value, json};
use simulator::{Simulator, WebhookReceiver};

use super::{film, one_provider, provider, simulator, submissions};
use crate::admin::{audit_entries, operator};
use crate::support::gateway::finished;
use crate::support::program::{Home, output, program, text};
use crate::support::{Answer, Client, TestGateway, eventually};

/// A gateway with these settings besides one provider, on `SQLite` or Postgres.
async fn start(simulator: &Simulator, extra: &str, postgres: bool) -> TestGateway {
    let toml = extra.to_owned() + &one_provider(simulator);
    let mut builder = TestGateway::builder().allow_loopback().toml(&toml);
    if postgres {
        builder = builder.on_postgres();
    }
    builder.start().await
}

/// A caller of the default account whose orders above 1.00 USD wait for approval.
async fn limited(gateway: &TestGateway, scopes: &[Scope]) -> Client {
    let scopes = [&Scope::default_scopes()[..], scopes].concat();
    let new = NewKey {
        name: "limited".into(),
        scopes,
        approve_above: Some("1.00".parse().unwrap()),
        ..NewKey::default()
    };
    gateway.caller("default", new).await
}

/// A caller of this account who may approve.
async fn approver(gateway: &TestGateway, handle: &str) -> Client {
    let new = NewKey {
        name: "approver".into(),
        scopes: vec![Scope::Approve, Scope::TasksRead],
        ..NewKey::default()
    };
    gateway.caller(handle, new).await
}

/// Orders a film of so many seconds, each at 0.10 USD; returns its task's identifier.
async fn order(client: &Client, seconds: u32) -> String {
    let body = json!({"model": "film", "prompt": "a dear lake", "seconds": seconds.to_string()});
    let answer = client.post("/v1/videos", &body).await;
    let task = answer.header("x-task-id").map(str::to_owned);
    answer.ok();
    task.unwrap()
}

async fn decide(client: &Client, task: &str, decision: &str) -> Answer {
    let path = format!("/v1/tasks/{task}/{decision}");
    client.send(client.request(Method::POST, &path)).await
}

async fn view(client: &Client, task: &str) -> Value {
    client.get(&format!("/v1/tasks/{task}")).await.ok()
}

/// Asserts that a task ended before anything was sent, and costs nothing.
#[track_caller]
fn assert_unsent(task: &Value, code: &str, state: &str) {
    assert_eq!(
        (&task["status"], &task["error"]["code"], &task["cost_usd"]),
        (&json!("cancelled"), &json!(code), &json!("0.00")),
        "{task}"
    );
    assert_eq!(task["billing"]["status"], "released", "{task}");
    assert_eq!(task["approval"]["state"], state, "{task}");
    assert!(task["approval"]["decided_at"].is_string(), "{task}");
}

#[tokio::test]
async fn an_approved_order_is_sent_once() {
    Box::pin(check_approval(false)).await;
}

#[tokio::test]
async fn an_approved_order_is_sent_once_by_several_processes() {
    Box::pin(check_approval(true)).await;
}

async fn check_approval(postgres: bool) {
    let simulator = simulator().await;
    let gateway = start(&simulator, "", postgres).await;
    let replica = if postgres {
        Some(gateway.replica().await)
    } else {
        None
    };
    let other = replica.as_ref().unwrap_or(&gateway);
    let caller = limited(&gateway, &[]).await;
    for (seconds, expected) in [("8", None), ("12", Some(&json!(true)))] {
        let body = json!({"model": "film", "prompt": "a dear lake", "seconds": seconds});
        let quote = json!({"endpoint": "/v1/videos", "body": body});
        let quote = caller.post("/v1/quote", &quote).await.ok();
        assert_eq!(quote.get("needs_approval"), expected, "{quote}");
    }
    // Up to the limit nobody is asked.
    let cheap = order(&caller, 8).await;
    let dear = order(&caller, 12).await;
    assert!(finished(&caller, &cheap).await.get("approval").is_none());
    let waiting = view(&caller, &dear).await;
    assert_eq!(
        (&waiting["status"], &waiting["approval"]["state"]),
        (&json!("queued"), &json!("pending"))
    );
    assert_eq!(waiting["approval"]["decided_at"], Value::Null);
    assert_eq!(
        (&waiting["billing"]["status"], &waiting["cost_usd"]),
        (&json!("held"), &json!("1.20"))
    );
    let list = caller.get("/v1/tasks?approval=pending").await.ok();
    assert_eq!(list["data"][0]["id"], json!(dear));
    let operator = operator(&gateway).await;
    let all = "/v1/admin/tasks?status=queued&approval=pending";
    let all = operator.get(all).await.ok();
    assert_eq!(all["data"][0]["id"], json!(dear));
    assert_eq!(submissions(&simulator), 1);

    // Only a key with the scope may decide, and only about its own account's orders.
    for client in [&caller, &operator] {
        let refused = decide(client, &dear, "approve").await;
        refused.refused(403, "insufficient_scope");
        assert!(
            refused.message().contains("approve"),
            "{}",
            refused.message()
        );
    }
    let stranger = approver(&gateway, "strangers").await;
    for decision in ["approve", "reject"] {
        let refused = decide(&stranger, &dear, decision).await;
        refused.refused(404, "task_not_found");
    }
    let boss = approver(&gateway, "default").await;
    let boss = Client {
        base: other.client.base.clone(),
        ..boss
    };
    decide(&boss, &cheap, "approve")
        .await
        .refused(409, "approval_not_pending");

    // Of many approvals at once one counts.
    let answers = futures_util::future::join_all((0..8).map(|_| decide(&boss, &dear, "approve")));
    let answers = answers.await;
    let (approved, refused): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|answer| answer.status == 200);
    assert_eq!(approved.len(), 1);
    assert_eq!(approved[0].json["approval"]["state"], "approved");
    for answer in refused {
        answer.refused(409, "approval_not_pending");
    }
    let ended = finished(&caller, &dear).await;
    assert_eq!(
        (
            &ended["status"],
            &ended["cost_usd"],
            &ended["approval"]["state"]
        ),
        (&json!("succeeded"), &json!("1.20"), &json!("approved"))
    );
    assert_eq!(submissions(&simulator), 2);
    for decision in ["approve", "reject"] {
        let refused = decide(&boss, &dear, decision).await;
        refused.refused(409, "approval_not_pending");
    }
    let log = "/v1/admin/audit?account=default&action=task.approve";
    let log = operator.get(log).await.ok();
    let entries = log["data"].as_array().unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (&entries[0]["target"], &entries[0]["after"]["reserved_usd"]),
        (&json!(dear), &json!("1.20"))
    );
    assert_eq!(entries[0]["actor"]["name"], "approver");
    if let Some(replica) = replica {
        replica.stop().await;
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_operator_who_may_approve_decides_for_every_account() {
    let simulator = simulator().await;
    let gateway = start(&simulator, "", false).await;
    let caller = limited(&gateway, &[]).await;
    let new = NewKey {
        scopes: vec![Scope::Admin, Scope::Approve],
        ..NewKey::default()
    };
    let operator = gateway.caller("staff", new).await;
    let task = order(&caller, 12).await;
    decide(&operator, &task, "reject").await.ok();
    assert_unsent(&view(&caller, &task).await, "approval_rejected", "rejected");
    let entries = audit_entries(&operator, "task.reject").await;
    assert_eq!(entries[0]["target"], json!(task));
    assert_eq!(entries[0]["before"]["approval"], "pending");
}

#[tokio::test]
async fn whatever_is_not_approved_ends_unsent() {
    for postgres in [false, true] {
        let simulator = simulator().await;
        let gateway = start(&simulator, "", postgres).await;
        let caller = limited(&gateway, &[]).await;
        let boss = approver(&gateway, "default").await;
        let rejected = order(&caller, 12).await;
        decide(&boss, &rejected, "reject").await.ok();
        let task = view(&caller, &rejected).await;
        assert_unsent(&task, "approval_rejected", "rejected");
        let message = task["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("The 1.20 USD held for it were released."),
            "{message}"
        );
        let cancelled = order(&caller, 12).await;
        decide(&caller, &cancelled, "cancel").await.ok();
        assert_unsent(&view(&caller, &cancelled).await, "cancelled", "cancelled");
        // A key that ends takes its orders along.
        let orphan = order(&caller, 12).await;
        assert!(gateway.revoke(caller.key.as_deref().unwrap()).await);
        assert_unsent(&view(&gateway, &orphan).await, "cancelled", "cancelled");
        for task in [&rejected, &cancelled, &orphan] {
            let refused = decide(&boss, task, "approve").await;
            refused.refused(409, "approval_not_pending");
        }
        assert_eq!(submissions(&simulator), 0);
        let account = gateway.get("/v1/account").await.ok();
        assert_eq!(account["held_usd"], "0.00", "{account}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn an_unanswered_order_expires() {
    for postgres in [false, true] {
        let simulator = simulator().await;
        let gateway = start(&simulator, "approval_ttl = \"1s\"\n", postgres).await;
        let caller = limited(&gateway, &[]).await;
        let body = json!({"model": "film", "video": {"seconds": 12},
            "messages": [{"role": "user", "content": "a dear lake"}]});
        let answer = caller.post("/v1/chat/completions", &body).await;
        answer.refused(409, "approval_expired");
        let task = answer.header("x-task-id").unwrap();
        assert_unsent(&view(&caller, task).await, "approval_expired", "expired");
        let boss = approver(&gateway, "default").await;
        let refused = decide(&boss, task, "approve").await;
        refused.refused(409, "approval_not_pending");
        assert_eq!(submissions(&simulator), 0);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn the_approved_price_is_charged_whatever_the_settings_say_by_then() {
    let simulator = simulator().await;
    let gateway = start(&simulator, "", false).await;
    let caller = limited(&gateway, &[]).await;
    let boss = approver(&gateway, "default").await;
    let route = r#"{ provider = "acme", model = "sora-2" }"#;
    let acme = provider("acme", "openai-videos", &simulator, "");
    for price in ["0.50", "0.01"] {
        gateway.reconfigure(&one_provider(&simulator));
        let task = order(&caller, 12).await;
        gateway
            .reconfigure(&(acme.clone() + &film(route).replace("\"0.10\"", &format!("{price:?}"))));
        decide(&boss, &task, "approve").await.ok();
        let ended = finished(&caller, &task).await;
        assert_eq!(
            (&ended["status"], &ended["cost_usd"]),
            (&json!("succeeded"), &json!("1.20")),
            "{ended}"
        );
    }
}

#[tokio::test]
async fn own_orders_may_need_another_approver() {
    let simulator = simulator().await;
    let gateway = start(&simulator, "approval_by_others = true\n", false).await;
    let caller = limited(&gateway, &[Scope::Approve]).await;
    let [first, second] = [order(&caller, 12).await, order(&caller, 12).await];
    let refused = decide(&caller, &first, "approve").await;
    refused.refused(403, "approval_by_others");
    assert_eq!(view(&caller, &first).await["approval"]["state"], "pending");
    let boss = approver(&gateway, "default").await;
    decide(&boss, &first, "approve").await.ok();
    assert_eq!(finished(&caller, &first).await["status"], "succeeded");
    // Nobody else is needed to give an order up.
    decide(&caller, &second, "reject").await.ok();
    assert_eq!(submissions(&simulator), 1);

    let gateway = start(&simulator, "", false).await;
    let caller = limited(&gateway, &[Scope::Approve]).await;
    let own = order(&caller, 12).await;
    decide(&caller, &own, "approve").await.ok();
    assert_eq!(finished(&caller, &own).await["status"], "succeeded");
}

#[tokio::test]
async fn a_chat_waits_for_its_approval_as_for_a_long_task() {
    let simulator = simulator().await;
    let toml = "wait_limit = \"300ms\"\n".to_owned() + &one_provider(&simulator);
    let gateway = TestGateway::builder().toml(&toml).start().await;
    let caller = limited(&gateway, &[]).await;
    let boss = approver(&gateway, "default").await;
    let body = json!({"model": "film", "video": {"seconds": 12},
        "messages": [{"role": "user", "content": "a dear lake"}]});
    let ask = async || {
        let request = caller.request(Method::POST, "/v1/chat/completions");
        let request = request.header("idempotency-key", "one");
        caller.send(request.json(&body)).await
    };
    let answer = ask().await;
    answer.refused(503, "still_running");
    assert!(
        answer.message().contains("waits for approval"),
        "{}",
        answer.message()
    );
    let task = answer.header("x-task-id").unwrap().to_owned();
    decide(&boss, &task, "approve").await.ok();
    finished(&caller, &task).await;
    let answer = ask().await;
    assert_eq!(answer.header("x-task-id"), Some(task.as_str()));
    assert_eq!(answer.header("x-cost-usd"), Some("1.20"));
    answer.ok();
    assert_eq!(submissions(&simulator), 1);
}

#[tokio::test]
async fn several_films_of_one_order_are_priced_together() {
    let simulator = simulator().await;
    let gateway = start(&simulator, "wait_limit = \"300ms\"\n", false).await;
    let caller = limited(&gateway, &[]).await;
    let boss = approver(&gateway, "default").await;
    // 0.80 USD each.
    let body = json!({"model": "film", "video": {"seconds": 8}, "n": 2,
        "messages": [{"role": "user", "content": "a lake"}]});
    let answer = caller.post("/v1/chat/completions", &body).await;
    answer.refused(503, "still_running");
    let list = caller.get("/v1/tasks?approval=pending").await.ok();
    let tasks = list["data"].as_array().unwrap();
    assert_eq!(tasks.len(), 2, "{list}");
    let ids = tasks.iter().map(|task| task["id"].as_str().unwrap());
    let [first, second] = ids.collect::<Vec<_>>().try_into().unwrap();
    decide(&boss, first, "approve").await.ok();
    assert_eq!(finished(&caller, first).await["status"], "succeeded");
    assert_eq!(view(&caller, second).await["approval"]["state"], "pending");
    assert_eq!(submissions(&simulator), 1);
}

#[tokio::test]
async fn an_order_for_an_engine_waits_too() {
    let priced = "[models.animatic-1]\nprice = { unit = \"second\", usd = \"2.00\" }\n";
    for postgres in [false, true] {
        let mut builder = TestGateway::builder().toml(priced);
        if postgres {
            builder = builder.on_postgres();
        }
        let gateway = builder.start().await;
        let caller = limited(&gateway, &[]).await;
        let boss = approver(&gateway, "default").await;
        let answer = caller
            .post("/v1/videos", &crate::support::videos_order())
            .await;
        let task = answer.header("x-task-id").unwrap();
        // An order that needs no approval overtakes it.
        let free = gateway
            .post("/v1/videos", &crate::support::videos_order())
            .await;
        let free = free.header("x-task-id").unwrap();
        assert_eq!(gateway.finished(free).await["status"], "succeeded");
        let waiting = view(&caller, task).await;
        assert_eq!(
            (&waiting["status"], &waiting["started_at"]),
            (&json!("queued"), &Value::Null)
        );
        decide(&boss, task, "approve").await.ok();
        let ended = finished(&caller, task).await;
        assert_eq!(
            (&ended["status"], &ended["cost_usd"]),
            (&json!("succeeded"), &json!("2.00")),
            "{ended}"
        );
        gateway.stop().await;
    }
}

#[tokio::test]
async fn webhooks_tell_that_an_order_waits() {
    for postgres in [false, true] {
        let simulator = simulator().await;
        let gateway = start(&simulator, "", postgres).await;
        let receiver = WebhookReceiver::start().await.unwrap();
        let endpoint = json!({"url": receiver.url("/hook")});
        gateway.post("/v1/webhooks", &endpoint).await.ok();
        let caller = limited(&gateway, &[]).await;
        let boss = approver(&gateway, "default").await;
        let task = order(&caller, 12).await;
        let posted = receiver.wait_for_count(1).await;
        let event: Value = serde_json::from_str(&posted[0].body).unwrap();
        assert_eq!(event["type"], "task.approval_requested");
        let data = &event["data"];
        assert_eq!(
            (&data["id"], &data["approval"]["state"]),
            (&json!(task), &json!("pending"))
        );
        assert_eq!(
            (&data["input"]["prompt"], &data["billing"]["reserved_usd"]),
            (&json!("a dear lake"), &json!("1.20"))
        );
        decide(&boss, &task, "approve").await.ok();
        let posted = receiver.wait_for_count(2).await;
        let event: Value = serde_json::from_str(&posted[1].body).unwrap();
        assert_eq!(event["type"], "task.succeeded");
        let log = gateway
            .get(&format!("/v1/tasks/{task}/deliveries"))
            .await
            .ok();
        assert_eq!(log["data"].as_array().unwrap().len(), 2, "{log}");
        gateway.stop().await;
    }
}

/// The gateway is killed while an order waits, and again after it was approved and before anything
/// of it was sent.
#[tokio::test]
async fn a_crash_neither_sends_nor_forgets_an_order_that_waits() {
    let simulator = simulator().await;
    let home = Home::with_settings(&one_provider(&simulator));
    let (server, client) = home.start().await;
    let body = json!({"name": "limited", "approve_above_usd": "1.00"});
    let key = client.post("/v1/admin/keys", &body).await.ok();
    assert_eq!(key["approve_above_usd"], "1.00");
    let secret = key["key"].as_str().unwrap();
    let task = order(&client.with_key(secret), 12).await;
    server.crash();
    let (server, client) = home.start_again(client).await;
    assert_eq!(view(&client, &task).await["approval"]["state"], "pending");
    server.crash();
    // No server runs, so the approval is on disk and nothing is sent.
    let run = async |args: &[&str]| {
        let mut command = program(args);
        command.arg("--data").arg(home.data());
        output(command).await
    };
    let pending = run(&["tasks", "list", "--approval", "pending"]).await;
    assert!(text(&pending.stdout).contains(&task), "{pending:?}");
    let approved = run(&["tasks", "approve", &task]).await;
    let printed = text(&approved.stdout).trim();
    assert_eq!(printed, format!("Approved {task}, at most 1.20 USD."));
    let again = run(&["tasks", "reject", &task]).await;
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert_eq!(submissions(&simulator), 0);
    let (server, client) = home.start_again(client).await;
    let ended = finished(&client, &task).await;
    assert_eq!(
        (&ended["status"], &ended["cost_usd"]),
        (&json!("succeeded"), &json!("1.20"))
    );
    assert_eq!(submissions(&simulator), 1);
    let operator = home.operator(&server).await;
    let entries = audit_entries(&operator, "task.approve").await;
    assert_eq!(entries[0]["actor"]["name"], "tasks approve");
    server.stop().await;
}

#[tokio::test]
async fn the_limit_of_a_key_is_changed_and_removed() {
    let simulator = simulator().await;
    let gateway = start(&simulator, "", false).await;
    let operator = operator(&gateway).await;
    let body = json!({"name": "k", "account": "default", "approve_above_usd": "0"});
    let key = operator.post("/v1/admin/keys", &body).await.ok();
    assert_eq!(key["approve_above_usd"], "0.00");
    let scopes = key["scopes"].as_array().unwrap();
    assert!(!scopes.contains(&json!("approve")), "{scopes:?}");
    let caller = gateway.with_key(key["key"].as_str().unwrap());
    let waiting = order(&caller, 4).await;
    assert_eq!(
        view(&caller, &waiting).await["approval"]["state"],
        "pending"
    );
    let path = format!("/v1/admin/keys/{}", key["id"].as_str().unwrap());
    let change = async |body: Value| {
        let request = operator.request(Method::PATCH, &path).json(&body);
        operator.send(request).await
    };
    let refused = change(json!({"approve_above_usd": "dear"})).await;
    refused
        .refused(400, "invalid_value")
        .on_param("approve_above_usd");
    let changed = change(json!({"approve_above_usd": null})).await.ok();
    assert_eq!(changed["approve_above_usd"], Value::Null);
    // The change reaches every process within two seconds, and not what waits already.
    eventually("an order is sent at once", async || {
        let task = order(&caller, 4).await;
        let task = view(&caller, &task).await;
        task.get("approval").is_none().then_some(())
    })
    .await;
    assert_eq!(
        view(&caller, &waiting).await["approval"]["state"],
        "pending"
    );
    let entries = audit_entries(&operator, "key.update").await;
    assert_eq!(entries[0]["before"]["approve_above_usd"], "0.00");
}
