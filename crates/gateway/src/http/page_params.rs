//! Query parameters, read like the fields of a body.

use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde_json::{Map, Value};

use crate::clock::Timestamp;
use crate::error::{Error, ErrorCode};
use crate::http::fields::{self, Fields};
use crate::store::tasks::Page;

/// The parameters of a request's query.
pub(super) struct Query(Value);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        let query = parts.uri.query().unwrap_or_default();
        let pairs = url::form_urlencoded::parse(query.as_bytes());
        let map: Map<String, Value> = pairs
            .map(|(name, value)| (name.into_owned(), value.into_owned().into()))
            .collect();
        Ok(Self(Value::Object(map)))
    }
}

impl Query {
    /// Reads the parameters with `parse`; any that is not in `known` is a fault.
    pub(super) fn read_only<T>(
        &self,
        known: &[&str],
        parse: impl FnOnce(&Fields<'_>) -> Option<T>,
    ) -> Result<T, Error> {
        self.read(|query| {
            let names = query.members().keys();
            for name in names.filter(|name| !known.contains(&name.as_str())) {
                let shown: String = name.chars().take(100).collect();
                let message = format!(
                    "There is no such parameter. Those that there are: {}.",
                    known.join(", ")
                );
                query.fault(&shown, ErrorCode::UnsupportedValue, message);
            }
            parse(query)
        })
    }

    /// Reads the parameters with `parse`.
    pub(super) fn read<T>(&self, parse: impl FnOnce(&Fields<'_>) -> Option<T>) -> Result<T, Error> {
        fields::read_form(&self.0, parse)
    }
}

/// The page for `limit`, `after` and `order`; `id` parses an id of this list.
pub(super) fn page<Id>(query: &Fields<'_>, id: impl FnOnce(&str) -> Option<Id>) -> Page<Id> {
    let limit = query
        .integer("limit", 1..=100)
        .and_then(|limit| u32::try_from(limit).ok())
        .unwrap_or(20);
    let after = query.filled_string("after", 100).and_then(|text| {
        let id = id(&text);
        if id.is_none() {
            query.fault(
                "after",
                ErrorCode::InvalidValue,
                "Must be the id of an item in this list.",
            );
        }
        id
    });
    let ascending = match query.filled_string("order", 10).as_deref() {
        None | Some("desc") => false,
        Some("asc") => true,
        Some(_) => {
            query.fault(
                "order",
                ErrorCode::InvalidValue,
                "Must be \"asc\" or \"desc\".",
            );
            false
        }
    };
    Page {
        after,
        limit,
        ascending,
    }
}

/// A time, or a date as its first instant.
pub(super) fn time(query: &Fields<'_>, name: &str) -> Option<Timestamp> {
    let text = query.filled_string(name, 64)?;
    let time = Timestamp::parse(&text);
    if time.is_none() {
        let message = "Must be a time such as \"2026-01-02T03:04:05Z\", or a date.";
        query.fault(name, ErrorCode::InvalidValue, message);
    }
    time
}

/// One of a fixed set of words.
pub(super) fn word<T: FromStr>(query: &Fields<'_>, name: &str, known: &str) -> Option<T> {
    let text = query.filled_string(name, 100)?;
    let word = text.parse().ok();
    if word.is_none() {
        query.fault(
            name,
            ErrorCode::InvalidValue,
            format!("Must be one of {known}."),
        );
    }
    word
}
