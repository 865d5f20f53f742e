//! Money: integer micro-dollars in the program, decimal strings outside.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Millionths of a US dollar.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MicroDollars(i64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write a decimal number with at most six decimal places, for example \"0.10\"")]
pub struct InvalidAmount;

impl MicroDollars {
    pub const ZERO: Self = Self(0);

    /// Parses an amount that may be negative: `-5.00`.
    pub fn parse_signed(text: &str) -> Result<Self, InvalidAmount> {
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

impl fmt::Display for MicroDollars {
    /// Dollars with at least two decimals, and as many more as needed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        // `abs` would overflow for the smallest number.
        let micros = self.0.unsigned_abs();
        let fraction = format!("{:06}", micros % 1_000_000);
        let decimals = fraction.trim_end_matches('0').len().max(2);
        write!(f, "{sign}{}.{}", micros / 1_000_000, &fraction[..decimals])
    }
}

impl FromStr for MicroDollars {
    type Err = InvalidAmount;

    fn from_str(text: &str) -> Result<Self, InvalidAmount> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        // Checked here, because the parser of integers would accept a sign, even after the point.
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !is_number(whole) || !is_number(fraction) || fraction.len() > 6 {
            return Err(InvalidAmount);
        }
        let whole: i64 = whole.parse().map_err(|_| InvalidAmount)?;
        let fraction: i64 = format!("{fraction:0<6}")
            .parse()
            .map_err(|_| InvalidAmount)?;
        whole
            .checked_mul(1_000_000)
            .and_then(|micros| micros.checked_add(fraction))
            .map(Self)
            .ok_or(InvalidAmount)
    }
}

/// Whether a task's money is held, charged or released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub enum ChargeState {
    /// The task is free.
    Free,
    /// The reservation is held.
    Held,
    /// The result has been charged.
    Settled,
    /// The reservation was released.
    Released,
}

impl ChargeState {
    pub const fn name(self) -> &'static str {
        self.into_str()
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
            let amount: MicroDollars = text.parse().unwrap();
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
            assert_eq!(bad.parse::<MicroDollars>(), Err(InvalidAmount), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn amounts_round_trip(micros in 0..i64::MAX) {
            let amount = MicroDollars::new(micros);
            prop_assert_eq!(amount.to_string().parse::<MicroDollars>(), Ok(amount));
        }
    }

    #[test]
    fn amounts_may_be_negative_where_that_is_meant() {
        assert_eq!(
            MicroDollars::parse_signed("-5.00"),
            Ok(MicroDollars::new(-5_000_000))
        );
        assert_eq!(
            MicroDollars::parse_signed("5"),
            Ok(MicroDollars::new(5_000_000))
        );
        for bad in ["--5", "-", "", "- 5", "+5", "five"] {
            assert_eq!(
                MicroDollars::parse_signed(bad),
                Err(InvalidAmount),
                "{bad:?}"
            );
        }
    }
}
