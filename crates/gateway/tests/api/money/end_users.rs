//! End users of callers: what is kept of them, what they may spend, and who is told.

use mediagate_core::domain::keys::NewKey;
use mediagate_model::error::ErrorCode;
use reqwest::Method;
use serde_json::{Value, json};

use super::{PRICES, verify_and_stop};
use crate::admin::operator;
use crate::support::gateway::Builder;
use crate::support::{Answer, Client, TestGateway, eventually, videos_order};

const MUSIC: &str = "/musicgen/submit/music";

/// An order for a dime, for this end user.
fn order_for(user: &str) -> Value {
    let mut body = videos_order();
    body["user"] = json!(user);
    body
}

async fn limit(operator: &Client, user: &str, limits: Value) -> Answer {
    let path = format!("/v1/admin/users/{user}");
    let request = operator.request(Method::PUT, &path).json(&limits);
    operator.send(request).await
}

async fn started(builder: Builder) -> TestGateway {
    builder.without_workers().toml(PRICES).start().await
}

/// The orders that were accepted, and those that were refused with this code, of several at once.
async fn at_once(callers: &[Client], count: usize, user: &str) -> [usize; 2] {
    let orders = (0..count).map(|number| {
        let caller = &callers[number % callers.len()];
        let mut body = order_for(user);
        body["seed"] = json!(number);
        async move {
            // A database that is busy with the others refuses some for a moment.
            eventually("the order is answered", async || {
                let status = caller.post("/v1/videos", &body).await.status;
                (status != 503).then_some(status)
            })
            .await
        }
    });
    let statuses = futures_util::future::join_all(orders).await;
    [200, 402].map(|status| statuses.iter().filter(|found| **found == status).count())
}

#[tokio::test]
async fn forty_orders_at_once_stay_within_a_users_budget() {
    exact(TestGateway::builder(), false).await;
}

#[tokio::test]
async fn forty_orders_at_once_stay_within_a_users_budget_on_postgres() {
    exact(TestGateway::builder().on_postgres(), true).await;
}

async fn exact(builder: Builder, is_shared: bool) {
    let gateway = started(builder).await;
    let operator = operator(&gateway).await;
    // Only a database on Postgres can have another process.
    let replica = if is_shared {
        Some(gateway.replica_without_workers().await)
    } else {
        None
    };
    // Two keys, and two processes: neither a key's lock nor a process's memory decides.
    let second = gateway.caller("default", NewKey::default()).await;
    let mut third = second.clone();
    if let Some(replica) = &replica {
        third.base.clone_from(&replica.base);
    }
    let callers = [gateway.client.clone(), second, third];
    limit(&operator, "ada", json!({"budget_usd": "0.75"}))
        .await
        .ok();
    limit(&operator, "*", json!({"budget_usd": "0.35"}))
        .await
        .ok();
    assert_eq!(at_once(&callers, 40, "ada").await, [7, 33]);
    // The limits for everyone are each user's own.
    assert_eq!(at_once(&callers, 12, "grace").await, [3, 9]);
    assert_eq!(at_once(&callers, 12, "alan").await, [3, 9]);
    let ada = operator.get("/v1/admin/users/ada").await.ok();
    assert_eq!(
        [&ada["held_usd"], &ada["spent_usd"], &ada["available_usd"]],
        ["0.70", "0.00", "0.05"]
    );
    assert_eq!(ada["open_tasks"], 7);
    if let Some(replica) = replica {
        replica.stop().await;
    }
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn a_refusal_says_whose_budget_it_is() {
    let gateway = started(TestGateway::builder()).await;
    let operator = operator(&gateway).await;
    let limits = json!({"budget_usd": "0.15", "budget_period": "month"});
    let set = limit(&operator, "ada%2F1", limits).await.ok();
    assert_eq!(set["user"], "ada/1");
    assert_eq!(set["budget_period"], "month");
    let left = "x-budget-remaining-usd";
    let made = gateway.post("/v1/videos", &order_for("ada/1")).await;
    assert_eq!(made.header(left), Some("0.05"));
    made.ok();
    let refused = gateway.post("/v1/videos", &order_for("ada/1")).await;
    refused.refused(402, "budget_exceeded");
    assert_eq!(refused.header(left), Some("0.05"));
    let message = refused.message();
    assert!(message.contains("\"ada/1\""), "{message}");
    assert!(message.contains("0.15 USD per month"), "{message}");
    let quoted = super::quote(&gateway, "/v1/videos", &order_for("ada/1")).await;
    assert_eq!(quoted["affordable"], false);
    let quoted = super::quote(&gateway, "/v1/videos", &order_for("grace")).await;
    assert_eq!(quoted["affordable"], true);
    // Money that is released can be spent again.
    let task = gateway.claim().await;
    gateway.fail(task.id, ErrorCode::GenerationFailed).await;
    gateway.post("/v1/videos", &order_for("ada/1")).await.ok();
    // Without limits nothing is refused.
    let path = "/v1/admin/users/ada%2F1";
    let removed = operator.delete(path).await.ok();
    assert_eq!(removed["user"], "ada/1");
    operator.get(path).await.refused(404, "user_not_found");
    operator.delete(path).await.refused(404, "user_not_found");
    gateway.post("/v1/videos", &order_for("ada/1")).await.ok();
    let audit = operator.get("/v1/admin/audit?limit=2").await.ok();
    let actions: Vec<&Value> = audit["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["action"])
        .collect();
    assert_eq!(actions, ["user.limits_removed", "user.limits"]);
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn a_users_open_tasks_and_orders_per_minute_are_limited() {
    let gateway = started(TestGateway::builder().manual_clock()).await;
    let operator = operator(&gateway).await;
    limit(&operator, "ada", json!({"max_running": 2}))
        .await
        .ok();
    limit(&operator, "*", json!({"rpm": 2})).await.ok();
    for _ in 0..2 {
        gateway.post("/v1/videos", &order_for("ada")).await.ok();
        gateway.post("/v1/videos", &order_for("grace")).await.ok();
    }
    let refused = gateway.post("/v1/videos", &order_for("ada")).await;
    refused.refused(429, "too_many_tasks");
    assert!(
        refused.message().contains("\"ada\""),
        "{}",
        refused.message()
    );
    let refused = gateway.post("/v1/videos", &order_for("grace")).await;
    refused.refused(429, "rate_limit_exceeded");
    assert!(
        refused.message().contains("\"grace\""),
        "{}",
        refused.message()
    );
    let task = gateway.claim().await;
    gateway.fail(task.id, ErrorCode::GenerationFailed).await;
    gateway.post("/v1/videos", &order_for("ada")).await.ok();
    gateway
        .app
        .clock
        .advance(std::time::Duration::from_secs(30));
    gateway.post("/v1/videos", &order_for("grace")).await.ok();
    // An order without a user has no limits.
    gateway.post("/v1/videos", &videos_order()).await.ok();
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn limits_belong_to_an_account() {
    let gateway = started(TestGateway::builder()).await;
    let operator = operator(&gateway).await;
    let owls = gateway.caller("owls", NewKey::default()).await;
    limit(&operator, "ada?account=owls", json!({"budget_usd": "0.05"}))
        .await
        .ok();
    owls.post("/v1/videos", &order_for("ada"))
        .await
        .refused(402, "budget_exceeded");
    gateway.post("/v1/videos", &order_for("ada")).await.ok();
    operator
        .get("/v1/admin/users/ada")
        .await
        .refused(404, "user_not_found");
    let listed = operator.get("/v1/admin/users").await.ok();
    assert_eq!(listed["data"][0]["account"], "owls");
    let listed = operator.get("/v1/admin/users?account=default").await.ok();
    assert_eq!(listed["data"], json!([]));
    owls.get("/v1/admin/users")
        .await
        .refused(403, "insufficient_scope");
    // The body may name the account instead, but no other one than the query.
    let elsewhere = json!({"account": "owls", "rpm": 1});
    let set = limit(&operator, "alan", elsewhere.clone()).await.ok();
    assert_eq!(set["account"], "owls");
    limit(&operator, "alan?account=owls", elsewhere.clone())
        .await
        .ok();
    let refused = limit(&operator, "alan?account=default", elsewhere).await;
    refused.refused(400, "invalid_value").on_param("account");
    limit(&operator, "x", json!({"account": "nobody"}))
        .await
        .refused(404, "account_not_found");
    limit(&operator, "x?account=nobody", json!({}))
        .await
        .refused(404, "account_not_found");
    for (limits, param) in [
        (json!({"budget_usd": "-1"}), "budget_usd"),
        (json!({"budget_period": "day"}), "budget_usd"),
        (json!({"rpm": 0}), "rpm"),
        (json!({"max_running": "2"}), "max_running"),
        (json!({"budget": "1"}), "budget"),
    ] {
        let answer = limit(&operator, "ada", limits).await;
        assert_eq!(answer.status, 400);
        answer.on_param(param);
    }
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn user_and_metadata_are_kept_and_found() {
    kept(TestGateway::builder()).await;
}

#[tokio::test]
async fn user_and_metadata_are_kept_and_found_on_postgres() {
    kept(TestGateway::builder().on_postgres()).await;
}

async fn kept(builder: Builder) {
    let gateway = started(builder).await;
    let operator = operator(&gateway).await;
    let attribution = |mut body: Value, user: &str, project: &str| {
        body["user"] = json!(user);
        body["metadata"] = json!({"project": project, "note: \"ü\"": "é, 1"});
        body
    };
    let id = |answer: &Answer| answer.header("x-task-id").unwrap().to_owned();
    let film = gateway
        .post("/v1/videos", &attribution(videos_order(), "ada", "lake"))
        .await;
    let clip = gateway.upload("Ferry").await["id"].clone();
    let split = json!({"task": "gen_stem", "continue_clip_id": clip});
    let stems = gateway.post(MUSIC, &attribution(split, "ada", "sea")).await;
    let (film, stems) = (id(&film), id(&stems));
    let view = gateway.get(&format!("/v1/tasks/{stems}")).await.ok();
    assert_eq!(view["user"], "ada");
    assert_eq!(
        view["metadata"],
        json!({"project": "sea", "note: \"ü\"": "é, 1"})
    );
    for (query, expected) in [
        ("user=ada", vec![&stems, &film]),
        ("user=nobody", vec![]),
        ("metadata.project=lake", vec![&film]),
        ("user=ada&metadata.project=sea&kind=music", vec![&stems]),
        (
            "metadata.note%3A%20%22%C3%BC%22=%C3%A9%2C%201",
            vec![&stems, &film],
        ),
        ("metadata.project=lake&q=dawn", vec![&film]),
        ("metadata.project=sea&q=dawn", vec![]),
    ] {
        // The Videos API has no search, and lists no music.
        if !query.contains("q=") && !query.contains("kind=") {
            let list = gateway.get(&format!("/v1/videos?{query}")).await.ok();
            let is_expected = expected.contains(&&film);
            let count = list["data"].as_array().unwrap().len();
            assert_eq!(count, usize::from(is_expected), "{query}: {list}");
        }
        for (client, path) in [(&*gateway, "/v1/tasks"), (&operator, "/v1/admin/tasks")] {
            let list = client.get(&format!("{path}?{query}")).await.ok();
            let ids: Vec<&str> = list["data"]
                .as_array()
                .unwrap()
                .iter()
                .map(|task| task["id"].as_str().unwrap())
                .collect();
            assert_eq!(ids, expected, "{path} {query}");
        }
    }
    for (query, param) in [
        ("metadata=x", "metadata"),
        ("metadata.=x", "metadata."),
        ("users=x", "users"),
    ] {
        let answer = gateway.get(&format!("/v1/tasks?{query}")).await;
        answer.refused(400, "unsupported_value").on_param(param);
    }
    let many = "user=a&metadata.b=1&metadata.c=1&metadata.d=1&metadata.e=1";
    let answer = gateway.get(&format!("/v1/tasks?{many}")).await;
    answer.refused(400, "invalid_value");
    let strangers = gateway.caller("owls", NewKey::default()).await;
    let list = strangers.get("/v1/tasks?user=ada").await.ok();
    assert_eq!(list["data"], json!([]));
    let ledger = operator.get("/v1/admin/ledger?format=csv").await.text();
    assert!(
        ledger
            .lines()
            .next()
            .unwrap()
            .ends_with("note,user,metadata"),
        "{ledger}"
    );
    assert!(ledger.contains(",ada,\"{"), "{ledger}");
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn chats_and_forms_keep_them_too() {
    let gateway = TestGateway::builder().toml(PRICES).start().await;
    let mut chat = crate::support::video_order();
    chat["user"] = json!("ada");
    chat["metadata"] = json!({"project": "lake"});
    let chat = gateway.post("/v1/chat/completions", &chat).await;
    let form = reqwest::multipart::Form::new()
        .text("prompt", "a lake at dawn")
        .text("size", "480x480")
        .text("seconds", "1")
        .text("user", "ada")
        .text("metadata[project]", "lake");
    let request = gateway.request(Method::POST, "/v1/videos").multipart(form);
    let form = gateway.send(request).await;
    for answer in [chat, form] {
        let path = format!("/v1/tasks/{}", answer.header("x-task-id").unwrap());
        let view = gateway.get(&path).await.ok();
        assert_eq!(view["user"], "ada");
        assert_eq!(view["metadata"], json!({"project": "lake"}));
    }
    for (metadata, param) in [
        (json!({"a": 1}), "metadata.a"),
        (json!("lake"), "metadata"),
        (json!({"a": "x".repeat(501)}), "metadata.a"),
    ] {
        let mut body = videos_order();
        body["metadata"] = metadata;
        let answer = gateway.post("/v1/videos", &body).await;
        assert_eq!(answer.status, 400);
        answer.on_param(param);
    }
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn usage_is_grouped_by_user_and_by_metadata() {
    grouped(TestGateway::builder()).await;
}

#[tokio::test]
async fn usage_is_grouped_by_user_and_by_metadata_on_postgres() {
    grouped(TestGateway::builder().on_postgres()).await;
}

/// The rows and the total of a usage.
async fn rows(client: &Client, path: &str) -> (Vec<Value>, Value) {
    let usage = client.get(path).await.ok();
    (
        usage["data"].as_array().unwrap().clone(),
        usage["total"]["cost_usd"].clone(),
    )
}

/// Of each row this field, the number of tasks and the cost.
fn picked(rows: &[Value], field: &str) -> Vec<Value> {
    let pick = |row: &Value| json!([row[field], row["tasks"], row["cost_usd"]]);
    rows.iter().map(pick).collect()
}

/// Checks the usage of one end user, and of one value in the metadata.
async fn assert_filtered(client: &Client, base: &str) {
    for (query, expected) in [
        ("user=ada&group_by=user", json!(["ada", 2, "0.30"])),
        ("user=ada&group_by=key", json!([null, 2, "0.30"])),
        ("user=%3Dgrace&group_by=model", json!([null, 1, "0.10"])),
        (
            "metadata.project=lake&group_by=day",
            json!([null, 2, "0.20"]),
        ),
    ] {
        let (filtered, total) = rows(client, &format!("{base}?{query}")).await;
        assert_eq!(picked(&filtered, "user"), [expected], "{base} {query}");
        assert_eq!(total, filtered[0]["cost_usd"], "{base} {query}");
    }
    let path = format!("{base}?metadata.project=lake&group_by=metadata.project");
    let (filtered, _) = rows(client, &path).await;
    let expected = json!([{"project": "lake"}, 2, "0.20"]);
    assert_eq!(picked(&filtered, "metadata"), [expected], "{base}");
    let (filtered, total) = rows(client, &format!("{base}?user=ada")).await;
    assert!(!filtered.is_empty(), "{base}");
    assert_eq!(total, "0.30");
    let (filtered, total) = rows(client, &format!("{base}?user=nobody")).await;
    assert_eq!((filtered, total), (vec![], json!("0.00")), "{base}");
    for (query, param) in [
        ("user=ada&metadata.project=lake", "metadata.NAME"),
        ("metadata.a=1&metadata.b=2", "metadata.NAME"),
        ("user=ada&group_by=metadata.project", "group_by"),
        ("metadata.a=1&group_by=metadata.b", "group_by"),
    ] {
        let answer = client.get(&format!("{base}?{query}")).await;
        answer.refused(400, "invalid_value").on_param(param);
    }
}

async fn grouped(builder: Builder) {
    let mut gateway = builder.without_workers().toml(PRICES).start().await;
    let operator = operator(&gateway).await;
    let order = async |user: Option<&str>, project: Option<&str>, seconds: u32| {
        let mut body = videos_order();
        body["seconds"] = json!(seconds);
        body["user"] = json!(user);
        if let Some(project) = project {
            body["metadata"] = json!({"project": project});
        }
        let answer = gateway.post("/v1/videos", &body).await;
        answer.header("x-task-id").unwrap().to_owned()
    };
    let tasks = [
        order(Some("ada"), Some("lake"), 1).await,
        order(Some("ada"), None, 2).await,
        order(Some("=grace"), Some("lake"), 1).await,
        order(None, None, 1).await,
    ];
    gateway.start_workers().await;
    for task in &tasks {
        assert_eq!(gateway.finished(task).await["status"], "succeeded");
    }
    for (client, base) in [(&*gateway, "/v1/usage"), (&operator, "/v1/admin/usage")] {
        let (by_user, total) = rows(client, &format!("{base}?group_by=user")).await;
        assert_eq!(
            picked(&by_user, "user"),
            [
                json!([null, 1, "0.10"]),
                json!(["=grace", 1, "0.10"]),
                json!(["ada", 2, "0.30"])
            ],
            "{base}"
        );
        assert_eq!(total, "0.50");
        let (by_project, total) =
            rows(client, &format!("{base}?group_by=metadata.project,day")).await;
        assert_eq!(
            picked(&by_project, "metadata"),
            [
                json!([{"project": null}, 2, "0.30"]),
                json!([{"project": "lake"}, 2, "0.20"]),
            ],
            "{base}"
        );
        assert_eq!(total, "0.50");
        assert!(by_project[0]["day"].is_string());
        let csv = client
            .get(&format!("{base}?group_by=user&format=csv"))
            .await
            .text();
        assert!(csv.starts_with("user,tasks,"), "{csv}");
        assert!(csv.contains("\r\n'=grace,1,"), "{csv}");
        let csv = client
            .get(&format!("{base}?group_by=metadata.project&format=csv"))
            .await
            .text();
        assert!(csv.starts_with("metadata.project,tasks,"), "{csv}");
        assert_filtered(client, base).await;
        for bad in ["users", "metadata.", "user,metadata.project"] {
            let answer = client.get(&format!("{base}?group_by={bad}")).await;
            answer.refused(400, "invalid_value").on_param("group_by");
        }
    }
    verify_and_stop(gateway).await;
}
