//! The audit log: paged, filtered, exported.

use serde_json::json;

use mediagate_core::domain::keys::NewKey;
use mediagate_model::ids::AuditId;
use reqwest::Method;

use super::{operator, start};
use crate::support::TestGateway;

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
            .get(&format!("/v1/admin/audit?target={id}"))
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
        assert_eq!(
            super::audit_entries(&operator, "webhook.rotate")
                .await
                .len(),
            2
        );

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
