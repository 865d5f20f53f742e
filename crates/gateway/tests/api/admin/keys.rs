//! Keys: created, changed, rotated and revoked.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{audit_entries, operator, patch, send_with_key, settle_one, start};
use crate::money::videos;
use crate::support::{Client, TestGateway, eventually, videos_order};
use mediagate_core::domain::keys::NewKey;

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[tokio::test]
async fn a_key_is_created_with_every_limit_and_shown_once() {
    for postgres in [false, true] {
        let (gateway, operator) = start(postgres).await;
        let body = json!({
            "name": "laptop", "account": "owls", "scopes": ["video:create", "tasks:read"],
            "budget_usd": "25.00", "budget_period": "month", "rpm": 60, "max_running": 5,
            "models": ["animatic-1"], "networks": ["127.0.0.0/8", "::1/128"], "refuse_housekeeping": true,
            "expires_at": "9999-12-31T23:59:59Z",
        });
        let created = operator.post("/v1/admin/keys", &body).await.ok();
        for (name, value) in body.as_object().unwrap() {
            let shown_value = &created[name];
            let is_same = shown_value == value
                || (name == "expires_at" && text(shown_value).starts_with("9999-12-31"));
            assert!(is_same, "{name}: {created}");
        }
        let secret = text(&created["key"]);
        assert_eq!(created["prefix"], secret[..12]);
        let path = format!("/v1/admin/keys/{}", text(&created["id"]));
        let shown = operator.get(&path).await.ok();
        assert_eq!(shown.get("key"), None);
        assert_eq!(
            (&shown["spent_usd"], &shown["open_tasks"]),
            (&json!("0.00"), &json!(0))
        );
        let caller = gateway.with_key(secret);
        assert_eq!(caller.get("/v1/account").await.ok()["handle"], "owls");
        let list = operator.get("/v1/admin/keys?account=owls").await.ok();
        assert_eq!(list["data"][0]["id"], created["id"]);
        operator
            .get("/v1/admin/keys?account=nobody")
            .await
            .refused(404, "account_not_found");
        // Nothing stored contains the secret.
        let log = operator.get("/v1/admin/audit?limit=100").await.whole_text();
        assert!(!log.contains(secret) && log.contains("key.create"), "{log}");
    }
}

#[tokio::test]
async fn wrong_fields_are_named() {
    let (_gateway, operator) = start(false).await;
    for (field, value, param, code) in [
        ("name", json!(null), "name", "missing_field"),
        ("name", json!(" "), "name", "invalid_value"),
        ("name", json!("a\nb"), "name", "invalid_value"),
        ("account", json!("Not A Handle"), "account", "invalid_value"),
        ("scopes", json!([]), "scopes", "invalid_value"),
        ("scopes", json!(["root"]), "scopes[0]", "invalid_value"),
        ("budget_usd", json!("-1"), "budget_usd", "invalid_value"),
        ("budget_usd", json!(1), "budget_usd", "invalid_type"),
        ("budget_period", json!("day"), "budget_usd", "missing_field"),
        (
            "budget_period",
            json!("year"),
            "budget_period",
            "invalid_value",
        ),
        ("rpm", json!(0), "rpm", "invalid_value"),
        ("max_running", json!("5"), "max_running", "invalid_type"),
        ("models", json!(["no-such"]), "models[0]", "invalid_value"),
        (
            "networks",
            json!(["10.0.0.0/8", "x"]),
            "networks[1]",
            "invalid_value",
        ),
        ("expires_at", json!("soon"), "expires_at", "invalid_value"),
        (
            "refuse_housekeeping",
            json!("yes"),
            "refuse_housekeeping",
            "invalid_type",
        ),
        (
            "expires_at",
            json!("2001-01-01"),
            "expires_at",
            "invalid_value",
        ),
    ] {
        let mut body = json!({"name": "k"});
        body[field] = value;
        let answer = operator.post("/v1/admin/keys", &body).await;
        answer.refused(400, code).on_param(param);
    }
    for path in [
        "/v1/admin/keys/x",
        "/v1/admin/keys/0193b000-0000-7000-8000-000000000001",
    ] {
        operator.get(path).await.refused(404, "key_not_found");
        patch(&operator, path, &json!({"rpm": 1}))
            .await
            .refused(404, "key_not_found");
        operator.delete(path).await.refused(404, "key_not_found");
        let rotate = format!("{path}/rotate");
        operator
            .post(&rotate, &json!({}))
            .await
            .refused(404, "key_not_found");
    }
    operator
        .get("/v1/admin/keys?limit=0")
        .await
        .refused(400, "invalid_value")
        .on_param("limit");
}

#[tokio::test]
async fn a_repeated_creation_makes_one_key_and_shows_it_once() {
    for postgres in [false, true] {
        let (_gateway, operator) = start(postgres).await;
        let body = json!({"name": "once"});
        let create_key = async |key: &str, body: &Value| {
            send_with_key(&operator, Method::POST, "/v1/admin/keys", key, body).await
        };
        let first = create_key("a", &body).await;
        assert_eq!(first.header("idempotent-replayed"), None);
        let repeated = create_key("a", &body).await;
        assert_eq!(repeated.header("idempotent-replayed"), Some("true"));
        let (first, mut repeated) = (first.ok(), repeated.ok());
        assert_eq!(repeated["key"], Value::Null);
        repeated["key"] = first["key"].clone();
        assert_eq!(first, repeated);
        create_key("a", &json!({"name": "other"}))
            .await
            .refused(409, "idempotency_conflict");
        let creations = audit_entries(&operator, "key.create").await;
        let entries_of_key = creations
            .iter()
            .filter(|entry| entry["target"] == first["id"]);
        assert_eq!(entries_of_key.count(), 1);
        let id = text(&first["id"]);
        let path = format!("/v1/admin/keys/{id}");
        let rotate = format!("{path}/rotate");
        let rotated = send_with_key(&operator, Method::POST, &rotate, "b", &Value::Null)
            .await
            .ok();
        let repeated = send_with_key(&operator, Method::POST, &rotate, "b", &Value::Null)
            .await
            .ok();
        assert!(rotated["key"].is_string() && repeated["key"].is_null());
        let change = json!({"rpm": 7});
        for _ in 0..2 {
            let answer = send_with_key(&operator, Method::PATCH, &path, "c", &change).await;
            assert_eq!(answer.ok()["rpm"], 7);
            send_with_key(&operator, Method::DELETE, &path, "d", &Value::Null)
                .await
                .ok();
        }
        for action in ["key.rotate", "key.update", "key.revoke"] {
            assert_eq!(audit_entries(&operator, action).await.len(), 1, "{action}");
        }
    }
}

#[tokio::test]
async fn a_change_applies_from_the_next_request() {
    for postgres in [false, true] {
        let (gateway, operator) = start(postgres).await;
        let created = operator
            .post("/v1/admin/keys", &json!({"name": "k", "budget_usd": "5"}))
            .await
            .ok();
        let caller = gateway.with_key(text(&created["key"]));
        caller.get("/v1/tasks").await.ok();
        let path = format!("/v1/admin/keys/{}", text(&created["id"]));
        let title = json!({"model": "animatic-1", "messages": [{"role": "user",
            "content": "### Task:\nGenerate a concise title summarizing the chat history."}]});
        let body = json!({"refuse_housekeeping": true});
        let strict = patch(&operator, &path, &body).await.ok();
        assert_eq!(
            (
                &created["refuse_housekeeping"],
                &strict["refuse_housekeeping"]
            ),
            (&json!(false), &json!(true))
        );
        eventually("the key is read again", async || {
            let quote = json!({"endpoint": "/v1/chat/completions", "body": title});
            let answer = caller.post("/v1/quote", &quote).await;
            (answer.status == 400).then_some(())
        })
        .await;
        let body = json!({"name": "weak", "scopes": ["video:create"], "budget_usd": null, "max_running": 1});
        let changed = patch(&operator, &path, &body).await.ok();
        assert_eq!(
            changed["refuse_housekeeping"], true,
            "an omitted field stays"
        );
        assert_eq!(
            (
                &changed["name"],
                &changed["budget_usd"],
                &changed["max_running"]
            ),
            (&json!("weak"), &Value::Null, &json!(1))
        );
        eventually("the key is read again", async || {
            let answer = caller.get("/v1/tasks").await;
            (answer.status == 403).then_some(())
        })
        .await;
        let entry = &audit_entries(&operator, "key.update").await[0];
        assert_eq!(
            (
                &entry["before"]["budget_usd"],
                &entry["after"]["budget_usd"]
            ),
            (&json!("5.00"), &Value::Null)
        );
        assert_eq!(
            (
                &entry["actor"]["kind"],
                &entry["actor"]["name"],
                &entry["address"]
            ),
            (&json!("key"), &json!("operator"), &json!("127.0.0.1"))
        );
        assert!(entry["request_id"].as_str().unwrap().starts_with("req_"));
        let revoked = operator.delete(&path).await.ok();
        assert!(revoked["revoked_at"].is_string());
        eventually("the key is refused", async || {
            let answer = caller.post("/v1/videos", &videos_order()).await;
            (answer.json["error"]["code"] == "revoked_api_key").then_some(())
        })
        .await;
        patch(&operator, &path, &json!({"rpm": 1}))
            .await
            .refused(409, "key_revoked");
        let rotate = format!("{path}/rotate");
        operator
            .post(&rotate, &json!({}))
            .await
            .refused(409, "key_revoked");
    }
}

#[tokio::test]
async fn a_rotated_key_ends_at_once_or_after_its_grace() {
    for postgres in [false, true] {
        let mut builder = TestGateway::builder().manual_clock();
        if postgres {
            builder = builder.on_postgres();
        }
        let gateway = builder.start().await;
        let operator = operator(&gateway).await;
        let created = operator
            .post("/v1/admin/keys", &json!({"name": "k"}))
            .await
            .ok();
        let rotate = format!("/v1/admin/keys/{}/rotate", text(&created["id"]));
        let first = gateway.with_key(text(&created["key"]));
        first.get("/v1/tasks").await.ok();
        let rotated = operator.post(&rotate, &json!({"grace": "10m"})).await.ok();
        assert_eq!(rotated["id"], created["id"]);
        assert!(rotated["former_until"].is_string(), "{rotated}");
        let second = gateway.with_key(text(&rotated["key"]));
        second.get("/v1/tasks").await.ok();
        first.get("/v1/tasks").await.ok();
        gateway.app.clock.advance(Duration::from_mins(10));
        eventually("the grace is over", async || {
            let answer = first.get("/v1/tasks").await;
            (answer.json["error"]["code"] == "revoked_api_key").then_some(())
        })
        .await;
        let rotated = operator
            .send(operator.request(Method::POST, &rotate))
            .await
            .ok();
        assert_eq!(rotated["former_until"], Value::Null);
        eventually("the second ends at once", async || {
            let answer = second.get("/v1/tasks").await;
            (answer.json["error"]["code"] == "revoked_api_key").then_some(())
        })
        .await;
        gateway
            .with_key(text(&rotated["key"]))
            .get("/v1/tasks")
            .await
            .ok();
        for grace in [json!("31d"), json!("soon"), json!("-1s")] {
            let body = json!({"grace": grace});
            operator
                .post(&rotate, &body)
                .await
                .refused(400, "invalid_value")
                .on_param("grace");
        }
    }
}

#[tokio::test]
async fn a_budget_renews_and_holds_count_until_they_end() {
    for postgres in [false, true] {
        let mut builder = TestGateway::builder()
            .without_workers()
            .manual_clock()
            .toml(crate::money::PRICES);
        if postgres {
            builder = builder.on_postgres();
        }
        let gateway = builder.start().await;
        let operator = operator(&gateway).await;
        let body = json!({"name": "daily", "budget_usd": "0.25", "budget_period": "day"});
        let created = operator.post("/v1/admin/keys", &body).await.ok();
        let caller = gateway.with_key(text(&created["key"]));
        let path = format!("/v1/admin/keys/{}", text(&created["id"]));
        let too_much = caller.post("/v1/chat/completions", &videos(3)).await;
        too_much.refused(402, "budget_exceeded");
        assert!(
            too_much.message().contains("0.25 USD per day"),
            "{}",
            too_much.message()
        );
        caller.post("/v1/videos", &videos_order()).await.ok();
        settle_one(&gateway).await;
        caller.post("/v1/videos", &videos_order()).await.ok();
        let over_budget = caller.post("/v1/videos", &videos_order()).await;
        over_budget.refused(402, "budget_exceeded");
        // The next day the spent part is free again, the held part is not.
        gateway.app.clock.advance(Duration::from_hours(24));
        let next_day = operator.get(&path).await.ok();
        assert_eq!(
            [
                &next_day["period_spent_usd"],
                &next_day["held_usd"],
                &next_day["available_usd"],
                &next_day["spent_usd"]
            ],
            ["0.00", "0.10", "0.15", "0.10"]
        );
        caller.post("/v1/videos", &videos_order()).await.ok();
        let over_budget = caller.post("/v1/videos", &videos_order()).await;
        over_budget.refused(402, "budget_exceeded");
        // Without a period everything counts.
        let without_period = patch(&operator, &path, &json!({"budget_period": null}))
            .await
            .ok();
        assert_eq!(without_period["available_usd"], "-0.05");
    }
}

#[tokio::test]
async fn the_last_use_is_recorded() {
    for postgres in [false, true] {
        let mut builder = TestGateway::builder();
        if postgres {
            builder = builder.on_postgres();
        }
        let gateway = builder.start().await;
        let operator = operator(&gateway).await;
        let created = operator
            .post("/v1/admin/keys", &json!({"name": "k"}))
            .await
            .ok();
        assert_eq!(created["last_used_at"], Value::Null);
        gateway
            .with_key(text(&created["key"]))
            .get("/v1/tasks")
            .await
            .ok();
        let path = format!("/v1/admin/keys/{}", text(&created["id"]));
        eventually("the use is written", async || {
            let shown = operator.get(&path).await.ok();
            shown["last_used_at"].is_string().then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn keys_are_paged() {
    let (_gateway, operator) = start(false).await;
    for number in 0..5 {
        let body = json!({"name": format!("k{number}")});
        operator.post("/v1/admin/keys", &body).await.ok();
    }
    let mut names = Vec::new();
    let mut after = String::new();
    loop {
        let page = operator
            .get(&format!("/v1/admin/keys?limit=2{after}"))
            .await
            .ok();
        let data = page["data"].as_array().unwrap();
        names.extend(data.iter().map(|key| text(&key["name"]).to_owned()));
        if page["has_more"] == false {
            break;
        }
        after = format!("&after={}", text(&page["last_id"]));
    }
    assert_eq!(names[..5], ["k4", "k3", "k2", "k1", "k0"]);
    assert_eq!(names.len(), 7, "{names:?}");
}

#[tokio::test]
async fn a_body_without_a_length_is_read() {
    let (gateway, operator) = start(false).await;
    let http = reqwest::Client::builder()
        .no_proxy()
        .http2_prior_knowledge()
        .build()
        .unwrap();
    let by_http2 = Client {
        http,
        ..operator.clone()
    };
    let created = operator
        .post("/v1/admin/keys", &json!({"name": "k"}))
        .await
        .ok();
    let rotate = format!("/v1/admin/keys/{}/rotate", text(&created["id"]));
    let mut secret = created["key"].clone();
    // Over HTTP/2 there is no length, over HTTP/1.1 the body is chunked.
    for client in [&by_http2, &operator] {
        let former = gateway.with_key(text(&secret));
        let chunks = ["{\"grace\"", ": \"1d\"}"].map(Ok::<_, std::io::Error>);
        let body = reqwest::Body::wrap_stream(futures_util::stream::iter(chunks));
        let request = client
            .request(Method::POST, &rotate)
            .header("content-type", "application/json")
            .body(body);
        let rotated = client.http.execute(request.build().unwrap()).await.unwrap();
        let rotated: Value = rotated.json().await.unwrap();
        former.get("/v1/tasks").await.ok();
        secret = rotated["key"].clone();
        gateway.with_key(text(&secret)).get("/v1/tasks").await.ok();
    }
    // A missing body and an empty body mean the same.
    for client in [&by_http2, &operator] {
        let empty = futures_util::stream::iter([Ok::<_, std::io::Error>("")]);
        let bodies = [None, Some(reqwest::Body::wrap_stream(empty))];
        for body in bodies {
            let request = client.request(Method::POST, &rotate);
            let request = body
                .into_iter()
                .fold(request, reqwest::RequestBuilder::body);
            let answer = client.http.execute(request.build().unwrap()).await.unwrap();
            assert_eq!(answer.status(), 200);
        }
    }
    let form = operator.request(Method::POST, &rotate).body("grace=1d");
    operator
        .send(form)
        .await
        .refused(415, "unsupported_media_type");
}

#[tokio::test]
async fn webhooks_and_sessions_of_a_revoked_key_are_listed() {
    for postgres in [false, true] {
        let (gateway, operator) = start(postgres).await;
        let created = operator
            .post("/v1/admin/keys", &json!({"name": "k", "account": "owls"}))
            .await
            .ok();
        let path = format!("/v1/admin/keys/{}", text(&created["id"]));
        let caller = gateway.with_key(text(&created["key"]));
        let register = async |caller: &Client, name: &str| {
            let url = format!("https://{name}.example/hook?token=hunter2");
            let body = json!({"url": url, "description": name});
            caller.post("/v1/webhooks", &body).await.ok()
        };
        let webhook = register(&caller, "one").await;
        assert_eq!(webhook["key_id"], created["id"]);
        caller.post("/v1/session", &Value::Null).await.ok();
        let other = gateway.caller("owls", NewKey::default()).await;
        let other_webhook = register(&other, "others").await;
        let rotated = operator
            .post(&format!("{path}/rotate"), &json!({}))
            .await
            .ok();
        let webhook_in_state = |state: &str| json!([{"id": webhook["id"], "url": "https://one.example/hook", "description": "one", "state": state}]);
        assert_eq!(
            (&rotated["webhooks"], &rotated["sessions_ended"]),
            (&webhook_in_state("kept"), &json!(1))
        );
        // A revocation disables the webhook, and a repeated one can still delete it.
        let revoked = operator.delete(&path).await.ok();
        assert_eq!(
            (&revoked["webhooks"], &revoked["sessions_ended"]),
            (&webhook_in_state("disabled"), &json!(0))
        );
        let shown = other
            .get(&format!("/v1/webhooks/{}", text(&webhook["id"])))
            .await;
        assert_eq!(shown.ok()["enabled"], false);
        operator
            .delete(&format!("{path}?end_webhooks=perhaps"))
            .await
            .refused(400, "invalid_value")
            .on_param("end_webhooks");
        let ended = operator
            .delete(&format!("{path}?end_webhooks=true"))
            .await
            .ok();
        assert_eq!(ended["webhooks"], webhook_in_state("deleted"));
        let remaining = other.get("/v1/webhooks").await.ok();
        assert_eq!(remaining["data"].as_array().unwrap().len(), 1);
        assert_eq!(remaining["data"][0]["id"], other_webhook["id"]);
        let entry = &audit_entries(&operator, "key.revoke").await[0];
        assert_eq!(entry["after"]["ties"]["webhooks"], json!([webhook["id"]]));
        let deleted = &audit_entries(&operator, "webhook.delete").await[0];
        assert_eq!(deleted["actor"]["name"], "operator");
        // A rotation can delete webhooks, too.
        let keys = operator.get("/v1/admin/keys?account=owls").await.ok();
        let mut own_keys = keys["data"].as_array().unwrap().iter();
        let active_key = own_keys.find(|key| key["revoked_at"].is_null()).unwrap();
        let path = format!("/v1/admin/keys/{}/rotate", text(&active_key["id"]));
        let rotated = operator
            .post(&path, &json!({"end_webhooks": true}))
            .await
            .ok();
        assert_eq!(rotated["webhooks"][0]["state"], "deleted");
    }
}
