//! What must hold once everything has ended: compares the database,
//! the providers' own records and what callers received.

mod answers;
pub(crate) mod approvals;
mod intents;
mod lifecycle;
mod money;
mod retry_advice;
mod twins;
pub(crate) mod views;
pub(crate) mod webhooks;

use std::collections::{BTreeMap, HashMap};

use mediagate_model::error::ErrorCode;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use simulator::PlannedEnd;

use crate::callers::CallerHistory;
use crate::db::{Database, Row};
use crate::dice::tag_in;
use crate::stage::Stage;
pub(crate) use intents::unprovable_tries;
use views::Views;

/// A job as its provider records it.
#[derive(Debug, Clone)]
pub(crate) struct ProviderJob {
    pub(crate) id: String,
    pub(crate) succeeded: bool,
    pub(crate) was_cancelled: bool,
    /// The length of the picture that it was ordered with, where the order was a form.
    pub(crate) picture_bytes: Option<u64>,
}

/// A task as the database has it.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) account: String,
    pub(crate) state: String,
    pub(crate) cost: i64,
    pub(crate) error: String,
    pub(crate) finished_at: Option<i64>,
    pub(crate) prompt: String,
    pub(crate) has_picture: bool,
    /// The state of its approval; empty if it needed none.
    pub(crate) approval: String,
    /// When somebody decided about it.
    pub(crate) approved_at: Option<i64>,
}

impl Task {
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state.as_str(), "succeeded" | "failed" | "cancelled")
    }

    pub(crate) fn succeeded(&self) -> bool {
        self.state == "succeeded"
    }

    /// It failed with a retryable error.
    pub(crate) fn may_be_repeated(&self) -> bool {
        let code = ErrorCode::from_name(&self.error);
        self.state == "failed" && code.is_some_and(ErrorCode::retryable)
    }
}

/// What the database and the providers have recorded.
pub(crate) struct Facts {
    pub(crate) tasks: HashMap<String, Task>,
    pub(crate) tasks_by_tag: HashMap<String, Vec<Task>>,
    /// By task.
    pub(crate) submissions: HashMap<String, Vec<Row>>,
    /// By the tag in the order that the provider got.
    pub(crate) jobs_by_tag: HashMap<String, Vec<ProviderJob>>,
    /// By task, where the provider was given the submission's key.
    pub(crate) jobs_by_key: HashMap<String, Vec<ProviderJob>>,
    /// Every job by its id.
    pub(crate) jobs: HashMap<String, ProviderJob>,
    /// Titles of uploads, and names of personas.
    pub(crate) created_by_name: HashMap<String, u64>,
    pub(crate) ledger: Vec<Row>,
    pub(crate) keys: Vec<Row>,
    pub(crate) accounts: Vec<Row>,
}

/// Violated rules.
#[derive(Debug, Default)]
pub(crate) struct Violations(pub(crate) Vec<String>);

impl Violations {
    pub(crate) fn add(&mut self, message: impl Into<String>) {
        self.0.push(message.into());
    }

    /// Adds a violation unless the rule holds.
    pub(crate) fn unless(&mut self, holds: bool, message: impl FnOnce() -> String) {
        if !holds {
            self.add(message());
        }
    }
}

/// Checks everything.
pub(crate) fn check_all(
    facts: &Facts,
    histories: &[CallerHistory],
    cancelled_tasks: &[(String, String)],
    views: &Views,
) -> Violations {
    let mut violations = Violations::default();
    lifecycle::check(facts, histories, cancelled_tasks, &mut violations);
    views::check(facts, views, &mut violations);
    intents::check(facts, histories, &mut violations);
    answers::check(facts, histories, &mut violations);
    retry_advice::check(histories, &mut violations);
    money::check(facts, &mut violations);
    twins::check(facts, &mut violations);
    violations
}

impl Facts {
    pub(crate) async fn read(stage: &Stage) -> Self {
        let database = &stage.database;
        let columns = &[
            "id",
            "key_id",
            "account_id",
            "state",
            "cost_micros",
            "error_code",
            "payload",
            "finished_at",
            "approval_state",
            "approval_decided_at",
        ];
        let mut tasks = HashMap::new();
        let mut tasks_by_tag: HashMap<_, Vec<_>> = HashMap::new();
        for row in database.table("tasks", columns, "ORDER BY id").await {
            let task = task(&row);
            if let Some(tag) = tag_in(row.text("payload")) {
                tasks_by_tag
                    .entry(tag.to_owned())
                    .or_default()
                    .push(task.clone());
            }
            tasks.insert(task.id.clone(), task);
        }
        let columns = &[
            "id",
            "task_id",
            "provider",
            "endpoint",
            "state",
            "handle",
            "created_at",
        ];
        let mut submissions: HashMap<_, Vec<_>> = HashMap::new();
        for row in database.table("submissions", columns, "").await {
            submissions
                .entry(row.text("task_id").to_owned())
                .or_default()
                .push(row);
        }
        let mut facts = Self {
            tasks,
            tasks_by_tag,
            submissions,
            jobs_by_tag: HashMap::new(),
            jobs_by_key: HashMap::new(),
            jobs: HashMap::new(),
            created_by_name: created_by_name(database).await,
            ledger: Vec::new(),
            keys: Vec::new(),
            accounts: Vec::new(),
        };
        facts.read_jobs(stage);
        facts.read_money(database).await;
        facts
    }

    fn read_jobs(&mut self, stage: &Stage) {
        let keys: HashMap<String, String> = self
            .submissions
            .values()
            .flatten()
            .map(|row| (uuid_v4_of(row.text("id")), row.text("task_id").to_owned()))
            .collect();
        for job in stage.simulator.world().all_jobs() {
            let provider_job = ProviderJob {
                id: job.id.clone(),
                succeeded: job.plan.end == PlannedEnd::Success,
                was_cancelled: job.cancelled_at.is_some(),
                picture_bytes: job.input["input_reference"]["bytes"].as_u64(),
            };
            let key = job.input["idempotency_key"].as_str();
            if let Some(task) = key.and_then(|key| keys.get(key)) {
                self.jobs_by_key
                    .entry(task.clone())
                    .or_default()
                    .push(provider_job.clone());
            }
            if let Some(tag) = tag_in(&job.input.to_string()) {
                self.jobs_by_tag
                    .entry(tag.to_owned())
                    .or_default()
                    .push(provider_job.clone());
            }
            self.jobs.insert(provider_job.id.clone(), provider_job);
        }
    }

    async fn read_money(&mut self, database: &Database) {
        let columns = &[
            "id",
            "account_id",
            "key_id",
            "task_id",
            "kind",
            "held_micros",
            "spent_micros",
            "credit_micros",
        ];
        self.ledger = database.table("ledger", columns, "").await;
        let columns = &[
            "id",
            "account_id",
            "prefix",
            "budget_micros",
            "held_micros",
            "spent_micros",
        ];
        self.keys = database.table("api_keys", columns, "").await;
        let columns = &[
            "id",
            "handle",
            "prepaid",
            "held_micros",
            "spent_micros",
            "credit_micros",
        ];
        self.accounts = database.table("accounts", columns, "").await;
    }

    /// Tasks that an intent led to.
    pub(crate) fn tasks_of(&self, tag: &str) -> &[Task] {
        self.tasks_by_tag.get(tag).map_or(&[], Vec::as_slice)
    }

    /// Submissions of a task that a provider may have accepted.
    pub(crate) fn not_refused(&self, task: &str) -> usize {
        let submissions = self.submissions.get(task).into_iter().flatten();
        submissions
            .filter(|row| row.text("state") != "refused")
            .count()
    }

    /// The number of tasks in each state.
    pub(crate) fn states(&self) -> BTreeMap<String, u64> {
        let mut states = BTreeMap::new();
        for task in self.tasks.values() {
            let name = if task.error.is_empty() || task.state == "cancelled" {
                task.state.clone()
            } else {
                format!("{} {}", task.state, task.error)
            };
            *states.entry(name).or_default() += 1;
        }
        states
    }
}

fn task(row: &Row) -> Task {
    let payload: Value = serde_json::from_str(row.text("payload")).unwrap();
    Task {
        id: row.text("id").to_owned(),
        key: row.text("key_id").to_owned(),
        account: row.text("account_id").to_owned(),
        state: row.text("state").to_owned(),
        cost: row.micros("cost_micros"),
        error: row.text("error_code").to_owned(),
        finished_at: row.number("finished_at"),
        prompt: payload["prompt"].as_str().unwrap_or_default().to_owned(),
        has_picture: payload["picture"].is_string(),
        approval: row.text("approval_state").to_owned(),
        approved_at: row.number("approval_decided_at"),
    }
}

async fn created_by_name(database: &Database) -> HashMap<String, u64> {
    let uploads = database
        .table("clips", &["title"], "WHERE task_id IS NULL")
        .await;
    let personas = database.table("personas", &["name"], "").await;
    let titles = uploads.iter().map(|row| row.text("title"));
    let names = personas.iter().map(|row| row.text("name"));
    let mut counts = HashMap::new();
    for name in titles.chain(names) {
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

/// The key that the gateway sends to a provider that requires UUIDs of version 4.
fn uuid_v4_of(key: &str) -> String {
    let digest: [u8; 32] = Sha256::digest(key).into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_random_bytes(bytes)
        .into_uuid()
        .to_string()
}
