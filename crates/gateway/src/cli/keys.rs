//! `mediagate keys`: create, list, change and revoke keys; works while a server is running on the
//! same data.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use ipnet::IpNet;

use crate::cli::command_line::one_of;
use crate::cli::output::note;
use crate::cli::{CliError, amount, runtime, say, show, usage_if_at};
use mediagate_config::{Config, Settings};
use mediagate_core::app::App;
use mediagate_core::catalog::Catalog;
use mediagate_core::domain::accounts;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::keys::{
    self, IssuedKey, KeyChanges, KeyMatch, KeyTasks, NewKey, RevocationOptions,
};
use mediagate_http::wire::admin::keys::{AdminKey, KeyWebhook};
use mediagate_model::account::{ApiKey, BudgetPeriod, KeyRecord, Scope, TasksAtEnd};
use mediagate_model::clock::{Clock, Timestamp};
use mediagate_model::ids::KeyId;
use mediagate_model::money::MicroDollars;
use mediagate_model::secret::Secret;

#[derive(Debug, Subcommand)]
pub(super) enum KeysCommand {
    /// Create a key and print only the key on standard output
    Create(KeyCreateArgs),
    /// Print a new key for the setting `first_key`, without registering it
    Generate,
    /// List keys
    List,
    /// Change the settings of a key, from its next request on
    Update(KeyUpdateArgs),
    /// Replace a key with a new one that has the same settings, and print only the new key
    Rotate {
        /// The key: its id, its first 12 characters, the key itself or its whole former key
        key: String,
        /// How long the old key stays valid, for example 1d [default: it ends at once]
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        grace: Option<Duration>,
        /// Delete the key's webhook endpoints, which otherwise stay enabled
        #[arg(long)]
        end_webhooks: bool,
    },
    /// Revoke a key
    Revoke {
        /// The key: its id, its first 12 characters, the key itself or its whole former key
        key: String,
        #[command(flatten)]
        options: RevocationArgs,
    },
}

/// What a revocation does besides ending a key.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct RevocationArgs {
    /// Delete the key's webhook endpoints, which otherwise are disabled
    #[arg(long)]
    end_webhooks: bool,
    /// Let all its open tasks continue; otherwise those that have not begun are cancelled
    #[arg(long)]
    keep_tasks: bool,
    /// Cancel also its tasks that have begun
    #[arg(long, conflicts_with = "keep_tasks")]
    cancel_running: bool,
}

impl RevocationArgs {
    pub(super) const fn options(self) -> RevocationOptions {
        RevocationOptions {
            ends_webhooks: self.end_webhooks,
            tasks: match (self.keep_tasks, self.cancel_running) {
                (true, _) => TasksAtEnd::Keep,
                (false, true) => TasksAtEnd::Cancel,
                (false, false) => TasksAtEnd::CancelUnsent,
            },
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct KeyCreateArgs {
    /// Display name
    #[arg(long)]
    name: String,
    /// Scope of the key; repeat for several [default: all but admin and approve]
    #[arg(long = "scope", value_name = "SCOPE", value_parser = one_of::<Scope>(all_scopes()))]
    scopes: Vec<Scope>,
    /// Lifetime, for example 30d
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    expires: Option<Duration>,
    /// Requests per minute [default: 600]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rpm: Option<u32>,
    /// Maximum number of open tasks [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_running: Option<u32>,
    /// Limit on the total cost of its tasks, in US dollars
    #[arg(long, value_name = "USD", value_parser = amount::positive)]
    budget: Option<MicroDollars>,
    /// How often the budget renews, in UTC [default: never]
    #[arg(long, value_name = "PERIOD", requires = "budget", value_parser = one_of::<BudgetPeriod>(PERIODS))]
    budget_period: Option<BudgetPeriod>,
    /// Price in US dollars above which orders wait for approval [default: none does]
    #[arg(long, value_name = "USD", value_parser = amount::positive)]
    approve_above: Option<MicroDollars>,
    /// Reject requests that a chat interface sends on its own: titles, tags, follow-up questions
    #[arg(long)]
    refuse_housekeeping: bool,
    /// Account of the key; created if it does not exist [default: default]
    #[arg(long, value_name = "HANDLE")]
    account: Option<String>,
    /// Model that the key may use; repeat for several [default: all]
    #[arg(long = "model", value_name = "MODEL")]
    models: Vec<String>,
    /// Network that the key may be used from; repeat for several [default: all]
    #[arg(long = "network", value_name = "CIDR")]
    networks: Vec<IpNet>,
}

#[derive(Debug, Args)]
pub(super) struct KeyUpdateArgs {
    /// The key: its id, its first 12 characters, the key itself or its whole former key
    key: String,
    /// Display name
    #[arg(long)]
    name: Option<String>,
    /// Scope of the key; repeat for several
    #[arg(long = "scope", value_name = "SCOPE", value_parser = one_of::<Scope>(all_scopes()))]
    scopes: Vec<Scope>,
    /// Lifetime from now, for example 30d, or none
    #[arg(long, value_name = "TIME|none", value_parser = lifetime)]
    expires: Option<OptionalLifetime>,
    /// Requests per minute
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rpm: Option<u32>,
    /// Maximum number of open tasks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_running: Option<u32>,
    /// Limit on the cost of its tasks, in US dollars, or none
    #[arg(long, value_name = "USD|none", value_parser = amount::positive_or_none)]
    budget: Option<amount::OptionalLimit>,
    /// How often the budget renews, in UTC
    #[arg(long, value_name = "PERIOD|none", value_parser = one_of::<OptionalPeriod>(PERIODS.into_iter().chain(["none"])))]
    budget_period: Option<OptionalPeriod>,
    /// Price in US dollars above which orders wait for approval, or none
    #[arg(long, value_name = "USD|none", value_parser = amount::positive_or_none)]
    approve_above: Option<amount::OptionalLimit>,
    /// Whether to reject requests that a chat interface sends on its own
    #[arg(long, value_name = "true|false")]
    refuse_housekeeping: Option<bool>,
    /// Model that the key may use; repeat for several, or all
    #[arg(long = "model", value_name = "MODEL|all")]
    models: Vec<String>,
    /// Network that the key may be used from; repeat for several, or any
    #[arg(long = "network", value_name = "CIDR|any", value_parser = network)]
    networks: Vec<OptionalNetwork>,
}

/// A lifetime that can be removed.
#[derive(Debug, Clone, Copy)]
struct OptionalLifetime(Option<Duration>);

fn lifetime(text: &str) -> Result<OptionalLifetime, String> {
    if text == "none" {
        return Ok(OptionalLifetime(None));
    }
    let length = humantime::parse_duration(text);
    length
        .map(|length| OptionalLifetime(Some(length)))
        .map_err(|error| format!("{error}, or none"))
}

/// A period that can be removed.
#[derive(Debug, Clone, Copy)]
struct OptionalPeriod(Option<BudgetPeriod>);

impl FromStr for OptionalPeriod {
    type Err = strum::ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(None));
        }
        text.parse().map(|period| Self(Some(period)))
    }
}

pub(super) const PERIODS: [&str; 3] = ["day", "week", "month"];

fn all_scopes() -> impl Iterator<Item = &'static str> {
    Scope::ALL.iter().map(|scope| scope.name())
}

/// A network, or `None` for any.
#[derive(Debug, Clone, Copy)]
struct OptionalNetwork(Option<IpNet>);

fn network(text: &str) -> Result<OptionalNetwork, String> {
    if text == "any" {
        return Ok(OptionalNetwork(None));
    }
    let network = text.parse().map(|network| OptionalNetwork(Some(network)));
    network.map_err(|error: ipnet::AddrParseError| format!("{error}, or any"))
}

impl KeyUpdateArgs {
    fn change(&self, now: Timestamp) -> Result<KeyChanges, CliError> {
        if let Some(name) = &self.name {
            check_name(name)?;
        }
        let has_no_budget = self.budget.is_some_and(|limit| limit.0.is_none());
        if has_no_budget && self.budget_period.is_some_and(|period| period.0.is_some()) {
            let message = "--budget-period: requires a budget";
            return Err(CliError::Usage(message.into()));
        }
        let is_all = |models: &[String]| models == ["all"];
        let models = (!self.models.is_empty()).then(|| {
            let models = self.models.clone();
            (!is_all(&models)).then_some(models)
        });
        let networks = (!self.networks.is_empty())
            .then(|| self.networks.iter().map(|network| network.0).collect());
        Ok(KeyChanges {
            name: self.name.clone(),
            scopes: (!self.scopes.is_empty()).then(|| self.scopes.clone()),
            models,
            networks,
            rpm: self.rpm,
            max_running: self.max_running,
            budget: self.budget.map(|limit| limit.0),
            budget_period: self.budget_period.map(|renewal| renewal.0),
            approve_above: self.approve_above.map(|limit| limit.0),
            refuses_housekeeping: self.refuse_housekeeping,
            expires_at: match self.expires {
                Some(OptionalLifetime(Some(length))) => Some(Some(expiry(now, length)?)),
                Some(OptionalLifetime(None)) => Some(None),
                None => None,
            },
        })
    }
}

pub(super) fn run(command: &KeysCommand, settings: &Settings, json: bool) -> Result<(), CliError> {
    // `generate` needs no settings and no database: it makes the `first_key` of a gateway that does
    // not exist yet.
    if let KeysCommand::Generate = command {
        let secret = keys::generate().map_err(CliError::failed)?;
        if json {
            return show::json(&serde_json::json!({"key": secret.expose()}));
        }
        return say(secret.expose());
    }
    let config = Config::load_for_command(settings)?;
    // Before the database is opened: a wrong name is wrong usage, exit code 2.
    if let KeysCommand::Create(args) = command {
        check_account(args.account.as_deref())?;
        check_models(args, &config)?;
    }
    let app = App::open_existing(config, Clock::system())?;
    runtime()?.block_on(async {
        match command {
            KeysCommand::Create(args) => create(&app, args, json).await,
            KeysCommand::Generate => Ok(()),
            KeysCommand::List => list(&app, json).await,
            KeysCommand::Update(args) => update(&app, args, json).await,
            KeysCommand::Rotate {
                key,
                grace,
                end_webhooks,
            } => rotate(&app, key, *grace, *end_webhooks, json).await,
            KeysCommand::Revoke { key, options } => {
                revoke(&app, key, options.options(), json).await
            }
        }
    })
}

fn check_models(args: &KeyCreateArgs, config: &Config) -> Result<(), CliError> {
    let sites = mediagate_core::upstream::sites(&config.models, config, None)?;
    let installed_models = mediagate_media::engines::own_models::InstalledModels::new(
        &config.models_folder,
        config.onnx_library.clone(),
    );
    installed_models.scan();
    let now = Clock::system().now();
    let catalog = Catalog::new(&config.models, installed_models.models(), &sites, now)?;
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

/// The end of a lifetime that begins now.
fn expiry(now: Timestamp, length: Duration) -> Result<Timestamp, CliError> {
    let at = now.plus(length);
    if at > Timestamp::LATEST {
        let message = "--expires: must end before the year 10000";
        return Err(CliError::Usage(message.into()));
    }
    Ok(at)
}

fn check_account(handle: Option<&str>) -> Result<(), CliError> {
    if handle.is_some_and(|handle| !accounts::is_handle(handle)) {
        let rule = accounts::HANDLE_RULE;
        return Err(CliError::Usage(format!("--account: {rule}")));
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), CliError> {
    if name.trim().is_empty() || name.chars().count() > 100 {
        return Err(CliError::Usage(
            "--name: must have 1 to 100 characters".into(),
        ));
    }
    Ok(())
}

async fn create(app: &App, args: &KeyCreateArgs, json: bool) -> Result<(), CliError> {
    check_name(&args.name)?;
    // Of a key that is used in the future; a change may end a key at once.
    if args.expires.is_some_and(|length| length.is_zero()) {
        return Err(CliError::Usage("--expires: must be more than 0s".into()));
    }
    let now = app.clock.now();
    let expires_at = args.expires.map(|length| expiry(now, length)).transpose()?;
    let handle = args.account.as_deref().unwrap_or(accounts::DEFAULT_HANDLE);
    let account = accounts::ensure_by(app, handle, ChangeAuthor::command("keys create")).await?;
    let if_given = |list: bool| list.then_some(());
    let new_key = NewKey {
        name: args.name.clone(),
        scopes: args.scopes.clone(),
        models: if_given(!args.models.is_empty()).map(|()| args.models.clone()),
        networks: if_given(!args.networks.is_empty()).map(|()| args.networks.clone()),
        rpm: args.rpm,
        max_running: args.max_running,
        budget: args.budget,
        budget_period: args.budget_period,
        approve_above: args.approve_above,
        refuses_housekeeping: args.refuse_housekeeping,
        expires_at,
    };
    let author = ChangeAuthor::command("keys create").into();
    print_secret(&keys::issue(app, author, &account, new_key).await?, json)
}

/// Prints a new secret, or with `json` the whole key.
fn print_secret(issued: &IssuedKey, json: bool) -> Result<(), CliError> {
    if json {
        return show::json(&AdminKey::with_secret(issued, true));
    }
    say(issued.secret.as_ref().map_or("", Secret::expose))
}

/// The key with this id, prefix or secret.
async fn find(app: &App, id_or_prefix: &str) -> Result<KeyId, CliError> {
    match keys::find(app, id_or_prefix).await? {
        KeyMatch::Unique(id) => Ok(id),
        KeyMatch::NoSuchKey => Err(CliError::failed(
            "no key has this id or prefix; see: mediagate keys list",
        )),
        KeyMatch::Ambiguous => Err(CliError::failed("several keys have this prefix; use an id")),
    }
}

async fn update(app: &App, args: &KeyUpdateArgs, json: bool) -> Result<(), CliError> {
    let change = args.change(app.clock.now())?;
    if change == KeyChanges::default() {
        let message = "nothing to change: use an option, for example --rpm 60 or --budget none";
        return Err(CliError::Usage(message.into()));
    }
    let id = find(app, &args.key).await?;
    let author = ChangeAuthor::command("keys update").into();
    let outcome = keys::change(app, author, id, change).await;
    let outcome = outcome.map_err(|error| usage_if_at(error, "models", "--model"))?;
    if json {
        return show::json(&AdminKey::new(&outcome.record));
    }
    say(&format!("Changed {id}."))
}

async fn rotate(
    app: &App,
    id_or_prefix: &str,
    grace: Option<Duration>,
    end_webhooks: bool,
    json: bool,
) -> Result<(), CliError> {
    let id = find(app, id_or_prefix).await?;
    let author = ChangeAuthor::command("keys rotate").into();
    let rotated = keys::rotate(app, author, id, grace.unwrap_or_default(), end_webhooks).await;
    let rotated = rotated.map_err(|error| usage_if_at(error, "grace", "--grace"))?;
    // On standard error: standard output has the new key alone, so that a script can capture it.
    if !json {
        for line in ended_lines(&rotated) {
            note(&line);
        }
    }
    print_secret(&rotated, json)
}

/// Lines about the sessions and endpoints of a key, and what happened to them.
fn ended_lines(issued: &IssuedKey) -> Vec<String> {
    let object = AdminKey::with_dependents(issued);
    let sessions = match object.sessions_ended {
        Some(1) => Some("1 session ended.".to_owned()),
        Some(count) if count > 1 => Some(format!("{count} sessions ended.")),
        _ => None,
    };
    let webhooks = object.webhooks.into_iter().flatten();
    let webhooks = webhooks.map(|webhook| {
        let KeyWebhook { id, url, state, .. } = webhook;
        match state {
            "kept" => format!(
                "Its webhook endpoint {id} ({url}) stays enabled. \
                 To disable it: `mediagate webhooks disable {id}`. To delete such endpoints: --end-webhooks."
            ),
            "disabled" => format!(
                "Its webhook endpoint {id} ({url}) is disabled, and its deliveries are held. \
                 To enable it: `mediagate webhooks enable {id}`. To delete such endpoints: --end-webhooks."
            ),
            state => format!("Its webhook endpoint {id} ({url}) is {state}."),
        }
    });
    sessions.into_iter().chain(webhooks).collect()
}

async fn list(app: &App, json: bool) -> Result<(), CliError> {
    let keys = keys::records(app).await?;
    if json {
        let keys: Vec<AdminKey> = keys.iter().map(AdminKey::new).collect();
        return show::json(&keys);
    }
    if keys.is_empty() {
        return say("There are no keys yet. Create one with: mediagate keys create --name NAME");
    }
    let now = app.clock.now();
    let mut table = show::table(&[
        "KEY",
        "NAME",
        "ACCOUNT",
        "STATE",
        "SCOPES",
        "RPM",
        "BUDGET",
        "SPENT",
        "HELD",
        "LAST USED",
        "CREATED",
        "ID",
    ]);
    for KeyRecord {
        key,
        account,
        money,
        last_used_at,
        ..
    } in &keys
    {
        let period_suffix = money
            .period
            .map_or_else(String::new, |period| format!("/{}", period.name()));
        table.add_row([
            format!("{}…", key.prefix),
            key.name.clone(),
            account.clone(),
            state(key, now),
            scopes(key),
            key.rpm.to_string(),
            amount::or_none(key.budget) + &period_suffix,
            money.spent.to_string(),
            money.held.to_string(),
            last_used_at.map_or_else(|| "never".to_owned(), show::time),
            show::time(key.created_at),
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
    if key.scopes == Scope::default_scopes() {
        return "all but admin and approve".into();
    }
    if key.scopes.len() == Scope::ALL.len() {
        return "all".into();
    }
    key.scopes
        .iter()
        .map(|scope| scope.name())
        .collect::<Vec<_>>()
        .join(" ")
}

async fn revoke(
    app: &App,
    id_or_prefix: &str,
    options: RevocationOptions,
    json: bool,
) -> Result<(), CliError> {
    let id = find(app, id_or_prefix).await?;
    // Before the revocation, which ends the former key too.
    let former_until = keys::get(app, id).await?.former_until;
    let author = ChangeAuthor::command("keys revoke").into();
    let (revoked, was_valid) = keys::revoke(app, author, id, options).await?;
    if json {
        return show::json(&AdminKey::with_dependents(&revoked));
    }
    if was_valid {
        say(&format!("Revoked {id}."))?;
    } else {
        say("The key was already revoked.")?;
    }
    if let Some(until) = former_until {
        let until = show::time(until);
        say(&format!(
            "Its former key, which was valid until {until}, ended too."
        ))?;
    }
    let tasks = revoked
        .dependents
        .as_ref()
        .and_then(|dependents| dependents.tasks);
    let command = format!("mediagate keys revoke {id}");
    let lines = ended_lines(&revoked).into_iter();
    let mut lines = lines.chain(task_lines(
        tasks.unwrap_or_default(),
        options.tasks,
        &command,
    ));
    lines.try_for_each(|line| say(&line))
}

/// Lines about the open tasks of keys that were revoked by this command.
pub(super) fn task_lines(
    tasks: KeyTasks,
    at_end: TasksAtEnd,
    command: &str,
) -> impl Iterator<Item = String> {
    let cancelled = match tasks.cancelled {
        0 => None,
        1 => Some("1 task was cancelled.".to_owned()),
        count => Some(format!("{count} tasks were cancelled.")),
    };
    let held = tasks.held;
    let rest = match at_end {
        TasksAtEnd::Cancel => {
            "Their providers have not cancelled them, and what they complete is charged.".to_owned()
        }
        TasksAtEnd::Keep | TasksAtEnd::CancelUnsent => {
            format!("To cancel them too: `{command} --cancel-running`.")
        }
    };
    let continuing = match tasks.continuing {
        0 => None,
        1 => Some(format!("1 task continues and holds {held} USD. {rest}")),
        count => Some(format!(
            "{count} tasks continue and hold {held} USD. {rest}"
        )),
    };
    cancelled.into_iter().chain(continuing)
}
