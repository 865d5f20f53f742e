//! Webhooks: the end of every task was delivered at least once, with one id, the right state and a
//! signature.

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;
use simulator::ReceivedPost;

use super::{Facts, Violations};
use crate::stage::Stage;

/// The events that a receiver got about a task.
#[derive(Default)]
struct ReceivedEvents {
    ids: HashSet<String>,
    bodies: HashSet<String>,
    kind: String,
}

pub(crate) async fn check(stage: &Stage, facts: &Facts, violations: &mut Violations) {
    let events = stage
        .database
        .table("webhook_events", &["task_id"], "")
        .await;
    let mut event_counts: HashMap<&str, usize> = HashMap::new();
    for row in &events {
        *event_counts.entry(row.text("task_id")).or_default() += 1;
    }
    let received = received_by_task(stage, violations);
    for task in facts.tasks.values() {
        let count = event_counts.get(&*task.id).copied().unwrap_or_default();
        let expected = usize::from(task.is_over());
        let may_be_deleted = count == 0 && stage.had_a_wrong_clock;
        violations.unless(count == expected || may_be_deleted, || {
            format!("task {} is {} and has {count} events", task.id, task.state)
        });
        if !task.is_over() {
            continue;
        }
        let Some(received) = received.get(&task.id) else {
            violations.add(format!(
                "no event says that task {} is {}",
                task.id, task.state
            ));
            continue;
        };
        let is_unique = received.ids.len() == 1 && received.bodies.len() == 1;
        violations.unless(is_unique, || {
            format!(
                "task {} has the events {:?}: {:?}",
                task.id, received.ids, received.bodies
            )
        });
        violations.unless(received.kind == format!("task.{}", task.state), || {
            format!(
                "task {} is {} and its event says {}",
                task.id, task.state, received.kind
            )
        });
    }
}

/// The received events by task.
fn received_by_task(stage: &Stage, violations: &mut Violations) -> HashMap<String, ReceivedEvents> {
    let mut events_by_task: HashMap<String, ReceivedEvents> = HashMap::new();
    for posted in stage.receiver.received() {
        let is_signed_correctly = stage
            .secrets
            .iter()
            .any(|secret| is_signed(&posted, secret));
        violations.unless(is_signed_correctly, || {
            format!("a wrong signature: {posted:?}")
        });
        let Ok(body) = serde_json::from_str::<Value>(&posted.body) else {
            violations.add(format!("no JSON: {posted:?}"));
            continue;
        };
        // Another event about the same task. An order that expires or is rejected has both.
        if body["type"] == "task.approval_requested" {
            continue;
        }
        let task = body["data"]["id"].as_str().unwrap_or_default();
        let events = events_by_task.entry(task.to_owned()).or_default();
        events.ids.insert(posted.header("webhook-id").to_owned());
        let kind = body["type"].as_str().unwrap_or_default();
        kind.clone_into(&mut events.kind);
        events.bodies.insert(posted.body);
    }
    events_by_task
}

fn is_signed(posted: &ReceivedPost, secret: &str) -> bool {
    let key = secret.strip_prefix("whsec_").map(|key| BASE64.decode(key));
    let mut mac = Hmac::<Sha256>::new_from_slice(&key.unwrap().unwrap()).unwrap();
    let (id, time) = (
        posted.header("webhook-id"),
        posted.header("webhook-timestamp"),
    );
    mac.update(format!("{id}.{time}.{}", posted.body).as_bytes());
    let signature = format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()));
    posted.header("webhook-signature") == signature
}
