//! Query parameters, read like the fields of a body.

use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use serde_json::{Map, Value};

use crate::error::ErrorResponse;
use crate::fields::{self, FieldType as _, Fields};
use crate::orders::admin::fields::Instant;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_store::tasks::Page;

/// The parameters of a request's query.
pub(super) struct Query(Value);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ErrorResponse> {
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
    page_within(query, (20, 100), id)
}

/// The same of a list that may be asked for as CSV, whose pages are larger.
pub(super) fn page_of<Id>(
    query: &Fields<'_>,
    is_csv: bool,
    id: impl FnOnce(&str) -> Option<Id>,
) -> Page<Id> {
    let (usual, most) = if is_csv { (1000, 10_000) } else { (20, 100) };
    page_within(query, (usual, most), id)
}

/// Whether the list is asked for as CSV: by `format`, or else by the `Accept` header.
pub(super) fn csv_wanted(query: &Fields<'_>, headers: &HeaderMap) -> bool {
    match query.filled_string("format", 10).as_deref() {
        Some("csv") => true,
        Some("json") => false,
        Some(_) => {
            let message = "Must be \"json\" or \"csv\".";
            query.fault("format", ErrorCode::InvalidValue, message);
            false
        }
        None => wants_csv(headers),
    }
}

/// Whether the `Accept` header prefers CSV.
fn wants_csv(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT);
    let accept = accept
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    accept.contains("text/csv") && !accept.contains("application/json")
}

/// An instant.
pub(super) fn instant(query: &Fields<'_>, name: &str) -> Option<Timestamp> {
    query.value(name)?;
    Instant::read(query, name)
}

fn page_within<Id>(
    query: &Fields<'_>,
    (usual, most): (u32, i64),
    id: impl FnOnce(&str) -> Option<Id>,
) -> Page<Id> {
    let limit = query
        .integer("limit", 1..=most)
        .and_then(|limit| u32::try_from(limit).ok())
        .unwrap_or(usual);
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
