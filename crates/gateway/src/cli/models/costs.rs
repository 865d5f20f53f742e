//! `mediagate models list --costs`: what each model costs at its provider, and how old that
//! knowledge is.

use providers::catalogue::KnownModel;

use super::{join, price};
use crate::cli::show;
use mediagate_model::clock::Timestamp;

/// A line per model. The last column is the longest and wraps on a terminal.
pub(super) fn table(models: &[&KnownModel], now: Timestamp) -> show::TextTable {
    let mut table = show::table(&["MODEL", "READ", "AGE", "VERIFIED", "REFUSED", "COST, USD"]);
    for model in models {
        table.add_row(row(model, now));
    }
    table
}

fn row(model: &KnownModel, now: Timestamp) -> [String; 6] {
    let cost = match (&model.retired, &model.price_unknown) {
        (Some(day), _) => format!("retired {day}"),
        (None, Some(reason)) => format!("unknown: {reason}"),
        (None, None) if model.prices.is_empty() => "not stated".into(),
        (None, None) => format!(
            "{} (by {})",
            join("; ", model.prices.iter().map(price)),
            model.price_source
        ),
    };
    let age = age_in_days(model, now);
    [
        format!("{}/{}", model.provider, model.name),
        model.price_date.clone(),
        age.map_or_else(|| "-".into(), |days| format!("{days} d")),
        if model.unverified.is_some() {
            "no".into()
        } else {
            "yes".into()
        },
        match model.refusals.charge.name() {
            "yes" => "charged".into(),
            "no" => "free".into(),
            _ => "unknown".into(),
        },
        cost,
    ]
}

/// How many days ago the costs of a model were read.
pub(super) fn age_in_days(model: &KnownModel, now: Timestamp) -> Option<u64> {
    let read = Timestamp::parse(&model.price_date)?;
    Some(now.since(read).as_secs() / (24 * 60 * 60))
}
