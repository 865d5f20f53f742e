//! Limits of keys: kept as they were given, and removed again.

use reqwest::Method;
use serde_json::{Value, json};

use super::{patch, start};

/// The URL of a key in an answer.
fn path_of(key: &Value) -> String {
    format!("/v1/admin/keys/{}", key["id"].as_str().unwrap())
}

#[tokio::test]
async fn an_expiry_is_kept_as_it_was_given() {
    for postgres in [false, true] {
        let (_gateway, operator) = start(postgres).await;
        let instant = "2100-01-01T00:00:00.000Z";
        // Creating the account takes time, which must not be added.
        for (name, account) in [("first", "brand-new"), ("second", "brand-new")] {
            let body = json!({"name": name, "account": account, "expires_at": instant});
            let created = operator.post("/v1/admin/keys", &body).await.ok();
            assert_eq!(created["expires_at"], instant, "{name}");
            let path = path_of(&created);
            let later = json!({"expires_at": "2100-01-01T01:00:00.5+01:00"});
            let changed = patch(&operator, &path, &later).await.ok();
            assert_eq!(changed["expires_at"], "2100-01-01T00:00:00.500Z");
        }
    }
}

/// A limit with the name that it has elsewhere would limit nothing.
#[tokio::test]
async fn a_field_with_a_similar_name_is_refused_and_named() {
    let (_gateway, operator) = start(false).await;
    let created = operator
        .post("/v1/admin/keys", &json!({"name": "k", "account": "owls"}))
        .await
        .ok();
    let key = path_of(&created);
    let rotate = format!("{key}/rotate");
    let (post, change) = (Method::POST, Method::PATCH);
    for (method, path, body, field) in [
        (
            &post,
            "/v1/admin/accounts",
            json!({"handle": "typo", "policy": "prepaid"}),
            "policy",
        ),
        (
            &post,
            "/v1/admin/accounts",
            json!({"handle": "typo", "budget": "5"}),
            "budget",
        ),
        (
            &change,
            "/v1/admin/accounts/owls",
            json!({"budget": null}),
            "budget",
        ),
        (
            &post,
            "/v1/admin/accounts/owls/credits",
            json!({"amount_usd": "1", "notes": "k"}),
            "notes",
        ),
        (
            &post,
            "/v1/admin/ledger/adjustments",
            json!({"amount": "1"}),
            "amount",
        ),
        (
            &post,
            "/v1/admin/keys",
            json!({"name": "typo", "budget": "5"}),
            "budget",
        ),
        (
            &post,
            "/v1/admin/keys",
            json!({"name": "typo", "model": ["animatic-1"]}),
            "model",
        ),
        (
            &post,
            "/v1/admin/keys",
            json!({"name": "typo", "expires": "1d"}),
            "expires",
        ),
        (&change, &key, json!({"account": "staff"}), "account"),
        (
            &post,
            &rotate,
            json!({"grace_period": "1d"}),
            "grace_period",
        ),
    ] {
        let request = operator.request(method.clone(), path).json(&body);
        let answer = operator.send(request).await;
        answer.refused(400, "unsupported_value").on_param(field);
        assert!(answer.message().contains("known fields"), "{body}");
    }
    for list in ["/v1/admin/accounts?limit=100", "/v1/admin/keys?limit=100"] {
        let text = operator.get(list).await.whole_text();
        assert!(!text.contains("typo"), "{text}");
    }
    assert_eq!(operator.get(&key).await.ok()["account"], "owls");
}

#[tokio::test]
async fn a_repeated_item_of_a_list_is_kept_once() {
    let (_gateway, operator) = start(false).await;
    let lists = json!({"scopes": ["admin", "tasks:read", "admin"], "models": ["animatic-1", "animatic-1"],
        "networks": ["127.0.0.0/8", "127.0.0.0/8"]});
    let mut body = lists.clone();
    body["name"] = json!("k");
    let created = operator.post("/v1/admin/keys", &body).await.ok();
    let changed = patch(&operator, &path_of(&created), &lists).await.ok();
    for key in [created, changed] {
        assert_eq!(key["scopes"], json!(["admin", "tasks:read"]));
        assert_eq!(key["models"], json!(["animatic-1"]));
        assert_eq!(key["networks"], json!(["127.0.0.0/8"]));
    }
}

#[tokio::test]
async fn null_removes_every_limit_of_a_key() {
    for postgres in [false, true] {
        let (_gateway, operator) = start(postgres).await;
        let body = json!({"name": "k", "budget_usd": "5", "budget_period": "day", "rpm": 7, "max_running": 2,
            "models": ["animatic-1"], "networks": ["127.0.0.0/8"], "expires_at": "2100-01-01"});
        let created = operator.post("/v1/admin/keys", &body).await.ok();
        let path = path_of(&created);
        let change = json!({"name": null, "scopes": null, "refuse_housekeeping": null, "budget_usd": null,
            "rpm": null, "max_running": null, "models": null, "networks": null, "expires_at": null});
        let changed = patch(&operator, &path, &change).await.ok();
        for removed in [
            "budget_usd",
            "budget_period",
            "models",
            "networks",
            "expires_at",
        ] {
            assert_eq!(changed[removed], Value::Null, "{removed}");
        }
        // Every key has these two, so that null is the value of a new key.
        assert_eq!(
            (&changed["rpm"], &changed["max_running"]),
            (&json!(600), &json!(100))
        );
        for kept in ["name", "scopes", "refuse_housekeeping"] {
            assert_eq!(changed[kept], created[kept], "{kept}");
        }
    }
}

#[tokio::test]
async fn a_budget_period_needs_a_budget_also_in_a_change() {
    for postgres in [false, true] {
        let (_gateway, operator) = start(postgres).await;
        let created = operator
            .post("/v1/admin/keys", &json!({"name": "k"}))
            .await
            .ok();
        let path = path_of(&created);
        let week = json!({"budget_period": "week"});
        let refused = patch(&operator, &path, &week).await;
        refused.refused(400, "missing_field").on_param("budget_usd");
        let both = json!({"budget_usd": "5", "budget_period": "month"});
        patch(&operator, &path, &both).await.ok();
        let changed = patch(&operator, &path, &week).await.ok();
        assert_eq!(
            (&changed["budget_usd"], &changed["budget_period"]),
            (&json!("5.00"), &json!("week"))
        );
        let without_budget = json!({"budget_usd": null, "budget_period": "day"});
        let refused = patch(&operator, &path, &without_budget).await;
        refused.refused(400, "missing_field").on_param("budget_usd");
        let unchanged = operator.get(&path).await.ok();
        assert_eq!(unchanged["budget_usd"], "5.00");
    }
}
