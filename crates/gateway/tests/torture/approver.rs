//! Somebody who decides about every order that waits for approval, at random moments, now and then
//! twice at once.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::task::JoinHandle;

use crate::dice::Dice;
use crate::stage::PublishedAddress;

/// What was decided, by task: the action of each request that succeeded.
pub(crate) type Decisions = Arc<Mutex<Vec<(String, &'static str)>>>;

/// A running approver, until dropped.
pub(crate) struct Approver(JoinHandle<()>);

impl Drop for Approver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Approver {
    /// `secret` is a key that may approve the orders of every account.
    pub(crate) fn start(
        http: reqwest::Client,
        address: PublishedAddress,
        secret: String,
        mut dice: Dice,
        decisions: Decisions,
    ) -> Self {
        Self(tokio::spawn(async move {
            loop {
                tokio::time::sleep(dice.millis(50, 400)).await;
                let Some(base) = address.current() else {
                    continue;
                };
                let path = format!("{base}/v1/admin/tasks?status=queued&approval=pending");
                let Ok(answer) = http.get(path).bearer_auth(&secret).send().await else {
                    continue;
                };
                let Ok(list) = answer.json::<Value>().await else {
                    continue;
                };
                for task in list["data"].as_array().into_iter().flatten() {
                    let task = task["id"].as_str().unwrap();
                    let decide = |decision: &'static str| {
                        let request = http.post(format!("{base}/v1/tasks/{task}/{decision}"));
                        let sent = request.bearer_auth(&secret).send();
                        async move { Some((decision, sent.await.ok()?.status().is_success())) }
                    };
                    let mut draw = || if dice.chance(85) { "approve" } else { "reject" };
                    let (first, second) = (draw(), draw());
                    let results = if dice.chance(25) {
                        let both = tokio::join!(decide(first), decide(second));
                        [both.0, both.1]
                    } else {
                        [decide(first).await, None]
                    };
                    let counted = results.into_iter().flatten().filter(|(_, counts)| *counts);
                    let counted = counted.map(|(decision, _)| (task.to_owned(), decision));
                    decisions.lock().unwrap().extend(counted);
                }
            }
        }))
    }
}
