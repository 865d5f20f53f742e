//! Quotes: what a request would cost.

use serde::Serialize;
use utoipa::ToSchema;

use mediagate_core::domain::order_terms::CostLimit;
use mediagate_core::domain::quotes::{Quote, RouteQuote};
use mediagate_model::catalog::EMBEDDED;
use mediagate_model::price::Price;

/// What a request would cost and reserve, and which routes can serve it.
#[derive(Debug, Serialize, ToSchema)]
pub struct QuoteObject {
    /// Always `quote`.
    pub object: &'static str,
    /// The quoted endpoint.
    pub endpoint: String,
    /// The model. Null if no model is involved.
    #[schema(required = true)]
    pub model: Option<String>,
    /// Billing unit: `second`, `video`, `megapixel_second`, `audio_minute`, `stem` or `task`. Null
    /// if free.
    #[schema(required = true)]
    pub unit: Option<&'static str>,
    /// Price per unit of the first route, in US dollars.
    #[schema(required = true)]
    pub unit_price_usd: Option<String>,
    /// Number of units in the whole request.
    #[schema(required = true)]
    pub quantity: Option<String>,
    /// Cost of the whole request on the first route if everything succeeds, in US dollars.
    pub cost_usd: String,
    /// Amount that would be held: the cost on the most expensive route, in US dollars.
    pub reserve_usd: String,
    /// Number of tasks.
    pub tasks: u64,
    /// Routes that can serve the request, in the order in which they are tried. A single entry if
    /// the operator does not show providers.
    pub routes: Vec<RouteQuoteObject>,
    /// Whether a provider charges if it refuses the content: `yes`, `no` or `unknown`. The gateway
    /// itself charges nothing for a refused order. Absent if no provider is involved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charged_when_refused: Option<&'static str>,
    /// Where that was read, if the operator shows providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charged_when_refused_source: Option<String>,
    /// Whether at least one route is currently available.
    pub available: bool,
    /// Whether the key's budget and the account currently cover `reserve_usd`.
    pub affordable: bool,
    /// True if the order would wait for approval before anything is sent; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_approval: Option<bool>,
    /// The most that the request may cost, in US dollars, if it states a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<String>,
    /// Whether `reserve_usd` is within `max_cost_usd`. If not, the request would be rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_max_cost: Option<bool>,
    /// Why the request would produce no result, if that is the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What an embedded video model would understand of the prompt. Absent for other models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Vec<String>>,
    /// Words of the prompt that would have no effect. Present with `direction`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_understood: Option<Vec<String>>,
}

/// A route that can serve the request.
#[derive(Debug, Serialize, ToSchema)]
pub struct RouteQuoteObject {
    /// Name of the provider, `embedded`, or `hosted` if providers are not shown.
    pub provider: String,
    /// The provider's own model name.
    pub model: String,
    /// Billing unit. Null if free.
    #[schema(required = true)]
    pub unit: Option<&'static str>,
    /// Price per unit, in US dollars.
    #[schema(required = true)]
    pub unit_price_usd: Option<String>,
    /// Cost of the whole request on this route, in US dollars.
    pub cost_usd: String,
    /// Whether the route is currently available.
    pub available: bool,
}

impl QuoteObject {
    /// A quote, with the names of hosted providers or without.
    pub fn new(endpoint: String, quote: &Quote, shows_providers: bool) -> Self {
        let is_hosted = quote.routes.iter().any(|route| route.provider != EMBEDDED);
        // The routes' own models and prices would reveal who the providers are.
        let routes = if is_hosted && !shows_providers {
            vec![hidden(quote)]
        } else {
            quote.routes.iter().map(route).collect()
        };
        let reading = quote.reading.as_ref();
        Self {
            object: "quote",
            endpoint,
            model: quote.model.clone(),
            unit: unit(quote.price),
            unit_price_usd: unit_price(quote.price),
            quantity: quantity(quote),
            cost_usd: quote.cost.to_string(),
            reserve_usd: quote.reserve.to_string(),
            tasks: quote.tasks,
            charged_when_refused: quote.refusals.as_ref().map(|terms| terms.charge.name()),
            // It would reveal who the provider is.
            charged_when_refused_source: quote
                .refusals
                .as_ref()
                .and_then(|terms| terms.source.clone())
                .filter(|_| shows_providers),
            routes,
            available: quote.available,
            affordable: quote.affordable,
            needs_approval: quote.needs_approval.then_some(true),
            max_cost_usd: None,
            within_max_cost: None,
            note: quote.note.clone(),
            direction: reading.map(|reading| reading.direction.clone()),
            not_understood: reading.map(|reading| reading.not_understood.clone()),
        }
    }

    /// Shows the limit of the request, and whether its price is within it.
    #[must_use]
    pub fn with_limit(self, quote: &Quote, limit: Option<CostLimit>) -> Self {
        Self {
            max_cost_usd: limit.map(|limit| limit.amount.to_string()),
            within_max_cost: limit.map(|limit| limit.allows(quote.reserve)),
            ..self
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

/// All routes as one, without their names.
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

fn quantity(quote: &Quote) -> Option<String> {
    let (price, quantity) = quote.price.zip(quote.quantity)?;
    Some(price.units(quantity.work(), quote.tasks))
}
