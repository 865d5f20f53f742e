//! `mediagate requests`: what happened to a request, and who gets which errors; works while a
//! server is running on the same data.

use std::collections::HashSet;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::cli::command_line::error_code;
use crate::cli::{CliError, accounts, amount, output, runtime, say, show, tasks};
use mediagate_config::{Config, Settings};
use mediagate_core::app::App;
use mediagate_core::domain::request_log::{self, ListedRequest};
use mediagate_core::domain::tasks as all_tasks;
use mediagate_http::wire::admin::tasks::AdminTask;
use mediagate_http::wire::requests::{ErrorCountList, RequestObject};
use mediagate_model::clock::{Clock, Timestamp};
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::{KeyId, RequestEntryId, TaskId};
use mediagate_model::request_log::StatusRange;
use mediagate_store::request_log::{ErrorGrouping, RequestFilter};
use mediagate_store::tasks::PageQuery;

#[derive(Debug, Subcommand)]
pub(super) enum RequestsCommand {
    /// List requests, newest first, or count errors
    List(RequestListArgs),
    /// Show everything about a request id as JSON: its requests, and their tasks with attempts and
    /// webhook deliveries
    Show {
        /// The request id, as in x-request-id
        id: String,
    },
    /// Print requests as they are logged, until interrupted
    Tail(RequestFilterArgs),
}

#[derive(Debug, Args)]
pub(super) struct RequestFilterArgs {
    /// Only requests of this account
    #[arg(long, value_name = "HANDLE")]
    account: Option<String>,
    /// Only responses with this HTTP status, for example 402, or with one of a class, for example 4xx
    #[arg(long, value_name = "STATUS")]
    status: Option<StatusRange>,
    /// Only errors with this code
    #[arg(long, value_parser = error_code)]
    code: Option<ErrorCode>,
    /// Only requests to this endpoint, for example /v1/videos
    #[arg(long, value_name = "PATH")]
    route: Option<String>,
    /// Only requests with the API key that has this id
    #[arg(long, value_name = "ID")]
    key: Option<KeyId>,
    /// Only requests for this model
    #[arg(long)]
    model: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct RequestListArgs {
    #[command(flatten)]
    filter: RequestFilterArgs,
    /// Only requests with this request id
    #[arg(long, value_name = "REQUEST_ID")]
    q: Option<String>,
    /// Only requests since this time, for example 2026-01-02 or 2026-01-02T03:04:05Z
    #[arg(long, value_name = "TIME", value_parser = amount::time)]
    since: Option<Timestamp>,
    /// Only requests before this time
    #[arg(long, value_name = "TIME", value_parser = amount::time)]
    until: Option<Timestamp>,
    /// Count errors instead, by any of code, key, model, route, status and account
    #[arg(long, value_name = "GROUPS", value_delimiter = ',', value_parser = ["code", "key", "model", "route", "status", "account"])]
    group_by: Vec<String>,
    /// Maximum number of requests
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

impl RequestFilterArgs {
    async fn filter(&self, app: &App) -> Result<RequestFilter, CliError> {
        let account = match &self.account {
            Some(handle) => Some(accounts::find(app, handle).await?.id),
            None => None,
        };
        Ok(RequestFilter {
            account,
            statuses: self.status,
            code: self.code,
            route: self.route.clone(),
            key: self.key,
            model: self.model.clone(),
            ..RequestFilter::default()
        })
    }
}

pub(super) fn run(
    command: &RequestsCommand,
    settings: &Settings,
    json: bool,
) -> Result<(), CliError> {
    let app = App::open_existing(Config::load_for_command(settings)?, Clock::system())?;
    runtime()?.block_on(async {
        match command {
            RequestsCommand::List(args) if args.group_by.is_empty() => list(&app, args, json).await,
            RequestsCommand::List(args) => count(&app, args, json).await,
            RequestsCommand::Show { id } => show_request(&app, id).await,
            RequestsCommand::Tail(args) => tail(&app, args, json).await,
        }
    })
}

impl RequestListArgs {
    async fn whole_filter(&self, app: &App) -> Result<RequestFilter, CliError> {
        Ok(RequestFilter {
            since: self.since,
            until: self.until,
            request_id: self.q.clone(),
            ..self.filter.filter(app).await?
        })
    }
}

async fn list(app: &App, args: &RequestListArgs, json: bool) -> Result<(), CliError> {
    let filter = args.whole_filter(app).await?;
    let page = PageQuery {
        after: None,
        limit: args.limit,
        ascending: false,
    };
    let (listed, _) = request_log::page(app, filter, page).await?;
    if json {
        let objects = listed.into_iter().map(RequestObject::for_operator);
        return show::json(&objects.collect::<Vec<_>>());
    }
    if listed.is_empty() {
        return say("No requests found.");
    }
    let mut table = show::table(&[
        "TIME",
        "STATUS",
        "CODE",
        "METHOD",
        "ROUTE",
        "ACCOUNT",
        "KEY",
        "MODEL",
        "MS",
        "TASK",
        "REQUEST ID",
    ]);
    for listed in &listed {
        table.add_row(cells(listed));
    }
    say(&table.to_string())
}

fn cells(listed: &ListedRequest) -> [String; 11] {
    let entry = &listed.entry;
    [
        show::time(entry.at),
        entry.status.to_string(),
        entry.code.clone().unwrap_or_default(),
        entry.method.clone(),
        entry.route.clone().unwrap_or_default(),
        listed.account.clone().unwrap_or_default(),
        listed.key_name.clone().unwrap_or_default(),
        entry.model.clone().unwrap_or_default(),
        entry.took_ms.to_string(),
        entry.task.map_or_else(String::new, |task| task.to_string()),
        entry.request_id.to_string(),
    ]
}

async fn count(app: &App, args: &RequestListArgs, json: bool) -> Result<(), CliError> {
    let filter = args.whole_filter(app).await?;
    let has = |name: &str| args.group_by.iter().any(|group| group == name);
    let grouping = ErrorGrouping {
        by_account: has("account"),
        by_code: has("code"),
        by_key: has("key"),
        by_model: has("model"),
        by_route: has("route"),
        by_status: has("status"),
    };
    let (counts, total) = request_log::error_counts(app, filter, grouping).await?;
    if json {
        return show::json(&ErrorCountList::new(counts, total, grouping));
    }
    if counts.is_empty() {
        return say("No errors found.");
    }
    let mut table = show::table(&[
        "ERRORS", "CODE", "STATUS", "ACCOUNT", "KEY", "MODEL", "ROUTE", "FIRST", "LAST",
    ]);
    for counted in counts {
        let group = counted.group;
        table.add_row([
            counted.count.count.to_string(),
            group.code.unwrap_or_default(),
            group
                .status
                .map_or_else(String::new, |status| status.to_string()),
            counted.account.unwrap_or_default(),
            counted.key_name.unwrap_or_default(),
            group.model.unwrap_or_default(),
            group.route.unwrap_or_default(),
            show::time(counted.count.first_at),
            show::time(counted.count.last_at),
        ]);
    }
    say(&table.to_string())
}

/// Everything that is known about a request id.
#[derive(Serialize)]
struct RequestHistory {
    requests: Vec<RequestObject>,
    tasks: Vec<AdminTask>,
}

/// Number of requests, and of tasks, that are shown for one id.
const MAX_SHOWN: u32 = 100;

async fn show_request(app: &App, id: &str) -> Result<(), CliError> {
    let filter = RequestFilter {
        request_id: Some(id.to_owned()),
        ..RequestFilter::default()
    };
    let page = PageQuery {
        after: None,
        limit: MAX_SHOWN,
        ascending: false,
    };
    let (requests, _) = request_log::page(app, filter, page).await?;
    let tasks = tasks_of(app, id, &requests).await?;
    if requests.is_empty() && tasks.is_empty() {
        let message = format!("there is no request {id} in the log, and no task of it");
        return Err(CliError::Failed(message));
    }
    let requests = requests.into_iter().map(RequestObject::for_operator);
    show::json(&RequestHistory {
        requests: requests.collect(),
        tasks,
    })
}

/// The tasks that the request made, and those that its responses were about.
async fn tasks_of(
    app: &App,
    id: &str,
    requests: &[ListedRequest],
) -> Result<Vec<AdminTask>, CliError> {
    let mut ids: Vec<TaskId> = all_tasks::of_request(app, id, MAX_SHOWN).await?;
    let answered = requests.iter().filter_map(|listed| listed.entry.task);
    ids.extend(answered);
    ids.sort_unstable();
    ids.dedup();
    let mut shown = Vec::with_capacity(ids.len());
    for id in ids {
        // A record may have been removed since the request was logged.
        if let Ok(task) = all_tasks::by_id_any_account(app, id).await {
            shown.push(tasks::whole_record(app, &task).await?);
        }
    }
    Ok(shown)
}

/// How often to look for new entries.
const TAIL_INTERVAL: Duration = Duration::from_millis(500);
/// How late an entry may be written: other processes write theirs every second, more slowly if the
/// database is busy.
const MAX_DELAY: Duration = Duration::from_secs(10);
/// Number of entries that are read at once.
const TAIL_PAGE: u32 = 1000;

async fn tail(app: &App, args: &RequestFilterArgs, json: bool) -> Result<(), CliError> {
    let started = app.clock.now();
    let mut printed: HashSet<RequestEntryId> = HashSet::new();
    let filter = args.filter(app).await?;
    loop {
        let since = app.clock.now().minus(MAX_DELAY).max(started);
        let filter = RequestFilter {
            since: Some(since),
            ..filter.clone()
        };
        let mut recent = HashSet::new();
        let mut page = PageQuery {
            after: None,
            limit: TAIL_PAGE,
            ascending: true,
        };
        loop {
            let (listed, has_more) = request_log::page(app, filter.clone(), page).await?;
            page.after = listed.last().map(|listed| listed.entry.id);
            for listed in listed {
                recent.insert(listed.entry.id);
                if !printed.contains(&listed.entry.id) && !print_line(listed, json)? {
                    return Ok(());
                }
            }
            if !has_more {
                break;
            }
        }
        printed = recent;
        tokio::time::sleep(TAIL_INTERVAL).await;
    }
}

/// Prints an entry; returns whether the output is still read.
fn print_line(listed: ListedRequest, json: bool) -> Result<bool, CliError> {
    if json {
        let object = RequestObject::for_operator(listed);
        let json = serde_json::to_string(&object).map_err(CliError::failed)?;
        return output::print_line(&output::escaped_json(&json));
    }
    let message = listed.entry.message.clone().unwrap_or_default();
    let cells = cells(&listed);
    let cells = cells.iter().filter(|cell| !cell.is_empty());
    let line: Vec<&str> = cells.map(String::as_str).collect();
    let line = format!("{}  {message}", line.join("  "));
    output::print_line(output::one_line(&line).trim_end())
}
