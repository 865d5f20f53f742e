//! List prices of hosted models, compared with the prices that the settings give to callers.

use providers::MediaKind;
use providers::catalogue::{KnownModel, ListPrice};

use super::ModelSources;
use mediagate_model::catalog::Route;
use mediagate_model::money::MicroDollars;

/// What is said of a model that a provider is paid for, and callers would get for nothing.
pub(super) fn missing_price(kind: MediaKind, list_price: Option<&ListPrice>) -> String {
    let (unit, usd, basis) = match (list_price, kind) {
        (Some(price), _) => (price.unit.as_str(), price.usd.as_str(), " (the list price)"),
        (None, MediaKind::Video) => ("second", "0.10", ""),
        (None, MediaKind::Music) => ("task", "0.10", ""),
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
    highest_list_price(known)
}

/// The highest of a hosted model's list prices: it covers whatever callers may order.
pub fn highest_list_price(model: &KnownModel) -> Option<&ListPrice> {
    let amount = |price: &ListPrice| price.usd.parse().unwrap_or(MicroDollars::ZERO);
    // The first of equal ones.
    let prices = model.prices.iter().rev();
    prices.max_by_key(|price| amount(price))
}
