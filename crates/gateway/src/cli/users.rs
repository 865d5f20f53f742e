//! `mediagate users`: limits of end users, whom orders name in `user`; works while a server is running
//! on the same data.

use clap::{Args, Subcommand};

use crate::cli::command_line::one_of;
use crate::cli::keys::PERIODS;
use crate::cli::output::one_line;
use crate::cli::{CliError, accounts, amount, runtime, say, show};
use mediagate_config::{Config, Settings};
use mediagate_core::app::App;
use mediagate_core::domain::accounts::DEFAULT_HANDLE;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::end_users::{self, NewLimits, UserRecord};
use mediagate_http::wire::admin::users::UserObject;
use mediagate_model::account::BudgetPeriod;
use mediagate_model::attribution::MAX_USER;
use mediagate_model::clock::Clock;
use mediagate_model::money::MicroDollars;
use mediagate_store::tasks::PageQuery;

pub(super) const EXAMPLES: &str = "\
Examples:
  mediagate users list --account owls
  mediagate users set ada --budget 5.00 --budget-period month --rpm 10
  mediagate users set '*' --max-running 2    limit everyone without limits of their own
  mediagate users remove ada";

#[derive(Debug, Subcommand)]
pub(super) enum UsersCommand {
    /// List end users with limits, newest first, and what they have used
    List(UserListArgs),
    /// Set the limits of an end user; they replace earlier ones, and an omitted limit is none
    Set(UserLimitArgs),
    /// Remove the limits of an end user
    Remove(UserArgs),
}

#[derive(Debug, Args)]
pub(super) struct UserListArgs {
    /// Only end users of this account
    #[arg(long, value_name = "HANDLE")]
    account: Option<String>,
    /// Maximum number of end users
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

#[derive(Debug, Args)]
pub(super) struct UserArgs {
    /// The end user, as orders name it in user, or * for everyone without limits of their own
    #[arg(value_parser = user_name)]
    user: String,
    /// Account whose end user it is
    #[arg(long, value_name = "HANDLE", default_value = DEFAULT_HANDLE)]
    account: String,
}

#[derive(Debug, Args)]
pub(super) struct UserLimitArgs {
    #[command(flatten)]
    user: UserArgs,
    /// Limit on the total cost of its tasks, in US dollars
    #[arg(long, value_name = "USD", value_parser = amount::positive)]
    budget: Option<MicroDollars>,
    /// How often the budget renews, in UTC [default: never]
    #[arg(long, value_name = "PERIOD", requires = "budget", value_parser = one_of::<BudgetPeriod>(PERIODS))]
    budget_period: Option<BudgetPeriod>,
    /// Orders per minute
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rpm: Option<u32>,
    /// Maximum number of open tasks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_running: Option<u32>,
}

/// Checks a name as the API does.
fn user_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().count() > MAX_USER {
        return Err(format!("must be 1 to {MAX_USER} characters"));
    }
    Ok(text.to_owned())
}

pub(super) fn run(command: &UsersCommand, settings: &Settings, json: bool) -> Result<(), CliError> {
    let app = App::open_existing(Config::load_for_command(settings)?, Clock::system())?;
    runtime()?.block_on(async {
        match command {
            UsersCommand::List(args) => list(&app, args, json).await,
            UsersCommand::Set(args) => set(&app, args, json).await,
            UsersCommand::Remove(args) => remove(&app, args, json).await,
        }
    })
}

async fn list(app: &App, args: &UserListArgs, json: bool) -> Result<(), CliError> {
    let account = match &args.account {
        Some(handle) => Some(accounts::find(app, handle).await?.id),
        None => None,
    };
    let page = PageQuery {
        after: None,
        limit: args.limit,
        ascending: false,
    };
    let (records, _) = end_users::page(app, account, page).await?;
    if json {
        let objects: Vec<_> = records.iter().map(UserObject::new).collect();
        return show::json(&objects);
    }
    if records.is_empty() {
        return say("No end user has limits.");
    }
    let mut table = show::table(&[
        "USER",
        "ACCOUNT",
        "BUDGET",
        "RPM",
        "MAX RUNNING",
        "SPENT",
        "HELD",
        "OPEN",
        "CREATED",
    ]);
    for record in &records {
        table.add_row(cells(record));
    }
    say(&table.to_string())
}

fn cells(record: &UserRecord) -> [String; 9] {
    let (limits, sums) = (&record.limits, &record.sums);
    let period_suffix = limits
        .period
        .map_or_else(String::new, |period| format!("/{}", period.name()));
    let number =
        |limit: Option<u32>| limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    [
        limits.user.clone(),
        record.account.clone(),
        amount::or_none(limits.budget) + &period_suffix,
        number(limits.rpm),
        number(limits.max_running),
        sums.spent.to_string(),
        sums.held.to_string(),
        sums.open_tasks.to_string(),
        show::time(limits.created_at),
    ]
}

async fn set(app: &App, args: &UserLimitArgs, json: bool) -> Result<(), CliError> {
    let account = accounts::find(app, &args.user.account).await?;
    let limits = NewLimits {
        budget: args.budget,
        period: args.budget_period,
        rpm: args.rpm,
        max_running: args.max_running,
    };
    let author = ChangeAuthor::command("users set").into();
    let user = args.user.user.clone();
    let record = end_users::put(app, author, account.id, user, limits).await?;
    if json {
        return show::json(&UserObject::new(&record));
    }
    let user = one_line(&args.user.user);
    say(&format!("Set the limits of {user} of {}.", account.handle))
}

async fn remove(app: &App, args: &UserArgs, json: bool) -> Result<(), CliError> {
    let account = accounts::find(app, &args.account).await?;
    let author = ChangeAuthor::command("users remove").into();
    let record = end_users::remove(app, author, account.id, args.user.clone()).await?;
    if json {
        return show::json(&UserObject::new(&record));
    }
    let user = one_line(&args.user);
    say(&format!(
        "Removed the limits of {user} of {}.",
        account.handle
    ))
}
