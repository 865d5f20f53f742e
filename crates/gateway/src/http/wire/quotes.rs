//! Quotes: what a request would cost.

use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::quotes::{Quote, RouteQuote};
use crate::model::catalog::EMBEDDED;
use crate::model::money::{Price, Quantity};

/// What a request would cost, reserve and route to.
#[derive(Debug, Serialize, ToSchema)]
pub struct QuoteObject {
    /// Always `quote`.
    pub object: &'static str,
    /// The endpoint that was asked about.
    pub endpoint: String,
    /// The model that would make it; null for what no model makes.
    #[schema(required = true)]
    pub model: Option<String>,
    /// What is counted: `second`, `video`, `megapixel_second`, `audio_minute`,
    /// `stem` or `task`; null when it is free.
    #[schema(required = true)]
    pub unit: Option<&'static str>,
    /// Dollars for one of it, by the route that goes first.
    #[schema(required = true)]
    pub unit_price_usd: Option<String>,
    /// How many of it the whole request asks for.
    #[schema(required = true)]
    pub quantity: Option<String>,
    /// What the whole request costs in dollars by the route that goes first,
    /// when all of it is made.
    pub cost_usd: String,
    /// What would be held in dollars: what it costs at most, whichever route
    /// makes it.
    pub reserve_usd: String,
    /// How many tasks it would be.
    pub tasks: u64,
    /// Who can make it, in the order in which they are tried; one entry when
    /// the operator does not show providers.
    pub routes: Vec<RouteQuoteObject>,
    /// Whether one of them works now.
    pub available: bool,
    /// Whether the key's budget and the account can hold `reserve_usd` now.
    pub affordable: bool,
}

/// Somebody who can make it.
#[derive(Debug, Serialize, ToSchema)]
pub struct RouteQuoteObject {
    /// The provider, `embedded`, or `hosted` where providers are not shown.
    pub provider: String,
    /// The model there.
    pub model: String,
    /// What is counted; null when it is free.
    #[schema(required = true)]
    pub unit: Option<&'static str>,
    /// Dollars for one of it.
    #[schema(required = true)]
    pub unit_price_usd: Option<String>,
    /// What the whole request costs there.
    pub cost_usd: String,
    /// Whether it works now.
    pub available: bool,
}

impl QuoteObject {
    /// A quote; with the names of hosted providers, or without.
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

fn quantity(price: Option<Price>, quantity: Quantity, tasks: u64) -> Option<String> {
    price.map(|price| price.units(quantity, tasks))
}
