//! Prices that are valid but probably not meant: below what the provider takes, or compared with a list price that
//! nobody has looked up for months. `config check` prints them; they reject nothing, because only the operator knows
//! the contract with the provider.

use std::time::Duration;

use mediagate_config::{ConfigError, ModelConfig};
use mediagate_model::catalog::{Model, Route};
use mediagate_model::clock::Timestamp;
use mediagate_model::price::Price;
use providers::catalogue::KnownModel;

use super::{Catalog, highest_list_price};
use crate::upstream::ProviderSites;

/// How long a list price is trusted after the day on which it was read.
const TRUST: Duration = Duration::from_hours(90 * 24);

/// One warning for each route that has any reason for one.
pub fn find(
    config: &ModelConfig,
    sites: &ProviderSites,
    catalog: &Catalog,
    now: Timestamp,
) -> Vec<ConfigError> {
    let models = catalog.models().iter();
    let routes = models.flat_map(|model| model.routes().iter().map(move |route| (model, route)));
    let warnings = routes.filter_map(|(model, route)| {
        let price = callers_price(model, route, now);
        let below_cost = price.and_then(|price| below_own_cost(price, route, now));
        let message = below_cost.or_else(|| {
            let site = sites.get(&route.provider)?;
            let known = config.catalogue.find(&site.config.protocol, &route.model)?;
            let below_list = price.and_then(|price| below_list_price(price, route, known));
            below_list.or_else(|| old_list_price(known, now))
        })?;
        Some(config.locate(ConfigError::Value {
            key: format!("models.{}", model.id),
            message: format!("{}: {message}", route.provider),
        }))
    });
    warnings.collect()
}

/// The price with sound that callers pay for this route.
fn callers_price(model: &Model, route: &Route, now: Timestamp) -> Option<Price> {
    let schedule = route.price.as_ref().or(model.price.as_ref())?;
    Some(schedule.at(now).price)
}

/// A price below the `cost` that the operator declares.
fn below_own_cost(price: Price, route: &Route, now: Timestamp) -> Option<String> {
    let cost = route.cost.as_ref()?.at(now).price;
    let is_below = price.unit == cost.unit && price.per_unit < cost.per_unit;
    is_below.then(|| {
        format!(
            "the price of {} per {} is below the cost of {}",
            price.per_unit, price.unit, cost.per_unit
        )
    })
}

/// A price below the provider's list price, unless the operator declares a `cost`.
fn below_list_price(price: Price, route: &Route, known: &KnownModel) -> Option<String> {
    if route.cost.is_some() {
        return None;
    }
    let (list, list_amount) = highest_list_price(known)?;
    let is_below = price.unit.name() == list.unit && price.per_unit < list_amount;
    let condition = list.holds_for.as_ref();
    let condition = condition.map_or_else(String::new, |condition| format!(" {condition}"));
    is_below.then(|| {
        format!(
            "the price of {} per {} is below the list price of {}{condition} ({}); declare the `cost` if yours is another",
            price.per_unit, price.unit, list.usd, known.price_date
        )
    })
}

/// A list price whose date is long ago.
fn old_list_price(known: &KnownModel, now: Timestamp) -> Option<String> {
    let read = Timestamp::parse(&known.price_date)?;
    let is_old = now.since(read) > TRUST;
    (is_old && !known.prices.is_empty()).then(|| {
        format!(
            "the list price of {} was read on {}; compare it with the provider's page",
            known.id, known.price_date
        )
    })
}
