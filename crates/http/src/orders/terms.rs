//! Fields of an order that change nothing about what is made: the most that it may cost, and the
//! caller's own notes.

use axum::http::HeaderMap;
use serde_json::Value;
use utoipa::openapi::schema::{AdditionalProperties, AnyOfBuilder, ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use crate::fields::types::text;
use crate::fields::{BodyFields, FieldType, check_text, request};
use mediagate_core::domain::order_terms::{CostLimit, CostLimitSource, OrderTerms};
use mediagate_model::attribution::{MAX_ENTRIES, MAX_NAME, MAX_VALUE, Metadata};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::money::{InvalidAmount, MicroDollars};

/// Longest amount in characters.
const MAX_AMOUNT: usize = 40;

request! {
    /// Terms of an order that makes tasks.
    pub struct TermsFields {
        /// Your own names and values for the order: at most 16 texts of 500 characters, with names of
        /// 64 characters. They are shown with the task, and lists and sums can select by them.
        metadata: MetadataField,
        + cost: CostFields,
    }
}

request! {
    /// The limit of an order's cost.
    pub struct CostFields {
        /// The most that the request may cost, in US dollars, for example `"0.50"`. A request that
        /// may cost more is rejected with `cost_limit`, and nothing is made. The header
        /// `x-max-cost-usd` does the same. The lower of both applies.
        max_cost_usd: MaxCost,
    }
}

impl TermsFields {
    pub fn into_terms(self) -> OrderTerms {
        OrderTerms {
            metadata: self.metadata.unwrap_or_default(),
            ..self.cost.into_terms()
        }
    }
}

impl CostFields {
    pub fn into_terms(self) -> OrderTerms {
        let source = CostLimitSource::Body;
        let max_cost = self.max_cost_usd;
        OrderTerms {
            max_cost: max_cost.map(|amount| CostLimit { amount, source }),
            ..OrderTerms::default()
        }
    }
}

/// The names of the fields that say who pays and how much. Providers do not get them.
pub const NAMES: [&str; 3] = ["max_cost_usd", "metadata", "user"];

/// Texts by their names.
pub struct MetadataField;

impl FieldType for MetadataField {
    type Value = Metadata;

    fn read(body: &BodyFields<'_>, field: &str) -> Option<Metadata> {
        let object = body.object(field)?;
        if object.members().len() > MAX_ENTRIES {
            let message = format!("Must have at most {MAX_ENTRIES} entries.");
            body.fault(field, ErrorCode::InvalidValue, message);
            return None;
        }
        let mut metadata = Metadata::new();
        for name in object.members().keys() {
            if name.is_empty() || check_text(name, MAX_NAME).is_err() {
                let message = format!("The names must have 1 to {MAX_NAME} characters.");
                body.fault(field, ErrorCode::InvalidValue, message);
            } else if let Some(value) = object.string(name, MAX_VALUE) {
                metadata.insert(name.clone(), value);
            }
        }
        Some(metadata)
    }

    fn schema() -> RefOr<Schema> {
        let values = AdditionalProperties::RefOr(text(MAX_VALUE).into());
        let object = ObjectBuilder::new().schema_type(Type::Object);
        object.additional_properties(Some(values)).into()
    }
}

/// An amount in US dollars: a text or, as many programs send it, a number.
pub struct MaxCost;

impl FieldType for MaxCost {
    type Value = MicroDollars;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<MicroDollars> {
        let amount: Result<MicroDollars, InvalidAmount> = match body.value(name)? {
            Value::Number(number) => number.to_string().parse(),
            _ => body.string(name, MAX_AMOUNT)?.parse(),
        };
        let invalid = |error| body.fault(name, ErrorCode::InvalidValue, not_an_amount(error));
        amount.map_err(invalid).ok()
    }

    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new().schema_type(Type::Number);
        let number = number.minimum(Some(0));
        AnyOfBuilder::new()
            .item(text(MAX_AMOUNT))
            .item(number)
            .into()
    }
}

/// The cost limit in a request's header.
pub fn cost_limit(headers: &HeaderMap) -> Result<Option<CostLimit>, Error> {
    let source = CostLimitSource::Header;
    let malformed = |reason: String| {
        let message = format!("The header {}: {reason}", source.name());
        Error::plain(ErrorCode::InvalidValue, message)
    };
    let mut values = headers.get_all(source.name()).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(malformed("Must be sent only once.".to_owned()));
    }
    let amount = value.to_str().map_err(|_| InvalidAmount);
    let amount = amount.and_then(|text| text.trim().parse::<MicroDollars>());
    let amount = amount.map_err(|error| malformed(not_an_amount(error)))?;
    Ok(Some(CostLimit { amount, source }))
}

fn not_an_amount(error: InvalidAmount) -> String {
    format!("Must be an amount in US dollars: {error}.")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use serde_json::json;

    use super::*;
    use crate::fields;

    fn field(value: &Value) -> Result<Option<MicroDollars>, Error> {
        let body = json!({ "max_cost_usd": value });
        fields::read(&body, |body| {
            let terms = TermsFields::read(body).into_terms();
            Some(terms.max_cost.map(|limit| limit.amount))
        })
    }

    #[test]
    fn amounts_may_be_texts_or_numbers() {
        for (value, micros) in [
            (json!("0.50"), Some(500_000)),
            (json!(0.5), Some(500_000)),
            (json!(0.1), Some(100_000)),
            (json!(2), Some(2_000_000)),
            (json!("0"), Some(0)),
            (json!(null), None),
        ] {
            let amount = micros.map(MicroDollars::new);
            assert_eq!(field(&value).unwrap(), amount, "{value}");
        }
        for bad in [
            json!(""),
            json!("-1"),
            json!(-1),
            json!(1e-9),
            json!("five"),
            json!(true),
            json!({}),
            json!("0.1234567"),
        ] {
            let error = field(&bad).unwrap_err();
            assert_eq!(error.param(), Some("max_cost_usd"), "{bad}");
        }
    }

    #[test]
    fn metadata_are_a_few_short_texts() {
        let read = |metadata: &Value| {
            let body = json!({ "metadata": metadata });
            fields::read(&body, |body| {
                Some(TermsFields::read(body).into_terms().metadata)
            })
        };
        let many = |count: usize| -> Value {
            let entries = (0..count).map(|number| (format!("n{number}"), json!("x")));
            Value::Object(entries.collect())
        };
        assert_eq!(
            read(&json!({"project": "lake", "none": null}))
                .unwrap()
                .len(),
            1
        );
        assert_eq!(
            read(&json!({"ä".repeat(64): "ö".repeat(500)}))
                .unwrap()
                .len(),
            1
        );
        assert_eq!(read(&many(16)).unwrap().len(), 16);
        for (bad, param) in [
            (many(17), "metadata"),
            (json!("x"), "metadata"),
            (json!({"a": 1}), "metadata.a"),
            (json!({"a": "x".repeat(501)}), "metadata.a"),
            (json!({"x".repeat(65): "a"}), "metadata"),
            (json!({"": "a"}), "metadata"),
        ] {
            assert_eq!(read(&bad).unwrap_err().param(), Some(param), "{bad}");
        }
    }

    #[test]
    fn the_header_is_read_once() {
        let read = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("x-max-cost-usd", HeaderValue::from_static(value));
            }
            cost_limit(&headers)
        };
        assert_eq!(read(&[]).unwrap(), None);
        let limit = read(&["0.50"]).unwrap().unwrap();
        assert_eq!(limit.amount, MicroDollars::new(500_000));
        for bad in [&["x"][..], &["-1"], &[""], &["1", "1"]] {
            let error = read(bad).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidValue);
            assert!(error.message().contains("x-max-cost-usd"), "{error}");
        }
    }
}
