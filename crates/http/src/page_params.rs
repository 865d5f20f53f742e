//! Query parameters that many lists have, read like the fields of a body.

use std::str::FromStr;

use axum::http::{HeaderMap, header};

use crate::fields::{BodyFields, FieldType as _};
use crate::orders::admin::fields::InstantField;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::ErrorCode;
use mediagate_store::tasks::PageQuery;

/// The page for `limit`, `after` and `order`; `id` parses an id of this list.
pub(super) fn page<Id>(
    query: &BodyFields<'_>,
    id: impl FnOnce(&str) -> Option<Id>,
) -> PageQuery<Id> {
    page_within(query, (20, 100), id)
}

/// Like [`page`], for a list that can also be requested as CSV, whose pages are larger.
pub(super) fn page_of<Id>(
    query: &BodyFields<'_>,
    is_csv: bool,
    id: impl FnOnce(&str) -> Option<Id>,
) -> PageQuery<Id> {
    let (default_limit, max_limit) = if is_csv { (1000, 10_000) } else { (20, 100) };
    page_within(query, (default_limit, max_limit), id)
}

/// Whether the list is requested as CSV: by `format`, or else by the `Accept` header.
pub(super) fn wants_csv(query: &BodyFields<'_>, headers: &HeaderMap) -> bool {
    match query.filled_string("format", 10).as_deref() {
        Some("csv") => true,
        Some("json") => false,
        Some(_) => {
            let message = "Must be \"json\" or \"csv\".";
            query.fault("format", ErrorCode::InvalidValue, message);
            false
        }
        None => accept_prefers_csv(headers),
    }
}

/// Whether the `Accept` header prefers CSV.
fn accept_prefers_csv(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT);
    let accept = accept
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    // Weights are not read: a client that also accepts JSON gets JSON, the default.
    accept.contains("text/csv") && !accept.contains("application/json")
}

/// A time as `InstantField` reads it; an empty one is a fault.
pub(super) fn instant(query: &BodyFields<'_>, name: &str) -> Option<Timestamp> {
    query.value(name)?;
    InstantField::read(query, name)
}

fn page_within<Id>(
    query: &BodyFields<'_>,
    (default_limit, max_limit): (u32, i64),
    id: impl FnOnce(&str) -> Option<Id>,
) -> PageQuery<Id> {
    let limit = query
        .integer("limit", 1..=max_limit)
        .and_then(|limit| u32::try_from(limit).ok())
        .unwrap_or(default_limit);
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
    PageQuery {
        after,
        limit,
        ascending,
    }
}

/// A time, or a date as its first instant; an empty one counts as absent.
pub(super) fn time(query: &BodyFields<'_>, name: &str) -> Option<Timestamp> {
    let text = query.filled_string(name, 64)?;
    let time = Timestamp::parse(&text);
    if time.is_none() {
        let message = "Must be a time such as \"2026-01-02T03:04:05Z\", or a date.";
        query.fault(name, ErrorCode::InvalidValue, message);
    }
    time
}

/// One of a fixed set of words.
pub(super) fn enum_param<T: FromStr>(
    query: &BodyFields<'_>,
    name: &str,
    allowed_values: &str,
) -> Option<T> {
    let text = query.filled_string(name, 100)?;
    let value = text.parse().ok();
    if value.is_none() {
        query.fault(
            name,
            ErrorCode::InvalidValue,
            format!("Must be one of {allowed_values}."),
        );
    }
    value
}
