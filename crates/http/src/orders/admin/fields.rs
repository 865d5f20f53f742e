//! Types of fields of an operator's requests.

use std::marker::PhantomData;
use std::str::FromStr;

use ipnet::IpNet;
use serde_json::Value;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use crate::fields::types::{text, texts};
use crate::fields::{FieldType, Fields};
use mediagate_model::account::{BudgetPeriod, Scope};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::ErrorCode;
use mediagate_model::money::Micros;

/// Most items of a list.
const MOST: usize = 100;

/// US dollars, as text: `25.00`. `SIGNED`: it may be negative.
pub struct Amount<const SIGNED: bool>;

impl<const SIGNED: bool> FieldType for Amount<SIGNED> {
    type Value = Micros;

    fn read(body: &Fields<'_>, name: &str) -> Option<Micros> {
        let text = body.string(name, 40)?;
        let amount = if SIGNED {
            Micros::signed(&text)
        } else {
            text.parse()
        };
        amount
            .map_err(|error| body.fault(name, ErrorCode::InvalidValue, format!("Wrong: {error}.")))
            .ok()
    }

    fn schema() -> RefOr<Schema> {
        text(40).into()
    }
}

/// An instant, RFC 3339.
pub struct Instant;

impl FieldType for Instant {
    type Value = Timestamp;

    fn read(body: &Fields<'_>, name: &str) -> Option<Timestamp> {
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
pub struct Length;

impl FieldType for Length {
    type Value = std::time::Duration;

    fn read(body: &Fields<'_>, name: &str) -> Option<std::time::Duration> {
        let text = body.string(name, 64)?;
        let length = humantime::parse_duration(&text).ok();
        if length.is_none() {
            let message = "Must be a length of time such as \"15m\" or \"1d\".";
            body.fault(name, ErrorCode::InvalidValue, message);
        }
        length
    }

    fn schema() -> RefOr<Schema> {
        text(64).into()
    }
}

/// `day`, `week` or `month`.
pub struct Period;

impl FieldType for Period {
    type Value = BudgetPeriod;

    fn read(body: &Fields<'_>, name: &str) -> Option<BudgetPeriod> {
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
pub trait Item: FromStr {
    /// What an item must be.
    const MUST_BE: &str;
}

impl Item for Scope {
    const MUST_BE: &str = "a scope";
}

impl Item for IpNet {
    const MUST_BE: &str = "a network such as \"10.0.0.0/8\"";
}

/// The name of a model; whether it exists is seen later.
#[derive(Debug)]
pub struct Name(pub String);

impl FromStr for Name {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let fits = !text.is_empty() && text.len() <= 200 && !text.contains('\0');
        fits.then(|| Self(text.to_owned())).ok_or(())
    }
}

impl Item for Name {
    const MUST_BE: &str = "a model's name";
}

/// A list of such items, at least one.
pub struct ListOf<T>(PhantomData<T>);

impl<T: Item> FieldType for ListOf<T> {
    type Value = Vec<T>;

    fn read(body: &Fields<'_>, name: &str) -> Option<Vec<T>> {
        let items = body.array(name, MOST)?;
        if items.is_empty() {
            let message = "Must have at least one item, or be left out.";
            body.fault(name, ErrorCode::InvalidValue, message);
            return None;
        }
        let mut read = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let fault = |code| {
                let path = format!("{}[{index}]", body.path(name));
                body.fault_at(path, code, format!("Must be {}.", T::MUST_BE));
            };
            match item.as_str().map(str::parse) {
                Some(Ok(item)) => read.push(item),
                Some(Err(_)) => fault(ErrorCode::InvalidValue),
                None => fault(ErrorCode::InvalidType),
            }
        }
        Some(read)
    }

    fn schema() -> RefOr<Schema> {
        texts(MOST).min_items(Some(1)).into()
    }
}

/// Of a change: `Some(None)` if the field is null, which removes what is there.
pub fn or_removed<T>(body: &Fields<'_>, name: &str, read: Option<T>) -> Option<Option<T>> {
    let is_null = body.members().get(name).is_some_and(Value::is_null);
    is_null.then_some(None).or(read.map(Some))
}
