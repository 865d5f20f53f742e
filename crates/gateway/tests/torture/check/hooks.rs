//! Webhooks: the end of every task was told at least once, with one id, as it was, and signed.

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;
use simulator::ReceivedPost;

use super::{Facts, Violations};
use crate::stage::Stage;

/// What a receiver was posted about a task.
#[derive(Default)]
struct Told {
    ids: HashSet<String>,
    bodies: HashSet<String>,
    kind: String,
}

pub(crate) async fn check(stage: &Stage, facts: &Facts, found: &mut Violations) {
    let events = stage
        .database
        .table("webhook_events", &["task_id"], "")
        .await;
    let mut written: HashMap<&str, usize> = HashMap::new();
    for row in &events {
        *written.entry(row.text("task_id")).or_default() += 1;
    }
    let told = told(stage, found);
    for task in facts.tasks.values() {
        let count = written.get(&*task.id).copied().unwrap_or_default();
        let wanted = usize::from(task.is_over());
        let is_forgotten = count == 0 && stage.had_a_wrong_clock;
        found.unless(count == wanted || is_forgotten, || {
            format!("task {} is {} and has {count} events", task.id, task.state)
        });
        if !task.is_over() {
            continue;
        }
        let Some(told) = told.get(&task.id) else {
            found.add(format!(
                "nobody was told that task {} is {}",
                task.id, task.state
            ));
            continue;
        };
        let is_one = told.ids.len() == 1 && told.bodies.len() == 1;
        found.unless(is_one, || {
            format!(
                "task {} was told as {:?}: {:?}",
                task.id, told.ids, told.bodies
            )
        });
        found.unless(told.kind == format!("task.{}", task.state), || {
            format!(
                "task {} is {} and was told as {}",
                task.id, task.state, told.kind
            )
        });
    }
}

/// By task.
fn told(stage: &Stage, found: &mut Violations) -> HashMap<String, Told> {
    let mut all: HashMap<String, Told> = HashMap::new();
    for posted in stage.receiver.posted() {
        let is_right = stage
            .secrets
            .iter()
            .any(|secret| is_signed(&posted, secret));
        found.unless(is_right, || format!("a wrong signature: {posted:?}"));
        let Ok(body) = serde_json::from_str::<Value>(&posted.body) else {
            found.add(format!("no JSON: {posted:?}"));
            continue;
        };
        let task = body["data"]["id"].as_str().unwrap_or_default();
        let told = all.entry(task.to_owned()).or_default();
        told.ids.insert(posted.header("webhook-id").to_owned());
        let kind = body["type"].as_str().unwrap_or_default();
        kind.clone_into(&mut told.kind);
        told.bodies.insert(posted.body);
    }
    all
}

fn is_signed(posted: &ReceivedPost, secret: &str) -> bool {
    let key = secret.strip_prefix("whsec_").map(|key| BASE64.decode(key));
    let mut mac = Hmac::<Sha256>::new_from_slice(&key.unwrap().unwrap()).unwrap();
    let (id, time) = (
        posted.header("webhook-id"),
        posted.header("webhook-timestamp"),
    );
    mac.update(format!("{id}.{time}.{}", posted.body).as_bytes());
    let right = format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()));
    posted.header("webhook-signature") == right
}
