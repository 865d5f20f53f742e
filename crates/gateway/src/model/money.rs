//! Money: integer micro-dollars in the program, decimal strings outside.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::model::catalog::{HANDED_ON, PriceUnit};

/// Millionths of a US dollar.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Micros(i64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an amount is written in dollars with at most six decimals, for example \"0.10\"")]
pub struct NotAnAmount;

impl Micros {
    pub const ZERO: Self = Self(0);

    /// Parses an amount that may be negative: `-5.00`.
    pub fn signed(text: &str) -> Result<Self, NotAnAmount> {
        match text.strip_prefix('-') {
            Some(amount) => amount.parse().map(|amount| Self::ZERO.minus(amount)),
            None => text.parse(),
        }
    }

    /// Saturating.
    #[must_use]
    pub const fn times(self, count: i64) -> Self {
        Self(self.0.saturating_mul(count))
    }

    pub const fn new(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn get(self) -> i64 {
        self.0
    }

    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Micros {
    /// Dollars with at least two decimals, and as many more as needed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let micros = self.0.unsigned_abs();
        let fraction = format!("{:06}", micros % 1_000_000);
        let kept = fraction.trim_end_matches('0').len().max(2);
        write!(f, "{sign}{}.{}", micros / 1_000_000, &fraction[..kept])
    }
}

impl FromStr for Micros {
    type Err = NotAnAmount;

    fn from_str(text: &str) -> Result<Self, NotAnAmount> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > 6 {
            return Err(NotAnAmount);
        }
        let whole: i64 = whole.parse().map_err(|_| NotAnAmount)?;
        let fraction: i64 = format!("{fraction:0<6}").parse().map_err(|_| NotAnAmount)?;
        whole
            .checked_mul(1_000_000)
            .and_then(|micros| micros.checked_add(fraction))
            .map(Self)
            .ok_or(NotAnAmount)
    }
}

/// The price of one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    pub unit: PriceUnit,
    pub per_unit: Micros,
}

/// How much was ordered or made, in all terms that prices can count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantity {
    /// Length of the video or of the source audio.
    pub milliseconds: u64,
    /// Pixels per frame.
    pub pixels: u64,
    /// Videos, stems or songs.
    pub parts: u64,
    /// Parts that were ordered: a price for the whole is charged in proportion.
    pub parts_asked: u64,
}

impl Price {
    /// The cost of `quantity`, rounded half up to a micro-dollar.
    pub fn of(self, quantity: Quantity) -> Micros {
        let (units, of) = self.count(quantity);
        let product = u128::from(self.per_unit.0.unsigned_abs()).saturating_mul(units);
        let rounded = product.saturating_add(of / 2) / of;
        Micros(i64::try_from(rounded).unwrap_or(i64::MAX))
    }

    /// Number of units, as a fraction.
    fn count(self, quantity: Quantity) -> (u128, u128) {
        let time = u128::from(quantity.milliseconds);
        let made = u128::from(quantity.parts.min(quantity.parts_asked));
        let asked = u128::from(quantity.parts_asked.max(1));
        match self.unit {
            PriceUnit::Second => (time, 1000),
            PriceUnit::MegapixelSecond => {
                (time.saturating_mul(quantity.pixels.into()), 1_000_000_000)
            }
            PriceUnit::AudioMinute => (time, 60_000),
            PriceUnit::Stem => (made, 1),
            PriceUnit::Video | PriceUnit::Task => (made, asked),
        }
    }

    /// Number of units in `tasks` such tasks, in decimal (`4.9`, `5`), rounded half up to a
    /// millionth.
    pub fn units(self, quantity: Quantity, tasks: u64) -> String {
        let (units, of) = self.count(quantity);
        let units = units.saturating_mul(tasks.into());
        let millionths = units.saturating_mul(1_000_000).saturating_add(of / 2) / of;
        let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// A price and when it is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dated {
    /// Inclusive; no lower bound if `None`.
    pub from: Option<Timestamp>,
    pub price: Price,
    /// Price of a unit without sound, if different.
    pub without_audio: Option<Micros>,
}

impl Dated {
    /// The price without sound if `is_silent`, else the normal one.
    pub fn of(self, is_silent: bool) -> Price {
        let per_unit = self.without_audio.filter(|_| is_silent);
        Price {
            per_unit: per_unit.unwrap_or(self.price.per_unit),
            ..self.price
        }
    }
}

/// The prices of a model over time: each is valid until the next, without gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule(Vec<Dated>);

/// Why a list of prices is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSchedule {
    /// No prices.
    #[error("a list of prices needs at least one")]
    Empty,
    /// Two prices begin at the same time.
    #[error("two prices begin at {}", .0.map_or_else(|| "no date".into(), Timestamp::rfc3339))]
    Twice(Option<Timestamp>),
}

impl Schedule {
    /// Sorts prices by date.
    pub fn new(mut prices: Vec<Dated>) -> Result<Self, BadSchedule> {
        prices.sort_by_key(|dated| dated.from);
        if prices.is_empty() {
            return Err(BadSchedule::Empty);
        }
        match prices.windows(2).find(|pair| pair[0].from == pair[1].from) {
            Some(pair) => Err(BadSchedule::Twice(pair[0].from)),
            None => Ok(Self(prices)),
        }
    }

    pub fn always(price: Price) -> Self {
        Self(vec![Dated {
            from: None,
            price,
            without_audio: None,
        }])
    }

    /// The price at `now`, or the first one if it has not begun yet.
    pub fn at(&self, now: Timestamp) -> Dated {
        let begun = self.0.iter().take_while(|dated| dated.from <= Some(now));
        let current = begun.last().or_else(|| self.0.first());
        // INVARIANT: a schedule is never empty.
        current.copied().unwrap_or(Dated {
            from: None,
            price: Price {
                unit: PriceUnit::Task,
                per_unit: Micros::ZERO,
            },
            without_audio: None,
        })
    }

    /// Whether any of its prices differs without sound.
    pub fn depends_on_audio(&self) -> bool {
        self.0.iter().any(|dated| dated.without_audio.is_some())
    }

    /// The price that follows the one at `now`.
    pub fn next(&self, now: Timestamp) -> Option<Dated> {
        self.0.iter().copied().find(|dated| dated.from > Some(now))
    }

    /// When the first price begins; `None` if it has always been valid.
    pub fn begins(&self) -> Option<Timestamp> {
        self.0.first().and_then(|dated| dated.from)
    }
}

/// The prices at the time a task was accepted, and what was ordered. The final cost is computed
/// from this, whatever the settings say by then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tariff {
    /// The model's price; free if `None`.
    pub price: Option<Price>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RoutePrice>,
    /// What providers are paid, by those routes whose cost the operator declares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<RoutePrice>,
    /// What was ordered.
    pub asked: Quantity,
}

/// The price of one route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutePrice {
    /// The operator's name for the provider.
    pub provider: String,
    /// The provider's name for the model; `*` for any.
    pub model: String,
    pub price: Price,
}

impl Tariff {
    /// The most it can cost, whichever route makes it.
    pub fn reserve(&self) -> Micros {
        let routes = self.routes.iter().map(|route| route.price);
        let prices = self.price.into_iter().chain(routes);
        prices
            .map(|price| price.of(self.asked))
            .max()
            .unwrap_or(Micros::ZERO)
    }

    /// The price if this provider and model make it.
    pub fn price_by(&self, provider: &str, model: &str) -> Option<Price> {
        of_route(&self.routes, provider, model).or(self.price)
    }

    /// What this provider is paid for making it by this model; `None` if the operator does not say.
    pub fn cost_by(&self, provider: &str, model: &str) -> Option<Price> {
        of_route(&self.costs, provider, model)
    }
}

fn of_route(prices: &[RoutePrice], provider: &str, model: &str) -> Option<Price> {
    let mut prices = prices.iter();
    let own = prices.find(|route| {
        route.provider == provider && [model, HANDED_ON].contains(&route.model.as_str())
    });
    own.map(|route| route.price)
}

/// Whether a task's money is held, charged or released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub enum Money {
    /// The task is free.
    Free,
    /// The reservation is held.
    Held,
    /// What was made has been charged.
    Settled,
    /// The reservation was released.
    Released,
}

impl Money {
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// What was charged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bill {
    /// Free if `None`.
    pub price: Option<Price>,
    /// The quantity charged.
    pub quantity: Quantity,
    pub cost: Micros,
    /// What is missing if not everything was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_read_as_people_write_them() {
        for (text, micros, shown) in [
            ("0.10", 100_000, "0.10"),
            ("25", 25_000_000, "25.00"),
            ("1.234567", 1_234_567, "1.234567"),
            ("0", 0, "0.00"),
        ] {
            let amount: Micros = text.parse().unwrap();
            assert_eq!((amount.get(), amount.to_string().as_str()), (micros, shown));
        }
        for bad in [
            "",
            ".5",
            "1.",
            "-1",
            "1e3",
            "0.1234567",
            "9999999999999999",
            "١",
        ] {
            assert_eq!(bad.parse::<Micros>(), Err(NotAnAmount), "{bad:?}");
        }
    }

    #[test]
    fn prices_count_what_they_name() {
        let price = |unit| Price {
            unit,
            per_unit: Micros::new(100_000),
        };
        let quantity = Quantity {
            milliseconds: 5_000,
            pixels: 1_000_000,
            parts: 4,
            parts_asked: 4,
        };
        assert_eq!(price(PriceUnit::Second).of(quantity).get(), 500_000);
        assert_eq!(price(PriceUnit::Video).of(quantity).get(), 100_000);
        assert_eq!(price(PriceUnit::Stem).of(quantity).get(), 400_000);
        assert_eq!(
            price(PriceUnit::MegapixelSecond).of(quantity).get(),
            500_000
        );
        assert_eq!(
            price(PriceUnit::AudioMinute)
                .of(Quantity {
                    milliseconds: 90_000,
                    ..quantity
                })
                .get(),
            150_000
        );
        assert_eq!(price(PriceUnit::Task).of(quantity).get(), 100_000);
    }

    #[test]
    fn a_part_is_paid_for_in_part() {
        let price = |unit| Price {
            unit,
            per_unit: Micros::new(100_000),
        };
        let three_of_four = Quantity {
            milliseconds: 60_000,
            pixels: 0,
            parts: 3,
            parts_asked: 4,
        };
        assert_eq!(price(PriceUnit::Task).of(three_of_four).get(), 75_000);
        assert_eq!(price(PriceUnit::Stem).of(three_of_four).get(), 300_000);
        let more = Quantity {
            parts: 5,
            ..three_of_four
        };
        assert_eq!(price(PriceUnit::Stem).of(more).get(), 400_000);
    }

    #[test]
    fn halves_are_rounded_up() {
        let price = Price {
            unit: PriceUnit::Second,
            per_unit: Micros::new(1),
        };
        let of = |milliseconds| {
            let quantity = Quantity {
                milliseconds,
                ..Quantity::default()
            };
            price.of(quantity).get()
        };
        assert_eq!((of(499), of(500), of(1499), of(1500)), (0, 1, 1, 2));
    }

    #[test]
    fn prices_change_on_their_day() {
        let price = |micros| Price {
            unit: PriceUnit::Task,
            per_unit: Micros::new(micros),
        };
        let at = Timestamp::from_seconds;
        let schedule = Schedule::new(vec![
            Dated {
                from: Some(at(200)),
                price: price(3),
                without_audio: None,
            },
            Dated {
                from: None,
                price: price(1),
                without_audio: None,
            },
            Dated {
                from: Some(at(100)),
                price: price(2),
                without_audio: None,
            },
        ])
        .unwrap();
        for (now, micros) in [(0, 1), (99, 1), (100, 2), (199, 2), (200, 3), (900, 3)] {
            assert_eq!(schedule.at(at(now)).price.per_unit.get(), micros, "{now}");
        }
        assert_eq!(schedule.next(at(100)).unwrap().price, price(3));
        assert_eq!(schedule.next(at(200)), None);
        let twice = vec![
            Dated {
                from: Some(at(1)),
                price: price(1),
                without_audio: None,
            };
            2
        ];
        assert!(Schedule::new(twice).is_err());
        assert_eq!(Schedule::new(Vec::new()), Err(BadSchedule::Empty));
    }

    proptest! {
        #[test]
        fn amounts_round_trip(micros in 0..i64::MAX) {
            let amount = Micros::new(micros);
            prop_assert_eq!(amount.to_string().parse::<Micros>(), Ok(amount));
        }
    }

    #[test]
    fn amounts_may_be_negative_where_that_is_meant() {
        assert_eq!(Micros::signed("-5.00"), Ok(Micros::new(-5_000_000)));
        assert_eq!(Micros::signed("5"), Ok(Micros::new(5_000_000)));
        for bad in ["--5", "-", "", "- 5", "+5", "five"] {
            assert_eq!(Micros::signed(bad), Err(NotAnAmount), "{bad:?}");
        }
    }

    #[test]
    fn units_are_written_so_that_they_multiply_up() {
        let quantity = Quantity {
            milliseconds: 4900,
            pixels: 480 * 480,
            parts: 2,
            parts_asked: 2,
        };
        for (unit, tasks, written) in [
            (PriceUnit::Second, 1, "4.9"),
            (PriceUnit::Second, 2, "9.8"),
            (PriceUnit::MegapixelSecond, 1, "1.12896"),
            (PriceUnit::AudioMinute, 1, "0.081667"),
            (PriceUnit::Stem, 1, "2"),
            (PriceUnit::Task, 3, "3"),
            (PriceUnit::Video, 4, "4"),
        ] {
            let price = Price {
                unit,
                per_unit: Micros::new(1),
            };
            assert_eq!(price.units(quantity, tasks), written, "{unit}");
        }
    }
}
