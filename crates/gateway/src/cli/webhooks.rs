//! `mediagate webhooks`: webhook endpoints and their deliveries. It can be used while a server runs
//! on the same data; that server sends the deliveries.

use clap::{Args, Subcommand};
use strum::VariantArray as _;

use crate::cli::command_line::one_of;
use crate::cli::{CliError, accounts::find, amount, runtime, say, show, usage_if_at};
use mediagate_config::{Config, Settings};
use mediagate_core::app::App;
use mediagate_core::domain::accounts::DEFAULT_HANDLE;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::webhooks::{self, EndpointChanges, NewEndpoint, delivery_log};
use mediagate_http::wire::webhooks::{DeliverySummary, WebhookObject, WebhookRecovery};
use mediagate_model::clock::{Clock, Timestamp};
use mediagate_model::error::Error;
use mediagate_model::ids::{DeliveryId, EndpointId};
use mediagate_model::webhook::{
    Delivery, DeliveryState, DisableReason, EventType, SignatureScheme, WebhookEndpoint,
};
use mediagate_store::tasks::PageQuery;
use mediagate_store::webhooks::endpoints;

#[derive(Debug, Subcommand)]
pub(super) enum WebhooksCommand {
    /// List the endpoints of all accounts
    List,
    /// Register an endpoint and print only its secret; with --json, print the whole endpoint
    Create(WebhookCreateArgs),
    /// Enable an endpoint; use `recover` to send its held deliveries
    Enable {
        /// Id of the endpoint
        id: EndpointId,
    },
    /// Disable an endpoint; its deliveries are held
    Disable {
        /// Id of the endpoint
        id: EndpointId,
    },
    /// List the latest deliveries of an endpoint
    Deliveries {
        /// Id of the endpoint
        id: EndpointId,
        /// Only deliveries in this state
        #[arg(long, value_parser = one_of::<DeliveryState>(["waiting", "delivered", "failed", "held"]))]
        state: Option<DeliveryState>,
    },
    /// Send a delivery again
    Redeliver {
        /// Id of the delivery
        id: DeliveryId,
    },
    /// Send the failed and held deliveries of an endpoint again
    Recover {
        /// Id of the endpoint
        id: EndpointId,
        /// Only events since this time, for example 2026-01-02 or 2026-01-02T03:04:05Z
        #[arg(long, value_name = "TIME", value_parser = amount::time)]
        since: Timestamp,
    },
}

#[derive(Debug, Args)]
pub(super) struct WebhookCreateArgs {
    /// The https URL that receives the events
    url: String,
    /// Account of the endpoint [default: default]
    #[arg(long, value_name = "HANDLE")]
    account: Option<String>,
    /// Event to send; repeat for several [default: all]
    #[arg(long = "event", value_name = "EVENT", value_parser = one_of::<EventType>(event_names()))]
    events: Vec<EventType>,
    /// Description
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    description: String,
    /// Signature scheme [default: hmac]
    #[arg(long, value_name = "SCHEME", value_parser = one_of::<SignatureScheme>(scheme_names()))]
    scheme: Option<SignatureScheme>,
}

fn event_names() -> impl Iterator<Item = &'static str> {
    EventType::VARIANTS.iter().map(|event| event.name())
}

fn scheme_names() -> impl Iterator<Item = &'static str> {
    SignatureScheme::VARIANTS.iter().map(|scheme| scheme.name())
}

pub(super) fn run(
    command: &WebhooksCommand,
    settings: &Settings,
    json: bool,
) -> Result<(), CliError> {
    let app = App::open_existing(Config::load_for_command(settings)?, Clock::system())?;
    runtime()?.block_on(async {
        match command {
            WebhooksCommand::List => list(&app, json).await,
            WebhooksCommand::Create(args) => create(&app, args, json).await,
            WebhooksCommand::Enable { id } => set_enabled(&app, *id, true, json).await,
            WebhooksCommand::Disable { id } => set_enabled(&app, *id, false, json).await,
            WebhooksCommand::Deliveries { id, state } => deliveries(&app, *id, *state, json).await,
            WebhooksCommand::Redeliver { id } => redeliver(&app, *id, json).await,
            WebhooksCommand::Recover { id, since } => recover(&app, *id, *since, json).await,
        }
    })
}

async fn every_endpoint(app: &App) -> Result<Vec<WebhookEndpoint>, CliError> {
    let read = app.store.read(endpoints::all);
    read.await.map_err(CliError::failed)
}

async fn endpoint(app: &App, id: EndpointId) -> Result<WebhookEndpoint, CliError> {
    // Among all accounts, because an operator has only the id.
    let mut endpoints = every_endpoint(app).await?.into_iter();
    let matching = endpoints.find(|endpoint| endpoint.id == id);
    matching.ok_or_else(|| {
        CliError::failed("no webhook endpoint has this id; see: mediagate webhooks list")
    })
}

async fn list(app: &App, json: bool) -> Result<(), CliError> {
    let endpoints = every_endpoint(app).await?;
    if json {
        let objects = endpoints.iter().map(|endpoint| object(app, endpoint));
        return show::json(&objects.collect::<Result<Vec<_>, Error>>()?);
    }
    if endpoints.is_empty() {
        return say(
            "There are no webhook endpoints yet. Register one with: mediagate webhooks create URL",
        );
    }
    let mut table = show::table(&["ENDPOINT", "ACCOUNT", "URL", "EVENTS", "STATE", "FAILURES"]);
    let accounts = mediagate_core::domain::accounting::accounts(app).await?;
    for endpoint in endpoints {
        let account = accounts
            .iter()
            .find(|record| record.account.id == endpoint.account);
        let events = endpoint.events.as_ref().map_or_else(
            || "all".to_owned(),
            |events| {
                events
                    .iter()
                    .map(|event| event.name())
                    .collect::<Vec<_>>()
                    .join(" ")
            },
        );
        table.add_row([
            endpoint.id.to_string(),
            account.map_or_else(String::new, |record| record.account.handle.clone()),
            endpoint.url.clone(),
            events,
            state(&endpoint),
            endpoint.failures.to_string(),
        ]);
    }
    say(&table.to_string())
}

fn state(endpoint: &WebhookEndpoint) -> String {
    match endpoint.disabled_why {
        _ if endpoint.enabled => "enabled".to_owned(),
        Some(reason) => format!("disabled: {}", DisableReason::name(reason)),
        None => "disabled".to_owned(),
    }
}

async fn create(app: &App, args: &WebhookCreateArgs, json: bool) -> Result<(), CliError> {
    let account = find(app, args.account.as_deref().unwrap_or(DEFAULT_HANDLE)).await?;
    let new_endpoint = NewEndpoint {
        url: args.url.clone(),
        description: args.description.clone(),
        events: (!args.events.is_empty()).then(|| args.events.clone()),
        scheme: args.scheme.unwrap_or(SignatureScheme::Hmac),
    };
    let (endpoint, secret) = webhooks::create_for(
        app,
        account.id,
        ChangeAuthor::command("webhooks create"),
        new_endpoint,
    )
    .await
    .map_err(|error| usage_if_at(error, "url", "URL"))?;
    if json {
        let public_key = webhooks::public_key(app, &endpoint)?;
        let webhook = WebhookObject::new(&endpoint, public_key.as_ref(), Some(&secret));
        return show::json(&webhook);
    }
    say(secret.expose())
}

fn object(app: &App, endpoint: &WebhookEndpoint) -> Result<WebhookObject, Error> {
    let public_key = webhooks::public_key(app, endpoint)?;
    Ok(WebhookObject::new(endpoint, public_key.as_ref(), None))
}

async fn set_enabled(app: &App, id: EndpointId, enabled: bool, json: bool) -> Result<(), CliError> {
    let account = endpoint(app, id).await?.account;
    let change = EndpointChanges {
        enabled: Some(enabled),
        ..EndpointChanges::default()
    };
    let (verb, command) = if enabled {
        ("Enabled", "webhooks enable")
    } else {
        ("Disabled", "webhooks disable")
    };
    let changed_endpoint =
        webhooks::change(app, account, id, ChangeAuthor::command(command), change).await?;
    if json {
        return show::json(&object(app, &changed_endpoint)?);
    }
    say(&format!("{verb} {id}."))
}

async fn deliveries(
    app: &App,
    id: EndpointId,
    state: Option<DeliveryState>,
    json: bool,
) -> Result<(), CliError> {
    let account = endpoint(app, id).await?.account;
    let latest = PageQuery {
        after: None,
        limit: 100,
        ascending: false,
    };
    let (page, has_more) = delivery_log::endpoint_page(app, account, id, state, latest).await?;
    if json {
        let summaries = page.iter().map(DeliverySummary::new);
        return show::json(&summaries.collect::<Vec<_>>());
    }
    if page.is_empty() {
        return say("No deliveries found.");
    }
    let mut table = show::table(&[
        "DELIVERY", "EVENT", "TASK", "STATE", "TRIES", "NEXT", "CREATED",
    ]);
    for delivery in &page {
        table.add_row(row(delivery));
    }
    say(&table.to_string())?;
    if has_more {
        say("Older deliveries are not shown.")
    } else {
        Ok(())
    }
}

fn row(delivery: &Delivery) -> [String; 7] {
    let is_waiting = delivery.state == DeliveryState::Waiting;
    [
        delivery.id.to_string(),
        delivery.kind.name().to_owned(),
        delivery
            .task
            .map_or_else(String::new, |task| task.to_string()),
        delivery.state.name().to_owned(),
        delivery.attempts.to_string(),
        if is_waiting {
            show::time(delivery.due_at)
        } else {
            String::new()
        },
        show::time(delivery.created_at),
    ]
}

async fn redeliver(app: &App, id: DeliveryId, json: bool) -> Result<(), CliError> {
    let owner = app
        .store
        .read(move |conn| mediagate_store::webhooks::delivery_log::account_of(conn, id));
    let account = owner.await.map_err(CliError::failed)?;
    let account = account.ok_or_else(|| CliError::failed("no webhook delivery has this id"))?;
    let delivery = delivery_log::redeliver(app, account, id).await?;
    if json {
        return show::json(&DeliverySummary::new(&delivery));
    }
    say(&format!(
        "{id} will be sent again by a worker, unless it is being sent now."
    ))
}

async fn recover(app: &App, id: EndpointId, since: Timestamp, json: bool) -> Result<(), CliError> {
    let account = endpoint(app, id).await?.account;
    let recovered = delivery_log::recover(app, account, id, since).await?;
    if json {
        return show::json(&WebhookRecovery {
            object: "webhook.recovery",
            recovered,
        });
    }
    say(&format!("{recovered} deliveries will be sent again."))
}
