//! The log of requests: `/v1/requests` and `/v1/admin/requests`.

use std::time::Duration;

use mediagate_core::domain::keys::NewKey;
use mediagate_core::domain::request_log;
use mediagate_model::account::Scope;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::gateway::Builder;
use crate::support::{Client, TestGateway, eventually, videos_order};

async fn operator(gateway: &TestGateway) -> Client {
    let operator = NewKey {
        name: "operator".into(),
        scopes: vec![Scope::Admin],
        ..NewKey::default()
    };
    gateway.caller("operators", operator).await
}

/// The entries that a list shows, once what waits is written.
async fn entries(gateway: &TestGateway, client: &Client, path: &str) -> Vec<Value> {
    request_log::write_waiting(&gateway.app).await.unwrap();
    let list = client.get(path).await.ok();
    list["data"].as_array().unwrap().clone()
}

/// Sends a request with this request id.
async fn send(
    client: &Client,
    id: &str,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> crate::support::Answer {
    let request = client.request(method, path).header("x-request-id", id);
    let request = match body {
        Some(body) => request.json(body),
        None => request,
    };
    client.send(request).await
}

fn texts<'a>(entries: &'a [Value], field: &str) -> Vec<Option<&'a str>> {
    entries.iter().map(|entry| entry[field].as_str()).collect()
}

async fn check_a_refused_order(builder: Builder) {
    let gateway = builder.without_workers().start().await;
    let operator = operator(&gateway).await;
    let new = NewKey {
        name: "the app".into(),
        ..NewKey::default()
    };
    let caller = gateway.caller("owls", new).await;
    let mut order = videos_order();
    order["model"] = "no-such-model".into();
    let refused = send(&caller, "r-model", Method::POST, "/v1/videos", Some(&order)).await;
    refused.refused(404, "model_not_found");

    let found = entries(&gateway, &caller, "/v1/requests?q=r-model").await;
    let [entry] = &found[..] else {
        panic!("one entry: {found:?}");
    };
    assert_eq!(
        json!([
            entry["request_id"],
            entry["method"],
            entry["route"],
            entry["status"],
            entry["code"],
            entry["message"],
            entry["key"]["name"],
            entry["model"],
            entry["task"],
        ]),
        json!([
            "r-model",
            "POST",
            "/v1/videos",
            404,
            "model_not_found",
            refused.message(),
            "the app",
            "no-such-model",
            null,
        ])
    );
    assert!(
        entry["milliseconds"].is_u64() && entry["time"].is_string(),
        "{entry}"
    );
    assert_eq!(entry.get("account"), None);
    // The operator sees whose it was.
    let found = entries(&gateway, &operator, "/v1/admin/requests?q=r-model").await;
    assert_eq!(texts(&found, "account"), [Some("owls")]);
    // Another account does not see it.
    let other = gateway.caller("foxes", NewKey::default()).await;
    assert_eq!(
        entries(&gateway, &other, "/v1/requests?q=r-model").await,
        [] as [Value; 0]
    );
    // Postgres stores no NUL: such a name must not keep this and later entries from being written.
    order["model"] = "a\0b".into();
    let refused = send(&caller, "r-nul", Method::POST, "/v1/videos", Some(&order)).await;
    refused.refused(400, "invalid_value").on_param("model");
    let found = entries(&gateway, &caller, "/v1/requests?q=r-nul").await;
    assert_eq!(texts(&found, "model"), [Some("a\u{fffd}b")]);
    gateway.stop().await;
}

#[tokio::test]
async fn a_refused_order_is_found_by_its_request_id() {
    check_a_refused_order(TestGateway::builder()).await;
    check_a_refused_order(TestGateway::builder().on_postgres()).await;
}

#[tokio::test]
async fn an_order_leads_to_its_task_and_reads_are_not_logged() {
    for postgres in [false, true] {
        let builder = TestGateway::builder().without_workers();
        let builder = if postgres {
            builder.on_postgres()
        } else {
            builder
        };
        let gateway = builder.start().await;
        let operator = operator(&gateway).await;
        // Without a model: the log has that of the task.
        let order = json!({"prompt": "a lake at dawn", "size": "480x480", "seconds": "1"});
        let made = send(&gateway, "r-made", Method::POST, "/v1/videos", Some(&order)).await;
        let task = made.header("x-task-id").unwrap().to_owned();
        made.ok();
        gateway.get(&format!("/v1/tasks/{task}")).await.ok();
        gateway.get("/v1/models").await.ok();
        let quote = json!({"endpoint": "/v1/videos", "body": videos_order()});
        gateway.post("/v1/quote", &quote).await.ok();
        let found = entries(&gateway, &gateway, "/v1/requests").await;
        assert_eq!(texts(&found, "request_id"), [Some("r-made")]);
        assert_eq!(texts(&found, "task"), [Some(&*task)]);
        assert_eq!(texts(&found, "model"), [Some("animatic-1")]);
        assert_eq!(texts(&found, "code"), [None]);
        // The task is found by it, too.
        for (client, path) in [
            (&*gateway, "/v1/tasks?q=r-made"),
            (&operator, "/v1/admin/tasks?q=r-made"),
            (&operator, "/v1/admin/tasks?q=r-made&account=default"),
        ] {
            let tasks = client.get(path).await.ok();
            let tasks = tasks["data"].as_array().unwrap().clone();
            assert_eq!(texts(&tasks, "id"), [Some(&*task)], "{path}");
        }
        let other = gateway.caller("foxes", NewKey::default()).await;
        assert_eq!(
            other.get("/v1/tasks?q=r-made").await.ok()["data"],
            json!([])
        );
        gateway.stop().await;
    }
}

#[tokio::test]
async fn requests_without_a_valid_key_are_for_the_operator_only() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let operator = operator(&gateway).await;
    let wrong_key = format!("sk-mg-{}", "0".repeat(40));
    let stranger = gateway.with_key(&wrong_key);
    send(&stranger, "r-key", Method::GET, "/v1/tasks", None)
        .await
        .refused(401, "invalid_api_key");
    let lost = gateway.without_key();
    let lost_path = format!("/v1/nowhere/{wrong_key}");
    send(&lost, "r-lost", Method::GET, &lost_path, None)
        .await
        .refused(404, "route_not_found");
    let found = entries(
        &gateway,
        &operator,
        "/v1/admin/requests?status=4xx&order=asc",
    )
    .await;
    assert_eq!(texts(&found, "request_id"), [Some("r-key"), Some("r-lost")]);
    assert_eq!(texts(&found, "route"), [Some("/v1/tasks"), None]);
    assert!(
        found.iter().all(|entry| entry["key"].is_null()),
        "{found:?}"
    );
    let text = serde_json::to_string(&found).unwrap();
    assert!(!text.contains(&wrong_key[..12]), "{text}");
    assert_eq!(
        entries(&gateway, &gateway, "/v1/requests").await,
        [] as [Value; 0]
    );
    gateway
        .get("/v1/admin/requests")
        .await
        .refused(403, "insufficient_scope");
    let no_reader = NewKey {
        scopes: vec![Scope::VideoCreate],
        ..NewKey::default()
    };
    let no_reader = gateway.caller("owls", no_reader).await;
    let refused = no_reader.get("/v1/requests").await;
    refused.refused(403, "insufficient_scope");
    gateway.stop().await;
}

async fn check_filters(gateway: TestGateway) {
    let operator = operator(&gateway).await;
    let new = NewKey {
        name: "second".into(),
        ..NewKey::default()
    };
    let second = gateway.caller("default", new).await;
    let mut unknown = videos_order();
    unknown["model"] = "film-9".into();
    let (videos, chat) = ("/v1/videos", "/v1/chat/completions");
    send(&gateway, "a", Method::POST, videos, Some(&unknown)).await;
    send(
        &gateway,
        "b",
        Method::POST,
        videos,
        Some(&json!({"prompt": 7})),
    )
    .await;
    send(&second, "c", Method::POST, chat, Some(&json!({}))).await;
    send(&second, "d", Method::GET, "/v1/tasks?limit=0", None).await;
    send(&second, "e", Method::POST, videos, Some(&videos_order())).await;
    let all = entries(&gateway, &gateway, "/v1/requests?order=asc").await;
    assert_eq!(
        texts(&all, "request_id"),
        ["a", "b", "c", "d", "e"].map(Some)
    );
    let second_key = all[4]["key"]["id"].as_str().unwrap();
    let third = all[2]["time"].as_str().unwrap();
    for (query, expected) in [
        ("status=404", vec!["a"]),
        ("status=4xx", vec!["d", "c", "b", "a"]),
        ("status=200", vec!["e"]),
        ("status=5xx", vec![]),
        ("code=model_not_found", vec!["a"]),
        ("code=budget_exceeded", vec![]),
        ("route=/v1/chat/completions", vec!["c"]),
        ("route=/v1/videos&status=4xx", vec!["b", "a"]),
        (&*format!("key={second_key}"), vec!["e", "d", "c"]),
        (&*format!("key={second_key}&status=200"), vec!["e"]),
        ("model=film-9", vec!["a"]),
        ("model=animatic-1", vec!["e"]),
        ("q=c", vec!["c"]),
        ("q=no%20such", vec![]),
        ("until=2020-01-01", vec![]),
        ("since=2020-01-01&limit=2", vec!["e", "d"]),
    ] {
        for (client, path) in [
            (&*gateway, "/v1/requests"),
            (&operator, "/v1/admin/requests"),
        ] {
            let found = client.get(&format!("{path}?{query}")).await.ok();
            let found = found["data"].as_array().unwrap().clone();
            let expected: Vec<_> = expected.iter().copied().map(Some).collect();
            assert_eq!(texts(&found, "request_id"), expected, "{path}?{query}");
        }
    }
    let since = entries(&gateway, &gateway, &format!("/v1/requests?since={third}")).await;
    assert!(texts(&since, "request_id").contains(&Some("c")));
    // Pages meet.
    let mut collected = Vec::new();
    let mut path = "/v1/requests?limit=2".to_owned();
    loop {
        let page = gateway.get(&path).await.ok();
        let data = page["data"].as_array().unwrap();
        collected.extend(
            texts(data, "request_id")
                .iter()
                .map(|id| id.unwrap().to_owned()),
        );
        if page["has_more"] == json!(false) {
            break;
        }
        let last = page["last_id"].as_str().unwrap();
        path = format!("/v1/requests?limit=2&after={last}");
    }
    assert_eq!(collected, ["e", "d", "c", "b", "a"]);
    for (query, param) in [
        ("status=40", "status"),
        ("status=6xx", "status"),
        ("code=oops", "code"),
        ("group_by=colour", "group_by"),
        ("since=noon", "since"),
    ] {
        let refused = gateway.get(&format!("/v1/requests?{query}")).await;
        refused.refused(400, "invalid_value").on_param(param);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn the_log_is_filtered_and_paged() {
    check_filters(TestGateway::builder().without_workers().start().await).await;
    let builder = TestGateway::builder().without_workers().on_postgres();
    check_filters(builder.start().await).await;
}

async fn check_counts(gateway: TestGateway) {
    let operator = operator(&gateway).await;
    let poor = NewKey {
        name: "poor".into(),
        budget: Some("0".parse().unwrap()),
        ..NewKey::default()
    };
    let poor = gateway.caller("owls", poor).await;
    let order = json!({"model": "film-1", "prompt": "a lake", "seconds": "4"});
    for _ in 0..3 {
        let refused = poor.post("/v1/videos", &order).await;
        refused.refused(402, "budget_exceeded");
    }
    gateway
        .post(
            "/v1/videos",
            &json!({"model": "film-9", "prompt": "a lake"}),
        )
        .await
        .refused(404, "model_not_found");
    gateway.post("/v1/videos", &videos_order()).await.ok();
    request_log::write_waiting(&gateway.app).await.unwrap();
    let counts = operator
        .get("/v1/admin/requests?group_by=code,key,model,account")
        .await
        .ok();
    assert_eq!(counts["total"], 4);
    let rows = counts["data"].as_array().unwrap();
    let row = |row: &Value| {
        json!([
            row["count"],
            row["code"],
            row["key"]["name"],
            row["model"],
            row["account"]
        ])
    };
    assert_eq!(
        rows.iter().map(row).collect::<Vec<_>>(),
        [
            json!([3, "budget_exceeded", "poor", "film-1", "owls"]),
            json!([1, "model_not_found", "", "film-9", "default"]),
        ]
    );
    // What the query does not group by is absent.
    let by_status = operator
        .get("/v1/admin/requests?group_by=status&status=402")
        .await
        .ok();
    let by_status = &by_status["data"][0];
    assert_eq!(
        (&by_status["status"], &by_status["count"]),
        (&json!(402), &json!(3))
    );
    assert_eq!(by_status.get("code"), None);
    // An account counts its own.
    let own = poor.get("/v1/requests?group_by=code").await.ok();
    assert_eq!(own["total"], 3);
    let none = poor
        .get("/v1/requests?group_by=code&until=2020-01-01")
        .await
        .ok();
    assert_eq!((&none["total"], &none["data"]), (&json!(0), &json!([])));
    gateway.stop().await;
}

#[tokio::test]
async fn errors_are_counted_by_code_key_and_model() {
    let toml = "[providers.studio]\nprotocol = \"openai-videos\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\
                api_key = \"k\"\n[models.film-1]\nkind = \"video\"\n\
                price = { unit = \"second\", usd = \"0.10\" }\n\
                routes = [{ provider = \"studio\", model = \"film\" }]\n";
    let builder = || TestGateway::builder().toml(toml).without_workers();
    check_counts(builder().start().await).await;
    check_counts(builder().on_postgres().start().await).await;
}

#[tokio::test]
async fn a_share_of_the_reads_is_logged_if_the_settings_say_so() {
    let builder = TestGateway::builder().set(|settings| settings.requests_sample = Some(0.5));
    let gateway = builder.without_workers().start().await;
    for _ in 0..4 {
        gateway.get("/v1/models").await.ok();
        // These never are, and do not count.
        gateway.get("/healthz").await.ok();
    }
    let found = entries(&gateway, &gateway, "/v1/requests?route=/v1/models").await;
    assert_eq!(found.len(), 2);
    gateway.stop().await;
}

#[tokio::test]
async fn workers_write_the_log_and_a_stop_writes_the_rest() {
    let gateway = TestGateway::start().await;
    send(&gateway, "r-1", Method::GET, "/v1/nowhere", None).await;
    send(&gateway, "r-2", Method::GET, "/v1/tasks?nothing=1", None).await;
    eventually("the entry is written", async || {
        let list = gateway.get("/v1/requests?q=r-2").await.ok();
        (list["data"] != json!([])).then_some(())
    })
    .await;
    send(&gateway, "r-3", Method::GET, "/v1/tasks?nothing=1", None).await;
    let gateway = gateway.restart_without_workers().await;
    let list = gateway.get("/v1/requests?q=r-3").await.ok();
    assert_eq!(list["data"][0]["code"], "unsupported_value");
    gateway.stop().await;
}

#[tokio::test]
async fn old_entries_are_removed() {
    for postgres in [false, true] {
        let builder = TestGateway::builder()
            .manual_clock()
            .set(|settings| settings.requests_ttl = Some(Duration::from_hours(48)));
        let builder = if postgres {
            builder.on_postgres()
        } else {
            builder
        };
        let gateway = builder.without_workers().start().await;
        send(&gateway, "old", Method::GET, "/v1/tasks?nothing=1", None).await;
        request_log::write_waiting(&gateway.app).await.unwrap();
        gateway.app.clock.advance(Duration::from_hours(47));
        send(&gateway, "new", Method::GET, "/v1/tasks?nothing=1", None).await;
        request_log::write_waiting(&gateway.app).await.unwrap();
        request_log::forget_old(&gateway.app).await.unwrap();
        let kept = entries(&gateway, &gateway, "/v1/requests").await;
        assert_eq!(texts(&kept, "request_id"), ["new", "old"].map(Some));
        gateway.app.clock.advance(Duration::from_hours(2));
        request_log::forget_old(&gateway.app).await.unwrap();
        let kept = entries(&gateway, &gateway, "/v1/requests").await;
        assert_eq!(texts(&kept, "request_id"), [Some("new")]);
        gateway.stop().await;
    }
}

/// The same error is stored for the next request with the same key.
#[tokio::test]
async fn a_repeated_error_is_logged_with_its_code() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let order = |id: &'static str| {
        let body = json!({"model": "animatic-1", "messages": [{"role": "user", "content": "a lake"}],
                          "video": {"size": "480x480", "seconds": 1}});
        let request = gateway.request(Method::POST, "/v1/chat/completions");
        let request = request
            .header("idempotency-key", "k-1")
            .header("x-request-id", id);
        gateway.send(request.json(&body))
    };
    let fail = async {
        let claimed = eventually("the task is there", async || {
            let tasks = gateway.get("/v1/tasks").await.ok();
            (tasks["data"] != json!([])).then_some(())
        });
        claimed.await;
        let task = gateway.claim().await;
        let code = mediagate_model::error::ErrorCode::ContentPolicy;
        gateway.fail(task.id, code).await;
        task.id.to_string()
    };
    let (first, task) = tokio::join!(order("r-first"), fail);
    first.refused(422, "content_policy");
    order("r-again").await.refused(422, "content_policy");
    let found = entries(&gateway, &gateway, "/v1/requests?code=content_policy").await;
    assert_eq!(
        texts(&found, "request_id"),
        [Some("r-again"), Some("r-first")]
    );
    assert_eq!(texts(&found, "task"), [Some(&*task), Some(&*task)]);
    assert_eq!(
        texts(&found, "model"),
        [Some("animatic-1"), Some("animatic-1")]
    );
    gateway.stop().await;
}
