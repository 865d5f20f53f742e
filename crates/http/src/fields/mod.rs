//! Field reader of a JSON object, which collects everything that is wrong.
//!
//! Each getter returns `None` for a field that is absent, null, or invalid. Faults are collected,
//! and [`read`] fails with all of them at once. Unknown fields are ignored: callers send additional
//! fields of other APIs. Two kinds are not: in an order those that say what is made
//! ([`refuse_unknown`], [`unknown_faults`]), and in an operator's limits those that resemble a known one ([`read_strict`]).
//!
//! A request is declared with the macro in `request`, from the field types in `types`. The
//! declaration gives its reader and its schema. `parameters` does the same for a query.

pub(crate) mod parameters;
pub mod request;
pub mod types;
mod unknown_fields;

use std::cell::RefCell;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};
use utoipa::openapi::schema::Object;

use mediagate_model::error::{Error, ErrorCode, FieldError};

pub use request::FieldType;
pub(crate) use request::request;
pub use unknown_fields::{refuse_unknown, unknown_faults};

/// Maximum size of a JSON body with its `data:` URLs, in bytes.
pub(crate) const BODY_LIMIT: usize = 32_000_000;

/// An object of a body, at its path.
pub struct BodyFields<'a> {
    map: &'a Map<String, Value>,
    path: String,
    /// Whether numbers and flags may come as text, as in forms.
    lenient: bool,
    faults: &'a RefCell<Vec<FieldError>>,
}

/// Reads a body with `parse`. If `parse` returns `None`, it must have recorded a fault.
pub fn read<T>(body: &Value, parse: impl FnOnce(&BodyFields<'_>) -> Option<T>) -> Result<T, Error> {
    read_as(body, false, parse)
}

/// Reads a body with `parse`. A member whose name resembles a `declared` one, as `budget` resembles
/// `budget_usd`, is a fault, and so are the `misnomers`: a limit under another name would limit
/// nothing. Other unknown members are ignored.
pub fn read_strict<T>(
    body: &Value,
    declared: &Object,
    misnomers: &[&str],
    parse: impl FnOnce(&BodyFields<'_>) -> Option<T>,
) -> Result<T, Error> {
    read(body, |body| {
        let names = || declared.properties.keys().map(String::as_str);
        for name in body.members().keys().map(String::as_str) {
            let resembles = |known: &str| known.starts_with(name) || name.starts_with(known);
            let is_near = misnomers.contains(&name) || (!name.is_empty() && names().any(resembles));
            if is_near && !names().any(|known| known == name) {
                // The response contains the name, which can be as long as the caller likes.
                let excerpt: String = name.chars().take(100).collect();
                let known: Vec<&str> = names().collect();
                let message = format!("Unknown field. The known fields are: {}.", known.join(", "));
                body.fault(&excerpt, ErrorCode::UnsupportedValue, message);
            }
        }
        parse(body)
    })
}

/// Reads a form or a query that was turned into JSON, in which numbers and flags are text.
pub fn read_form<T>(
    body: &Value,
    parse: impl FnOnce(&BodyFields<'_>) -> Option<T>,
) -> Result<T, Error> {
    read_as(body, true, parse)
}

fn read_as<T>(
    body: &Value,
    lenient: bool,
    parse: impl FnOnce(&BodyFields<'_>) -> Option<T>,
) -> Result<T, Error> {
    let Value::Object(map) = body else {
        let fault = FieldError {
            code: ErrorCode::InvalidType,
            param: String::new(),
            message: "The body must be a JSON object.".into(),
        };
        return Err(Error::Invalid(vec![fault]));
    };
    let faults = RefCell::default();
    let parsed = parse(&BodyFields {
        map,
        path: String::new(),
        lenient,
        faults: &faults,
    });
    let faults = faults.into_inner();
    if !faults.is_empty() {
        return Err(Error::Invalid(faults));
    }
    parsed.ok_or_else(|| Error::internal("a body was refused without a fault"))
}

impl<'a> BodyFields<'a> {
    /// All members, including null ones.
    pub const fn members(&self) -> &'a Map<String, Value> {
        self.map
    }

    /// The path of a field, as errors name it.
    pub fn path(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// Records a fault of a field.
    pub fn fault(&self, name: &str, code: ErrorCode, message: impl Into<String>) {
        self.fault_at(self.path(name), code, message);
    }

    /// Records a fault at a full path.
    pub fn fault_at(&self, param: String, code: ErrorCode, message: impl Into<String>) {
        self.faults.borrow_mut().push(FieldError {
            code,
            param,
            message: message.into(),
        });
    }

    /// The field, unless it is absent or null.
    pub fn value(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Records a fault if the field is absent or null.
    pub fn require(&self, name: &str) {
        if self.value(name).is_none() {
            self.fault(name, ErrorCode::MissingField, "This field is required.");
        }
    }

    fn wrong_type(&self, name: &str, expected: &str) {
        self.fault(name, ErrorCode::InvalidType, format!("Must be {expected}."));
    }

    /// A text of at most `max_length` characters.
    pub fn string(&self, name: &str, max_length: usize) -> Option<String> {
        let Value::String(text) = self.value(name)? else {
            self.wrong_type(name, "a string");
            return None;
        };
        check_text(text, max_length)
            .map_err(|message| self.fault(name, ErrorCode::InvalidValue, message))
            .ok()?;
        Some(text.clone())
    }

    /// A text that is not empty; an empty one counts as absent.
    pub fn filled_string(&self, name: &str, max_length: usize) -> Option<String> {
        self.string(name, max_length)
            .filter(|text| !text.is_empty())
    }

    /// A whole number in a range; `4.0` is one too.
    pub fn integer(&self, name: &str, range: RangeInclusive<i64>) -> Option<i64> {
        let number = match self.value(name)? {
            // Languages with a single number type send 4.0 for 4.
            Value::Number(number) => number.as_i64().or_else(|| whole_number(number.as_f64()?)),
            Value::String(text) if self.lenient => text.trim().parse().ok(),
            _ => None,
        };
        let Some(number) = number else {
            self.wrong_type(name, "an integer");
            return None;
        };
        if !range.contains(&number) {
            let message = match (*range.start(), *range.end()) {
                (start, i64::MAX) => format!("Must be at least {start}."),
                (start, end) => format!("Must be from {start} to {end}."),
            };
            self.fault(name, ErrorCode::InvalidValue, message);
            return None;
        }
        Some(number)
    }

    /// Any number in a range.
    pub fn number(&self, name: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let number = match self.value(name)? {
            Value::Number(number) => number.as_f64(),
            Value::String(text) if self.lenient => text.trim().parse().ok(),
            _ => None,
        };
        let Some(number) = number else {
            self.wrong_type(name, "a number");
            return None;
        };
        // NaN, which `parse` takes from a form, is in no range either.
        if !range.contains(&number) {
            self.fault(
                name,
                ErrorCode::InvalidValue,
                format!("Must be from {} to {}.", range.start(), range.end()),
            );
            return None;
        }
        Some(number)
    }

    /// A flag.
    pub fn boolean(&self, name: &str) -> Option<bool> {
        match self.value(name)? {
            Value::Bool(flag) => Some(*flag),
            Value::String(text) if self.lenient && matches!(text.as_str(), "true" | "false") => {
                Some(text == "true")
            }
            _ => {
                self.wrong_type(name, "true or false");
                None
            }
        }
    }

    /// A list of at most `max_items` items.
    pub fn array(&self, name: &str, max_items: usize) -> Option<&'a [Value]> {
        let Value::Array(items) = self.value(name)? else {
            self.wrong_type(name, "an array");
            return None;
        };
        if items.len() > max_items {
            self.fault(
                name,
                ErrorCode::InvalidValue,
                format!("Must have at most {max_items} items."),
            );
            return None;
        }
        Some(items)
    }

    /// An object.
    pub fn object(&self, name: &str) -> Option<BodyFields<'a>> {
        let value = self.value(name)?;
        let fields = self.nested(value, self.path(name));
        if fields.is_none() {
            self.wrong_type(name, "an object");
        }
        fields
    }

    /// An item of a list as an object; anything else is a fault.
    pub fn item(&self, name: &str, index: usize, item: &'a Value) -> Option<BodyFields<'a>> {
        let path = format!("{}[{index}]", self.path(name));
        let fields = self.nested(item, path.clone());
        if fields.is_none() {
            self.fault_at(path, ErrorCode::InvalidType, "Must be an object.");
        }
        fields
    }

    fn nested(&self, value: &'a Value, path: String) -> Option<BodyFields<'a>> {
        let Value::Object(map) = value else {
            return None;
        };
        Some(BodyFields {
            map,
            path,
            lenient: self.lenient,
            faults: self.faults,
        })
    }

    /// An identifier; any other text is a fault.
    pub fn id<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        let text = self.filled_string(name, 100)?;
        let id = text.trim().parse().ok();
        if id.is_none() {
            self.fault(name, ErrorCode::InvalidValue, "Must be an id in UUID form.");
        }
        id
    }
}

/// Checks that a text can be stored: of limited length, and free of NUL, which Postgres cannot
/// store.
pub fn check_text(text: &str, max_length: usize) -> Result<(), String> {
    // A text never has more characters than bytes, so most texts need no count.
    if text.len() > max_length && text.chars().count() > max_length {
        return Err(format!("Must have at most {max_length} characters."));
    }
    if text.contains('\0') {
        return Err("Must not contain NUL characters.".into());
    }
    Ok(())
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "checked to be whole and small"
)]
fn whole_number(number: f64) -> Option<i64> {
    // Below 2^53, about 9.007e15, an f64 represents every whole number.
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn faults(body: &Value) -> Vec<(String, ErrorCode)> {
        let parsed = read(body, |fields| {
            fields.require("a");
            fields.string("a", 3);
            fields.integer("b", 1..=4);
            fields.number("c", 0.0..=2.0);
            fields.boolean("d");
            fields.object("e").map(|e| e.array("f", 1));
            Some(())
        });
        match parsed {
            Ok(()) => Vec::new(),
            Err(Error::Invalid(faults)) => faults
                .into_iter()
                .map(|fault| (fault.param, fault.code))
                .collect(),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn every_fault_is_found_at_once() {
        let body = json!({"a": 1, "b": 1.5, "c": 3, "d": "true", "e": {"f": [1, 2]}});
        let param_codes = faults(&body);
        let expected = [
            ("a", ErrorCode::InvalidType),
            ("b", ErrorCode::InvalidType),
            ("c", ErrorCode::InvalidValue),
            ("d", ErrorCode::InvalidType),
            ("e.f", ErrorCode::InvalidValue),
        ];
        assert_eq!(
            param_codes,
            expected.map(|(param, code)| (param.to_owned(), code))
        );
    }

    #[test]
    fn null_means_absent_and_unknown_fields_are_ignored() {
        assert!(faults(&json!({"a": "x", "b": null, "zzz": [[]]})).is_empty());
        assert_eq!(
            faults(&json!({"a": null})),
            [("a".to_owned(), ErrorCode::MissingField)]
        );
        assert_eq!(
            faults(&json!([])),
            [(String::new(), ErrorCode::InvalidType)]
        );
    }

    #[test]
    fn characters_are_counted_not_bytes() {
        assert!(faults(&json!({"a": "äöü"})).is_empty());
        assert_eq!(faults(&json!({"a": "äöüß"})).len(), 1);
        assert_eq!(faults(&json!({"a": "\0"})).len(), 1);
    }

    #[test]
    fn a_form_may_write_numbers_as_text() {
        let body = json!({"n": "4", "f": "0.5", "b": "true"});
        let read = |lenient| {
            read_as(&body, lenient, |fields| {
                Some((
                    fields.integer("n", 1..=9)?,
                    fields.number("f", 0.0..=1.0)?,
                    fields.boolean("b")?,
                ))
            })
        };
        assert_eq!(read(true).unwrap(), (4, 0.5, true));
        assert!(read(false).is_err());
    }

    proptest! {
        #[test]
        fn no_value_breaks_the_reader(text in "\\PC*", number in any::<f64>()) {
            for value in [json!(text), json!(number), json!([text]), json!({"f": number})] {
                faults(&json!({"a": value, "b": value, "c": value, "d": value, "e": value}));
            }
        }
    }
}
