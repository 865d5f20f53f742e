//! The audit log: paged, filtered, exported.

use std::time::Duration;

use mediagate_core::domain::audit::{MAX_HOURLY_CHANGES, forget_old};
use mediagate_core::domain::keys::NewKey;
use mediagate_model::ids::AuditId;
use reqwest::Method;
use serde_json::{Value, json};

use super::{log_entries, operator, start};
use crate::support::{Client, TestGateway};

#[tokio::test]
async fn entries_are_filtered_paged_and_exported() {
    for postgres in [false, true] {
        let (_gateway, operator) = start(postgres).await;
        for name in ["a", "=b"] {
            let body = json!({"handle": name.replace('=', ""), "name": name});
            operator.post("/v1/admin/accounts", &body).await.ok();
        }
        let audit_path = |query: &str| format!("/v1/admin/audit?{query}");
        let entries_of_b = operator.get(&audit_path("target=b")).await.ok();
        assert_eq!(entries_of_b["data"].as_array().unwrap().len(), 1);
        let entry = &entries_of_b["data"][0];
        assert_eq!(
            (&entry["action"], &entry["before"]),
            (&json!("account.create"), &json!(null))
        );
        assert_eq!(entry["after"]["name"], "=b");
        let by_operator = operator.get(&audit_path("actor=operator")).await.ok();
        assert_eq!(by_operator["data"].as_array().unwrap().len(), 2);
        // The tests create their accounts and keys as commands do.
        let by_command = operator
            .get(&audit_path("actor=command&action=key.create"))
            .await
            .ok();
        assert_eq!(by_command["data"].as_array().unwrap().len(), 2);
        let page = operator.get(&audit_path("limit=1")).await.ok();
        assert_eq!((&page["data"][0], &page["has_more"]), (entry, &json!(true)));
        let next = audit_path(&format!(
            "limit=1&after={}",
            page["last_id"].as_str().unwrap()
        ));
        assert_eq!(operator.get(&next).await.ok()["data"][0]["target"], "a");
        let at = entry["at"].as_str().unwrap();
        let before = operator
            .get(&audit_path(&format!("until={at}&target=b")))
            .await
            .ok();
        assert_eq!(before["data"], json!([]));
        let since = operator
            .get(&audit_path(&format!("since={at}&target=b")))
            .await
            .ok();
        assert_eq!(since["data"], entries_of_b["data"]);
        let csv = operator
            .get(&audit_path("format=csv&target=b"))
            .await
            .whole_text();
        let lines: Vec<&str> = csv.lines().collect();
        assert!(
            lines[0].starts_with("id,at,actor_kind") && lines.len() == 2,
            "{csv}"
        );
        assert!(lines[1].contains("account.create,b,"), "{csv}");
        operator
            .get(&audit_path("since=soon"))
            .await
            .refused(400, "invalid_value")
            .on_param("since");
        for unknown in ["x".to_owned(), AuditId::new().to_string()] {
            operator
                .get(&audit_path(&format!("after={unknown}")))
                .await
                .refused(400, "invalid_value")
                .on_param("after");
        }
    }
}

#[tokio::test]
async fn rejected_changes_are_not_logged() {
    let gateway = TestGateway::start().await;
    let operator = operator(&gateway).await;
    let before = operator.get("/v1/admin/audit").await.ok()["data"].clone();
    let body = json!({"handle": "staff"});
    operator
        .post("/v1/admin/accounts", &body)
        .await
        .refused(409, "handle_taken");
    assert_eq!(operator.get("/v1/admin/audit").await.ok()["data"], before);
}

#[tokio::test]
async fn webhooks_and_cancellations_by_operators_are_logged() {
    for postgres in [false, true] {
        let mut builder = TestGateway::builder().without_workers().allow_loopback();
        if postgres {
            builder = builder.on_postgres();
        }
        let gateway = builder.start().await;
        let operator = operator(&gateway).await;
        let caller = gateway.caller("owls", NewKey::default()).await;
        let body = json!({"url": "http://127.0.0.1:9/hook?token=secret"});
        let created = caller.post("/v1/webhooks", &body).await.ok();
        let id = created["id"].as_str().unwrap();
        let path = format!("/v1/webhooks/{id}");
        let disable = caller
            .request(Method::PATCH, &path)
            .json(&json!({"enabled": false}));
        caller.send(disable).await.ok();
        caller
            .post(&format!("{path}/rotate"), &json!({}))
            .await
            .ok();
        caller.delete(&path).await.ok();
        caller
            .post("/v1/webhooks/secret/rotate", &json!({}))
            .await
            .ok();
        let webhook_entries = operator
            .get(&format!("/v1/admin/audit?account=owls&target={id}"))
            .await
            .ok();
        let entries: Vec<_> = webhook_entries["data"]
            .as_array()
            .unwrap()
            .iter()
            .rev()
            .collect();
        let actions: Vec<_> = entries.iter().map(|entry| &entry["action"]).collect();
        assert_eq!(
            actions,
            [
                "webhook.create",
                "webhook.update",
                "webhook.rotate",
                "webhook.delete"
            ]
        );
        assert_eq!(entries[0]["after"]["url"], "http://127.0.0.1:9/hook");
        assert_eq!(
            (
                &entries[1]["before"]["enabled"],
                &entries[1]["after"]["enabled"]
            ),
            (&json!(true), &json!(false))
        );
        assert_eq!(entries[0]["actor"]["kind"], "key");
        let text = webhook_entries.to_string();
        assert!(
            !text.contains("secret") && !text.contains("whsec_"),
            "{text}"
        );
        let rotations = log_entries(&operator, "account=owls&action=webhook.rotate").await;
        assert_eq!(rotations.len(), 2);

        let order = crate::support::videos_order();
        for client in [&operator, &caller] {
            let created = client.post("/v1/videos", &order).await;
            let task = created.header("x-task-id").unwrap().to_owned();
            client
                .post(&format!("/v1/tasks/{task}/cancel"), &json!({}))
                .await
                .ok();
        }
        let cancelled = super::audit_entries(&operator, "task.cancel").await;
        assert_eq!(
            cancelled.len(),
            1,
            "callers may cancel their own tasks without an entry"
        );
        assert_eq!(
            (
                &cancelled[0]["before"]["status"],
                &cancelled[0]["actor"]["name"]
            ),
            (&json!("queued"), &json!("operator"))
        );
    }
}

/// A tenant's key can neither fill the operators' log nor bury what is in it.
async fn check_tenant_log(postgres: bool) {
    let mut builder = TestGateway::builder()
        .without_workers()
        .manual_clock()
        .toml("audit_ttl = \"7d\"");
    if postgres {
        builder = builder.on_postgres();
    }
    let gateway = builder.start().await;
    let operator = operator(&gateway).await;
    let owl = gateway.caller("owls", NewKey::default()).await;
    let other_owl = gateway.caller("owls", NewKey::default()).await;
    let crow = gateway.caller("crows", NewKey::default()).await;
    let of_operators = operator.get("/v1/admin/audit?limit=100").await.ok();
    let url = format!("https://example.com/{}", "a".repeat(1900));
    let created = owl.post("/v1/webhooks", &json!({"url": url})).await.ok();
    let path = format!("/v1/webhooks/{}", created["id"].as_str().unwrap());
    let change = async |client: &Client, number: u32| {
        let request = client.request(Method::PATCH, &path);
        let change = json!({"description": format!("change {number}")});
        client.send(request.json(&change)).await
    };
    owl.get("/v1/admin/keys")
        .await
        .refused(403, "insufficient_scope");
    for number in 2..MAX_HOURLY_CHANGES {
        change(&owl, number).await.ok();
    }
    // One too many is refused, and nothing is changed without an entry.
    let refused = change(&owl, 1000).await;
    refused.refused(429, "rate_limit_exceeded");
    let wait: u32 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=3601).contains(&wait), "{wait}");
    let hook = owl.get(&path).await.ok();
    assert_eq!(
        hook["description"],
        format!("change {}", MAX_HOURLY_CHANGES - 1)
    );
    owl.post("/v1/session", &json!({}))
        .await
        .refused(429, "rate_limit_exceeded");
    owl.get("/v1/admin/accounts")
        .await
        .refused(403, "insufficient_scope");
    // Another key, and another account, are not concerned.
    change(&other_owl, 1001).await.ok();
    crow.post("/v1/webhooks", &json!({"url": "https://example.com/"}))
        .await
        .ok();
    // Only who asks for it sees it.
    assert_eq!(
        operator.get("/v1/admin/audit?limit=100").await.ok(),
        of_operators
    );
    let of_owls = log_entries(&operator, "account=owls").await;
    let expected = usize::try_from(MAX_HOURLY_CHANGES).unwrap() + 1;
    assert_eq!(of_owls.len(), expected);
    for entry in &of_owls {
        assert_eq!(entry["account"], "owls");
        assert!(entry.to_string().len() < 1500, "{entry}");
    }
    let refusals = log_entries(&operator, "account=owls&action=operator.refused").await;
    assert_eq!(refusals.len(), 1);
    assert_eq!(log_entries(&operator, "account=crows").await.len(), 1);
    assert_eq!(
        log_entries(&operator, "account=*").await.len(),
        of_owls.len() + 1
    );
    operator
        .get("/v1/admin/audit?account=nobody")
        .await
        .refused(404, "account_not_found");
    // An hour later there is room again, and the log has an end.
    gateway.app.clock.advance(Duration::from_mins(61));
    change(&owl, 1002).await.ok();
    gateway.app.clock.advance(Duration::from_hours(7 * 24 + 1));
    forget_old(&gateway.app).await.unwrap();
    assert_eq!(log_entries(&operator, "account=*").await, [] as [Value; 0]);
    assert_eq!(
        operator.get("/v1/admin/audit?limit=100").await.ok(),
        of_operators
    );
    gateway.stop().await;
}

#[tokio::test]
async fn tenants_have_logs_of_their_own() {
    check_tenant_log(false).await;
}

#[tokio::test]
async fn tenants_have_logs_of_their_own_on_postgres() {
    check_tenant_log(true).await;
}
