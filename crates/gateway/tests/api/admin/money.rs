//! Accounts and the ledger.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{audit_entries, operator, patch, send_with_key, settle_one, start};
use crate::support::{TestGateway, eventually, videos_order};
use mediagate_core::domain::keys::NewKey;

#[tokio::test]
async fn an_account_is_created_changed_and_credited() {
    for postgres in [false, true] {
        let (gateway, operator) = start(postgres).await;
        let body = json!({"handle": "night-owls", "budget_usd": "9"});
        let created = operator.post("/v1/admin/accounts", &body).await.ok();
        assert_eq!(
            (
                &created["name"],
                &created["prepaid"],
                &created["budget_usd"]
            ),
            (&json!("Night Owls"), &json!(false), &json!("9.00"))
        );
        let same_handle = json!({"handle": "night-owls", "name": "x"});
        let refused = operator.post("/v1/admin/accounts", &same_handle).await;
        refused.refused(409, "handle_taken").on_param("handle");
        let path = "/v1/admin/accounts/night-owls";
        let changed = patch(
            &operator,
            path,
            &json!({"name": "Owls", "budget_usd": null}),
        )
        .await
        .ok();
        assert_eq!(
            (&changed["name"], &changed["budget_usd"]),
            (&json!("Owls"), &Value::Null)
        );
        let credits = format!("{path}/credits");
        let credit = json!({"amount_usd": "5.00", "note": "invoice 7"});
        let credited = send_with_key(&operator, Method::POST, &credits, "c", &credit)
            .await
            .ok();
        assert_eq!(
            (&credited["balance_usd"], &credited["prepaid"]),
            (&json!("5.00"), &json!(true))
        );
        let repeated = send_with_key(&operator, Method::POST, &credits, "c", &credit).await;
        assert_eq!(repeated.header("idempotent-replayed"), Some("true"));
        assert_eq!(repeated.ok(), credited);
        let debited = operator
            .post(&credits, &json!({"amount_usd": "-2"}))
            .await
            .ok();
        assert_eq!(debited["balance_usd"], "3.00");
        let caller = gateway.caller("night-owls", NewKey::default()).await;
        assert_eq!(caller.get("/v1/account").await.ok()["balance_usd"], "3.00");
        for (action, count) in [("account.update", 1), ("account.credit", 2)] {
            let entries = audit_entries(&operator, action).await;
            assert_eq!(entries.len(), count, "{action}");
            assert_eq!(entries[0]["target"], "night-owls");
        }
        assert_eq!(
            audit_entries(&operator, "account.credit").await[1]["after"]["note"],
            "invoice 7"
        );
        let list = operator.get("/v1/admin/accounts?limit=1").await.ok();
        assert_eq!(
            (&list["data"][0]["handle"], &list["has_more"]),
            (&json!("night-owls"), &json!(true))
        );
    }
}

#[tokio::test]
async fn a_closed_account_has_no_keys_and_gets_none() {
    for postgres in [false, true] {
        let (gateway, operator) = start(postgres).await;
        let mut callers = Vec::new();
        for _ in 0..2 {
            let caller = gateway.caller("leaving", NewKey::default()).await;
            caller.post("/v1/videos", &videos_order()).await.ok();
            callers.push(caller);
        }
        let other = gateway.caller("staying", NewKey::default()).await;
        other.post("/v1/videos", &videos_order()).await.ok();
        // One task has begun.
        gateway.claim().await;
        let path = "/v1/admin/accounts/leaving";
        let closed = operator.delete(path).await.ok();
        assert!(closed["closed_at"].is_string(), "{closed}");
        assert_eq!(
            (
                &closed["keys_revoked"],
                &closed["keys"],
                &closed["held_usd"]
            ),
            (&json!(2), &json!(0), &json!("0.10"))
        );
        assert_eq!(
            closed["tasks"],
            json!({"cancelled": 1, "continuing": 1, "held_usd": "0.10"})
        );
        for caller in &callers {
            eventually("the key is refused", async || {
                let answer = caller.get("/v1/account").await;
                (answer.json["error"]["code"] == "revoked_api_key").then_some(())
            })
            .await;
        }
        let new_key = json!({"name": "k", "account": "leaving"});
        let refused = operator.post("/v1/admin/keys", &new_key).await;
        refused.refused(409, "account_closed").on_param("account");
        let rest = operator
            .delete(&format!("{path}?cancel_running=true"))
            .await
            .ok();
        assert_eq!(rest["closed_at"], closed["closed_at"]);
        assert_eq!(
            (&rest["keys_revoked"], &rest["held_usd"]),
            (&json!(0), &json!("0.00"))
        );
        assert_eq!(
            rest["tasks"],
            json!({"cancelled": 1, "continuing": 0, "held_usd": "0.00"})
        );
        assert_eq!(audit_entries(&operator, "account.close").await.len(), 1);
        operator
            .delete("/v1/admin/accounts/nobody")
            .await
            .refused(404, "account_not_found");
        // Another account is as it was.
        let staying = other.get("/v1/tasks").await.ok();
        assert_eq!(staying["data"][0]["status"], "queued");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn wrong_amounts_and_accounts_are_named() {
    let (_gateway, operator) = start(false).await;
    for (body, param, code) in [
        (json!({}), "handle", "missing_field"),
        (json!({"handle": "A B"}), "handle", "invalid_value"),
        (
            json!({"handle": "a", "prepaid": "yes"}),
            "prepaid",
            "invalid_type",
        ),
        (
            json!({"handle": "a", "budget_usd": "x"}),
            "budget_usd",
            "invalid_value",
        ),
    ] {
        operator
            .post("/v1/admin/accounts", &body)
            .await
            .refused(400, code)
            .on_param(param);
    }
    let credits = "/v1/admin/accounts/staff/credits";
    for (body, code) in [
        (json!({}), "missing_field"),
        (json!({"amount_usd": "0"}), "invalid_value"),
        (json!({"amount_usd": "1e9"}), "invalid_value"),
        (json!({"amount_usd": "99999999999"}), "invalid_value"),
    ] {
        operator
            .post(credits, &body)
            .await
            .refused(400, code)
            .on_param("amount_usd");
    }
    let body = json!({"amount_usd": "1"});
    let unknown = operator
        .post("/v1/admin/accounts/nobody/credits", &body)
        .await;
    unknown.refused(404, "account_not_found");
    patch(&operator, "/v1/admin/accounts/nobody", &json!({}))
        .await
        .refused(404, "account_not_found");
}

#[tokio::test]
async fn the_ledger_is_listed_checked_and_corrected() {
    for postgres in [false, true] {
        let (gateway, operator) = start(postgres).await;
        let caller = gateway.caller("owls", NewKey::default()).await;
        let video = caller.post("/v1/videos", &videos_order()).await.ok();
        settle_one(&gateway).await;
        let entries = operator.get("/v1/admin/ledger?account=owls").await.ok();
        let kinds: Vec<&str> = entries["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["kind"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["settle", "reserve"], "{video}");
        let task = entries["data"][0]["task_id"].as_str().unwrap().to_owned();
        let first = operator
            .get("/v1/admin/ledger?account=owls&limit=1")
            .await
            .ok();
        let next = format!(
            "/v1/admin/ledger?account=owls&after={}",
            first["last_id"].as_str().unwrap()
        );
        assert_eq!(
            operator.get(&next).await.ok()["data"],
            json!([entries["data"][1]])
        );
        // As an empty page, an entry that was removed meanwhile would look like the end.
        for after in ["zzz", &task, &format!("{task}:credit")] {
            let unknown = operator
                .get(&format!("/v1/admin/ledger?after={after}"))
                .await;
            unknown.refused(400, "invalid_value").on_param("after");
        }
        let body = json!({"task_id": task, "amount_usd": "-0.05", "note": "It was late."});
        let adjust = "/v1/admin/ledger/adjustments";
        let adjusted = send_with_key(&operator, Method::POST, adjust, "a", &body)
            .await
            .ok();
        assert_eq!(adjusted["cost_usd"], "0.05");
        let repeated = send_with_key(&operator, Method::POST, adjust, "a", &body)
            .await
            .ok();
        assert_eq!(repeated, adjusted);
        operator
            .post(adjust, &body)
            .await
            .refused(409, "not_adjustable");
        let entry = &audit_entries(&operator, "ledger.adjust").await[0];
        assert_eq!(
            (&entry["target"], &entry["before"]["cost_usd"]),
            (&json!(task), &json!("0.10"))
        );
        let check = operator.get("/v1/admin/ledger/verify").await.ok();
        assert_eq!(
            (&check["adds_up"], &check["entries"]),
            (&json!(true), &json!(3))
        );
        let falsify = async |sign: &'static str| {
            let sql = format!(
                "UPDATE hourly_sums SET spent_micros = spent_micros {sign} 7 WHERE spent_micros > 0"
            )
            .leak();
            let written = gateway.app.store.write(|conn| conn.execute(sql, &[]));
            written.await.unwrap();
        };
        falsify("+").await;
        let check = operator.get("/v1/admin/ledger/verify").await.ok();
        assert_eq!(
            (&check["adds_up"], &check["mismatches"][0]["what"]),
            (&json!(false), &json!("hours"))
        );
        falsify("-").await;
        let csv = operator
            .get(&format!("/v1/admin/ledger?format=csv&task={task}"))
            .await;
        assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
        let text = csv.whole_text();
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(
            text.contains("adjust,0.00,-0.05,0.00,It was late."),
            "{text}"
        );
        let of_another = format!("/v1/admin/ledger?account=staff&task={task}");
        let entries = operator.get(&of_another).await.ok();
        assert_eq!(entries["data"], json!([]));
    }
}

#[tokio::test]
async fn the_ledger_is_listed_by_day() {
    for postgres in [false, true] {
        let mut builder = TestGateway::builder().without_workers().manual_clock();
        if postgres {
            builder = builder.on_postgres();
        }
        let gateway = builder.start().await;
        let operator = operator(&gateway).await;
        let (clock, day) = (&gateway.app.clock, Duration::from_hours(24));
        operator
            .post("/v1/admin/accounts", &json!({"handle": "owls"}))
            .await
            .ok();
        // Entries are written at midnight and a second later, on three days.
        let mut days = Vec::new();
        for credits in [
            &[("staff", "1.00"), ("owls", "2.00")][..],
            &[("staff", "3.00"), ("staff", "4.00")],
            &[("staff", "5.00")],
        ] {
            let now = clock.now();
            clock.advance(day.saturating_sub(now.since(now.start_of_day())));
            days.push(clock.now().rfc3339()[..10].to_owned());
            for (account, amount) in credits {
                let path = format!("/v1/admin/accounts/{account}/credits");
                let body = json!({"amount_usd": amount});
                operator.post(&path, &body).await.ok();
                clock.advance(Duration::from_secs(1));
            }
        }
        let (first, second) = (&days[0], &days[1]);
        let page = async |query: &str| {
            let path = format!("/v1/admin/ledger?{query}");
            operator.get(&path).await.ok()
        };
        let credits = |page: &Value| {
            let entries = page["data"].as_array().unwrap().clone();
            let amounts = entries.iter().map(|entry| entry["credit_usd"].as_str());
            amounts
                .map(|amount| amount.unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let all = page("").await;
        assert_eq!(credits(&all), ["5.00", "4.00", "3.00", "2.00", "1.00"]);
        for (query, expected) in [
            (format!("from={second}"), &["5.00", "4.00", "3.00"][..]),
            (format!("to={second}"), &["4.00", "3.00", "2.00", "1.00"]),
            (format!("from={second}&to={second}"), &["4.00", "3.00"]),
            (format!("to={second}&account=owls"), &["2.00"]),
            (format!("from={second}&account=owls"), &[]),
            (
                format!("to={first}&after={}", all["first_id"].as_str().unwrap()),
                &["2.00", "1.00"],
            ),
        ] {
            assert_eq!(credits(&page(&query).await), expected, "{query}");
        }
        let range = format!("from={second}&to={second}");
        let newest = page(&format!("{range}&limit=1")).await;
        assert_eq!(
            (credits(&newest), &newest["has_more"]),
            (vec!["4.00".to_owned()], &json!(true))
        );
        let after = newest["last_id"].as_str().unwrap();
        let next = page(&format!("{range}&limit=1&after={after}")).await;
        assert_eq!(
            (credits(&next), &next["has_more"]),
            (vec!["3.00".to_owned()], &json!(false))
        );
        let csv = format!("/v1/admin/ledger?format=csv&{range}");
        let csv = operator.get(&csv).await.whole_text();
        assert_eq!(csv.lines().count(), 3, "{csv}");
        assert!(csv.contains("4.00") && csv.contains("3.00"), "{csv}");
    }
}

#[tokio::test]
async fn wrong_days_of_the_ledger_are_named() {
    let (_gateway, operator) = start(false).await;
    for (query, param) in [
        ("from=garbage", "from"),
        ("from=2026-01-02T03:04:05Z", "from"),
        ("to=2026-13-01", "to"),
        ("from=2026-02-02&to=2026-02-01", "from"),
    ] {
        for format in ["json", "csv"] {
            let path = format!("/v1/admin/ledger?format={format}&{query}");
            let answer = operator.get(&path).await;
            answer.refused(400, "invalid_value").on_param(param);
        }
    }
}

#[tokio::test]
async fn wrong_adjustments_are_named() {
    let (_gateway, operator) = start(false).await;
    let unknown_task = "0193b000-0000-7000-8000-000000000001";
    for (body, status, code, param) in [
        (
            json!({"amount_usd": "1", "note": "x"}),
            400,
            "missing_field",
            Some("task_id"),
        ),
        (
            json!({"task_id": "x", "amount_usd": "1", "note": "x"}),
            400,
            "invalid_value",
            Some("task_id"),
        ),
        (
            json!({"task_id": unknown_task, "amount_usd": "1"}),
            400,
            "missing_field",
            Some("note"),
        ),
        (
            json!({"task_id": unknown_task, "note": "x"}),
            400,
            "missing_field",
            Some("amount_usd"),
        ),
        (
            json!({"task_id": unknown_task, "amount_usd": "1", "note": "x"}),
            404,
            "task_not_found",
            None,
        ),
    ] {
        let answer = operator.post("/v1/admin/ledger/adjustments", &body).await;
        answer.refused(status, code);
        if let Some(param) = param {
            answer.on_param(param);
        }
    }
    operator
        .get("/v1/admin/ledger?format=xml")
        .await
        .refused(400, "invalid_value")
        .on_param("format");
    operator
        .get("/v1/admin/ledger?task=x")
        .await
        .refused(400, "invalid_value")
        .on_param("task");
}
