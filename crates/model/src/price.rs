//! Prices of a model's work, as the settings declare them.

use std::fmt;

use orders::MediaKind;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::money::MicroDollars;

/// A route with this model passes on the name that the caller used.
pub const PASS_THROUGH_MODEL: &str = "*";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[serde(rename_all = "snake_case")]
pub enum PriceUnit {
    /// Per second of video.
    Second,
    /// Per video, whatever its length.
    Video,
    /// Per million pixels shown for a second.
    MegapixelSecond,
    /// Per minute of source audio.
    AudioMinute,
    /// Per stem made.
    Stem,
    /// Per task, whatever it makes.
    Task,
}

impl PriceUnit {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Video => "video",
            Self::MegapixelSecond => "megapixel_second",
            Self::AudioMinute => "audio_minute",
            Self::Stem => "stem",
            Self::Task => "task",
        }
    }

    /// The unit in which most providers count this kind of work.
    pub const fn usual(kind: MediaKind) -> Self {
        match kind {
            MediaKind::Video => Self::Second,
            MediaKind::Music => Self::Task,
        }
    }

    /// Whether the unit can be counted for this kind of work.
    pub const fn fits(self, kind: MediaKind) -> bool {
        match self {
            Self::Second | Self::Video | Self::MegapixelSecond => matches!(kind, MediaKind::Video),
            Self::AudioMinute | Self::Stem => matches!(kind, MediaKind::Music),
            Self::Task => true,
        }
    }
}

impl fmt::Display for PriceUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The price of one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    pub unit: PriceUnit,
    pub per_unit: MicroDollars,
}

/// A quantity in all units that prices can use, as it is stored. What counts as ordered, delivered
/// or charged is decided in `mediagate-core`, in its module `pricing`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkQuantity {
    /// Length of the video or of the source audio.
    pub milliseconds: u64,
    /// Pixels per frame.
    pub pixels: u64,
    /// Videos, stems or songs.
    pub parts: u64,
    /// Parts that were ordered: a price for the whole is charged in proportion.
    pub parts_asked: u64,
}

/// The charge for `quantity`, at most what was reserved. A price that is not known is not a price of
/// zero: what was reserved is charged then.
pub fn charge(
    price: Option<Price>,
    quantity: WorkQuantity,
    reserved: MicroDollars,
) -> MicroDollars {
    let cost = price.map_or(reserved, |price| price.cost_of(quantity));
    cost.min(reserved)
}

impl Price {
    /// The cost of `quantity`, rounded half up to a micro-dollar.
    pub fn cost_of(self, quantity: WorkQuantity) -> MicroDollars {
        let (units, divisor) = self.count(quantity);
        // In 128 bits, because pixels times time times price overflow 64.
        let product = u128::from(self.per_unit.get().unsigned_abs()).saturating_mul(units);
        let rounded = product.saturating_add(divisor / 2) / divisor;
        MicroDollars::new(i64::try_from(rounded).unwrap_or(i64::MAX))
    }

    /// Number of units, as a fraction.
    fn count(self, quantity: WorkQuantity) -> (u128, u128) {
        let milliseconds = u128::from(quantity.milliseconds);
        // Anything beyond the order is not charged.
        let charged_parts = u128::from(quantity.parts.min(quantity.parts_asked));
        // Never zero, because it is a divisor.
        let ordered_parts = u128::from(quantity.parts_asked.max(1));
        match self.unit {
            PriceUnit::Second => (milliseconds, 1000),
            PriceUnit::MegapixelSecond => (
                milliseconds.saturating_mul(quantity.pixels.into()),
                1_000_000_000,
            ),
            PriceUnit::AudioMinute => (milliseconds, 60_000),
            PriceUnit::Stem => (charged_parts, 1),
            PriceUnit::Video | PriceUnit::Task => (charged_parts, ordered_parts),
        }
    }

    /// Number of units in `tasks` such tasks, in decimal (`4.9`, `5`), rounded half up to a
    /// millionth.
    pub fn units(self, quantity: WorkQuantity, tasks: u64) -> String {
        let (units, divisor) = self.count(quantity);
        let units = units.saturating_mul(tasks.into());
        let millionths = units.saturating_mul(1_000_000).saturating_add(divisor / 2) / divisor;
        let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
        // There is always a point, so no zero of the whole part is lost.
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// A price and when it is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatedPrice {
    /// Inclusive; no lower bound if `None`.
    pub from: Option<Timestamp>,
    pub price: Price,
    /// Price of a unit without sound, if different.
    pub without_audio: Option<MicroDollars>,
}

impl DatedPrice {
    /// The price without sound if `is_silent`, else the normal one.
    pub fn price_for(self, is_silent: bool) -> Price {
        let per_unit = self.without_audio.filter(|_| is_silent);
        Price {
            per_unit: per_unit.unwrap_or(self.price.per_unit),
            ..self.price
        }
    }
}

/// The prices of a model over time: each is valid until the next, without gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceSchedule {
    first: DatedPrice,
    /// By date.
    later: Vec<DatedPrice>,
}

/// Why a list of prices is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// There are no prices.
    #[error("a list of prices must have at least one price")]
    Empty,
    /// Two prices begin at the same time.
    #[error("two prices start at {}", .0.map_or_else(|| "no date".into(), Timestamp::rfc3339))]
    Duplicate(Option<Timestamp>),
}

impl PriceSchedule {
    /// Sorts prices by date.
    pub fn new(mut prices: Vec<DatedPrice>) -> Result<Self, ScheduleError> {
        prices.sort_by_key(|dated| dated.from);
        if let Some(pair) = prices.windows(2).find(|pair| pair[0].from == pair[1].from) {
            return Err(ScheduleError::Duplicate(pair[0].from));
        }
        let mut prices = prices.into_iter();
        let first = prices.next().ok_or(ScheduleError::Empty)?;
        Ok(Self {
            first,
            later: prices.collect(),
        })
    }

    pub const fn always(price: Price) -> Self {
        Self {
            first: DatedPrice {
                from: None,
                price,
                without_audio: None,
            },
            later: Vec::new(),
        }
    }

    fn prices(&self) -> impl Iterator<Item = &DatedPrice> {
        std::iter::once(&self.first).chain(&self.later)
    }

    /// The price at `now`, or the first one if it has not begun yet.
    pub fn at(&self, now: Timestamp) -> DatedPrice {
        let later = self.later.iter();
        let begun = later.take_while(|dated| dated.from <= Some(now));
        *begun.last().unwrap_or(&self.first)
    }

    /// Whether any of its prices differs without sound.
    pub fn depends_on_audio(&self) -> bool {
        self.prices().any(|dated| dated.without_audio.is_some())
    }

    /// The price that follows the one at `now`.
    pub fn next(&self, now: Timestamp) -> Option<DatedPrice> {
        self.prices().copied().find(|dated| dated.from > Some(now))
    }

    /// When the first price begins; `None` if it has always been valid.
    pub const fn begins(&self) -> Option<Timestamp> {
        self.first.from
    }
}

/// The prices at the time a task was accepted, and the ordered quantity. The final cost is computed
/// from them, whatever the settings are by then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tariff {
    /// The model's price, for routes without one of their own.
    pub price: Option<Price>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RoutePrice>,
    /// The costs of those routes for which the operator configured one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<RoutePrice>,
    /// The ordered quantity.
    pub asked: WorkQuantity,
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
    /// The amount to reserve: the highest cost by any route.
    pub fn reserve(&self) -> MicroDollars {
        let routes = self.routes.iter().map(|route| route.price);
        let prices = self.price.into_iter().chain(routes);
        prices
            .map(|price| price.cost_of(self.asked))
            .max()
            .unwrap_or(MicroDollars::ZERO)
    }

    /// The price by the route with this provider and model; `None` if it is not known, which does
    /// not mean that it is free.
    pub fn price_by(&self, provider: &str, model: &str) -> Option<Price> {
        route_price(&self.routes, provider, model).or(self.price)
    }

    /// The cost that the operator configured for this provider and model; `None` if there is none.
    pub fn cost_by(&self, provider: &str, model: &str) -> Option<Price> {
        route_price(&self.costs, provider, model)
    }
}

fn route_price(prices: &[RoutePrice], provider: &str, model: &str) -> Option<Price> {
    let mut prices = prices.iter();
    let own = prices.find(|route| {
        route.provider == provider && [model, PASS_THROUGH_MODEL].contains(&route.model.as_str())
    });
    own.map(|route| route.price)
}

/// The charges for a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bill {
    /// `None` if it is not known, as that of a route which got its name while the task waited. What
    /// was reserved is charged then.
    pub price: Option<Price>,
    /// The quantity charged.
    pub quantity: WorkQuantity,
    pub cost: MicroDollars,
    /// The quantity that the provider delivered, if that is more; it counts for the provider's
    /// cost, but is not charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<WorkQuantity>,
    /// The missing part, if not everything was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_count_what_they_name() {
        let price = |unit| Price {
            unit,
            per_unit: MicroDollars::new(100_000),
        };
        let quantity = WorkQuantity {
            milliseconds: 5_000,
            pixels: 1_000_000,
            parts: 4,
            parts_asked: 4,
        };
        assert_eq!(price(PriceUnit::Second).cost_of(quantity).get(), 500_000);
        assert_eq!(price(PriceUnit::Video).cost_of(quantity).get(), 100_000);
        assert_eq!(price(PriceUnit::Stem).cost_of(quantity).get(), 400_000);
        assert_eq!(
            price(PriceUnit::MegapixelSecond).cost_of(quantity).get(),
            500_000
        );
        assert_eq!(
            price(PriceUnit::AudioMinute)
                .cost_of(WorkQuantity {
                    milliseconds: 90_000,
                    ..quantity
                })
                .get(),
            150_000
        );
        assert_eq!(price(PriceUnit::Task).cost_of(quantity).get(), 100_000);
    }

    #[test]
    fn a_part_is_paid_for_in_part() {
        let price = |unit| Price {
            unit,
            per_unit: MicroDollars::new(100_000),
        };
        let three_of_four = WorkQuantity {
            milliseconds: 60_000,
            pixels: 0,
            parts: 3,
            parts_asked: 4,
        };
        assert_eq!(price(PriceUnit::Task).cost_of(three_of_four).get(), 75_000);
        assert_eq!(price(PriceUnit::Stem).cost_of(three_of_four).get(), 300_000);
        let five_parts = WorkQuantity {
            parts: 5,
            ..three_of_four
        };
        assert_eq!(price(PriceUnit::Stem).cost_of(five_parts).get(), 400_000);
    }

    #[test]
    fn halves_are_rounded_up() {
        let price = Price {
            unit: PriceUnit::Second,
            per_unit: MicroDollars::new(1),
        };
        let cost = |milliseconds| {
            let quantity = WorkQuantity {
                milliseconds,
                ..WorkQuantity::default()
            };
            price.cost_of(quantity).get()
        };
        assert_eq!((cost(499), cost(500), cost(1499), cost(1500)), (0, 1, 1, 2));
    }

    #[test]
    fn prices_change_on_their_day() {
        let price = |micros| Price {
            unit: PriceUnit::Task,
            per_unit: MicroDollars::new(micros),
        };
        let at = Timestamp::from_seconds;
        let schedule = PriceSchedule::new(vec![
            DatedPrice {
                from: Some(at(200)),
                price: price(3),
                without_audio: None,
            },
            DatedPrice {
                from: None,
                price: price(1),
                without_audio: None,
            },
            DatedPrice {
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
            DatedPrice {
                from: Some(at(1)),
                price: price(1),
                without_audio: None,
            };
            2
        ];
        assert!(PriceSchedule::new(twice).is_err());
        assert_eq!(PriceSchedule::new(Vec::new()), Err(ScheduleError::Empty));
    }

    #[test]
    fn units_are_written_so_that_they_multiply_up() {
        let quantity = WorkQuantity {
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
                per_unit: MicroDollars::new(1),
            };
            assert_eq!(price.units(quantity, tasks), written, "{unit}");
        }
    }
}
