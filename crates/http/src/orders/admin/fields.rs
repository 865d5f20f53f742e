//! Types of fields of an operator's requests.

use std::marker::PhantomData;
use std::str::FromStr;

use ipnet::IpNet;
use serde_json::Value;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use crate::fields::types::{NonBlankText, text, texts};
use crate::fields::{BodyFields, FieldType};
use mediagate_model::account::{BudgetPeriod, Scope};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::ErrorCode;
use mediagate_model::money::MicroDollars;

/// Maximum number of items in a list.
const MAX_ITEMS: usize = 100;

/// A text of one line, at most `MAX` characters; one that is blank or contains control characters is
/// a fault.
pub struct LineText<const MAX: usize>;

impl<const MAX: usize> FieldType for LineText<MAX> {
    type Value = String;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<String> {
        let line = NonBlankText::<MAX>::read(body, name)?;
        // Names and notes are shown in tables, logs and terminals.
        if line.chars().any(char::is_control) {
            let message = "Must not contain control characters.";
            body.fault(name, ErrorCode::InvalidValue, message);
        }
        Some(line)
    }

    fn schema() -> RefOr<Schema> {
        NonBlankText::<MAX>::schema()
    }
}

/// US dollars, as text: `25.00`. `SIGNED`: it may be negative.
pub struct AmountField<const SIGNED: bool>;

impl<const SIGNED: bool> FieldType for AmountField<SIGNED> {
    type Value = MicroDollars;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<MicroDollars> {
        let text = body.string(name, 40)?;
        let amount = if SIGNED {
            MicroDollars::parse_signed(&text)
        } else {
            text.parse()
        };
        amount
            .map_err(|error| {
                body.fault(
                    name,
                    ErrorCode::InvalidValue,
                    format!("Must be an amount in US dollars: {error}."),
                );
            })
            .ok()
    }

    fn schema() -> RefOr<Schema> {
        text(40).into()
    }
}

/// An instant, RFC 3339.
pub struct InstantField;

impl FieldType for InstantField {
    type Value = Timestamp;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<Timestamp> {
        let time = Timestamp::parse(&body.string(name, 64)?);
        if time.is_none() {
            let message = "Must be a time such as \"2026-01-02T03:04:05Z\".";
            body.fault(name, ErrorCode::InvalidValue, message);
        }
        time
    }

    fn schema() -> RefOr<Schema> {
        text(64).into()
    }
}

/// A length of time, as text: `30d`.
pub struct DurationField;

impl FieldType for DurationField {
    type Value = std::time::Duration;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<std::time::Duration> {
        let text = body.string(name, 64)?;
        let length = humantime::parse_duration(&text).ok();
        if length.is_none() {
            let message = "Must be a duration such as \"15m\" or \"1d\".";
            body.fault(name, ErrorCode::InvalidValue, message);
        }
        length
    }

    fn schema() -> RefOr<Schema> {
        text(64).into()
    }
}

/// `day`, `week` or `month`.
pub struct PeriodField;

impl FieldType for PeriodField {
    type Value = BudgetPeriod;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<BudgetPeriod> {
        let period = body.string(name, 32)?.parse().ok();
        if period.is_none() {
            let message = "Must be \"day\", \"week\" or \"month\".";
            body.fault(name, ErrorCode::InvalidValue, message);
        }
        period
    }

    fn schema() -> RefOr<Schema> {
        let names = BudgetPeriod::ALL.iter().map(|period| period.name());
        let period = ObjectBuilder::new().schema_type(Type::String);
        period.enum_values(Some(names)).into()
    }
}

/// An item of a list, as text.
pub trait ListItem: FromStr {
    /// What an item must be, for the error message.
    const MUST_BE: &str;
}

impl ListItem for Scope {
    const MUST_BE: &str = "a scope";
}

impl ListItem for IpNet {
    const MUST_BE: &str = "a network such as \"10.0.0.0/8\"";
}

/// The name of a model; whether the model exists is checked later.
#[derive(Debug)]
pub struct ModelName(pub String);

impl FromStr for ModelName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let is_valid = !text.is_empty() && text.len() <= 200 && !text.contains('\0');
        is_valid.then(|| Self(text.to_owned())).ok_or(())
    }
}

impl ListItem for ModelName {
    const MUST_BE: &str = "the name of a model";
}

/// A list of at least one item.
pub struct ListField<T>(PhantomData<T>);

impl<T: ListItem> FieldType for ListField<T> {
    type Value = Vec<T>;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<Vec<T>> {
        let items = body.array(name, MAX_ITEMS)?;
        // An empty list would not mean none: a new key without scopes has the default ones.
        if items.is_empty() {
            let message = "Must have at least one item, or be omitted.";
            body.fault(name, ErrorCode::InvalidValue, message);
            return None;
        }
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let fault = |code| {
                let path = format!("{}[{index}]", body.path(name));
                body.fault_at(path, code, format!("Must be {}.", T::MUST_BE));
            };
            match item.as_str().map(str::parse) {
                Some(Ok(item)) => list.push(item),
                Some(Err(_)) => fault(ErrorCode::InvalidValue),
                None => fault(ErrorCode::InvalidType),
            }
        }
        Some(list)
    }

    fn schema() -> RefOr<Schema> {
        texts(MAX_ITEMS).min_items(Some(1)).into()
    }
}

/// A field of a change: `Some(None)` if it is null, which removes the current value.
pub fn or_removed<T>(body: &BodyFields<'_>, name: &str, value: Option<T>) -> Option<Option<T>> {
    let is_null = body.members().get(name).is_some_and(Value::is_null);
    is_null.then_some(None).or(value.map(Some))
}
