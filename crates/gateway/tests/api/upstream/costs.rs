//! What providers themselves say that jobs cost: kept beside the submission and
//! told by the export of the ledger.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use simulator::{PlannedEnd, Simulator};

use super::{plan, provider, simulator};
use crate::support::Client;
use crate::support::gateway::finished;
use crate::support::program::{Server, output, program, text};

/// Protocol, its model, lines of its table, and what the simulator says that a
/// video of the default length costs there, in which unit.
const TELL: [(&str, &str, &str, &str, &str); 7] = [
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

/// A provider and a model for each, and one that says nothing.
fn settings(simulator: &Simulator) -> String {
    let mut toml = String::new();
    let silent = ("luma", "ray-3.2", "", "", "");
    for (protocol, model, options, ..) in TELL.into_iter().chain([silent]) {
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
async fn ends(data: &Path, format: &str) -> Value {
    let words = ["ledger", "export", "--format", format, "--data"];
    let mut words = words.to_vec();
    words.push(data.to_str().unwrap());
    let done = output(program(&words)).await;
    let out = text(&done.stdout);
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
    let ends = entries
        .into_iter()
        .filter(|entry| entry["kind"] != "reserve");
    let by_task: BTreeMap<String, Value> = ends
        .map(|entry| (entry["task"].as_str().unwrap().to_owned(), entry))
        .collect();
    json!(by_task)
}

#[tokio::test]
async fn what_a_provider_says_that_a_job_cost_is_kept_and_told() {
    let simulator = simulator().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    std::fs::write(&file, settings(&simulator)).unwrap();
    let server = Server::start(folder.path(), &["--config", file.to_str().unwrap()]).await;
    let made = program(&[
        "keys",
        "create",
        "--name",
        "k",
        "--data",
        folder.path().to_str().unwrap(),
    ]);
    let made = output(made).await;
    let client = Client::new(&server.base, Some(text(&made.stdout).trim()));

    let orders = TELL
        .iter()
        .map(|(protocol, ..)| order(&client, protocol.trim_start_matches("recipe:")));
    let tasks = futures_util::future::join_all(orders).await;
    let silent = order(&client, "luma").await;
    plan(&simulator, std::time::Duration::ZERO, PlannedEnd::Failure);
    let failed = order(&client, "runway").await;

    let ends = ends(folder.path(), "json").await;
    for (task, (protocol, _, _, amount, unit)) in tasks.iter().zip(TELL) {
        assert_eq!(task["status"], "succeeded", "{task}");
        let entry = &ends[task["id"].as_str().unwrap()];
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
            "what the operator pays is not the caller's to see: {task}"
        );
    }
    assert_eq!(silent["status"], "succeeded", "{silent}");
    assert_eq!(
        ends[silent["id"].as_str().unwrap()]["provider_cost"],
        Value::Null
    );
    assert_eq!(failed["status"], "failed", "{failed}");
    let entry = &ends[failed["id"].as_str().unwrap()];
    assert_eq!(
        [&entry["kind"], &entry["provider_cost"]],
        [&json!("release"), &json!("0.00")],
        "what failed was given back"
    );
    let csv = self::ends(folder.path(), "csv").await;
    assert!(
        csv.as_str().unwrap().contains(",runway,25.00,credits\r\n"),
        "{csv}"
    );
}
