//! `mediagate submissions`: submissions to providers whose outcome nobody could confirm, and their
//! resolution by hand; works while a server is running on the same data.

use clap::{Args, Subcommand};

use crate::cli::{CliError, amount, runtime, say, show};
use mediagate_config::{Config, Settings};
use mediagate_core::app::App;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::submissions;
use mediagate_http::wire::admin::submissions::SubmissionObject;
use mediagate_model::clock::Clock;
use mediagate_model::ids::SubmissionId;
use mediagate_model::submission::{SubmissionFilter, SubmissionRecord};
use mediagate_store::tasks::PageQuery;

pub(super) const EXAMPLES: &str = "\
Examples:
  mediagate submissions list
  mediagate submissions resolve ID --note \"not in the provider's list, not billed\"
  mediagate submissions resolve ID --note \"billed, refund requested\" --job video_123";

#[derive(Debug, Subcommand)]
pub(super) enum SubmissionsCommand {
    /// List unconfirmed submissions, newest first, or all
    List(SubmissionListArgs),
    /// Resolve an unconfirmed submission: it leaves the list and is no longer looked up; no money moves
    Resolve(ResolveArgs),
}

#[derive(Debug, Args)]
pub(super) struct SubmissionListArgs {
    /// List all submissions, not only the unconfirmed ones
    #[arg(long)]
    all: bool,
    /// Maximum number of submissions
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

#[derive(Debug, Args)]
pub(super) struct ResolveArgs {
    /// Id of the submission
    id: SubmissionId,
    /// Reason, for the audit log
    #[arg(long, value_name = "TEXT", value_parser = amount::note)]
    note: String,
    /// The provider's id of the job, if there was one
    #[arg(long, value_parser = job_id)]
    job: Option<String>,
}

/// Checks the id of a job, as the API does.
fn job_id(text: &str) -> Result<String, String> {
    let length = text.chars().count();
    if text.trim().is_empty() || length > 200 || text.chars().any(char::is_control) {
        return Err("must be 1 to 200 characters without control characters".into());
    }
    Ok(text.to_owned())
}

pub(super) fn run(
    command: &SubmissionsCommand,
    settings: &Settings,
    json: bool,
) -> Result<(), CliError> {
    let app = App::open_existing(Config::load_for_command(settings)?, Clock::system())?;
    runtime()?.block_on(async {
        match command {
            SubmissionsCommand::List(args) => list(&app, args, json).await,
            SubmissionsCommand::Resolve(args) => resolve(&app, args, json).await,
        }
    })
}

async fn list(app: &App, args: &SubmissionListArgs, json: bool) -> Result<(), CliError> {
    let filter = (!args.all).then_some(SubmissionFilter::Unconfirmed);
    let page = PageQuery {
        after: None,
        limit: args.limit,
        ascending: false,
    };
    let (records, _) = submissions::page(app, filter, page).await?;
    if json {
        let objects: Vec<_> = records.iter().map(SubmissionObject::new).collect();
        return show::json(&objects);
    }
    if records.is_empty() {
        return say(if args.all {
            "No submissions found."
        } else {
            "No unconfirmed submissions."
        });
    }
    let mut table = show::table(&[
        "ID", "SENT", "STATE", "PROVIDER", "MODEL", "ACCOUNT", "TASK", "JOB", "RESOLVED", "ERROR",
    ]);
    for record in &records {
        table.add_row(cells(record));
    }
    say(&table.to_string())
}

fn cells(record: &SubmissionRecord) -> [String; 10] {
    let submission = &record.submission;
    let resolution = record.resolution.as_ref();
    let error = record.error.as_ref();
    [
        submission.id.to_string(),
        show::time(submission.created_at),
        submission.state.name().to_owned(),
        submission.provider.clone(),
        submission.route_model.clone(),
        record.account.clone(),
        submission.task.to_string(),
        SubmissionObject::new(record).job.unwrap_or_default(),
        resolution.map_or_else(String::new, |resolution| {
            format!("{} {}", show::time(resolution.at), resolution.note)
        }),
        error.map_or_else(String::new, |(_, message)| message.clone()),
    ]
}

async fn resolve(app: &App, args: &ResolveArgs, json: bool) -> Result<(), CliError> {
    let author = ChangeAuthor::command("submissions resolve").into();
    let (note, job) = (args.note.clone(), args.job.clone());
    let record = submissions::resolve(app, author, args.id, note, job).await?;
    if json {
        return show::json(&SubmissionObject::new(&record));
    }
    say(&format!(
        "Resolved submission {}. No money was moved.",
        args.id
    ))
}
