//! Quotation of an order: its prices on the day, and the amount that is reserved for it.

use super::{QuotedQuantity, RouteName};
use mediagate_model::catalog::{Model, Route};
use mediagate_model::clock::Timestamp;
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::price::{Price, PriceSchedule, RoutePrice, Tariff, charge};

/// The prices of one task of an order, and its quantity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderQuotation(Tariff);

/// The money of a task that is being accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskHold {
    pub reserved: MicroDollars,
    pub money: ChargeState,
    /// The prices that stay with the task: its bill uses them, whatever changes in the settings
    /// meanwhile.
    pub tariff: Option<Tariff>,
}

impl OrderQuotation {
    /// The prices of `quantity` at `now`, with or without sound.
    pub fn of(model: &Model, quantity: QuotedQuantity, is_silent: bool, now: Timestamp) -> Self {
        let price_of = |schedule: &PriceSchedule| schedule.at(now).price_for(is_silent);
        let route_prices = |pick: fn(&Route) -> Option<&PriceSchedule>| {
            let routes = model.routes().iter().filter_map(|route| {
                Some(RoutePrice {
                    provider: route.provider.clone(),
                    model: route.model.clone(),
                    price: price_of(pick(route)?),
                })
            });
            routes.collect()
        };
        Self(Tariff {
            price: model.price.as_ref().map(price_of),
            routes: route_prices(|route| route.price.as_ref()),
            costs: route_prices(|route| route.cost.as_ref()),
            asked: quantity.work(),
        })
    }

    /// The amount that is reserved: the cost by the most expensive route.
    pub fn reserve(&self) -> MicroDollars {
        self.0.reserve()
    }

    /// The price by this route and the cost, which is what is reserved if there is no price. `None`
    /// is this process.
    pub fn cost_by(&self, route: Option<RouteName<'_>>) -> (Option<Price>, MicroDollars) {
        let price = price_by(&self.0, route);
        (price, charge(price, self.0.asked, self.reserve()))
    }

    /// The money of a task that is accepted at these prices.
    pub fn hold(self) -> TaskHold {
        let reserved = self.reserve();
        let is_paid = reserved > MicroDollars::ZERO;
        TaskHold {
            reserved,
            money: if is_paid {
                ChargeState::Held
            } else {
                ChargeState::Free
            },
            // A free task keeps its prices only if they contain what the provider is paid.
            tariff: (is_paid || !self.0.costs.is_empty()).then_some(self.0),
        }
    }
}

/// The price by a route, or in this process if it is `None`; `None` if it is not known.
pub(super) fn price_by(tariff: &Tariff, route: Option<RouteName<'_>>) -> Option<Price> {
    match route {
        Some((provider, model)) => tariff.price_by(provider, model),
        None => tariff.price,
    }
}
