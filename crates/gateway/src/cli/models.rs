//! `mediagate models`: known hosted models, the configuration to offer them, and the weights of
//! pretrained models. Needs no provider's secret and no database.

mod costs;
mod install;

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use providers::adapters::limits_of;
use providers::catalogue::{Catalogue, KnownModel, ListPrice, SoundSupport};
use providers::{Durations, MediaKind};
use serde_json::{Value, json};

use super::{CliError, say, show};
use mediagate_config::{Config, Settings};
use mediagate_core::catalog::highest_list_price;
use mediagate_model::clock::{Clock, Timestamp};
use mediagate_model::money::MicroDollars;
use mediagate_model::price::PriceUnit;

#[derive(Debug, Subcommand)]
pub(super) enum ModelsCommand {
    /// List hosted models: ids, lengths, sizes, list prices
    List(ModelListArgs),
    /// Print the configuration for a model, for example fal/veo-3.1
    Add(ModelAddArgs),
    /// Download the weights of a pretrained model into the models folder: spleeter, for stems-net-1
    Install(install::ModelInstallArgs),
}

#[derive(Debug, Args)]
pub(super) struct ModelListArgs {
    /// Only models of this provider
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Also show the providers' model ids, all prices and the date of each entry
    #[arg(long)]
    long: bool,
    /// Show what each model costs at its provider, where and how many days ago that was read, and
    /// why a cost is not known
    #[arg(long, conflicts_with = "long")]
    costs: bool,
}

#[derive(Debug, Args)]
pub(super) struct ModelAddArgs {
    /// Provider and model, as shown by `mediagate models list`
    #[arg(value_name = "PROVIDER/MODEL")]
    model: String,
    /// Percentage added to the list price
    #[arg(long, value_name = "PERCENT", default_value_t = 20)]
    margin: u16,
}

pub(super) fn run(
    command: &ModelsCommand,
    settings: &Settings,
    json: bool,
) -> Result<(), CliError> {
    match command {
        ModelsCommand::List(args) => list(settings, args, json),
        ModelsCommand::Add(args) => add(settings, args, json),
        ModelsCommand::Install(args) => install::run(args, settings, json),
    }
}

fn list(settings: &Settings, args: &ModelListArgs, json: bool) -> Result<(), CliError> {
    let catalogue = Config::catalogue(settings)?;
    let provider_filter = args.provider.as_deref();
    let models = catalogue.models();
    let models: Vec<&KnownModel> = models
        .filter(|model| provider_filter.is_none_or(|provider| model.provider == provider))
        .collect();
    if models.is_empty() {
        return Err(unknown_provider(
            &catalogue,
            provider_filter.unwrap_or_default(),
        ));
    }
    let now = Clock::system().now();
    if json {
        let models = models.into_iter().map(|model| model_json(model, now));
        return show::json(&models.collect::<Vec<_>>());
    }
    let table = if args.costs {
        costs::table(&models, now)
    } else {
        table(&models, args.long)
    };
    say(&table.to_string())
}

/// A model as JSON, with everything that `--long` and `--costs` show.
fn model_json(model: &KnownModel, now: Timestamp) -> Value {
    let model = model.with_protocol_limits(limits_of(model));
    let prices = model.prices.iter();
    let prices = prices
        .map(|price| json!({"unit": price.unit, "usd": price.usd, "holds_for": price.holds_for}));
    let seconds = model.seconds.as_ref().map(|seconds| match seconds {
        Durations::Range { min, max } => json!({"min": min, "max": max}),
        Durations::Only(list) => json!(list),
    });
    let sizes = model.sizes.as_ref();
    let sizes = sizes.map(|sizes| {
        let sizes = sizes
            .iter()
            .map(|(width, height)| format!("{width}x{height}"));
        sizes.collect::<Vec<_>>()
    });
    json!({
        "provider": model.provider,
        "name": model.name,
        "id": model.id,
        "kind": model.kind.name(),
        "seconds": seconds,
        "sizes": sizes,
        "pictures": model.pictures,
        "audio": model.audio.map(SoundSupport::name),
        "prices": prices.collect::<Vec<_>>(),
        "price_unknown": model.price_unknown,
        "price_source": model.price_source,
        "price_date": model.price_date,
        "price_age_days": costs::age_in_days(&model, now),
        "charged_when_refused": model.refusals.charge.name(),
        "charged_when_refused_source": model.refusals.source,
        "unverified": model.unverified,
        "retired": model.retired,
        "source": model.source,
        "date": model.date,
    })
}

/// A line per model, which fits a terminal unless `long`.
fn table(models: &[&KnownModel], long: bool) -> show::TextTable {
    let headings = [
        "MODEL", "KIND", "SECONDS", "SIZES", "PICTURES", "SOUND", "USD", "ID", "DATE",
    ];
    let columns = if long { headings.len() } else { SHORT_COLUMNS };
    let mut table = show::table(&headings[..columns]);
    for model in models {
        let row = row(&model.with_protocol_limits(limits_of(model)), long);
        table.add_row(row.into_iter().take(columns));
    }
    table
}

/// Cells per row unless `long`.
const SHORT_COLUMNS: usize = 7;

/// A model's row in the list.
fn row(model: &KnownModel, long: bool) -> [String; 9] {
    let seconds = match &model.seconds {
        Some(Durations::Range { min, max }) => format!("{min}-{max}"),
        Some(Durations::Only(list)) => match list[..] {
            [first, second, _, .., last] if !long => {
                format!("{first},{second}..{last}")
            }
            _ => comma_separated(list.iter()),
        },
        None => "-".into(),
    };
    let price = match (&model.price_unknown, long) {
        (Some(_), _) => "unknown".into(),
        (None, true) => join("; ", model.prices.iter().map(price)),
        (None, false) => range_of_prices(&model.prices),
    };
    [
        format!("{}/{}", model.provider, model.name),
        match model.kind {
            MediaKind::Video => "video".into(),
            MediaKind::Music => "music".into(),
        },
        seconds,
        or_dash(tiers(model, long)),
        model.pictures.map_or("-".into(), |max| max.to_string()),
        model.audio.map_or("-".into(), |sound| sound.name().into()),
        match &model.retired {
            Some(day) => format!("retired {day}"),
            None => or_dash(price),
        },
        model.id.clone(),
        model.date.clone(),
    ]
}

/// `480p,720p`; the first and the last if there are many.
fn tiers(model: &KnownModel, show_all: bool) -> String {
    let sizes = model.sizes.iter().flatten();
    let mut tiers: Vec<u32> = sizes.map(|(width, height)| *width.min(height)).collect();
    tiers.sort_unstable();
    tiers.dedup();
    match tiers[..] {
        [first, _, .., last] if !show_all => format!("{first}p-{last}p"),
        _ => comma_separated(tiers.iter().map(|tier| format!("{tier}p"))),
    }
}

/// Lowest and highest price of each unit: `0.10-0.15/second`.
fn range_of_prices(prices: &[ListPrice]) -> String {
    let mut units: Vec<&str> = prices.iter().map(|price| price.unit.as_str()).collect();
    units.dedup();
    let ranges = units.into_iter().map(|unit| {
        let unit_prices = prices.iter().filter(|price| price.unit == unit);
        let mut amounts: Vec<(Option<MicroDollars>, &str)> = unit_prices
            .map(|price| (price.usd.parse().ok(), price.usd.as_str()))
            .collect();
        amounts.sort_unstable();
        // By value: 0.1 and 0.10 are the same price.
        amounts.dedup_by_key(|(amount, _)| *amount);
        match amounts[..] {
            [(_, lowest), .., (_, highest)] => format!("{lowest}-{highest}/{unit}"),
            [(_, only)] => format!("{only}/{unit}"),
            [] => String::new(),
        }
    });
    comma_separated(ranges)
}

fn price(price: &ListPrice) -> String {
    let holds_for = price.holds_for.as_ref();
    let holds_for = holds_for.map_or(String::new(), |condition| format!(" ({condition})"));
    format!("{}/{}{holds_for}", price.usd, price.unit)
}

fn comma_separated<T: ToString>(items: impl Iterator<Item = T>) -> String {
    join(",", items)
}

fn join<T: ToString>(separator: &str, items: impl Iterator<Item = T>) -> String {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    items.join(separator)
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".into() } else { text }
}

fn add(settings: &Settings, args: &ModelAddArgs, json: bool) -> Result<(), CliError> {
    let catalogue = Config::catalogue(settings)?;
    let Some((provider, name)) = args.model.split_once('/') else {
        return Err(CliError::Usage(
            "must be PROVIDER/MODEL, for example fal/veo-3.1".into(),
        ));
    };
    let model = catalogue.by_name(provider, name).ok_or_else(|| {
        let provider_models = catalogue
            .models()
            .filter(|model| model.provider == provider);
        let names: Vec<&str> = provider_models.map(|model| model.name.as_str()).collect();
        if names.is_empty() {
            return unknown_provider(&catalogue, provider);
        }
        let suggestion = mediagate_config::file::suggestion(name, &names);
        CliError::Usage(format!("{provider} has no model {name:?}; {suggestion}"))
    })?;
    if let Some(day) = &model.retired {
        let replacement = model.instead.as_ref();
        let replacement = replacement.map_or(String::new(), |id| format!("; use {id}"));
        return Err(CliError::Usage(format!(
            "{} was shut down on {day}{replacement}",
            model.id
        )));
    }
    show::toml(&config_toml(model, args.margin), json)
}

/// The TOML that offers a model to callers.
fn config_toml(model: &KnownModel, margin: u16) -> String {
    let KnownModel { provider, name, .. } = model;
    let protocol = match providers::protocol(provider) {
        Some(_) => provider.clone(),
        None => format!("recipe:{provider}"),
    };
    let kind = match model.kind {
        MediaKind::Video => "video",
        MediaKind::Music => "music",
    };
    let mut text = format!(
        "[providers.{provider}]\nprotocol = \"{protocol}\"\napi_key  = \"env:{}\"\n",
        model.key
    );
    for (option, value) in &model.options {
        let _ = writeln!(text, "{option} = {value}");
    }
    let _ = write!(text, "\n[models.\"{name}\"]\nkind   = \"{kind}\"\n");
    for price in &model.prices {
        let _ = writeln!(
            text,
            "# list price: {} ({}, {})",
            self::price(price),
            model.price_source,
            model.price_date
        );
    }
    if let Some(reason) = &model.unverified {
        let _ = writeln!(text, "# unverified: {reason}");
    }
    let charge = model.refusals.charge.name();
    let source = model.refusals.source.as_ref();
    let source = source.map_or_else(String::new, |source| format!(" ({source})"));
    let _ = writeln!(text, "# charged when refused: {charge}{source}");
    let _ = match charged_price(model, margin) {
        Some((unit, usd)) => writeln!(text, "price  = {{ unit = \"{unit}\", usd = \"{usd}\" }}"),
        // The settings reject this until somebody fills in the amount.
        None => writeln!(
            text,
            "price  = {{ unit = \"{}\", usd = \"\" }} # required: the list price is not known ({}); see the provider's page",
            PriceUnit::usual(model.kind),
            model
                .price_unknown
                .as_deref()
                .unwrap_or("nobody looked it up")
        ),
    };
    let _ = writeln!(
        text,
        "routes = [{{ provider = \"{provider}\", model = \"{}\" }}]",
        model.id
    );
    if model.id.ends_with('*') {
        text.push_str("# replace the star with the rest of the model's name\n");
    }
    text
}

/// A price, with the margin, that covers anything that callers may order.
fn charged_price(model: &KnownModel, margin: u16) -> Option<(&str, MicroDollars)> {
    // One price line applies to whatever callers order. A cheaper one could be below cost.
    let (price, list) = highest_list_price(model)?;
    let charged = list.get().saturating_mul(100 + i64::from(margin));
    // Rounded up to a hundredth of a cent.
    let charged = MicroDollars::new(charged.saturating_add(9_999) / 10_000 * 100);
    Some((&price.unit, charged))
}

fn unknown_provider(catalogue: &Catalogue, name: &str) -> CliError {
    let mut names: Vec<&str> = catalogue
        .models()
        .map(|model| model.provider.as_str())
        .collect();
    names.dedup();
    let suggestion = mediagate_config::file::suggestion(name, &names);
    CliError::Usage(format!("unknown provider {name:?}; {suggestion}"))
}
