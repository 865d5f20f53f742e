//! The audit log: paged, filtered, exported.

use serde_json::json;

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
        let by = |query: &str| format!("/v1/admin/audit?{query}");
        let of_b = operator.get(&by("target=b")).await.ok();
        assert_eq!(of_b["data"].as_array().unwrap().len(), 1);
        let entry = &of_b["data"][0];
        assert_eq!(
            (&entry["action"], &entry["before"]),
            (&json!("account.create"), &json!(null))
        );
        assert_eq!(entry["after"]["name"], "=b");
        let by_operator = operator.get(&by("actor=operator")).await.ok();
        assert_eq!(by_operator["data"].as_array().unwrap().len(), 2);
        // The tests make their accounts and keys as commands do.
        let by_command = operator
            .get(&by("actor=command&action=key.create"))
            .await
            .ok();
        assert_eq!(by_command["data"].as_array().unwrap().len(), 2);
        let page = operator.get(&by("limit=1")).await.ok();
        assert_eq!((&page["data"][0], &page["has_more"]), (entry, &json!(true)));
        let next = by(&format!(
            "limit=1&after={}",
            page["last_id"].as_str().unwrap()
        ));
        assert_eq!(operator.get(&next).await.ok()["data"][0]["target"], "a");
        let at = entry["at"].as_str().unwrap();
        let before = operator
            .get(&by(&format!("until={at}&target=b")))
            .await
            .ok();
        assert_eq!(before["data"], json!([]));
        let since = operator
            .get(&by(&format!("since={at}&target=b")))
            .await
            .ok();
        assert_eq!(since["data"], of_b["data"]);
        let csv = operator.get(&by("format=csv&target=b")).await.text_whole();
        let lines: Vec<&str> = csv.lines().collect();
        assert!(
            lines[0].starts_with("id,at,actor_kind") && lines.len() == 2,
            "{csv}"
        );
        assert!(lines[1].contains("account.create,b,"), "{csv}");
        operator
            .get(&by("since=soon"))
            .await
            .refused(400, "invalid_value")
            .at("since");
        operator
            .get(&by("after=x"))
            .await
            .refused(400, "invalid_value")
            .at("after");
    }
}

#[tokio::test]
async fn what_was_refused_is_not_in_it() {
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
