//! What a user would write instead: a loop that asks each open job, one after
//! the other, every 15 seconds.

use std::time::Duration;

use mediagate_model::clock::Clock;
use serde_json::Value;

/// The pause between two rounds, as in the gateways that poll in this way.
pub(crate) const PAUSE: Duration = Duration::from_secs(15);

/// Orders `count` jobs and follows them with the loop. Returns when each was
/// finished here, in microseconds since the epoch.
pub(crate) async fn run(url: &str, count: usize) -> Vec<(String, i64)> {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut open = Vec::new();
    for _ in 0..count {
        let form = [("prompt", "a lake at dawn"), ("seconds", "4")];
        let form = form
            .into_iter()
            .fold(reqwest::multipart::Form::new(), |form, (name, text)| {
                form.text(name, text)
            });
        let answer = client.post(format!("{url}/videos")).bearer_auth("k");
        let answer = answer.multipart(form).send().await.unwrap();
        let job: Value = answer.json().await.unwrap();
        open.push(job["id"].as_str().unwrap().to_owned());
    }
    let mut ended = Vec::new();
    while !open.is_empty() {
        let mut still_open = Vec::new();
        for id in open {
            let path = format!("{url}/videos/{id}");
            let job: Value = get(&client, &path).await.json().await.unwrap();
            if job["status"] != "completed" {
                still_open.push(id);
                continue;
            }
            let content = get(&client, &format!("{path}/content")).await;
            assert!(!content.bytes().await.unwrap().is_empty());
            ended.push((id, Clock::system().now().micros()));
        }
        open = still_open;
        tokio::time::sleep(PAUSE).await;
    }
    ended
}

async fn get(client: &reqwest::Client, url: &str) -> reqwest::Response {
    let answer = client.get(url).bearer_auth("k").send().await.unwrap();
    assert!(answer.status().is_success());
    answer
}
