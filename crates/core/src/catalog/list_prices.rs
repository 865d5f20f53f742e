//! List prices of hosted models, compared with the prices that the settings give to callers.

use providers::MediaKind;
use providers::catalogue::{KnownModel, ListPrice};

use super::ModelSources;
use mediagate_model::catalog::Route;
use mediagate_model::money::MicroDollars;
use mediagate_model::price::PriceUnit;

/// What is said of a model that a provider is paid for, and callers would get for nothing.
pub(super) fn missing_price(kind: MediaKind, list_price: Option<&ListPrice>) -> String {
    let (unit, usd, basis) = match list_price {
        Some(price) => (price.unit.as_str(), price.usd.as_str(), " (the list price)"),
        None => (PriceUnit::usual(kind).name(), "0.10", ""),
    };
    format!(
        "a hosted model needs a price: add price = {{ unit = \"{unit}\", usd = \"{usd}\" }}{basis}, \
         or price = \"free\" if callers are to get it for nothing"
    )
}

/// The highest price that the catalogue knows for a route's model.
pub(super) fn list_price<'a>(route: &Route, sources: &ModelSources<'a>) -> Option<&'a ListPrice> {
    let site = sources.sites.get(&route.provider)?;
    let known = sources
        .catalogue
        .find(&site.config.protocol, &route.model)?;
    highest_list_price(known).map(|(price, _)| price)
}

/// The highest of a hosted model's list prices, and its amount: it covers whatever callers may order.
pub fn highest_list_price(model: &KnownModel) -> Option<(&ListPrice, MicroDollars)> {
    // Reversed, so that the first of equal ones is found. Every amount can be read: the catalogue checked its files.
    let prices = model.prices.iter().rev();
    let amounts = prices.filter_map(|price| Some((price, price.usd.parse().ok()?)));
    amounts.max_by_key(|(_, amount)| *amount)
}
