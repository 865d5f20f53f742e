//! Quotes: what a request would cost.

use serde::Serialize;
use utoipa::ToSchema;

use mediagate_core::domain::quotes::{Quote, RouteQuote};
use mediagate_model::catalog::EMBEDDED;
use mediagate_model::price::{Price, WorkQuantity};

/// What a request would cost, reserve and route to.
#[derive(Debug, Serialize, ToSchema)]
pub struct QuoteObject {
    /// Always `quote`.
    pub object: &'static str,
    /// The endpoint of the request.
    pub endpoint: String,
    /// The model; null if none is involved.
    #[schema(required = true)]
    pub model: Option<String>,
    /// What is counted: `second`, `video`, `megapixel_second`, `audio_minute`, `stem` or `task`;
    /// null if free.
    #[schema(required = true)]
    pub unit: Option<&'static str>,
    /// Dollars per unit, by the first route.
    #[schema(required = true)]
    pub unit_price_usd: Option<String>,
    /// Units in the whole request.
    #[schema(required = true)]
    pub quantity: Option<String>,
    /// Dollars for the whole request by the first route, if everything is made.
    pub cost_usd: String,
    /// Dollars that would be held: the cost at the most expensive route.
    pub reserve_usd: String,
    /// Number of tasks.
    pub tasks: u64,
    /// Routes that can make it, in the order they are tried; a single entry if the operator does
    /// not show providers.
    pub routes: Vec<RouteQuoteObject>,
    /// Whether one of them is available now.
    pub available: bool,
    /// Whether the key's budget and the account can cover `reserve_usd` now.
    pub affordable: bool,
    /// Why nothing is made, if the request is answered without making anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
}

/// A route that can make it.
#[derive(Debug, Serialize, ToSchema)]
pub struct RouteQuoteObject {
    /// The provider, `embedded`, or `hosted` if providers are not shown.
    pub provider: String,
    /// The provider's name for the model.
    pub model: String,
    /// What is counted; null if free.
    #[schema(required = true)]
    pub unit: Option<&'static str>,
    /// Dollars per unit.
    #[schema(required = true)]
    pub unit_price_usd: Option<String>,
    /// Dollars for the whole request by this route.
    pub cost_usd: String,
    /// Whether it is available now.
    pub available: bool,
}

impl QuoteObject {
    /// A quote, with the names of hosted providers or without.
    pub fn new(endpoint: String, quote: &Quote, shows_providers: bool) -> Self {
        let is_hosted = quote.routes.iter().any(|route| route.provider != EMBEDDED);
        let routes = if is_hosted && !shows_providers {
            vec![hidden(quote)]
        } else {
            quote.routes.iter().map(route).collect()
        };
        Self {
            object: "quote",
            endpoint,
            model: quote.model.clone(),
            unit: unit(quote.price),
            unit_price_usd: unit_price(quote.price),
            quantity: quantity(quote.price, quote.quantity, quote.tasks),
            cost_usd: quote.cost.to_string(),
            reserve_usd: quote.reserve.to_string(),
            tasks: quote.tasks,
            routes,
            available: quote.available,
            affordable: quote.affordable,
            note: quote.note,
        }
    }
}

fn route(route: &RouteQuote) -> RouteQuoteObject {
    RouteQuoteObject {
        provider: route.provider.clone(),
        model: route.model.clone(),
        unit: unit(route.price),
        unit_price_usd: unit_price(route.price),
        cost_usd: route.cost.to_string(),
        available: route.available,
    }
}

/// All routes as one.
fn hidden(quote: &Quote) -> RouteQuoteObject {
    RouteQuoteObject {
        provider: "hosted".to_owned(),
        model: quote.model.clone().unwrap_or_default(),
        unit: unit(quote.price),
        unit_price_usd: unit_price(quote.price),
        cost_usd: quote.cost.to_string(),
        available: quote.available,
    }
}

fn unit(price: Option<Price>) -> Option<&'static str> {
    price.map(|price| price.unit.name())
}

fn unit_price(price: Option<Price>) -> Option<String> {
    price.map(|price| price.per_unit.to_string())
}

fn quantity(price: Option<Price>, quantity: WorkQuantity, tasks: u64) -> Option<String> {
    price.map(|price| price.units(quantity, tasks))
}
