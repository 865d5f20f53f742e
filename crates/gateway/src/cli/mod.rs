//! The commands; each has its own file. This one parses the command line and turns errors into exit
//! codes (0 done, 1 failed, 2 wrong usage, configuration or confinement).

mod accounts;
mod amount;
mod audit;
mod command_line;
mod config_check;
mod confinement;
mod demo;
mod keys;
mod ledger;
mod media;
mod migrate;
mod models;
mod output;
mod probes;
mod provenance;
mod providers;
mod requests;
mod restored;
mod serve;
mod show;
mod submissions;
mod tasks;
mod users;
mod webhooks;

use std::process::ExitCode;

use clap::{FromArgMatches as _, Parser, Subcommand};

use crate::cli::output::say;
use mediagate_config::{Config, ConfigError, Settings};

/// A gateway in front of video and music models. Nobody pays twice.
#[derive(Debug, Parser)]
#[command(name = "mediagate", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: CliCommand,
    /// Print JSON instead of tables and sentences
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

const EXAMPLES: &str = "\
Examples:
  mediagate demo                          generate a sample video, stems and a persona
  mediagate serve                         start on http://127.0.0.1:8080; the first start prints an API key
  mediagate keys create --name laptop     create another API key
  mediagate accounts credit owls 25.00    add 25.00 USD of credit to an account
  mediagate models add fal/veo-3.1        print the configuration for a hosted model
  mediagate config check --config m.toml  validate a configuration file";

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Run the API, the console and the workers
    Serve(serve::StartArgs),
    /// Run workers only, on a database that they share with servers
    Worker(serve::StartArgs),
    /// Generate a sample video, stems and a persona over HTTP
    Demo(demo::DemoArgs),
    /// Create, list, change and revoke API keys
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Create, list, credit and change accounts
    #[command(subcommand)]
    Accounts(accounts::AccountsCommand),
    /// List, set and remove the limits of end users
    #[command(subcommand, after_help = users::EXAMPLES)]
    Users(users::UsersCommand),
    /// List, export, verify and adjust the ledger
    #[command(subcommand)]
    Ledger(ledger::LedgerCommand),
    /// Register webhook endpoints, list deliveries and send them again
    #[command(subcommand)]
    Webhooks(webhooks::WebhooksCommand),
    /// Copy media files to another store
    #[command(subcommand)]
    Media(media::MediaCommand),
    /// List, show and cancel tasks
    #[command(subcommand)]
    Tasks(tasks::TasksCommand),
    /// List requests, show what happened to one, follow them, count errors
    #[command(subcommand)]
    Requests(requests::RequestsCommand),
    /// Show the state of provider routes, pause and resume them
    #[command(subcommand)]
    Providers(providers::ProvidersCommand),
    /// List submissions that nobody could confirm, and resolve them by hand
    #[command(subcommand, after_help = submissions::EXAMPLES)]
    Submissions(submissions::SubmissionsCommand),
    /// List administrative changes
    Audit(audit::AuditArgs),
    /// List hosted models, and print the configuration for them
    #[command(subcommand)]
    Models(models::ModelsCommand),
    /// Check the provenance of a file
    #[command(subcommand)]
    Provenance(provenance::ProvenanceCommand),
    /// Migrate the database and exit
    Migrate,
    /// Resubmit or fail the open tasks of a restored backup
    #[command(subcommand)]
    Restored(restored::RestoredCommand),
    /// Check the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    #[command(about = "Print the OpenAPI 3.1 document")]
    Openapi,
    /// Print a shell completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Run one job of the gateway that started this process; internal
    #[command(hide = true)]
    Engine,
    /// Print the points at which `MEDIAGATE_CRASH_AT` can kill the process
    #[cfg(debug_assertions)]
    #[command(hide = true)]
    CrashPoints,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Validate the configuration and print it with secrets masked
    Check,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
enum CliError {
    /// The configuration is invalid.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The command line is invalid.
    #[error("{0}")]
    Usage(String),
    /// A setting of the system prevents the confinement of child processes.
    #[error("{0}")]
    Unconfined(String),
    /// Everything else.
    #[error("{0}")]
    Failed(String),
}

impl CliError {
    fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            // The systemd unit does not restart after a 2: the next start would fail in the same
            // way.
            Self::Config(_) | Self::Usage(_) | Self::Unconfined(_) => ExitCode::from(2),
            Self::Failed(_) => ExitCode::FAILURE,
        }
    }
}

impl From<mediagate_core::app::OpenError> for CliError {
    fn from(error: mediagate_core::app::OpenError) -> Self {
        match error {
            mediagate_core::app::OpenError::Config(error) => Self::Config(error),
            other => Self::failed(other),
        }
    }
}

/// An error about the field `param` is wrong usage of `argument`, whatever the database contains.
fn usage_if_at(error: mediagate_model::error::Error, param: &str, argument: &str) -> CliError {
    if error.param().is_some_and(|at| at.starts_with(param)) {
        CliError::Usage(format!("{argument}: {}", error.message()))
    } else {
        error.into()
    }
}

impl From<mediagate_model::error::Error> for CliError {
    fn from(error: mediagate_model::error::Error) -> Self {
        match error.internal_cause() {
            // At the command line the operator may see internal errors.
            Some(cause) => Self::failed(cause),
            None => Self::failed(error.message()),
        }
    }
}

/// Runs the command line.
pub fn main() -> ExitCode {
    // rustls needs its crypto provider installed before first use.
    drop(rustls::crypto::ring::default_provider().install_default());
    // Before anything is created, so that all files are readable by their user only.
    mediagate_core::private_files::restrict_umask();
    // Not `Cli::parse`: help texts and the visible settings are adapted first.
    let parsed = Cli::from_arg_matches(&command_line::parser().get_matches());
    let cli = parsed.unwrap_or_else(|error| error.format(&mut command_line::command()).exit());
    // A child does so itself, after it has set its limits.
    if !matches!(cli.command, CliCommand::Engine)
        && let Err(error) = mediagate_model::private_memory::protect()
    {
        output::note(&format!(
            "mediagate: other processes may read this one's memory: {error}"
        ));
    }
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("mediagate: {error}"));
            error.exit_code()
        }
    }
}

fn run(cli: &Cli) -> Result<(), CliError> {
    match &cli.command {
        CliCommand::Serve(start) => serve::run(start, &cli.settings),
        CliCommand::Worker(start) => serve::run_workers(start, &cli.settings),
        CliCommand::Demo(args) => demo::run(args, &cli.settings),
        CliCommand::Keys(command) => keys::run(command, &cli.settings, cli.json),
        CliCommand::Accounts(command) => accounts::run(command, &cli.settings, cli.json),
        CliCommand::Users(command) => users::run(command, &cli.settings, cli.json),
        CliCommand::Ledger(command) => ledger::run(command, &cli.settings, cli.json),
        CliCommand::Webhooks(command) => webhooks::run(command, &cli.settings, cli.json),
        CliCommand::Media(command) => media::run(command, &cli.settings, cli.json),
        CliCommand::Tasks(command) => tasks::run(command, &cli.settings, cli.json),
        CliCommand::Requests(command) => requests::run(command, &cli.settings, cli.json),
        CliCommand::Providers(command) => providers::run(command, &cli.settings, cli.json),
        CliCommand::Submissions(command) => submissions::run(command, &cli.settings, cli.json),
        CliCommand::Audit(args) => audit::run(args, &cli.settings, cli.json),
        CliCommand::Models(command) => models::run(command, &cli.settings, cli.json),
        CliCommand::Provenance(command) => provenance::run(command, &cli.settings),
        CliCommand::Completions { shell } => complete(*shell),
        CliCommand::Migrate => migrate::run(&cli.settings, cli.json),
        CliCommand::Restored(command) => restored::run(command, &cli.settings, cli.json),
        CliCommand::Engine => mediagate_media::engines::child::serve().map_err(CliError::failed),
        #[cfg(debug_assertions)]
        CliCommand::CrashPoints => say(&mediagate_core::crash::POINTS
            .iter()
            .map(|point| point.0)
            .collect::<Vec<_>>()
            .join("\n")),
        CliCommand::Config(ConfigCommand::Check) => config_check::run(&cli.settings, cli.json),
        CliCommand::Openapi => {
            let document = mediagate_http::openapi(&Config::load_for_command(&cli.settings)?);
            say(&document.to_pretty_json().map_err(CliError::failed)?)
        }
    }
}

fn complete(shell: clap_complete::Shell) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(
        shell,
        &mut command_line::completion_command(),
        "mediagate",
        &mut script,
    );
    say(&String::from_utf8(script).map_err(CliError::failed)?)
}

fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(CliError::failed)
}
