//! `mediagate providers`: the state of routes to providers, and pausing them; works while a server
//! is running on the same data. The server applies the change within seconds.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::cli::{CliError, runtime, say, show};
use mediagate_config::{Config, Settings};
use mediagate_core::app::App;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::route_states::{self, CombinedRouteState};
use mediagate_core::domain::routes::{self, RouteCommand, RouteSummary};
use mediagate_http::wire::admin::providers::{RouteChange, RouteStanding};
use mediagate_model::clock::{Clock, Timestamp};

#[derive(Debug, Subcommand)]
pub(super) enum ProvidersCommand {
    /// List provider routes with their state, job counts and last error
    List,
    /// Send no new orders to a route until it is resumed; its open jobs continue
    Pause(RouteArgs),
    /// Send orders to a paused route again
    Resume(RouteArgs),
    /// Send the next order to a route despite its earlier failures
    Try(RouteArgs),
}

#[derive(Debug, Args)]
pub(super) struct RouteArgs {
    /// Name of the provider in the configuration
    provider: String,
    /// The provider's name for the model
    model: String,
}

pub(super) fn run(
    command: &ProvidersCommand,
    settings: &Settings,
    json: bool,
) -> Result<(), CliError> {
    let app = App::open_existing(Config::load_for_command(settings)?, Clock::system())?;
    runtime()?.block_on(async {
        let (args, route_command, name) = match command {
            ProvidersCommand::List => return list(&app, json).await,
            ProvidersCommand::Pause(args) => (args, RouteCommand::Pause, "providers pause"),
            ProvidersCommand::Resume(args) => (args, RouteCommand::Resume, "providers resume"),
            ProvidersCommand::Try(args) => (args, RouteCommand::Retry, "providers try"),
        };
        let author = ChangeAuthor::command(name).into();
        let stored_state =
            routes::run_command(&app, author, &args.provider, &args.model, route_command).await?;
        if json {
            return show::json(&RouteChange::new(
                &args.provider,
                &args.model,
                &stored_state,
            ));
        }
        let route = format!("{} {}", args.provider, args.model);
        say(&match route_command {
            RouteCommand::Pause => format!("Paused {route}. Its open jobs continue."),
            RouteCommand::Resume => format!("Resumed {route}."),
            RouteCommand::Retry => format!("{route} gets the next order."),
        })
    })
}

async fn list(app: &App, json: bool) -> Result<(), CliError> {
    // Breakers are in the memory of the servers. A command sees only what they have published in
    // the database.
    let servers = route_states::server_states(app).await?;
    let summaries = routes::all_across_servers(app, &servers).await?;
    if json {
        let objects = summaries
            .iter()
            .map(|summary| route_json(summary, !servers.is_empty()));
        let objects: Result<Vec<Value>, CliError> = objects.collect();
        return show::json(&objects?);
    }
    if summaries.is_empty() {
        return say("No providers are configured.");
    }
    let mut table = show::table(&[
        "PROVIDER",
        "MODEL",
        "STATE",
        "OPEN",
        "DONE",
        "FAILED",
        "REFUSED",
        "P50",
        "LAST ERROR",
    ]);
    for summary in &summaries {
        let day = &summary.record.last_day;
        let p50 = summary
            .record
            .p50
            .map(|time| format!("{:.1} s", time.as_secs_f64()));
        let error = summary.stored.error.as_ref();
        let error = error.map(|error| format!("{} {}", show::time(error.at), error.message));
        table.add_row([
            summary.route.provider.clone(),
            summary.route.model.clone(),
            state(summary, servers.len()),
            summary.record.open_jobs.to_string(),
            day.succeeded.to_string(),
            (day.failed + day.unconfirmed).to_string(),
            day.refused.to_string(),
            p50.unwrap_or_default(),
            error.unwrap_or_default(),
        ]);
    }
    say(&table.to_string())
}

/// The state in a word or two; `servers` is the number of processes.
fn state(summary: &RouteSummary, servers: usize) -> String {
    let since = |at: Timestamp| at.rfc3339()[..16].replace('T', " ");
    match (summary.stored.paused_at, summary.stored.refused_at) {
        (Some(at), _) => format!("paused {}", since(at)),
        (None, Some(at)) if summary.stored.is_model_refused() => {
            format!("model rejected {}", since(at))
        }
        (None, Some(at)) => format!("key rejected {}", since(at)),
        (None, None) => breaker(&summary.combined, servers),
    }
}

/// The breaker's state, in the console's words.
fn breaker(combined: &CombinedRouteState, servers: usize) -> String {
    let label = match combined.worst.state.as_str() {
        "closed" => return "in use".to_owned(),
        "open" => "suspended after failures",
        "busy" => "throttled by the provider",
        "trial" => "testing",
        other => other,
    };
    let unusual = combined.unusual.iter();
    let count = unusual
        .filter(|(_, breaker)| breaker.state != "closed")
        .count();
    if count < servers {
        format!("{label} in {count} of {servers} processes")
    } else {
        label.to_owned()
    }
}

/// A route as the API shows it; breakers are known only if a server runs.
fn route_json(summary: &RouteSummary, is_served: bool) -> Result<Value, CliError> {
    let object = RouteStanding::new(summary);
    let mut value = serde_json::to_value(object).map_err(CliError::failed)?;
    // A command has no breakers. Without a server their state is unknown, not closed.
    if !is_served && let Value::Object(members) = &mut value {
        for name in ["breaker", "available", "next_try_at"] {
            members.remove(name);
        }
    }
    Ok(value)
}
