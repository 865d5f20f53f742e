//! `mediagate restored`: decides about open tasks of a restored backup; works while a server is
//! running on the same data.

use clap::{Args, Subcommand};

use crate::app::App;
use crate::cli::{CliError, runtime, say};
use crate::clock::Clock;
use crate::config::{Config, Settings};
use crate::domain::restored;
use crate::ids::TaskId;

#[derive(Debug, Subcommand)]
pub(super) enum RestoredCommand {
    /// List held tasks, oldest first
    List,
    /// Submit them to a provider, even if that pays for them a second time
    Resubmit(Which),
    /// End them, uncharged
    Fail(Which),
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Which {
    /// Task ids
    #[arg(value_name = "ID")]
    ids: Vec<TaskId>,
    /// All held tasks
    #[arg(long)]
    all: bool,
}

pub(super) fn run(command: &RestoredCommand, settings: &Settings) -> Result<(), CliError> {
    let app = App::open(Config::load_for_command(settings)?, Clock::system())?;
    runtime()?.block_on(async {
        match command {
            RestoredCommand::List => list(&app).await,
            RestoredCommand::Resubmit(which) => {
                for id in ids(&app, which).await? {
                    done(id, "resubmitted", restored::resubmit(&app, id).await?)?;
                }
                Ok(())
            }
            RestoredCommand::Fail(which) => {
                for id in ids(&app, which).await? {
                    done(id, "failed", restored::fail(&app, id).await?)?;
                }
                Ok(())
            }
        }
    })
}

async fn list(app: &App) -> Result<(), CliError> {
    let held = restored::list(app).await?;
    if held.is_empty() {
        return say("no tasks of a restored backup are held");
    }
    let lines: Vec<String> = held
        .into_iter()
        .map(|(id, model, at)| format!("{id}  {model}  {}", at.rfc3339()))
        .collect();
    say(&lines.join("\n"))
}

async fn ids(app: &App, which: &Which) -> Result<Vec<TaskId>, CliError> {
    if !which.all {
        return Ok(which.ids.clone());
    }
    let held = restored::list(app).await?;
    Ok(held.into_iter().map(|(id, ..)| id).collect())
}

fn done(id: TaskId, what: &str, was_held: bool) -> Result<(), CliError> {
    if !was_held {
        let message = format!("{id} is not held: see `mediagate restored list`");
        return Err(CliError::Failed(message));
    }
    say(&format!("{id} {what}"))
}
