//! Query parameters that many lists have, and the types of parameters.

use std::marker::PhantomData;
use std::str::FromStr;

use axum::http::{HeaderMap, header};
use utoipa::openapi::path::Parameter;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use crate::fields::parameters::{QueryParameters, describe, invalid, is_parameter, parameters};
use crate::fields::types::{BooleanField, IntegerField, OptionalText, text};
use crate::fields::{BodyFields, FieldType};
use mediagate_core::domain::usage::{EpochDay, parse_day};
use mediagate_model::attribution::{Attribute, MAX_NAME, MAX_USER, MAX_VALUE};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::request_log::StatusRange;
use mediagate_model::submission::SubmissionFilter;
use mediagate_model::task::{ApprovalState, MediaKind, TaskState};
use mediagate_model::webhook::DeliveryState;
use mediagate_store::tasks::PageQuery;

/// Number of items in a page, if the query does not say.
pub(crate) const DEFAULT_LIMIT: i64 = 20;
/// The same for a page as CSV.
const DEFAULT_CSV_LIMIT: i64 = 1000;
/// Largest page as JSON.
pub(crate) const MAX_LIMIT: i64 = 100;

parameters! {
    /// A page of a list that is newest first.
    pub(crate) struct NewestPage<Id: FromStr> {
        /// Number of items, 1 to 100. Default: 20
        limit: IntegerField<1, MAX_LIMIT>,
        /// `last_id` of the previous page
        after: ItemId<Id>,
    }
}

parameters! {
    /// A page of a list that can be sorted both ways.
    pub(crate) struct ListPage<Id: FromStr> {
        /// Sort order: `desc` (default), or `asc` for oldest first
        order: WordField<SortOrder>,
        + part: NewestPage<Id>,
    }
}

parameters! {
    /// A page of a list that can also be requested as CSV.
    pub(crate) struct CsvPage<Id: FromStr> {
        /// Number of entries, 1 to 100, default 20. For CSV 1 to 10000, default 1000
        limit: IntegerField<1, 10_000>,
        /// `last_id` of the previous page. For CSV, the id in the last line
        after: ItemId<Id>,
        + format: FormatChoice,
    }
}

parameters! {
    /// The format of a list.
    pub(crate) struct FormatChoice {
        /// `json` or `csv`. Default: according to the `Accept` header
        format: WordField<ListFormat>,
    }
}

impl<Id: FromStr> NewestPage<Id> {
    pub(crate) fn into_query(self) -> PageQuery<Id> {
        page_query(self.after, self.limit.unwrap_or(DEFAULT_LIMIT), false)
    }
}

impl<Id: FromStr> ListPage<Id> {
    pub(crate) fn into_query(self) -> PageQuery<Id> {
        PageQuery {
            ascending: self.order == Some(SortOrder::Asc),
            ..self.part.into_query()
        }
    }
}

impl<Id: FromStr> CsvPage<Id> {
    /// The page, and whether it is requested as CSV.
    pub(crate) fn into_query(self, headers: &HeaderMap) -> Result<(PageQuery<Id>, bool), Error> {
        let is_csv = self.format.is_csv(headers);
        let limit = match self.limit {
            Some(limit) if !is_csv && limit > MAX_LIMIT => {
                let message = format!("Must be from 1 to {MAX_LIMIT}.");
                return Err(invalid("limit", message));
            }
            Some(limit) => limit,
            None if is_csv => DEFAULT_CSV_LIMIT,
            None => DEFAULT_LIMIT,
        };
        Ok((page_query(self.after, limit, false), is_csv))
    }
}

impl FormatChoice {
    /// Whether the list is requested as CSV: by `format`, or else by the `Accept` header.
    pub(crate) fn is_csv(&self, headers: &HeaderMap) -> bool {
        match self.format {
            Some(format) => format == ListFormat::Csv,
            None => accept_prefers_csv(headers),
        }
    }
}

fn page_query<Id>(after: Option<Id>, limit: i64, ascending: bool) -> PageQuery<Id> {
    PageQuery {
        after,
        // Its range was checked when it was read.
        limit: u32::try_from(limit).unwrap_or(1),
        ascending,
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

/// The attributes that tasks must have: `user`, and `metadata.` with a name.
pub(crate) struct AttributeFilter(pub(crate) Vec<(Attribute, String)>);

/// The parameter for an entry of the metadata. `NAME` stands for the entry's name.
pub(crate) const METADATA_PARAMETER: &str = "metadata.NAME";

/// Most attributes of a filter: each is looked up in an index of terms, with the words of a search.
const MAX_ATTRIBUTES: usize = 4;

/// The attributes in a query, with their values.
fn read_attributes(query: &BodyFields<'_>) -> Vec<(Attribute, String)> {
    let mut attributes = Vec::new();
    for name in query.members().keys() {
        let Ok(attribute) = name.parse::<Attribute>() else {
            // Other names are unknown parameters, which are refused elsewhere.
            if is_parameter(name, METADATA_PARAMETER) {
                let message = format!("The name must have at most {MAX_NAME} characters.");
                query.fault(METADATA_PARAMETER, ErrorCode::InvalidValue, message);
            }
            continue;
        };
        if let Some(value) = query.filled_string(name, MAX_USER) {
            attributes.push((attribute, value));
        }
    }
    attributes
}

impl QueryParameters for AttributeFilter {
    fn read(query: &BodyFields<'_>) -> Self {
        let attributes = read_attributes(query);
        if attributes.len() > MAX_ATTRIBUTES {
            let message = format!("At most {MAX_ATTRIBUTES} attributes can be filtered by.");
            query.fault(METADATA_PARAMETER, ErrorCode::InvalidValue, message);
        }
        Self(attributes)
    }

    fn names() -> Vec<&'static str> {
        vec!["user", METADATA_PARAMETER]
    }

    fn descriptions() -> Vec<Parameter> {
        let metadata = "Only tasks whose order has this value under this name in `metadata`. NAME stands \
                        for the name. Up to four such filters, including `user`";
        vec![
            describe::<OptionalText<MAX_USER>>("user", "Only tasks for this end user"),
            describe::<OptionalText<MAX_VALUE>>(METADATA_PARAMETER, metadata),
        ]
    }
}

/// The attribute that sums are limited to, with its value: `user`, or `metadata.` with a name.
pub(crate) struct AttributeChoice(pub(crate) Option<(Attribute, String)>);

impl QueryParameters for AttributeChoice {
    fn read(query: &BodyFields<'_>) -> Self {
        let mut attributes = read_attributes(query);
        if attributes.len() > 1 {
            let message = "Filter either by user or by one metadata.NAME.";
            query.fault(METADATA_PARAMETER, ErrorCode::InvalidValue, message);
        }
        Self(attributes.pop())
    }

    fn names() -> Vec<&'static str> {
        vec!["user", METADATA_PARAMETER]
    }

    fn descriptions() -> Vec<Parameter> {
        let user = "Only usage of this end user. `group_by` can then contain no `metadata.NAME`";
        let metadata = "Only usage of tasks whose order has this value under this name in `metadata`. NAME \
                        stands for the name. Only one such filter, and not with `user`. `group_by` can \
                        then contain neither `user` nor another name";
        vec![
            describe::<OptionalText<MAX_USER>>("user", user),
            describe::<OptionalText<MAX_VALUE>>(METADATA_PARAMETER, metadata),
        ]
    }
}

/// The id of an item of a list; an empty text counts as absent.
pub(crate) struct ItemId<T>(PhantomData<T>);

impl<T: FromStr> FieldType for ItemId<T> {
    type Value = T;

    fn read(query: &BodyFields<'_>, name: &str) -> Option<T> {
        parsed(query, name, 100, "Must be the id of an item in this list.")
    }

    fn schema() -> RefOr<Schema> {
        text(100).into()
    }
}

/// A type whose values are words.
pub(crate) trait WordValue: FromStr {
    /// All words, for errors and the API document.
    const WORDS: &'static [&'static str];
}

impl WordValue for MediaKind {
    const WORDS: &'static [&'static str] = &["video", "music"];
}

impl WordValue for TaskState {
    const WORDS: &'static [&'static str] =
        &["queued", "running", "succeeded", "failed", "cancelled"];
}

impl WordValue for ApprovalState {
    const WORDS: &'static [&'static str] =
        &["pending", "approved", "rejected", "expired", "cancelled"];
}

impl WordValue for DeliveryState {
    const WORDS: &'static [&'static str] = &["waiting", "delivered", "failed", "held"];
}

impl WordValue for SubmissionFilter {
    const WORDS: &'static [&'static str] = &["unconfirmed"];
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum SortOrder {
    Asc,
    Desc,
}

impl WordValue for SortOrder {
    const WORDS: &'static [&'static str] = &["asc", "desc"];
}

/// The format of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum ListFormat {
    Json,
    Csv,
}

impl WordValue for ListFormat {
    const WORDS: &'static [&'static str] = &["json", "csv"];
}

/// One of a fixed set of words; an empty text counts as absent.
pub(crate) struct WordField<T>(PhantomData<T>);

impl<T: WordValue> FieldType for WordField<T> {
    type Value = T;

    fn read(query: &BodyFields<'_>, name: &str) -> Option<T> {
        let must_be = format!("Must be one of {}.", T::WORDS.join(", "));
        parsed(query, name, 100, must_be)
    }

    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(T::WORDS.iter().copied()))
            .into()
    }
}

/// `true` or `false`; an empty text counts as absent.
pub(crate) struct FlagField;

impl FieldType for FlagField {
    type Value = bool;

    fn read(query: &BodyFields<'_>, name: &str) -> Option<bool> {
        parsed(query, name, 100, "Must be one of true, false.")
    }

    fn schema() -> RefOr<Schema> {
        BooleanField::schema()
    }
}

/// A time, or a date as its first instant; an empty text counts as absent.
pub(crate) struct TimeField;

impl FieldType for TimeField {
    type Value = Timestamp;

    fn read(query: &BodyFields<'_>, name: &str) -> Option<Timestamp> {
        let must_be = "Must be a time such as \"2026-01-02T03:04:05Z\", or a date.";
        read_with(query, name, 64, Timestamp::parse, must_be)
    }

    fn schema() -> RefOr<Schema> {
        text(64).into()
    }
}

/// A day in UTC; an empty text counts as absent.
pub(crate) struct DayField;

impl FieldType for DayField {
    type Value = EpochDay;

    fn read(query: &BodyFields<'_>, name: &str) -> Option<EpochDay> {
        let must_be = "Must be a date such as \"2026-01-31\".";
        read_with(query, name, 40, parse_day, must_be)
    }

    fn schema() -> RefOr<Schema> {
        text(40).into()
    }
}

/// An error code; an empty text counts as absent.
pub(crate) struct ErrorCodeField;

impl FieldType for ErrorCodeField {
    type Value = ErrorCode;

    fn read(query: &BodyFields<'_>, name: &str) -> Option<ErrorCode> {
        let must_be = "Must be an error code. See docs/errors.md for all codes.";
        read_with(query, name, 100, ErrorCode::from_name, must_be)
    }

    fn schema() -> RefOr<Schema> {
        text(100).into()
    }
}

/// An HTTP status, or a class of statuses; an empty text counts as absent.
pub(crate) struct StatusField;

impl FieldType for StatusField {
    type Value = StatusRange;

    fn read(query: &BodyFields<'_>, name: &str) -> Option<StatusRange> {
        let must_be = "Must be an HTTP status such as 402, or a class of statuses such as 4xx.";
        parsed(query, name, 10, must_be)
    }

    fn schema() -> RefOr<Schema> {
        text(10).into()
    }
}

/// What rows can be grouped by.
pub(crate) trait GroupNames {
    /// All groups.
    const ALL: &'static [&'static str];
    /// The groups of a query that names none.
    const DEFAULT: &'static [&'static str];
    /// Whether rows can also be grouped by `metadata.` and a name.
    const HAS_METADATA: bool = false;
}

/// The groups of rows.
pub(crate) struct RowGroups(Vec<String>);

impl RowGroups {
    /// The groups of a query, or those that `N` has if it names none.
    pub(crate) fn or_default<N: GroupNames>(groups: Option<Self>) -> Self {
        groups.unwrap_or_else(|| Self(N::DEFAULT.iter().map(|&name| name.to_owned()).collect()))
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|group| group == name)
    }

    /// The attribute among the groups; at most one.
    pub(crate) fn attribute(&self) -> Option<Attribute> {
        self.0.iter().find_map(|group| group.parse().ok())
    }
}

/// Most characters of the groups of a query.
const MAX_GROUPS: usize = 200;

/// Some of the groups of `N`, separated by commas; an empty text counts as absent.
pub(crate) struct GroupField<N>(PhantomData<N>);

impl<N: GroupNames> FieldType for GroupField<N> {
    type Value = RowGroups;

    fn read(query: &BodyFields<'_>, name: &str) -> Option<RowGroups> {
        let groups = |text: &str| {
            let groups: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
            let is_attribute = |group: &String| group.parse::<Attribute>().is_ok();
            let is_known = |group: &String| {
                N::ALL.contains(&group.as_str()) || (N::HAS_METADATA && is_attribute(group))
            };
            // A task counts once for each of its attributes, so two would count it twice.
            let attributes = groups.iter().filter(|group| is_attribute(group)).count();
            let is_valid = attributes <= 1 && groups.iter().all(is_known);
            is_valid.then_some(RowGroups(groups))
        };
        let names = N::ALL.join(", ");
        let must_be = if N::HAS_METADATA {
            format!(
                "Must be any of {names}, metadata.NAME, separated by commas; of user and metadata.NAME at most one."
            )
        } else {
            format!("Must be any of {names}, separated by commas.")
        };
        read_with(query, name, MAX_GROUPS, groups, must_be)
    }

    fn schema() -> RefOr<Schema> {
        text(MAX_GROUPS).into()
    }
}

fn parsed<T: FromStr>(
    query: &BodyFields<'_>,
    name: &str,
    max_length: usize,
    must_be: impl Into<String>,
) -> Option<T> {
    read_with(query, name, max_length, |text| text.parse().ok(), must_be)
}

/// The value of a text; `must_be` is the fault of one that has none.
fn read_with<T>(
    query: &BodyFields<'_>,
    name: &str,
    max_length: usize,
    parse: impl FnOnce(&str) -> Option<T>,
    must_be: impl Into<String>,
) -> Option<T> {
    let value = parse(&query.filled_string(name, max_length)?);
    if value.is_none() {
        query.fault(name, ErrorCode::InvalidValue, must_be);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_are_read<T: WordValue>() {
        for word in T::WORDS {
            assert!(word.parse::<T>().is_ok(), "{word}");
        }
    }

    #[test]
    fn documented_words_are_read() {
        all_are_read::<MediaKind>();
        all_are_read::<TaskState>();
        all_are_read::<DeliveryState>();
        all_are_read::<SubmissionFilter>();
        all_are_read::<SortOrder>();
        all_are_read::<ListFormat>();
    }
}
