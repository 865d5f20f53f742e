//! `mediagate ledger`: list, export, verify and adjust; works while a server is running on the same
//! data.

use std::collections::HashMap;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use crate::cli::output::{StdoutStream, escaped_json};
use crate::cli::{CliError, accounts, amount, runtime, say, show};
use mediagate_config::{Config, Settings};
use mediagate_core::app::App;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::usage::{EpochDay, start_of};
use mediagate_core::domain::{accounting, keys, ledger};
use mediagate_http::wire::admin::money::{
    AdjustmentObject, LedgerCheck, LedgerEntry, metadata_text,
};
use mediagate_model::attribution::Metadata;
use mediagate_model::clock::Clock;
use mediagate_model::csv;
use mediagate_model::ids::TaskId;
use mediagate_model::ledger::{EntryKind, MoneyEntry};
use mediagate_model::money::MicroDollars;
use mediagate_model::submission::ReportedCost;
use mediagate_store::ledger::LedgerFilter;

/// Entries per page of an export.
const PAGE: u32 = 1000;

#[derive(Debug, Subcommand)]
pub(super) enum LedgerCommand {
    /// List entries, newest first
    List(LedgerListArgs),
    /// Write entries to standard output, oldest first
    Export(ExportArgs),
    /// Verify the ledger; exits with code 1 if a total does not match
    Verify,
    /// Correct the cost of a task, once
    Adjust(AdjustArgs),
}

#[derive(Debug, Args)]
pub(super) struct LedgerListArgs {
    /// Only entries of this account
    #[arg(long, value_name = "HANDLE")]
    account: Option<String>,
    /// Only entries of this task
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
    #[command(flatten)]
    days: DayRange,
    /// Maximum number of entries
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// Only entries of this account
    #[arg(long, value_name = "HANDLE")]
    account: Option<String>,
    #[command(flatten)]
    days: DayRange,
    /// Output format
    #[arg(long, value_enum, default_value_t = ExportFormat::Csv)]
    format: ExportFormat,
}

/// The days on which entries were written.
#[derive(Debug, Args)]
struct DayRange {
    /// Only entries written on or after this day in UTC, for example 2026-01-31
    #[arg(long, value_name = "DAY", value_parser = amount::day)]
    from: Option<EpochDay>,
    /// Only entries written on or before this day in UTC
    #[arg(long, value_name = "DAY", value_parser = amount::day)]
    to: Option<EpochDay>,
}

impl DayRange {
    fn check(&self) -> Result<(), CliError> {
        if self.from.zip(self.to).is_some_and(|(from, to)| from > to) {
            return Err(CliError::Usage("--from: must not be after --to".into()));
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// A header line, then one line for each entry
    Csv,
    /// An array of objects
    Json,
}

#[derive(Debug, Args)]
pub(super) struct AdjustArgs {
    /// The task
    #[arg(long, value_name = "ID")]
    task: TaskId,
    /// Amount in US dollars: positive to charge, negative to refund
    #[arg(long, value_name = "USD", allow_negative_numbers = true, value_parser = amount::signed_amount)]
    amount: MicroDollars,
    /// Reason, recorded in the ledger
    #[arg(long, value_name = "TEXT", value_parser = amount::note)]
    note: String,
}

pub(super) fn run(
    command: &LedgerCommand,
    settings: &Settings,
    json: bool,
) -> Result<(), CliError> {
    match command {
        LedgerCommand::List(args) => args.days.check()?,
        LedgerCommand::Export(args) => args.days.check()?,
        LedgerCommand::Verify => {}
        LedgerCommand::Adjust(args) => amount::check_amount("--amount", args.amount)?,
    }
    let app = App::open_existing(Config::load_for_command(settings)?, Clock::system())?;
    runtime()?.block_on(async {
        match command {
            LedgerCommand::List(args) => list(&app, args, json).await,
            LedgerCommand::Export(args) => export(&app, args, json).await,
            LedgerCommand::Verify => verify(&app, json).await,
            LedgerCommand::Adjust(args) => adjust(&app, args, json).await,
        }
    })
}

/// Names of accounts and keys, by id.
struct DisplayNames(HashMap<String, String>);

impl DisplayNames {
    async fn read(app: &App) -> Result<Self, CliError> {
        let accounts = accounting::accounts(app).await?;
        let accounts = accounts
            .into_iter()
            .map(|record| (record.account.id.to_string(), record.account.handle));
        let keys = keys::list(app).await?;
        let keys = keys
            .into_iter()
            .map(|(key, _)| (key.id.to_string(), format!("{}…", key.prefix)));
        Ok(Self(accounts.chain(keys).collect()))
    }

    /// The name of an id; an account or key created a moment ago has none yet.
    fn name_of(&self, id: Option<&impl ToString>) -> String {
        let Some(id) = id.map(ToString::to_string) else {
            return String::new();
        };
        self.0.get(&id).cloned().unwrap_or(id)
    }
}

async fn filter(
    app: &App,
    account: Option<&str>,
    task: Option<TaskId>,
    days: &DayRange,
) -> Result<LedgerFilter, CliError> {
    let account = match account {
        Some(handle) => Some(accounts::find(app, handle).await?.id),
        None => None,
    };
    Ok(LedgerFilter {
        account,
        task,
        from: days.from.map(start_of),
        before: days.to.map(|last| start_of(last + 1)),
        after: None,
    })
}

async fn list(app: &App, args: &LedgerListArgs, json: bool) -> Result<(), CliError> {
    let filter = filter(app, args.account.as_deref(), args.task, &args.days).await?;
    let entries = accounting::entries(app, filter, args.limit, true).await?;
    if json {
        let handles = accounting::handles(app, &entries).await?;
        let entries = entries
            .iter()
            .map(|entry| LedgerEntry::new(entry, &handles));
        return show::json(&entries.collect::<Vec<_>>());
    }
    if entries.is_empty() {
        return say("No ledger entries found.");
    }
    let names = DisplayNames::read(app).await?;
    let mut table = show::table(&[
        "CREATED", "ACCOUNT", "KEY", "KIND", "HELD", "SPENT", "CREDIT", "TASK", "NOTE",
    ]);
    for entry in &entries {
        table.add_row([
            show::time(entry.created_at),
            names.name_of(Some(&entry.account)),
            names.name_of(entry.key.as_ref()),
            entry.kind.name().to_owned(),
            amount_or_blank(entry.held),
            amount_or_blank(entry.spent),
            amount_or_blank(entry.credit),
            entry.task.map(|id| id.to_string()).unwrap_or_default(),
            entry.note.clone().unwrap_or_default(),
        ]);
    }
    say(&table.to_string())
}

/// A change as a table shows it: empty if zero.
fn amount_or_blank(amount: MicroDollars) -> String {
    if amount == MicroDollars::ZERO {
        String::new()
    } else {
        amount.to_string()
    }
}

/// An entry in an export.
#[derive(Serialize)]
struct ExportRow {
    id: String,
    created_at: String,
    account: String,
    key: Option<String>,
    task: Option<String>,
    kind: &'static str,
    held_usd: String,
    spent_usd: String,
    credit_usd: String,
    note: Option<String>,
    provider: Option<String>,
    provider_cost: Option<String>,
    provider_cost_unit: Option<String>,
    user: Option<String>,
    metadata: Metadata,
}

impl ExportRow {
    const NAMES: [&'static str; 15] = [
        "id",
        "created_at",
        "account",
        "key",
        "task",
        "kind",
        "held_usd",
        "spent_usd",
        "credit_usd",
        "note",
        "provider",
        "provider_cost",
        "provider_cost_unit",
        "user",
        "metadata",
    ];

    fn new(
        entry: &MoneyEntry,
        names: &DisplayNames,
        costs: &HashMap<TaskId, ReportedCost>,
    ) -> Self {
        // A provider's cost is that of the whole task. It is shown at the last entry only, so that
        // a sum over the export is right.
        let is_last_entry = matches!(entry.kind, EntryKind::Settle | EntryKind::Release);
        let reported = entry
            .task
            .filter(|_| is_last_entry)
            .and_then(|task| costs.get(&task));
        Self {
            id: entry.id.clone(),
            created_at: entry.created_at.rfc3339(),
            account: names.name_of(Some(&entry.account)),
            key: entry.key.map(|id| id.to_string()),
            task: entry.task.map(|id| id.to_string()),
            kind: entry.kind.name(),
            held_usd: entry.held.to_string(),
            spent_usd: entry.spent.to_string(),
            credit_usd: entry.credit.to_string(),
            note: entry.note.clone(),
            provider: reported.map(|reported| reported.provider.clone()),
            // Some providers report costs in credits; `MicroDollars` only formats the millionths
            // here.
            provider_cost: reported
                .map(|reported| MicroDollars::new(reported.millionths).to_string()),
            provider_cost_unit: reported.map(|reported| reported.unit.clone()),
            user: entry.attribution.user.clone(),
            metadata: entry.attribution.metadata.clone(),
        }
    }

    fn csv(&self) -> [String; 15] {
        [
            // `text` also defuses formulas for spreadsheets. Ids and amounts are this program's
            // own, and a negative amount must stay a number.
            csv::plain(&self.id),
            csv::plain(&self.created_at),
            csv::text(&self.account),
            self.key.clone().unwrap_or_default(),
            self.task.clone().unwrap_or_default(),
            csv::plain(self.kind),
            csv::plain(&self.held_usd),
            csv::plain(&self.spent_usd),
            csv::plain(&self.credit_usd),
            csv::text(self.note.as_deref().unwrap_or_default()),
            csv::text(self.provider.as_deref().unwrap_or_default()),
            csv::plain(self.provider_cost.as_deref().unwrap_or_default()),
            csv::plain(self.provider_cost_unit.as_deref().unwrap_or_default()),
            csv::text(self.user.as_deref().unwrap_or_default()),
            csv::text(metadata_text(&self.metadata)),
        ]
    }
}

/// Writes entries while reading them: a ledger may not fit into memory.
async fn export(app: &App, args: &ExportArgs, json: bool) -> Result<(), CliError> {
    let mut filter = filter(app, args.account.as_deref(), None, &args.days).await?;
    let names = DisplayNames::read(app).await?;
    let mut writer = ExportWriter {
        stdout: StdoutStream::new(),
        format: if json {
            ExportFormat::Json
        } else {
            args.format
        },
        count: 0,
    };
    let mut is_read = writer.begin()?;
    while is_read {
        let entries = accounting::entries(app, filter.clone(), PAGE, false).await?;
        let Some(last) = entries.last() else { break };
        // After the last entry, not by offset: entries that are added meanwhile shift nothing.
        filter.after = Some((last.created_at, last.id.clone()));
        let costs = accounting::costs_of(app, &entries).await?;
        for entry in &entries {
            // If the output is no longer read (`| head`), the export just ends.
            is_read = is_read && writer.write_entry(&ExportRow::new(entry, &names, &costs))?;
        }
    }
    writer.end()
}

/// The output of an export; each step returns whether the output is still read.
struct ExportWriter {
    stdout: StdoutStream,
    format: ExportFormat,
    count: u64,
}

impl ExportWriter {
    fn begin(&mut self) -> Result<bool, CliError> {
        match self.format {
            ExportFormat::Csv => {
                let mut line = String::new();
                csv::line(&mut line, ExportRow::NAMES.map(csv::text));
                self.write(&line)
            }
            ExportFormat::Json => self.write("["),
        }
    }

    fn write_entry(&mut self, entry: &ExportRow) -> Result<bool, CliError> {
        let mut text = String::new();
        match self.format {
            ExportFormat::Csv => csv::line(&mut text, entry.csv()),
            ExportFormat::Json => {
                text.push_str(if self.count == 0 { "\n" } else { ",\n" });
                let json = serde_json::to_string(entry).map_err(CliError::failed)?;
                text.push_str(&escaped_json(&json));
            }
        }
        self.count += 1;
        self.write(&text)
    }

    fn end(mut self) -> Result<(), CliError> {
        if self.format == ExportFormat::Json {
            self.write("\n]\n")?;
        }
        self.stdout.end()
    }

    fn write(&mut self, text: &str) -> Result<bool, CliError> {
        self.stdout.write(text)
    }
}

async fn verify(app: &App, json: bool) -> Result<(), CliError> {
    let mismatches = ledger::verify(app).await?;
    let counts = accounting::counts(app).await?;
    let mismatch_error = || {
        CliError::failed(format!(
            "{} totals of the ledger do not match; nothing was changed",
            mismatches.len()
        ))
    };
    if json {
        show::json(&LedgerCheck::new(&mismatches, counts))?;
        return if mismatches.is_empty() {
            Ok(())
        } else {
            Err(mismatch_error())
        };
    }
    let [entries, tasks, keys, accounts] = counts;
    let checked_totals = [
        (entries, "entry", "entries"),
        (tasks, "task", "tasks"),
        (keys, "key", "keys"),
        (accounts, "account", "accounts"),
    ]
    .map(|(count, singular, plural)| {
        format!("{count} {}", if count == 1 { singular } else { plural })
    })
    .join(", ");
    if mismatches.is_empty() {
        return say(&format!("The ledger adds up: {checked_totals}."));
    }
    for mismatch in &mismatches {
        say(&format!(
            "{} {}: {}",
            mismatch.kind, mismatch.id, mismatch.detail
        ))?;
    }
    Err(CliError::failed(format!(
        "{} totals of the ledger do not match ({checked_totals}); nothing was changed",
        mismatches.len()
    )))
}

async fn adjust(app: &App, args: &AdjustArgs, json: bool) -> Result<(), CliError> {
    let author = ChangeAuthor::command("ledger adjust").into();
    let cost = accounting::adjust(app, author, args.task, args.amount, args.note.clone()).await?;
    if json {
        let adjustment = AdjustmentObject::new(args.task, args.amount, &args.note, cost);
        return show::json(&adjustment);
    }
    say(&format!(
        "Adjusted task {} by {} USD. It now costs {cost} USD in total.",
        args.task, args.amount
    ))
}
