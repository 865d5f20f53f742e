//! `GET /v1/usage`.

use std::time::Duration;

use mediagate_core::domain::accounting::{self, AccountChanges};
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::TaskId;
use mediagate_store::ledger::LedgerFilter;
use reqwest::Method;
use serde_json::{Value, json};

use super::{PRICES, total_spent, verify_and_stop};
use crate::support::gateway::Builder;
use crate::support::{TestGateway, videos_order};

/// The cells of a CSV whose values contain no commas.
fn cells(text: &str) -> Vec<Vec<String>> {
    assert!(text.ends_with("\r\n"), "{text:?}");
    let lines = text.trim_end().split("\r\n");
    lines
        .map(|line| line.split(',').map(str::to_owned).collect())
        .collect()
}

fn micros(usd: &Value) -> i64 {
    mediagate_model::money::MicroDollars::parse_signed(usd.as_str().unwrap())
        .unwrap()
        .get()
}

#[tokio::test]
async fn usage_sums_up_to_the_ledger_as_json_and_as_csv() {
    sums_up(TestGateway::builder()).await;
}

#[tokio::test]
async fn usage_sums_up_to_the_ledger_on_postgres() {
    sums_up(TestGateway::builder().on_postgres()).await;
}

#[expect(clippy::too_many_lines, reason = "one scenario, in its order")]
async fn sums_up(builder: Builder) {
    let mut gateway = builder.without_workers().toml(PRICES).start().await;
    let named = |name: &str| NewKey {
        name: name.into(),
        ..NewKey::default()
    };
    let formula_key = gateway.caller("default", named("=HYPERLINK(1)")).await;
    let laptop_key = gateway.caller("default", named("laptop")).await;
    let stranger = gateway.caller("foxes", named("stranger")).await;

    formula_key.post("/v1/videos", &videos_order()).await.ok();
    let task = gateway.claim().await;
    gateway.fail(task.id, ErrorCode::GenerationFailed).await;
    let cancelled = laptop_key.post("/v1/videos", &videos_order()).await;
    let cancelled = cancelled.header("x-task-id").unwrap().to_owned();
    laptop_key
        .post(&format!("/v1/tasks/{cancelled}/cancel"), &json!({}))
        .await
        .ok();
    gateway.start_workers().await;
    let mut tasks = Vec::new();
    for caller in [&formula_key, &laptop_key, &laptop_key, &stranger] {
        let answer = caller.post("/v1/videos", &videos_order()).await;
        let id = answer.header("x-task-id").unwrap().to_owned();
        crate::support::gateway::finished(caller, &id).await;
        tasks.push(id);
    }
    let adjusted_task: TaskId = tasks[1].parse().unwrap();
    let amount = mediagate_model::money::MicroDollars::new(-40_000);
    accounting::adjust(
        &gateway.app,
        ChangeAuthor::command("a test").into(),
        adjusted_task,
        amount,
        "It was late.".into(),
    )
    .await
    .unwrap();

    let usage = gateway.get("/v1/usage").await.ok();
    assert_eq!(usage["object"], "list");
    assert_eq!(
        usage["total"],
        json!({"tasks": 5, "succeeded": 3, "failed": 1, "cancelled": 1, "cost_usd": "0.26"})
    );
    let data = usage["data"].as_array().unwrap();
    let sum: i64 = data.iter().map(|row| micros(&row["cost_usd"])).sum();
    let strangers_usage = stranger.get("/v1/usage").await.ok();
    assert_eq!(
        sum + micros(&strangers_usage["total"]["cost_usd"]),
        total_spent(&gateway).await
    );
    let laptop_rows: Vec<&Value> = data
        .iter()
        .filter(|row| row["key_name"] == "laptop")
        .collect();
    assert_eq!(laptop_rows.len(), 1, "{usage}");
    assert_eq!(laptop_rows[0]["model"], "animatic-1");
    assert_eq!(laptop_rows[0]["day"], usage["to"]);
    assert_eq!(
        [
            &laptop_rows[0]["succeeded"],
            &laptop_rows[0]["cancelled"],
            &laptop_rows[0]["cost_usd"]
        ],
        [&json!(2), &json!(1), &json!("0.16")]
    );

    let csv = gateway.get("/v1/usage?format=csv").await;
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    let name = csv.header("content-disposition").unwrap().to_owned();
    assert!(name.starts_with("attachment; filename=\"usage-"), "{name}");
    let lines = cells(&csv.text());
    let names = [
        "day",
        "model",
        "key_id",
        "key_name",
        "tasks",
        "succeeded",
        "failed",
        "cancelled",
        "cost_usd",
    ];
    assert_eq!(lines[0], names);
    for (line, row) in lines[1..].iter().zip(data) {
        for (cell, name) in line.iter().zip(names) {
            let shown = row[name]
                .as_str()
                .map_or_else(|| row[name].to_string(), str::to_owned);
            assert_eq!(cell.trim_start_matches('\''), shown, "{name}");
        }
    }
    assert_eq!(lines.len(), data.len() + 1);
    assert!(csv.text().contains(",'=HYPERLINK(1),"), "{}", csv.text());
    let csv_request = gateway
        .request(Method::GET, "/v1/usage")
        .header("accept", "text/csv");
    assert_eq!(gateway.send(csv_request).await.text(), csv.text());

    let by_model = gateway.get("/v1/usage?group_by=model").await.ok();
    assert_eq!(
        by_model["data"],
        json!([{"model": "animatic-1", "tasks": 5, "succeeded": 3, "failed": 1, "cancelled": 1, "cost_usd": "0.26"}])
    );
    let no_usage = gateway.get("/v1/usage?model=stems-dsp-1").await.ok();
    assert_eq!(
        (&no_usage["data"], &no_usage["total"]["tasks"]),
        (&json!([]), &json!(0))
    );
    let key = laptop_rows[0]["key_id"].as_str().unwrap();
    let usage_of_key = gateway
        .get(&format!("/v1/usage?key={key}&group_by=key"))
        .await
        .ok();
    assert_eq!(usage_of_key["total"]["cost_usd"], "0.16");
    operators_see_the_same(&gateway).await;
    verify_and_stop(gateway).await;
}

/// The functions behind the operators' commands, on either database.
async fn operators_see_the_same(gateway: &TestGateway) {
    let app = &gateway.app;
    let filter = LedgerFilter::default();
    let oldest = accounting::entries(app, filter.clone(), 100, false)
        .await
        .unwrap();
    let mut newest = accounting::entries(app, filter.clone(), 100, true)
        .await
        .unwrap();
    assert_eq!(
        newest.len(),
        accounting::entries(app, filter, 5, true)
            .await
            .unwrap()
            .len()
            + 8
    );
    newest.reverse();
    assert_eq!(oldest, newest);
    let [entries, tasks, keys, accounts] = accounting::counts(app).await.unwrap();
    assert_eq!([entries, tasks, keys, accounts], [13, 6, 4, 2]);
    let accounts = accounting::accounts(app).await.unwrap();
    let sums = accounts.iter().map(|entry| {
        (
            entry.account.handle.as_str(),
            entry.money.spent.to_string(),
            entry.keys,
        )
    });
    let expected = [
        ("default", "0.26".to_owned(), 3),
        ("foxes", "0.10".to_owned(), 1),
    ];
    assert!(sums.eq(expected), "{accounts:?}");
    let id = accounts[1].account.id;
    let changes = AccountChanges {
        name: Some("The Foxes".into()),
        budget: Some(Some("1".parse().unwrap())),
        ..AccountChanges::default()
    };
    accounting::change(app, ChangeAuthor::command("a test").into(), id, changes)
        .await
        .unwrap();
    let credited = accounting::credit(
        app,
        ChangeAuthor::command("a test").into(),
        id,
        "2".parse().unwrap(),
        None,
    )
    .await
    .unwrap();
    assert!(credited.was_unlimited && credited.money.prepaid);
    assert_eq!(credited.money.available(), Some("0.90".parse().unwrap()));
}

#[tokio::test]
async fn money_counts_on_the_day_on_which_it_moved() {
    let gateway = TestGateway::builder()
        .without_workers()
        .manual_clock()
        .toml(PRICES)
        .start()
        .await;
    let first = gateway.get("/v1/usage").await.ok()["to"].clone();
    gateway.post("/v1/videos", &videos_order()).await.ok();
    gateway.app.clock.advance(Duration::from_hours(24));
    let task = gateway.claim().await;
    gateway.fail(task.id, ErrorCode::GenerationFailed).await;
    let usage = gateway.get("/v1/usage?group_by=day").await.ok();
    assert_ne!(usage["to"], first);
    let row = json!({"day": usage["to"], "tasks": 1, "succeeded": 0, "failed": 1, "cancelled": 0, "cost_usd": "0.00"});
    assert_eq!(
        usage["data"],
        json!([row]),
        "it counts on the day of its end"
    );
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn a_wrong_query_is_refused() {
    let gateway = TestGateway::builder().without_workers().start().await;
    for (query, param) in [
        ("from=yesterday", "from"),
        ("from=2026-02-30", "from"),
        ("from=2026-01-01T00:00:00Z", "from"),
        ("to=2026-13-01", "to"),
        ("from=2026-02-02&to=2026-02-01", "from"),
        ("from=2024-01-01&to=2026-02-01", "from"),
        ("group_by=week", "group_by"),
        ("key=laptop", "key"),
        ("format=xml", "format"),
    ] {
        let answer = gateway.get(&format!("/v1/usage?{query}")).await;
        answer.refused(400, "invalid_value").on_param(param);
    }
    let answer = gateway
        .get("/v1/usage?from=2026-01-01&to=2026-01-31")
        .await
        .ok();
    assert_eq!(
        (&answer["from"], &answer["to"]),
        (&json!("2026-01-01"), &json!("2026-01-31"))
    );
    let scoped = NewKey {
        scopes: vec![Scope::VideoCreate],
        ..NewKey::default()
    };
    let caller = gateway.caller("default", scoped).await;
    caller
        .get("/v1/usage")
        .await
        .refused(403, "insufficient_scope");
    verify_and_stop(gateway).await;
}
