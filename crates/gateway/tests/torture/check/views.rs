//! Tasks and money over HTTP agree with the database.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;

use super::{Facts, Violations};
use crate::db::Row;
use crate::stage::{Key, client};

/// What the gateway's API shows.
#[derive(Debug, Default)]
pub(crate) struct Views {
    /// Tasks by id.
    tasks: HashMap<String, Value>,
    /// The account as each key sees it, by the key's first characters.
    accounts: Vec<(String, Value)>,
}

/// How often an overloaded gateway is asked.
const MAX_TRIES: u32 = 20;
/// How much of a key may be shown.
const PREFIX: usize = 12;

impl Views {
    /// Asks for everything with these keys.
    pub(crate) async fn read(base: &str, keys: &[Key]) -> Self {
        let mut views = Self::default();
        for key in keys {
            let mut cursor = String::new();
            loop {
                let path = format!("/v1/tasks?limit=100{cursor}");
                let page = get(base, key, &path).await;
                for task in page["data"].as_array().unwrap() {
                    let id = task["id"].as_str().unwrap().to_owned();
                    views.tasks.insert(id, task.clone());
                }
                if page["has_more"] != true {
                    break;
                }
                cursor = format!("&after={}", page["last_id"].as_str().unwrap());
            }
            let account = get(base, key, "/v1/account").await;
            views
                .accounts
                .push((key.secret[..PREFIX].to_owned(), account));
        }
        views
    }
}

/// Tries again while the gateway is overloaded, as the answer advises: the machine may be busy with
/// other tests.
async fn get(base: &str, key: &Key, path: &str) -> Value {
    for _ in 0..MAX_TRIES {
        let request = client()
            .get(format!("{base}{path}"))
            .bearer_auth(&key.secret);
        let answer = request.send().await.unwrap();
        if answer.status() != 503 {
            assert_eq!(answer.status(), 200, "{path}");
            return answer.json().await.unwrap();
        }
        let pause = answer.headers()["retry-after"].to_str().unwrap();
        tokio::time::sleep(Duration::from_secs(pause.parse().unwrap())).await;
    }
    panic!("{path}: no answer but 503 in {MAX_TRIES} tries")
}

pub(super) fn check(facts: &Facts, views: &Views, violations: &mut Violations) {
    for task in facts.tasks.values() {
        let Some(view) = views.tasks.get(&task.id) else {
            violations.add(format!("task {} is not in the list", task.id));
            continue;
        };
        let view_fields = (view["status"].as_str(), micros(&view["cost_usd"]));
        violations.unless(view_fields == (Some(&task.state), Some(task.cost)), || {
            format!("{task:?} is shown as {view}")
        });
    }
    for (prefix, view) in &views.accounts {
        check_account(facts, prefix, view, violations);
    }
}

fn check_account(facts: &Facts, prefix: &str, view: &Value, violations: &mut Violations) {
    let sums = |row: &Row| (row.micros("held_micros"), row.micros("spent_micros"));
    let view_sums = |view: &Value| (micros(&view["held_usd"]), micros(&view["spent_usd"]));
    let key = facts.keys.iter().find(|key| key.text("prefix") == prefix);
    let Some(key) = key else {
        violations.add(format!("no key begins with {prefix}"));
        return;
    };
    let (held, spent) = sums(key);
    violations.unless(view_sums(&view["key"]) == (Some(held), Some(spent)), || {
        format!("key {prefix} is shown as {view}, and is {key:?}")
    });
    let of_key = |account: &&Row| account.text("id") == key.text("account_id");
    let Some(account) = facts.accounts.iter().find(of_key) else {
        violations.add(format!("key {prefix} has no account"));
        return;
    };
    let (held, spent) = sums(account);
    violations.unless(view_sums(view) == (Some(held), Some(spent)), || {
        format!("account {account:?} is shown as {view}")
    });
    if account.micros("prepaid") == 1 {
        let balance = account.micros("credit_micros") - held - spent;
        violations.unless(micros(&view["balance_usd"]) == Some(balance), || {
            format!("account {account:?} has {balance} micros left and is shown as {view}")
        });
    }
}

/// An amount as the API writes it.
fn micros(value: &Value) -> Option<i64> {
    let (whole, part) = value.as_str()?.split_once('.')?;
    let part = format!("{part:0<6}");
    let amount: i64 = format!("{}{part}", whole.trim_start_matches('-'))
        .parse()
        .ok()?;
    Some(if whole.starts_with('-') {
        -amount
    } else {
        amount
    })
}
