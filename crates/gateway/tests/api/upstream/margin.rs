//! `GET /v1/admin/usage`: what providers were paid, and the margin on what was charged.

use std::time::Duration;

use serde_json::{Value, json};
use simulator::{PlannedEnd, Simulator};

use super::{gateway, order_film, plan, provider, simulator};
use crate::admin::operator;
use crate::support::gateway::Builder;
use crate::support::{Client, TestGateway};

/// `film` costs 0.04 USD a second at acme; `gift` is free for callers and costs 0.05 USD there; the
/// provider of `stated` reports what it charges; the cost of `silent` is unknown.
fn settings(simulator: &Simulator) -> String {
    let model = |name: &str, price: &str, route: &str| {
        format!("[models.{name}]\nkind = \"video\"\n{price}routes = [{{ {route} }}]\n")
    };
    let second = "price = { unit = \"second\", usd = \"0.10\" }\n";
    let video = "price = { unit = \"video\", usd = \"1\" }\n";
    let acme = "provider = \"acme\", model = \"sora-2\"";
    let with_cost =
        |unit: &str, usd: &str| format!("{acme}, cost = {{ unit = \"{unit}\", usd = \"{usd}\" }}");
    provider("acme", "openai-videos", simulator, "")
        + &provider("xai", "xai", simulator, "")
        + &model("film", second, &with_cost("second", "0.04"))
        + &model("gift", "price = \"free\"\n", &with_cost("video", "0.05"))
        + &model("silent", second, acme)
        + &model(
            "stated",
            video,
            "provider = \"xai\", model = \"grok-imagine-video\", cost = { unit = \"video\", usd = \"9\" }",
        )
}

async fn order(client: &Client, model: &str) -> Value {
    let body = json!({"model": model, "prompt": "a lake"});
    let answer = client.post("/v1/videos", &body).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    answer.ok();
    crate::support::gateway::finished(client, &task).await
}

#[tokio::test]
async fn the_margin_is_charges_less_provider_costs() {
    check_margin(TestGateway::builder()).await;
}

#[tokio::test]
async fn the_margin_on_postgres() {
    check_margin(TestGateway::builder().on_postgres()).await;
}

async fn check_margin(builder: Builder) {
    let simulator = simulator().await;
    let gateway = builder.toml(&settings(&simulator)).start().await;
    let operator = operator(&gateway).await;
    for model in ["film", "gift", "stated", "silent"] {
        let task = order(&gateway, model).await;
        assert_eq!(task["status"], "succeeded", "{task}");
    }
    plan(&simulator, Duration::ZERO, PlannedEnd::Failure);
    let failed = order(&gateway, "film").await;
    assert_eq!(failed["status"], "failed", "{failed}");

    let usage = async |query: &str| {
        let path = format!("/v1/admin/usage?{query}");
        operator.get(&path).await.ok()
    };
    let by_model = usage("group_by=model").await;
    let row = |model: &str, counts: [u64; 2], sums: [&str; 4], unknown: u64| {
        let [succeeded, failed] = counts;
        let [cost, provider_cost, failed_cost, margin] = sums;
        json!({"model": model, "tasks": succeeded + failed, "succeeded": succeeded, "failed": failed, "cancelled": 0,
               "cost_usd": cost, "provider_cost_usd": provider_cost, "failed_cost_usd": failed_cost, "unknown_cost_jobs": unknown,
               "margin_usd": margin})
    };
    let expected = json!([
        // Includes the failed task, whose cost the provider does not report.
        row("film", [1, 1], ["0.40", "0.16", "0.00", "0.24"], 1),
        row("gift", [1, 0], ["0.00", "0.05", "0.00", "-0.05"], 0),
        row("silent", [1, 0], ["0.40", "0.00", "0.00", "0.40"], 1),
        // The reported cost takes precedence over the configured one.
        row("stated", [1, 0], ["1.00", "0.30", "0.00", "0.70"], 0),
    ]);
    assert_eq!(by_model["data"], expected);
    let mut total = row("", [4, 1], ["1.80", "0.51", "0.00", "1.29"], 2);
    total.as_object_mut().unwrap().remove("model");
    assert_eq!(by_model["total"], total);
    let own = gateway.get("/v1/usage").await.ok();
    assert_eq!(own["total"]["cost_usd"], total["cost_usd"]);

    let by_everything = usage("group_by=day,hour,account,provider,model,key,outcome").await;
    assert_eq!(by_everything["total"], total);
    let rows = by_everything["data"].as_array().unwrap();
    assert_eq!(rows.len(), 5, "{by_everything}");
    let failed = rows.iter().find(|row| row["outcome"] == "failed").unwrap();
    assert_eq!(
        (
            &failed["provider"],
            &failed["account"],
            &failed["unknown_cost_jobs"]
        ),
        (&json!("acme"), &json!("default"), &json!(1))
    );
    let hour = failed["hour"].as_str().unwrap();
    assert!(
        hour.ends_with(":00:00.000Z") && hour.starts_with(failed["day"].as_str().unwrap()),
        "{hour}"
    );
    for (filter, tasks) in [
        ("provider=xai", 1),
        ("model=film", 2),
        ("outcome=failed", 1),
        ("account=default", 5),
        ("from=2026-01-01&to=2026-01-02", 0),
    ] {
        assert_eq!(usage(filter).await["total"]["tasks"], tasks, "{filter}");
    }
    let csv = operator
        .get("/v1/admin/usage?group_by=provider&format=csv")
        .await;
    let name = csv.header("content-disposition").unwrap();
    assert!(name.starts_with("attachment; filename=\"usage-"), "{name}");
    let lines: Vec<String> = csv.whole_text().lines().map(str::to_owned).collect();
    assert_eq!(
        lines,
        [
            "provider,tasks,succeeded,failed,cancelled,cost_usd,provider_cost_usd,failed_cost_usd,unknown_cost_jobs,margin_usd",
            "acme,4,3,1,0,0.80,0.21,0.00,2,0.59",
            "xai,1,1,0,0,1.00,0.30,0.00,0,0.70",
        ]
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_wrong_query_is_refused() {
    let gateway = gateway("").await;
    let operator = operator(&gateway).await;
    for (query, code, param) in [
        ("group_by=week", "invalid_value", "group_by"),
        ("outcome=running", "invalid_value", "outcome"),
        ("from=2024-01-01&to=2026-01-01", "invalid_value", "from"),
        ("days=3", "unsupported_value", "days"),
        ("format=xml", "invalid_value", "format"),
    ] {
        let answer = operator.get(&format!("/v1/admin/usage?{query}")).await;
        answer.refused(400, code).on_param(param);
    }
    let unknown_account = operator.get("/v1/admin/usage?account=nobody").await;
    unknown_account.refused(404, "account_not_found");
    gateway.stop().await;
}

#[tokio::test]
async fn events_show_a_failover() {
    use super::{at_submission, status, two_providers};
    use crate::support::sse::Events;

    let (first, second) = (simulator().await, simulator().await);
    let gateway = gateway(&two_providers(&first, &second)).await;
    let operator = operator(&gateway).await;
    let request = operator.request(reqwest::Method::GET, "/v1/admin/events");
    let mut events = Events::open(request).await;
    at_submission(&first, status(429), 1);
    let task = order_film(&gateway, "a lake").await;
    let mut steps = Vec::new();
    while let Some(event) = events.next().await {
        let event_body = event.json();
        if event_body["task"]["id"] == task {
            let step = (
                event_body["type"].clone(),
                event_body["task"]["provider"].clone(),
            );
            steps.push(step);
            if event_body["type"] == "task.ended" {
                assert_eq!(event_body["task"]["status"], "succeeded", "{event_body}");
                break;
            }
        }
    }
    // Of the events in between, only the one about the second provider is certain to be read.
    for step in [
        (json!("task.accepted"), Value::Null),
        (json!("task.failed_over"), json!("second")),
        (json!("task.ended"), json!("second")),
    ] {
        assert!(steps.contains(&step), "{step:?} in {steps:?}");
    }
    drop(events);
    gateway.stop().await;
}
