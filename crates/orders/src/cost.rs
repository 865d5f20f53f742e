//! Costs of jobs as their provider reports them, in its own unit.

use serde_json::Value;

/// Millionths per unit.
const MILLION: f64 = 1e6;
/// Above this, `f64` cannot represent every whole number.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// The unit of a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostUnit {
    /// US dollars.
    Usd,
    /// The provider's own credits.
    Credits,
    /// The units of the provider's price list, such as seconds for one model and videos for
    /// another.
    Units,
    /// Seconds of a machine's time.
    ComputeSeconds,
    /// Tokens.
    Tokens,
}

impl CostUnit {
    /// The name that is stored and displayed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Usd => "usd",
            Self::Credits => "credits",
            Self::Units => "units",
            Self::ComputeSeconds => "compute_seconds",
            Self::Tokens => "tokens",
        }
    }
}

/// Whether a provider charges for an order whose content it refuses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RefusalCharge {
    /// It charges.
    Yes,
    /// It does not charge.
    No,
    /// Nobody says, or it depends.
    #[default]
    Unknown,
}

impl RefusalCharge {
    /// The name in files and in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Unknown => "unknown",
        }
    }
}

/// What is known of a provider's charge for refused orders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefusalTerms {
    /// Whether it charges.
    pub charge: RefusalCharge,
    /// Where that was read.
    pub source: Option<String>,
}

/// The cost of a job. It shows the operator the margin and does not affect what callers pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderCost {
    /// The amount in millionths of a unit.
    pub millionths: i64,
    /// The unit of the amount.
    pub unit: CostUnit,
}

impl ProviderCost {
    /// The amount at a JSON pointer, which may be a number or a number in a string. `None` if it is
    /// not a valid amount.
    pub fn at_pointer(body: &Value, pointer: &str, unit: CostUnit) -> Option<Self> {
        Self::from_value(body.pointer(pointer)?, unit, 1.0)
    }

    /// The amount in a value that counts parts of a unit; `parts_per_unit` of them make one unit.
    pub fn from_value(value: &Value, unit: CostUnit, parts_per_unit: f64) -> Option<Self> {
        let amount = match value {
            Value::Number(number) => number.as_f64()?,
            Value::String(text) => text.trim().parse().ok()?,
            _ => return None,
        };
        let millionths = (amount / parts_per_unit * MILLION).round();
        // NaN and negative amounts are outside of the range.
        #[expect(clippy::cast_possible_truncation, reason = "checked to fit")]
        (0.0..=MAX_EXACT_INTEGER)
            .contains(&millionths)
            .then_some(Self {
                millionths: millionths as i64,
                unit,
            })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_plausible_amounts_are_read() {
        let body = json!({"a": 0.25, "b": "12", "c": 37_756_000_u64, "d": -1, "e": "x", "f": 1e300, "g": null,
            "h": "NaN", "i": 0});
        let millionths_at = |pointer| {
            ProviderCost::at_pointer(&body, pointer, CostUnit::Usd).map(|cost| cost.millionths)
        };
        assert_eq!(millionths_at("/a"), Some(250_000));
        assert_eq!(millionths_at("/b"), Some(12_000_000));
        assert_eq!(millionths_at("/i"), Some(0));
        for pointer in ["/d", "/e", "/f", "/g", "/h", "/z"] {
            assert_eq!(millionths_at(pointer), None, "{pointer}");
        }
        let from_ticks = ProviderCost::from_value(&body["c"], CostUnit::Usd, 1e10);
        assert_eq!(from_ticks.map(|cost| cost.millionths), Some(3_776));
    }
}
