//! `mediagate audit`: who changed what; works while a server is running on the same data.

use clap::Args;
use serde_json::Value;

use crate::cli::{CliError, amount, runtime, say, show};
use mediagate_config::{Config, Settings};
use mediagate_core::app::App;
use mediagate_core::domain::audit;
use mediagate_http::wire::admin::audit::{AuditObject, audit_csv};
use mediagate_model::clock::{Clock, Timestamp};
use mediagate_store::audit::AuditFilter;

#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    /// The log of this account instead of the operators' log; "*" for those of all accounts
    #[arg(long, value_name = "HANDLE")]
    account: Option<String>,
    /// Only changes with this action, for example key.create
    #[arg(long)]
    action: Option<String>,
    /// Only changes to the object with this id or name
    #[arg(long)]
    target: Option<String>,
    /// Only changes by the actor with this id, name or kind: key, command or configuration
    #[arg(long)]
    actor: Option<String>,
    /// Only changes since this time, for example 2026-01-02 or 2026-01-02T03:04:05Z
    #[arg(long, value_name = "TIME", value_parser = amount::time)]
    since: Option<Timestamp>,
    /// Only changes before this time
    #[arg(long, value_name = "TIME", value_parser = amount::time)]
    until: Option<Timestamp>,
    /// Maximum number of entries
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

pub(super) fn run(args: &AuditArgs, settings: &Settings, json: bool) -> Result<(), CliError> {
    let app = App::open_existing(Config::load_for_command(settings)?, Clock::system())?;
    let runtime = runtime()?;
    let log = runtime.block_on(audit::log_of(&app, args.account.as_deref()))?;
    let filter = AuditFilter {
        log,
        action: args.action.clone(),
        target: args.target.clone(),
        actor: args.actor.clone(),
        since: args.since,
        until: args.until,
    };
    let page = audit::page(&app, filter, None, args.limit);
    let (entries, _) = runtime.block_on(page)?;
    let entries = entries.into_iter();
    let entries: Vec<AuditObject> = entries
        .map(|(entry, account)| AuditObject::new(entry, account))
        .collect();
    if json {
        return show::json(&entries);
    }
    if args.csv {
        return say(&audit_csv(&entries));
    }
    if entries.is_empty() {
        return say("No changes found.");
    }
    let mut table = show::table(&["TIME", "ACTOR", "ACTION", "TARGET", "CHANGES"]);
    for entry in &entries {
        table.add_row([
            entry.at.get(..19).unwrap_or(&entry.at).replace('T', " "),
            format!("{} {}", entry.actor.kind, entry.actor.name),
            entry.action.clone(),
            entry.target.clone(),
            changes(entry),
        ]);
    }
    say(&table.to_string())
}

/// The changed fields: `name: laptop, rpm: 600 → 30`.
fn changes(entry: &AuditObject) -> String {
    let no_members = serde_json::Map::new();
    let members = |value: &Option<Value>| match value {
        Some(Value::Object(members)) => members.clone(),
        _ => no_members.clone(),
    };
    let (before, after) = (members(&entry.before), members(&entry.after));
    let describe = |value: Option<&Value>| match value {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) => {
            let items = items.iter().map(|item| {
                item.as_str()
                    .map_or_else(|| item.to_string(), str::to_owned)
            });
            items.collect::<Vec<_>>().join(" ")
        }
        Some(other) => other.to_string(),
    };
    let changed_fields = after.iter().filter(|(name, value)| {
        // A new object lists its unset fields as null; those are not changes.
        let is_unset = value.is_null() && !before.contains_key(*name);
        before.get(*name) != Some(*value) && !is_unset
    });
    let changed_fields = changed_fields.map(|(name, value)| match before.get(name) {
        Some(previous) => format!(
            "{name}: {} → {}",
            describe(Some(previous)),
            describe(Some(value))
        ),
        None => format!("{name}: {}", describe(Some(value))),
    });
    changed_fields.collect::<Vec<_>>().join(", ")
}
