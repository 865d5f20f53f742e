//! Databases that stop, run full, wait for a standby or are reached through a
//! pooler, and clocks that disagree: nothing is lost, stuck or paid twice.

mod clocks;
mod disk;
mod doubts;
mod pooler;
mod stalls;
mod standby;
mod stops;

use std::time::Duration;

use serde_json::{Value, json};
use simulator::{JobPlan, RequestRole, Simulator};

use crate::support::program::{output, program};
use crate::support::{Client, eventually};

/// A provider whose jobs take a second, and the settings of a gateway that uses it.
pub(crate) async fn provider() -> (Simulator, String) {
    let simulator = Simulator::start().await.unwrap();
    simulator.world().set_plan(JobPlan {
        running: Duration::from_secs(1),
        ..JobPlan::default()
    });
    let url = simulator.url("openai-videos");
    let toml = format!(
        "disk_floor = \"1kB\"\n[providers.acme]\nprotocol = \"openai-videos\"\nbase_url = \"{url}\"\napi_key = \"sk-simulated-0123456789\"\n\
         [models.film]\nkind = \"video\"\nprice = {{ unit = \"second\", usd = \"0.10\" }}\n\
         routes = [{{ provider = \"acme\", model = \"sora-2\" }}]\n"
    );
    (simulator, toml)
}

fn film_order(number: u32) -> Value {
    json!({"model": "film", "prompt": format!("lake {number}"), "seconds": "4"})
}

/// Orders these films; returns the tasks.
async fn order(client: &Client, numbers: std::ops::Range<u32>) -> Vec<String> {
    let mut tasks = Vec::new();
    for number in numbers {
        let answer = client.post("/v1/videos", &film_order(number)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        tasks.push(answer.header("x-task-id").unwrap().to_owned());
    }
    tasks
}

pub(crate) async fn assert_all_succeed(client: &Client, tasks: &[String]) {
    for task in tasks {
        let task_view = eventually("the task ends", async || {
            let answer = client.get(&format!("/v1/tasks/{task}")).await;
            let status = answer.json["status"].as_str()?.to_owned();
            (answer.status == 200 && status != "queued" && status != "running")
                .then_some(answer.json)
        });
        let task_view = task_view.await;
        assert_eq!(task_view["status"], "succeeded", "{task_view}");
    }
}

fn submission_count(simulator: &Simulator) -> usize {
    let journal = simulator.world().journal();
    journal
        .iter()
        .filter(|request| request.role == RequestRole::Submit)
        .count()
}

/// Checks that the ledger adds up.
async fn verify_ledger(args: &[&str]) {
    let result = output(program(&[&["ledger", "verify"], args].concat())).await;
    assert!(result.status.success(), "{result:?}");
}
