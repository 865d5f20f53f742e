//! Money: integer micro-dollars inside, decimal strings outside.

use std::fmt;
use std::str::FromStr;

use crate::model::catalog::PriceUnit;

/// An amount in millionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Micros(i64);

/// The text is not an amount of dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an amount is written in dollars with at most six decimals, for example \"0.10\"")]
pub struct NotAnAmount;

impl Micros {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// From millionths of a dollar.
    pub const fn new(micros: i64) -> Self {
        Self(micros)
    }

    /// Millionths of a dollar.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The sum, saturating at the far end of the range.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// This price for `quantity` units, where `quantity` counts thousandths of
    /// the unit; rounded half up to a micro-dollar.
    #[must_use]
    pub fn times_thousandths(self, quantity: u64) -> Self {
        let product = i128::from(self.0) * i128::from(quantity);
        Self(i64::try_from((product + 500) / 1000).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Micros {
    /// Dollars with at least two decimals and no more than are needed.
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

/// What one unit of a model's work costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// What is counted.
    pub unit: PriceUnit,
    /// The price of one.
    pub per_unit: Micros,
}

/// How much was asked for or made, in the terms that prices count.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    /// Length of the video or of the source audio, in milliseconds.
    pub milliseconds: u64,
    /// Pixels of a frame.
    pub pixels: u64,
    /// Stems made.
    pub stems: u64,
}

impl Price {
    /// The cost of `quantity`.
    pub fn of(self, quantity: Quantity) -> Micros {
        let thousandths = match self.unit {
            PriceUnit::Second => quantity.milliseconds,
            PriceUnit::AudioMinute => quantity.milliseconds.div_ceil(60),
            PriceUnit::MegapixelSecond => {
                let product = u128::from(quantity.milliseconds) * u128::from(quantity.pixels);
                u64::try_from(product / 1_000_000).unwrap_or(u64::MAX)
            }
            PriceUnit::Stem => quantity.stems.saturating_mul(1000),
            PriceUnit::Video | PriceUnit::Task => 1000,
        };
        self.per_unit.times_thousandths(thousandths)
    }
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
            stems: 4,
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

    proptest! {
        #[test]
        fn amounts_round_trip(micros in 0..i64::MAX) {
            let amount = Micros::new(micros);
            prop_assert_eq!(amount.to_string().parse::<Micros>(), Ok(amount));
        }
    }
}
