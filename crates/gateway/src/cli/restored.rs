//! `mediagate restored`: decides about open tasks of a restored backup; works while a server is
//! running on the same data.

use clap::{Args, Subcommand};
use serde_json::json;

use crate::cli::{CliError, runtime, say, show};
use mediagate_config::{Config, Settings};
use mediagate_core::app::App;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::restored_backup;
use mediagate_model::clock::Clock;
use mediagate_model::error::Error;
use mediagate_model::ids::TaskId;

#[derive(Debug, Subcommand)]
pub(super) enum RestoredCommand {
    /// List held tasks, oldest first
    List,
    /// Submit held tasks to a provider, even if you pay for them a second time
    Resubmit(TaskSelection),
    /// Fail held tasks without charging for them
    Fail(TaskSelection),
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct TaskSelection {
    /// Task ids
    #[arg(value_name = "ID")]
    ids: Vec<TaskId>,
    /// All held tasks
    #[arg(long)]
    all: bool,
}

const NONE_HELD: &str = "No tasks of a restored backup are held.";

pub(super) fn run(
    command: &RestoredCommand,
    settings: &Settings,
    json: bool,
) -> Result<(), CliError> {
    let app = App::open_existing(Config::load_for_command(settings)?, Clock::system())?;
    let author = ChangeAuthor::command;
    runtime()?.block_on(async {
        match command {
            RestoredCommand::List => list(&app, json).await,
            RestoredCommand::Resubmit(selection) => {
                let resubmit = async |id| {
                    restored_backup::resubmit(&app, id, author("restored resubmit")).await
                };
                decide(
                    &app,
                    selection,
                    DecisionReport::new("resubmitted", json),
                    resubmit,
                )
                .await
            }
            RestoredCommand::Fail(selection) => {
                let fail =
                    async |id| restored_backup::fail(&app, id, author("restored fail")).await;
                decide(&app, selection, DecisionReport::new("failed", json), fail).await
            }
        }
    })
}

/// Decides about held tasks, one by one. Decisions made before a failure stay valid and are
/// reported.
async fn decide(
    app: &App,
    selection: &TaskSelection,
    mut report: DecisionReport,
    decision: impl AsyncFn(TaskId) -> Result<bool, Error>,
) -> Result<(), CliError> {
    let outcome: Result<(), CliError> = async {
        let selected = ids(app, selection).await?;
        if selected.is_empty() && report.json_ids.is_none() {
            return say(NONE_HELD);
        }
        for id in selected {
            report.add(id, decision(id).await?)?;
        }
        Ok(())
    }
    .await;
    report.finish().and(outcome)
}

async fn list(app: &App, json: bool) -> Result<(), CliError> {
    let held_tasks = restored_backup::list(app).await?;
    if json {
        let objects = held_tasks
            .iter()
            .map(|(id, model, at)| json!({"id": id, "model": model, "created_at": at.rfc3339()}));
        return show::json(&objects.collect::<Vec<_>>());
    }
    if held_tasks.is_empty() {
        return say(NONE_HELD);
    }
    let mut table = show::table(&["CREATED", "MODEL", "ID"]);
    for (id, model, at) in held_tasks {
        table.add_row([show::time(at), model, id.to_string()]);
    }
    say(&table.to_string())
}

async fn ids(app: &App, selection: &TaskSelection) -> Result<Vec<TaskId>, CliError> {
    if !selection.all {
        return Ok(selection.ids.clone());
    }
    let held_tasks = restored_backup::list(app).await?;
    Ok(held_tasks.into_iter().map(|(id, ..)| id).collect())
}

/// The decisions so far.
struct DecisionReport {
    decision: &'static str,
    /// The ids that `--json` prints together at the end.
    json_ids: Option<Vec<TaskId>>,
}

impl DecisionReport {
    fn new(decision: &'static str, json: bool) -> Self {
        Self {
            decision,
            json_ids: json.then(Vec::new),
        }
    }

    fn add(&mut self, id: TaskId, was_held: bool) -> Result<(), CliError> {
        if !was_held {
            let message = format!("{id} is not held: see `mediagate restored list`");
            return Err(CliError::Failed(message));
        }
        match &mut self.json_ids {
            Some(ids) => {
                ids.push(id);
                Ok(())
            }
            None => say(&format!("{id} {}", self.decision)),
        }
    }

    fn finish(self) -> Result<(), CliError> {
        let decision = self.decision;
        match self.json_ids {
            Some(ids) => show::json(&json!({ decision: ids })),
            None => Ok(()),
        }
    }
}
