//! Amounts of money, and times, on the command line.

use crate::cli::CliError;
use mediagate_core::domain::accounting::MAX_AMOUNT;
use mediagate_core::domain::usage::{EpochDay, parse_day};
use mediagate_model::clock::Timestamp;
use mediagate_model::money::MicroDollars;

/// A limit that can be removed.
#[derive(Debug, Clone, Copy)]
pub(super) struct OptionalLimit(pub(super) Option<MicroDollars>);

/// Rejects negative amounts.
pub(super) fn positive(text: &str) -> Result<MicroDollars, String> {
    text.parse().map_err(|error| format!("{error}"))
}

/// Like [`positive`], but also accepts `none`.
pub(super) fn positive_or_none(text: &str) -> Result<OptionalLimit, String> {
    if text == "none" {
        return Ok(OptionalLimit(None));
    }
    let amount = positive(text).map_err(|error| format!("{error}, or none"))?;
    Ok(OptionalLimit(Some(amount)))
}

/// Parses an amount that may be negative.
pub(super) fn signed_amount(text: &str) -> Result<MicroDollars, String> {
    MicroDollars::parse_signed(text)
        .map_err(|error| format!("{error}; a negative amount begins with -"))
}

/// A time, or a date, which means its first instant.
pub(super) fn time(text: &str) -> Result<Timestamp, String> {
    let message = "must be a time such as 2026-01-02 or 2026-01-02T03:04:05Z";
    Timestamp::parse(text).ok_or_else(|| message.to_owned())
}

/// A date.
pub(super) fn day(text: &str) -> Result<EpochDay, String> {
    parse_day(text).ok_or_else(|| "must be a date such as 2026-01-31".to_owned())
}

/// Checks a note for the ledger.
pub(super) fn note(text: &str) -> Result<String, String> {
    let length = text.chars().count();
    if text.trim().is_empty() || length > 500 || text.chars().any(char::is_control) {
        return Err("must be 1 to 500 characters without control characters".into());
    }
    Ok(text.to_owned())
}

/// Rejects zero, and amounts that are implausibly large.
pub(super) fn check_amount(name: &str, amount: MicroDollars) -> Result<(), CliError> {
    if amount == MicroDollars::ZERO {
        return Err(CliError::Usage(format!("{name}: must not be 0.00")));
    }
    if amount > MAX_AMOUNT || amount < MicroDollars::ZERO.minus(MAX_AMOUNT) {
        let message = format!("{name}: must be at most {MAX_AMOUNT} USD");
        return Err(CliError::Usage(message));
    }
    Ok(())
}

/// A limit as a table shows it.
pub(super) fn or_none(limit: Option<MicroDollars>) -> String {
    limit.map_or_else(|| "none".to_owned(), |amount| amount.to_string())
}
