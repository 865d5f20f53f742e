//! `mediagate accounts`: create and change accounts, show and credit their money; works while a
//! server is running on the same data.

use clap::{Args, Subcommand};

use crate::cli::keys::{RevocationArgs, task_lines};
use crate::cli::{CliError, amount, runtime, say, show};
use mediagate_config::{Config, Settings};
use mediagate_core::app::App;
use mediagate_core::domain::accounting::{self, AccountChanges};
use mediagate_core::domain::accounts;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::keys::{self, RevocationOptions};
use mediagate_http::wire::admin::money::AdminAccount;
use mediagate_model::account::{Account, AccountMoney, AccountRecord};
use mediagate_model::clock::Clock;
use mediagate_model::money::MicroDollars;

#[derive(Debug, Subcommand)]
pub(super) enum AccountsCommand {
    /// Create an account
    Create(AccountCreateArgs),
    /// List accounts and their money
    List,
    /// Credit an account; an unlimited account becomes prepaid
    Credit(AccountCreditArgs),
    /// Change an account's name, policy or budget
    Update(AccountUpdateArgs),
    /// Close an account: revoke all its keys, and allow no new ones
    Close {
        /// Handle of the account
        handle: String,
        #[command(flatten)]
        options: RevocationArgs,
    },
}

#[derive(Debug, Args)]
pub(super) struct AccountCreateArgs {
    /// Short unique name: 1 to 40 characters of a-z, 0-9, - and _
    handle: String,
    /// Display name [default: derived from the handle]
    #[arg(long)]
    name: Option<String>,
    /// Make the account prepaid: it can spend only its credit
    #[arg(long)]
    prepaid: bool,
    /// Limit on the total cost of all its tasks, in US dollars
    #[arg(long, value_name = "USD", value_parser = amount::positive)]
    budget: Option<MicroDollars>,
}

#[derive(Debug, Args)]
pub(super) struct AccountCreditArgs {
    /// Handle of the account
    handle: String,
    /// Amount in US dollars, for example 25.00; a negative amount withdraws credit
    #[arg(value_name = "USD", allow_negative_numbers = true, value_parser = amount::signed_amount)]
    amount: MicroDollars,
    /// Note for the ledger entry
    #[arg(long, value_name = "TEXT", value_parser = amount::note)]
    note: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct AccountUpdateArgs {
    /// Handle of the account
    handle: String,
    /// Make the account prepaid: it can spend only its credit
    #[arg(long, conflicts_with = "unlimited")]
    prepaid: bool,
    /// Make the account unlimited: it can spend without credit
    #[arg(long)]
    unlimited: bool,
    /// Limit on the total cost of all its tasks, in US dollars, or none
    #[arg(long, value_name = "USD|none", value_parser = amount::positive_or_none)]
    budget: Option<amount::OptionalLimit>,
    /// Display name
    #[arg(long)]
    name: Option<String>,
}

impl AccountUpdateArgs {
    fn check_that_something_changes(&self) -> Result<(), CliError> {
        if self.prepaid || self.unlimited || self.budget.is_some() || self.name.is_some() {
            return Ok(());
        }
        let message = "nothing to change: use --prepaid, --unlimited, --budget or --name";
        Err(CliError::Usage(message.into()))
    }
}

pub(super) fn run(
    command: &AccountsCommand,
    settings: &Settings,
    json: bool,
) -> Result<(), CliError> {
    // Wrong arguments are reported before anything is opened.
    match command {
        AccountsCommand::Create(args) => check_name(args.name.as_deref())?,
        AccountsCommand::Update(args) => {
            check_name(args.name.as_deref())?;
            args.check_that_something_changes()?;
        }
        AccountsCommand::List | AccountsCommand::Credit(_) | AccountsCommand::Close { .. } => {}
    }
    let app = App::open_existing(Config::load_for_command(settings)?, Clock::system())?;
    runtime()?.block_on(async {
        match command {
            AccountsCommand::Create(args) => create(&app, args, json).await,
            AccountsCommand::List => list(&app, json).await,
            AccountsCommand::Credit(args) => credit(&app, args, json).await,
            AccountsCommand::Update(args) => update(&app, args, json).await,
            AccountsCommand::Close { handle, options } => {
                close(&app, handle, options.options(), json).await
            }
        }
    })
}

fn check_name(name: Option<&str>) -> Result<(), CliError> {
    let Some(name) = name else { return Ok(()) };
    let fits = !name.trim().is_empty()
        && name.chars().count() <= 100
        && !name.chars().any(char::is_control);
    if fits {
        Ok(())
    } else {
        let message = "--name: must be 1 to 100 characters without control characters";
        Err(CliError::Usage(message.into()))
    }
}

pub(super) async fn find(app: &App, handle: &str) -> Result<Account, CliError> {
    accounts::by_handle(app, handle).await?.ok_or_else(|| {
        CliError::failed(format!(
            "no account {handle:?}; see: mediagate accounts list"
        ))
    })
}

async fn create(app: &App, args: &AccountCreateArgs, json: bool) -> Result<(), CliError> {
    let changes = AccountChanges {
        name: args.name.clone(),
        prepaid: args.prepaid.then_some(true),
        budget: args.budget.map(Some),
    };
    if !accounts::is_handle(&args.handle) {
        let message = "HANDLE: must be 1 to 40 characters of a-z, 0-9, - and _";
        return Err(CliError::Usage(message.into()));
    }
    let author = ChangeAuthor::command("accounts create").into();
    let record = accounting::create(app, author, &args.handle, changes).await?;
    if json {
        return show::json(&AdminAccount::new(&record));
    }
    let account = record.account;
    let policy = if args.prepaid {
        "prepaid: credit it before its first paid task"
    } else {
        "unlimited"
    };
    say(&format!("Created account {} ({policy}).", account.handle))
}

async fn list(app: &App, json: bool) -> Result<(), CliError> {
    let accounts = accounting::accounts(app).await?;
    if json {
        let accounts: Vec<AdminAccount> = accounts.iter().map(AdminAccount::new).collect();
        return show::json(&accounts);
    }
    if accounts.is_empty() {
        return say("There are no accounts yet. The server creates one at its first start.");
    }
    let mut table = show::table(&[
        "ACCOUNT", "NAME", "POLICY", "BALANCE", "HELD", "SPENT", "BUDGET", "KEYS",
    ]);
    for AccountRecord {
        account,
        money,
        keys,
        closed_at,
    } in &accounts
    {
        table.add_row([
            account.handle.clone(),
            account.display_name.clone(),
            closed_at.map_or(policy(money), |_| "closed").to_owned(),
            // An unlimited account spends without credit, so it has no meaningful balance.
            if money.prepaid {
                money.balance().to_string()
            } else {
                "–".to_owned()
            },
            money.held.to_string(),
            money.spent.to_string(),
            amount::or_none(money.budget),
            keys.to_string(),
        ]);
    }
    say(&table.to_string())
}

const fn policy(money: &AccountMoney) -> &'static str {
    if money.prepaid {
        "prepaid"
    } else {
        "unlimited"
    }
}

async fn credit(app: &App, args: &AccountCreditArgs, json: bool) -> Result<(), CliError> {
    amount::check_amount("USD", args.amount)?;
    let account = find(app, &args.handle).await?;
    let author = ChangeAuthor::command("accounts credit").into();
    let outcome =
        accounting::credit(app, author, account.id, args.amount, args.note.clone()).await?;
    if json {
        return show::json(&AdminAccount::new(&outcome.account));
    }
    if outcome.was_unlimited {
        say(&format!(
            "{} was unlimited and is now prepaid. Its earlier spending counts against its credit. \
             To undo this: mediagate accounts update {} --unlimited",
            account.handle, account.handle
        ))?;
    }
    say(&format!(
        "Credited {} USD to {}. {}",
        args.amount,
        account.handle,
        money_sentence(&outcome.money)
    ))
}

async fn update(app: &App, args: &AccountUpdateArgs, json: bool) -> Result<(), CliError> {
    let account = find(app, &args.handle).await?;
    let changes = AccountChanges {
        name: args.name.clone(),
        prepaid: (args.prepaid || args.unlimited).then_some(args.prepaid),
        budget: args.budget.map(|limit| limit.0),
    };
    let author = ChangeAuthor::command("accounts update").into();
    let record = accounting::change(app, author, account.id, changes).await?;
    if json {
        return show::json(&AdminAccount::new(&record));
    }
    let money = money_sentence(&record.money);
    say(&format!("Changed {}. {money}", account.handle))
}

async fn close(
    app: &App,
    handle: &str,
    options: RevocationOptions,
    json: bool,
) -> Result<(), CliError> {
    let account = find(app, handle).await?;
    let author = ChangeAuthor::command("accounts close").into();
    let closed = keys::close_account(app, author, account.id, options).await?;
    if json {
        return show::json(&AdminAccount::after_closing(&closed));
    }
    let keys = match closed.keys_revoked {
        1 => "1 key was revoked.".to_owned(),
        count => format!("{count} keys were revoked."),
    };
    say(&format!("Closed {handle}. {keys}"))?;
    let command = format!("mediagate accounts close {handle}");
    task_lines(closed.tasks, options.tasks, &command).try_for_each(|line| say(&line))
}

/// An account's money in words.
fn money_sentence(money: &AccountMoney) -> String {
    let available = money.available().map_or_else(
        || "no spending limit".to_owned(),
        |amount| format!("{amount} USD available"),
    );
    format!(
        "It is {}: balance {} USD, {} USD held, {} USD spent, {available}.",
        policy(money),
        money.balance(),
        money.held,
        money.spent
    )
}
