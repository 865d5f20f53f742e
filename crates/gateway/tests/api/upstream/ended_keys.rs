//! Keys that are revoked or expire while their tasks wait: what was not sent ends with them.

use std::time::Duration;

use mediagate_core::domain::keys::NewKey;
use serde_json::{Value, json};
use simulator::{Fault, PlannedEnd, RequestRole, Simulator};

use super::{LONG, change, film, plan, provider, simulator, submissions, wait_for_requests};
use crate::admin::operator;
use crate::support::gateway::finished;
use crate::support::{Client, TestGateway, eventually, videos_order};

/// The model `film`, of which this many jobs run at once.
fn one_route(simulator: &Simulator, max_running: u32) -> String {
    let route =
        format!(r#"{{ provider = "acme", model = "sora-2", max_running = {max_running} }}"#);
    provider("acme", "openai-videos", simulator, "") + &film(&route)
}

/// The prompts of the orders that arrived at the provider, in order.
fn prompts(simulator: &Simulator) -> Vec<String> {
    let journal = simulator.world().journal();
    let orders = journal
        .iter()
        .filter(|request| request.role == RequestRole::Submit);
    let prompt = |body: &Value| body["prompt"].as_str().unwrap().to_owned();
    orders.map(|request| prompt(&request.body)).collect()
}

async fn order(client: &Client, prompt: &str) -> String {
    let body = json!({"model": "film", "prompt": prompt, "seconds": "4"});
    let answer = client.post("/v1/videos", &body).await;
    let task = answer.header("x-task-id").map(str::to_owned);
    answer.ok();
    task.unwrap()
}

/// The path of the caller's key in the operator's API.
async fn key_path(caller: &Client) -> String {
    let account = caller.get("/v1/account").await.ok();
    format!("/v1/admin/keys/{}", account["key"]["id"].as_str().unwrap())
}

async fn view(operator: &Client, task: &str) -> Value {
    operator.get(&format!("/v1/admin/tasks/{task}")).await.ok()
}

/// Asserts that a task was cancelled before anything was sent, and costs nothing.
#[track_caller]
fn assert_unsent(task: &Value, reason: &str) {
    assert_eq!(
        (&task["status"], &task["error"]["code"], &task["cost_usd"]),
        (&json!("cancelled"), &json!("cancelled"), &json!("0.00")),
        "{task}"
    );
    assert_eq!(task["billing"]["status"], "released", "{task}");
    assert_eq!(task["attempts"], json!([]), "{task}");
    let message = task["error"]["message"].as_str().unwrap();
    assert!(message.contains(reason), "{message}");
}

#[tokio::test]
async fn a_revocation_cancels_what_was_not_sent() {
    Box::pin(check_revocation(false)).await;
}

#[tokio::test]
async fn a_revocation_cancels_what_was_not_sent_by_any_process() {
    Box::pin(check_revocation(true)).await;
}

/// On Postgres another process revokes the key, and both have workers.
async fn check_revocation(postgres: bool) {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let mut builder = TestGateway::builder().toml(&one_route(&simulator, 2));
    if postgres {
        builder = builder.on_postgres();
    }
    let gateway = builder.start().await;
    let replica = if postgres {
        Some(gateway.replica().await)
    } else {
        None
    };
    let operator = operator(replica.as_ref().unwrap_or(&gateway)).await;
    let leaked = gateway.caller("leaky", NewKey::default()).await;
    let mut tasks = Vec::new();
    for _ in 0..12 {
        tasks.push(order(&leaked, "leaked").await);
    }
    wait_for_requests(&simulator, RequestRole::Submit, 2).await;
    let other = gateway.caller("other", NewKey::default()).await;
    let bystander = order(&other, "bystander").await;
    let path = key_path(&leaked).await;
    let before = operator.get(&path).await.ok();
    assert_eq!(
        (&before["open_tasks"], &before["held_usd"]),
        (&json!(12), &json!("4.80"))
    );
    let revoked = operator.delete(&path).await.ok();
    assert_eq!(
        revoked["tasks"],
        json!({"cancelled": 10, "continuing": 2, "held_usd": "0.80"})
    );
    assert_eq!(
        (&revoked["open_tasks"], &revoked["held_usd"]),
        (&json!(2), &json!("0.80"))
    );
    let mut running = 0;
    for task in &tasks {
        let view = view(&operator, task).await;
        if view["status"] == "running" {
            running += 1;
        } else {
            assert_unsent(&view, "API key was revoked");
        }
    }
    assert_eq!(running, 2);
    let audit = crate::admin::audit_entries(&operator, "key.revoke").await;
    assert_eq!(audit[0]["after"]["ties"]["tasks"], revoked["tasks"]);
    // The offer is taken: what runs on is cancelled too, and its slots are free for others.
    let cancelled = operator
        .delete(&format!("{path}?cancel_running=true"))
        .await
        .ok();
    assert_eq!(
        cancelled["tasks"],
        json!({"cancelled": 2, "continuing": 0, "held_usd": "0.00"})
    );
    wait_for_requests(&simulator, RequestRole::Submit, 3).await;
    assert_eq!(prompts(&simulator), ["leaked", "leaked", "bystander"]);
    let state = view(&operator, &bystander).await;
    assert_eq!(state["status"], "running", "{state}");
    let both = format!("{path}?cancel_running=true&keep_tasks=true");
    let refused = operator.delete(&both).await;
    refused
        .refused(400, "invalid_value")
        .on_param("cancel_running");
    if let Some(replica) = replica {
        replica.stop().await;
    }
    gateway.stop().await;
}

/// Jobs that go on at a provider which refuses to cancel them may still be charged.
#[tokio::test]
async fn a_job_that_its_provider_does_not_cancel_counts_as_continuing() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let refusal = Fault::Status {
        status: 405,
        retry_after: None,
        bare: true,
    };
    simulator
        .world()
        .order_fault(refusal, None, Some(RequestRole::Cancel), 100);
    let toml = "cancel_policy = \"charge\"\n".to_owned() + &one_route(&simulator, 2);
    let gateway = TestGateway::builder().toml(&toml).start().await;
    let operator = operator(&gateway).await;
    let leaked = gateway.caller("leaky", NewKey::default()).await;
    for _ in 0..6 {
        order(&leaked, "leaked").await;
    }
    wait_for_requests(&simulator, RequestRole::Poll, 2).await;
    let path = format!("{}?cancel_running=true", key_path(&leaked).await);
    for cancelled in [4, 0] {
        let revoked = operator.delete(&path).await.ok();
        assert_eq!(
            revoked["tasks"],
            json!({"cancelled": cancelled, "continuing": 2, "held_usd": "0.80"})
        );
        assert_eq!(revoked["held_usd"], "0.80", "{revoked}");
    }
    let closing = "/v1/admin/accounts/leaky?cancel_running=true";
    let closed = operator.delete(closing).await.ok();
    assert_eq!(
        closed["tasks"],
        json!({"cancelled": 0, "continuing": 2, "held_usd": "0.80"})
    );
    gateway.stop().await;
}

#[tokio::test]
async fn tasks_may_outlive_their_key_if_the_operator_wants_that() {
    for postgres in [false, true] {
        let simulator = simulator().await;
        let mut builder = TestGateway::builder()
            .toml(&one_route(&simulator, 2))
            .without_workers();
        if postgres {
            builder = builder.on_postgres();
        }
        let mut gateway = builder.start().await;
        let operator = operator(&gateway).await;
        let leaving = gateway.caller("leaving", NewKey::default()).await;
        let staying = gateway.caller("leaving", NewKey::default()).await;
        let mut tasks = Vec::new();
        for _ in 0..3 {
            tasks.push(order(&leaving, "kept").await);
        }
        let path = key_path(&leaving).await;
        let kept = operator
            .delete(&format!("{path}?keep_tasks=true"))
            .await
            .ok();
        assert_eq!(
            kept["tasks"],
            json!({"cancelled": 0, "continuing": 3, "held_usd": "1.20"})
        );
        gateway.start_workers().await;
        for task in &tasks {
            let view = finished(&staying, task).await;
            assert_eq!(view["status"], "succeeded", "{view}");
        }
        assert_eq!(submissions(&simulator), 3);
        gateway.stop().await;
    }
}

/// A key that was revoked so long ago that upkeep does not look at it any more, so that only the
/// question before an order is sent can stop its tasks.
#[tokio::test]
async fn the_key_is_asked_for_before_anything_is_sent_or_begun() {
    for postgres in [false, true] {
        let simulator = simulator().await;
        let mut builder = TestGateway::builder()
            .toml(&one_route(&simulator, 2))
            .without_workers();
        if postgres {
            builder = builder.on_postgres();
        }
        let mut gateway = builder.start().await;
        let operator = operator(&gateway).await;
        let leaked = gateway.caller("leaky", NewKey::default()).await;
        let hosted = order(&leaked, "leaked").await;
        let embedded = leaked.post("/v1/videos", &videos_order()).await;
        let embedded = embedded.header("x-task-id").unwrap().to_owned();
        let id = key_path(&leaked).await.replace("/v1/admin/keys/", "");
        change(
            &gateway,
            "UPDATE api_keys SET revoked_at = 1 WHERE id = ?1",
            &id,
        )
        .await;
        let mut replica = None;
        if postgres {
            replica = Some(gateway.replica().await);
        }
        gateway.start_workers().await;
        for (task, is_free) in [(hosted, false), (embedded, true)] {
            let view = eventually("the task has ended", async || {
                let view = view(&operator, &task).await;
                (view["status"] == "cancelled").then_some(view)
            })
            .await;
            if is_free {
                assert_eq!(view["error"]["code"], "cancelled", "{view}");
                assert_eq!(view["output"], Value::Null);
            } else {
                assert_unsent(&view, "API key was revoked");
            }
        }
        // Others are served as before.
        let other = gateway.caller("other", NewKey::default()).await;
        let task = order(&other, "other").await;
        assert_eq!(finished(&other, &task).await["status"], "succeeded");
        assert_eq!(prompts(&simulator), ["other"]);
        if let Some(replica) = replica {
            replica.stop().await;
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn the_waiting_tasks_of_a_key_end_when_it_expires() {
    let simulator = simulator().await;
    plan(&simulator, LONG, PlannedEnd::Success);
    let gateway = TestGateway::builder()
        .toml(&one_route(&simulator, 1))
        .manual_clock()
        .start()
        .await;
    let operator = operator(&gateway).await;
    let new = NewKey {
        expires_at: Some(gateway.app.clock.now().plus(Duration::from_mins(1))),
        ..NewKey::default()
    };
    let brief = gateway.caller("brief", new).await;
    let sent = order(&brief, "sent").await;
    wait_for_requests(&simulator, RequestRole::Submit, 1).await;
    let waiting = order(&brief, "waiting").await;
    let path = key_path(&brief).await;
    // A clock that is wrong ends nothing.
    gateway.app.clock.set_ahead(Duration::from_hours(24));
    gateway.app.clock.advance(Duration::from_mins(1));
    mediagate_core::domain::keys::cancel_left_over(&gateway.app)
        .await
        .unwrap();
    assert_eq!(view(&operator, &waiting).await["status"], "queued");
    gateway.app.clock.set_ahead(Duration::ZERO);
    let ended = eventually("the waiting task has ended", async || {
        let view = view(&operator, &waiting).await;
        (view["status"] == "cancelled").then_some(view)
    })
    .await;
    assert_unsent(&ended, "API key has expired");
    assert_eq!(view(&operator, &sent).await["status"], "running");
    let key = operator.get(&path).await.ok();
    assert_eq!(
        (&key["open_tasks"], &key["held_usd"]),
        (&json!(1), &json!("0.40"))
    );
    assert_eq!(prompts(&simulator), ["sent"]);
    gateway.stop().await;
}
