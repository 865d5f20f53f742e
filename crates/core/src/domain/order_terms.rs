//! Terms of an order: the most that its caller will pay, and the caller's own notes. They change
//! nothing about what is made.

use mediagate_model::attribution::Metadata;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::money::MicroDollars;

/// What an order states beside what is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrderTerms {
    pub max_cost: Option<CostLimit>,
    /// The caller's own names and values.
    pub metadata: Metadata,
}

/// The most that a caller will pay for all tasks of an order together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostLimit {
    pub amount: MicroDollars,
    pub source: CostLimitSource,
}

/// The part of a request that contains a cost limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostLimitSource {
    /// A field of the body.
    Body,
    Header,
}

impl CostLimitSource {
    /// The name of the field or header.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Body => "max_cost_usd",
            Self::Header => "x-max-cost-usd",
        }
    }
}

impl OrderTerms {
    /// Adds a limit. The lower of two holds.
    pub fn limit_cost(&mut self, limit: Option<CostLimit>) {
        let limits = self.max_cost.into_iter().chain(limit);
        self.max_cost = limits.min_by_key(|limit| limit.amount);
    }

    /// Refuses an order that may cost more than its caller will pay. `cost` is what it reserves, or
    /// less.
    pub fn check_cost(&self, cost: MicroDollars) -> Result<(), Error> {
        self.max_cost.map_or(Ok(()), |limit| limit.check(cost))
    }
}

impl CostLimit {
    pub fn allows(self, cost: MicroDollars) -> bool {
        cost <= self.amount
    }

    fn check(self, cost: MicroDollars) -> Result<(), Error> {
        if self.allows(cost) {
            return Ok(());
        }
        let (amount, name) = (self.amount, self.source.name());
        let message = format!(
            "The request may cost {cost} USD, but {name} is {amount} USD. Nothing was made or charged."
        );
        Err(match self.source {
            CostLimitSource::Body => Error::at_field(ErrorCode::CostLimit, name, message),
            // `param` names fields of the body only.
            CostLimitSource::Header => Error::plain(ErrorCode::CostLimit, message),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(usd: &str, source: CostLimitSource) -> CostLimit {
        let amount = usd.parse().unwrap();
        CostLimit { amount, source }
    }

    #[test]
    fn the_lower_limit_holds() {
        use CostLimitSource::{Body, Header};
        let mut terms = OrderTerms::default();
        let price = MicroDollars::new(300_000);
        assert!(terms.check_cost(price).is_ok());
        terms.limit_cost(Some(limit("0.30", Body)));
        terms.limit_cost(None);
        assert!(terms.check_cost(price).is_ok(), "a limit may be reached");
        terms.limit_cost(Some(limit("0.29", Header)));
        terms.limit_cost(Some(limit("5", Body)));
        let error = terms.check_cost(price).unwrap_err();
        assert_eq!((error.code(), error.param()), (ErrorCode::CostLimit, None));
        assert!(error.message().contains("may cost 0.30 USD"), "{error}");
        terms.limit_cost(Some(limit("0", Body)));
        let error = terms.check_cost(price).unwrap_err();
        assert_eq!(error.param(), Some("max_cost_usd"));
        assert!(terms.check_cost(MicroDollars::ZERO).is_ok());
    }
}
