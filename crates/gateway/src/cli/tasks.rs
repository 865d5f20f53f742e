//! `mediagate tasks`: list, show, approve and cancel tasks of every account; works while a server is
//! running on the same data.

use clap::{Args, Subcommand};

use crate::cli::command_line::{error_code, one_of};
use crate::cli::{CliError, accounts, amount, runtime, say, show};
use mediagate_config::{Config, Settings};
use mediagate_core::app::App;
use mediagate_core::domain::accounts as all_accounts;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::tasks::{self, ApprovalDecision};
use mediagate_core::domain::webhooks::delivery_log;
use mediagate_core::records::task::TaskView;
use mediagate_core::records::{Links, MediaGrant};
use mediagate_http::wire::admin::tasks::AdminTask;
use mediagate_model::attribution::{Attribute, MAX_USER, MAX_VALUE};
use mediagate_model::clock::{Clock, Timestamp};
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::{KeyId, TaskId};
use mediagate_model::search_terms;
use mediagate_model::task::{ApprovalState, MediaKind, Task, TaskState};
use mediagate_store::tasks::{PageQuery, TaskFilter};

#[derive(Debug, Subcommand)]
pub(super) enum TasksCommand {
    /// List tasks, newest first
    List(TaskListArgs),
    /// Show a task as JSON, with its attempts and webhook deliveries
    Show {
        /// Id of the task
        id: TaskId,
    },
    /// Approve an order that waits for approval
    Approve {
        /// Id of the task
        id: TaskId,
    },
    /// Reject an order that waits for approval; its task ends as cancelled
    Reject {
        /// Id of the task
        id: TaskId,
    },
    /// Cancel a task that has not ended
    Cancel {
        /// Id of the task
        id: TaskId,
        /// Also stop polling its job: its provider, address or key is gone for good
        #[arg(long)]
        abandon: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct TaskListArgs {
    /// Only tasks of this account
    #[arg(long, value_name = "HANDLE")]
    account: Option<String>,
    /// Only tasks that this provider accepted
    #[arg(long)]
    provider: Option<String>,
    /// Only tasks in this state
    #[arg(long, value_parser = one_of::<TaskState>(["queued", "running", "succeeded", "failed", "cancelled"]))]
    status: Option<TaskState>,
    /// Only tasks whose approval is in this state
    #[arg(long, value_parser = one_of::<ApprovalState>(["pending", "approved", "rejected", "expired", "cancelled"]))]
    approval: Option<ApprovalState>,
    /// Only tasks of this kind
    #[arg(long, value_parser = one_of::<MediaKind>(["video", "music"]))]
    kind: Option<MediaKind>,
    /// Only tasks of this model
    #[arg(long)]
    model: Option<String>,
    /// Only tasks with these words in their prompt, title, lyrics or tags; or the id of a task, video, clip or request
    #[arg(long, value_name = "TEXT")]
    q: Option<String>,
    /// Only tasks that the API key with this id ordered
    #[arg(long, value_name = "ID")]
    key: Option<KeyId>,
    /// Only tasks that failed with this error code
    #[arg(long, value_name = "CODE", value_parser = error_code)]
    error: Option<ErrorCode>,
    /// Only tasks accepted since this time, for example 2026-01-02 or 2026-01-02T03:04:05Z
    #[arg(long, value_name = "TIME", value_parser = amount::time)]
    since: Option<Timestamp>,
    /// Only tasks accepted before this time
    #[arg(long, value_name = "TIME", value_parser = amount::time)]
    until: Option<Timestamp>,
    /// Only tasks for this end user
    #[arg(long, value_name = "TEXT", value_parser = user_name)]
    user: Option<String>,
    /// Only tasks whose order has this entry in its metadata; repeat for several
    #[arg(long, value_name = "NAME=VALUE", value_parser = metadata_entry)]
    metadata: Vec<(Attribute, String)>,
    /// Maximum number of tasks
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

/// Most attributes that tasks are filtered by, as in the API.
const MAX_ATTRIBUTES: usize = 4;

/// Checks the id of an end user.
fn user_name(text: &str) -> Result<String, String> {
    checked(text, MAX_USER)
}

/// Parses a name and a value of the metadata.
fn metadata_entry(text: &str) -> Result<(Attribute, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    let attribute = format!("metadata.{name}").parse::<Attribute>();
    let attribute = attribute.map_err(|_| "NAME must be 1 to 64 characters")?;
    Ok((attribute, checked(value, MAX_VALUE)?))
}

fn checked(value: &str, max_chars: usize) -> Result<String, String> {
    if value.is_empty() || value.chars().count() > max_chars {
        return Err(format!("must be 1 to {max_chars} characters"));
    }
    Ok(value.to_owned())
}

impl TaskListArgs {
    fn search(&self) -> Result<tasks::TaskSearch, CliError> {
        let user = self.user.iter().map(|user| (Attribute::User, user.clone()));
        let attributes: Vec<_> = user.chain(self.metadata.iter().cloned()).collect();
        if attributes.len() > MAX_ATTRIBUTES {
            let message =
                format!("--user, --metadata: at most {MAX_ATTRIBUTES} attributes can be given");
            return Err(CliError::Usage(message));
        }
        Ok(tasks::TaskSearch {
            text: self.q.clone(),
            attributes,
        })
    }
}

pub(super) fn run(command: &TasksCommand, settings: &Settings, json: bool) -> Result<(), CliError> {
    let app = App::open_existing(Config::load_for_command(settings)?, Clock::system())?;
    runtime()?.block_on(async {
        match command {
            TasksCommand::List(args) => list(&app, args, json).await,
            TasksCommand::Show { id } => show_task(&app, *id).await,
            TasksCommand::Approve { id } => {
                decide(&app, *id, ApprovalDecision::Approve, json).await
            }
            TasksCommand::Reject { id } => decide(&app, *id, ApprovalDecision::Reject, json).await,
            TasksCommand::Cancel { id, abandon } => cancel(&app, *id, *abandon, json).await,
        }
    })
}

async fn find(app: &App, id: TaskId) -> Result<Task, CliError> {
    Ok(tasks::by_id_any_account(app, id).await?)
}

async fn show_task(app: &App, id: TaskId) -> Result<(), CliError> {
    let task = find(app, id).await?;
    show::json(&whole_record(app, &task).await?)
}

/// A task with its attempts and deliveries, as the API shows it.
pub(super) async fn whole_record(app: &App, task: &Task) -> Result<AdminTask, CliError> {
    let attempts = tasks::attempts(app, task.account, task.id).await?;
    let deliveries = delivery_log::task_deliveries(app, task.account, task.id).await?;
    let view = view(app, task).await?;
    Ok(AdminTask::new(view, &links(app), &attempts, &deliveries))
}

fn links(app: &App) -> Links {
    // A command has no request whose host the links could use.
    let origin = app.config.public_url.clone();
    let origin = origin.unwrap_or_else(|| format!("http://{}", app.config.listen));
    app.links(origin)
        .showing_providers(true)
        .with_media(MediaGrant::cleared())
}

/// A task as lists of the API show it to an operator.
async fn view(app: &App, task: &Task) -> Result<TaskView, CliError> {
    let extras = tasks::task_extras_each(app, std::slice::from_ref(task)).await?;
    let extras = extras.first().ok_or_else(tasks::not_found)?;
    let mut view = TaskView::new(&links(app), task, extras);
    let handles = all_accounts::handles(app, std::iter::once(task.account)).await?;
    view.account = handles.get(&task.account).cloned();
    Ok(view)
}

/// Maximum number of characters of the prompt or title that a table shows.
const MAX_EXCERPT_CHARS: usize = 60;

async fn list(app: &App, args: &TaskListArgs, json: bool) -> Result<(), CliError> {
    let search = args.search()?;
    let account = match &args.account {
        Some(handle) => Some(accounts::find(app, handle).await?.id),
        None => None,
    };
    let filter = TaskFilter {
        kind: args.kind,
        state: args.status,
        approval: args.approval,
        model: args.model.clone(),
        provider: args.provider.clone(),
        key: args.key,
        error: args.error,
        since: args.since,
        until: args.until,
        ..TaskFilter::default()
    };
    let page = PageQuery {
        after: None,
        limit: args.limit,
        ascending: false,
    };
    let (tasks, _) = tasks::search_all(app, account, filter, search, page).await?;
    if json {
        let mut views = Vec::with_capacity(tasks.len());
        for task in &tasks {
            views.push(view(app, task).await?);
        }
        return show::json(&views);
    }
    if tasks.is_empty() {
        return say("No tasks found.");
    }
    let handles = all_accounts::handles(app, tasks.iter().map(|task| task.account)).await?;
    let mut table = show::table(&[
        "CREATED", "ACCOUNT", "MODEL", "PROVIDER", "STATE", "COST", "ERROR", "ID", "PROMPT",
    ]);
    for task in &tasks {
        let failure = task.failure.as_ref();
        table.add_row([
            show::time(task.created_at),
            handles.get(&task.account).cloned().unwrap_or_default(),
            task.model.clone(),
            task.provider.clone(),
            task.state.name().to_owned(),
            task.cost.to_string(),
            failure.map_or_else(String::new, |failure| failure.code.to_string()),
            task.id.to_string(),
            search_terms::excerpt(&task.payload, MAX_EXCERPT_CHARS),
        ]);
    }
    say(&table.to_string())
}

async fn decide(
    app: &App,
    id: TaskId,
    decision: ApprovalDecision,
    json: bool,
) -> Result<(), CliError> {
    let author = ChangeAuthor::command(match decision {
        ApprovalDecision::Approve => "tasks approve",
        ApprovalDecision::Reject => "tasks reject",
    });
    let task = tasks::decide(app, None, id, decision, author).await?;
    if json {
        return show::json(&view(app, &task).await?);
    }
    let price = task.reserved;
    match decision {
        ApprovalDecision::Approve => say(&format!("Approved {id}, at most {price} USD.")),
        ApprovalDecision::Reject => say(&format!("Rejected {id}. {price} USD were released.")),
    }
}

async fn cancel(app: &App, id: TaskId, abandon: bool, json: bool) -> Result<(), CliError> {
    let task = find(app, id).await?;
    let author = ChangeAuthor::command("tasks cancel");
    let task = if abandon {
        tasks::abandon(app, id, author).await?
    } else {
        tasks::cancel(app, task.account, id, Some(author)).await?
    };
    if json {
        return show::json(&view(app, &task).await?);
    }
    let job_note = if abandon {
        " and abandoned its job"
    } else {
        ""
    };
    say(&format!("Cancelled {id}{job_note}."))
}
