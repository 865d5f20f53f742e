//! The costs of jobs as reported by providers: kept with the submission and part of
//! the ledger's export.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use simulator::{PlannedEnd, Simulator};

use super::{plan, provider, simulator};
use crate::support::Client;
use crate::support::gateway::finished;
use crate::support::program::{Server, output, program, text};

/// Protocol, model, lines of the provider's table, and the cost and its unit that
/// the simulator reports for a video of the default length.
const REPORTED_COSTS: [(&str, &str, &str, &str, &str); 7] = [
    ("runway", "gen4.5", "", "25.00", "credits"),
    ("xai", "grok-imagine-video", "", "0.30", "usd"),
    (
        "fal",
        "fal-ai/veo3.1",
        "api_key = \"simulated-id:simulated-secret\"",
        "8.00",
        "units",
    ),
    (
        "replicate",
        "google/veo-3.1",
        "",
        "12.345678",
        "compute_seconds",
    ),
    (
        "kling",
        "kling-v2-6",
        "api_key = \"simulated-access:simulated-secret\"",
        "2.50",
        "units",
    ),
    (
        "modelark",
        "seedance-1-5-pro-251215",
        "",
        "246840.00",
        "tokens",
    ),
    ("recipe:openrouter", "google/veo-3.1", "", "0.50", "usd"),
];

/// A provider and a model for each, and a provider that reports no cost.
fn settings(simulator: &Simulator) -> String {
    let mut toml = String::new();
    let without_cost = ("luma", "ray-3.2", "", "", "");
    for (protocol, model, options, ..) in REPORTED_COSTS.into_iter().chain([without_cost]) {
        let name = protocol.trim_start_matches("recipe:");
        let table = provider(name, name, simulator, options);
        toml += &table.replacen(
            &format!("protocol = \"{name}\""),
            &format!("protocol = \"{protocol}\""),
            1,
        );
        let film = format!(
            "[models.{name}]\nkind = \"video\"\nprice = {{ unit = \"video\", usd = \"1\" }}\n\
             routes = [{{ provider = \"{name}\", model = \"{model}\" }}]\n"
        );
        toml += &film;
    }
    toml
}

async fn order(client: &Client, model: &str) -> Value {
    let body = json!({"model": model, "prompt": "a lake"});
    let answer = client.post("/v1/videos", &body).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    answer.ok();
    finished(client, &task).await
}

/// The last entry of each task.
async fn last_entries(data: &Path, format: &str) -> Value {
    let args = ["ledger", "export", "--format", format, "--data"];
    let mut args = args.to_vec();
    args.push(data.to_str().unwrap());
    let result = output(program(&args)).await;
    let out = text(&result.stdout);
    if format == "csv" {
        return json!(out);
    }
    let entries: Vec<Value> = serde_json::from_str(out).unwrap();
    assert!(
        entries
            .iter()
            .filter(|entry| entry["kind"] == "reserve")
            .all(|entry| entry["provider_cost"].is_null()),
        "an order has cost nothing yet"
    );
    let last_entries = entries
        .into_iter()
        .filter(|entry| entry["kind"] != "reserve");
    let by_task: BTreeMap<String, Value> = last_entries
        .map(|entry| (entry["task"].as_str().unwrap().to_owned(), entry))
        .collect();
    json!(by_task)
}

#[tokio::test]
async fn reported_costs_are_kept_and_exported() {
    let simulator = simulator().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    std::fs::write(&file, settings(&simulator)).unwrap();
    let server = Server::start(folder.path(), &["--config", file.to_str().unwrap()]).await;
    let created_key = program(&[
        "keys",
        "create",
        "--name",
        "k",
        "--data",
        folder.path().to_str().unwrap(),
    ]);
    let created_key = output(created_key).await;
    let client = Client::new(&server.base, Some(text(&created_key.stdout).trim()));

    let orders = REPORTED_COSTS
        .iter()
        .map(|(protocol, ..)| order(&client, protocol.trim_start_matches("recipe:")));
    let tasks = futures_util::future::join_all(orders).await;
    let without_cost = order(&client, "luma").await;
    plan(&simulator, std::time::Duration::ZERO, PlannedEnd::Failure);
    let failed = order(&client, "runway").await;

    let entries = last_entries(folder.path(), "json").await;
    for (task, (protocol, _, _, amount, unit)) in tasks.iter().zip(REPORTED_COSTS) {
        assert_eq!(task["status"], "succeeded", "{task}");
        let entry = &entries[task["id"].as_str().unwrap()];
        assert_eq!(
            [
                &entry["kind"],
                &entry["provider"],
                &entry["provider_cost"],
                &entry["provider_cost_unit"]
            ],
            [
                &json!("settle"),
                &json!(protocol.trim_start_matches("recipe:")),
                &json!(amount),
                &json!(unit)
            ],
        );
        assert!(
            task.to_string().find("provider_cost").is_none(),
            "callers do not see what the operator pays: {task}"
        );
    }
    assert_eq!(without_cost["status"], "succeeded", "{without_cost}");
    assert_eq!(
        entries[without_cost["id"].as_str().unwrap()]["provider_cost"],
        Value::Null
    );
    assert_eq!(failed["status"], "failed", "{failed}");
    let entry = &entries[failed["id"].as_str().unwrap()];
    assert_eq!(
        [&entry["kind"], &entry["provider_cost"]],
        [&json!("release"), &json!("0.00")],
        "a failed job costs nothing"
    );
    let csv = self::last_entries(folder.path(), "csv").await;
    assert!(
        csv.as_str()
            .unwrap()
            .contains(",runway,25.00,credits,,\r\n"),
        "{csv}"
    );
}
