//! `mediagate keys`: create, list and revoke keys; works while a server is running on the same
//! data.

use std::collections::HashMap;
use std::time::Duration;

use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use ipnet::IpNet;

use crate::app::App;
use crate::catalog::Catalog;
use crate::cli::{CliError, amount, runtime, say};
use crate::clock::{Clock, Timestamp};
use crate::config::{Config, Settings};
use crate::domain::accounts;
use crate::domain::keys::{self, NewKey, Revocation};
use crate::model::account::{ApiKey, Scope};
use crate::model::money::Micros;

#[derive(Debug, Subcommand)]
pub(super) enum KeysCommand {
    /// Create a key and print only the key on standard output
    Create(CreateArgs),
    /// Print a new key that is good for nothing yet, for `first_key`
    Generate,
    /// List keys
    List,
    /// Revoke a key, given its id, its first 12 characters or the key itself
    Revoke {
        /// The key
        key: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// Display name
    #[arg(long)]
    name: String,
    /// Scope of the key; repeat for several [default: all but admin]
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<Scope>,
    /// Lifetime, for example 30d
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    expires: Option<Duration>,
    /// Requests per minute [default: 600]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rpm: Option<u32>,
    /// Limit of open tasks [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_running: Option<u32>,
    /// Limit on the total cost of its tasks, in US dollars
    #[arg(long, value_name = "USD", value_parser = amount::positive)]
    budget: Option<Micros>,
    /// Account that it belongs to, created if it does not exist [default: default]
    #[arg(long, value_name = "HANDLE")]
    account: Option<String>,
    /// Model that it may use; repeat for several [default: all]
    #[arg(long = "model", value_name = "MODEL")]
    models: Vec<String>,
    /// Network that it may be used from; repeat for several [default: all]
    #[arg(long = "network", value_name = "CIDR")]
    networks: Vec<IpNet>,
}

pub(super) fn run(command: &KeysCommand, settings: &Settings) -> Result<(), CliError> {
    if let KeysCommand::Generate = command {
        return say(keys::generate().map_err(CliError::failed)?.expose());
    }
    let config = Config::load(settings)?;
    if let KeysCommand::Create(args) = command {
        check_models(args, &config)?;
    }
    let app = App::open(config, Clock::system())?;
    runtime()?.block_on(async {
        match command {
            KeysCommand::Create(args) => create(&app, args).await,
            KeysCommand::Generate => Ok(()),
            KeysCommand::List => list(&app).await,
            KeysCommand::Revoke { key } => revoke(&app, key).await,
        }
    })
}

fn check_models(args: &CreateArgs, config: &Config) -> Result<(), CliError> {
    let sites = crate::upstream::sites(&config.models, &config.fetch, None)?;
    let shelf =
        crate::engines::own_models::Shelf::new(&config.models_folder, config.onnx_library.clone());
    shelf.scan();
    let now = Clock::system().now();
    let catalog = Catalog::new(&config.models, shelf.models(), &sites, now)?;
    match args
        .models
        .iter()
        .find(|name| catalog.models().iter().all(|model| model.id != **name))
    {
        Some(unknown) => Err(CliError::Usage(format!(
            "--model: there is no model named {unknown:?}"
        ))),
        None => Ok(()),
    }
}

async fn create(app: &App, args: &CreateArgs) -> Result<(), CliError> {
    if args.name.trim().is_empty() || args.name.chars().count() > 100 {
        return Err(CliError::Usage(
            "--name: must have 1 to 100 characters".into(),
        ));
    }
    let handle = args.account.as_deref().unwrap_or(accounts::DEFAULT_HANDLE);
    let account = accounts::ensure(app, handle).await?;
    let some = |list: bool| list.then_some(());
    let new = NewKey {
        name: args.name.clone(),
        scopes: args.scopes.clone(),
        models: some(!args.models.is_empty()).map(|()| args.models.clone()),
        networks: some(!args.networks.is_empty()).map(|()| args.networks.clone()),
        rpm: args.rpm,
        max_running: args.max_running,
        budget: args.budget,
        expires_in: args.expires,
    };
    let (_, secret) = keys::create(app, &account, new).await?;
    say(secret.expose())
}

async fn list(app: &App) -> Result<(), CliError> {
    let keys = keys::list(app).await?;
    let money: HashMap<_, _> = keys::money(app).await?.into_iter().collect();
    if keys.is_empty() {
        return say("There are no keys yet. Create one with: mediagate keys create --name NAME");
    }
    let now = app.clock.now();
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "KEY", "NAME", "ACCOUNT", "STATE", "SCOPES", "RPM", "BUDGET", "SPENT", "HELD", "CREATED",
        "ID",
    ]);
    for (key, handle) in &keys {
        let used = money.get(&key.id);
        table.add_row([
            format!("{}…", key.prefix),
            key.name.clone(),
            handle.clone(),
            state(key, now),
            scopes(key),
            key.rpm.to_string(),
            amount::or_none(key.budget),
            used.map_or_else(String::new, |money| money.spent.to_string()),
            used.map_or_else(String::new, |money| money.held.to_string()),
            key.created_at.rfc3339(),
            key.id.to_string(),
        ]);
    }
    say(&table.to_string())
}

fn state(key: &ApiKey, now: Timestamp) -> String {
    match (key.revoked_at, key.expires_at) {
        (Some(_), _) => "revoked".into(),
        (None, Some(at)) if at <= now => "expired".into(),
        (None, Some(at)) => format!("until {}", &at.rfc3339()[..10]),
        (None, None) => "valid".into(),
    }
}

fn scopes(key: &ApiKey) -> String {
    if key.scopes == Scope::usual() {
        return "all but admin".into();
    }
    key.scopes
        .iter()
        .map(|scope| scope.name())
        .collect::<Vec<_>>()
        .join(" ")
}

async fn revoke(app: &App, which: &str) -> Result<(), CliError> {
    match keys::revoke(app, which).await? {
        Revocation::Done(id) => say(&format!("Revoked {id}.")),
        Revocation::Before => say("The key was already revoked."),
        Revocation::NoSuchKey => Err(CliError::failed(
            "no key has this id or prefix; see: mediagate keys list",
        )),
        Revocation::Ambiguous => Err(CliError::failed("several keys have this prefix; use an id")),
    }
}
