//! Usage: the query, and the response as JSON and CSV.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use crate::fields::parameters::{invalid, parameters};
use crate::fields::types::{IdField, OptionalText};
use crate::page_params::{
    AttributeChoice, DayField, FormatChoice, GroupField, GroupNames, RowGroups,
};
use mediagate_core::domain::usage::{
    AttributeValue, EpochDay, UsageGroup, UsageReport, UsageSelection, UsageTotals, day_of,
    format_day, start_of,
};
use mediagate_model::attribution::Attribute;
use mediagate_model::clock::Timestamp;
use mediagate_model::csv;
use mediagate_model::error::Error;
use mediagate_model::ids::{AccountId, KeyId};
use mediagate_store::usage::UsageFilter;

/// Maximum number of days per query.
const MAX_DAYS: i64 = 400;
/// Number of days if `from` is not given.
const DEFAULT_DAYS: i64 = 30;

parameters! {
    /// The query's parameters.
    pub(crate) struct UsageParameters {
        /// The first day in UTC, for example 2026-01-31. Default: 30 days up to `to`. At most 400
        /// days
        from: DayField,
        /// The last day in UTC. Default: today
        to: DayField,
        /// Any of `day`, `model`, `key`, and of `user` and `metadata.NAME` at most one, separated by
        /// commas. Default: day, model and key
        group_by: GroupField<UsageGroups>,
        /// Only usage of this model
        model: OptionalText<200>,
        /// Only usage of the API key with this id
        key: IdField<KeyId>,
        + attribute: AttributeChoice,
        + format: FormatChoice,
    }
}

/// What the rows can be grouped by.
pub(crate) struct UsageGroups;

impl GroupNames for UsageGroups {
    const ALL: &'static [&'static str] = &["day", "model", "key", "user"];
    const DEFAULT: &'static [&'static str] = &["day", "model", "key"];
    const HAS_METADATA: bool = true;
}

/// The days and groups of a query.
pub struct UsageQuery {
    /// What to sum up.
    pub selection: UsageSelection,
    /// The first day.
    pub from: EpochDay,
    /// The last day, in UTC.
    pub to: EpochDay,
}

/// Checks that two days are in order, as far as they are given.
pub fn check_order(from: Option<EpochDay>, to: Option<EpochDay>) -> Result<(), Error> {
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        let message = "Must not be after `to`.";
        return Err(invalid("from", message));
    }
    Ok(())
}

/// The first and the last day. The defaults depend on the day of `now`.
pub fn days(
    from: Option<EpochDay>,
    to: Option<EpochDay>,
    now: Timestamp,
) -> Result<(EpochDay, EpochDay), Error> {
    check_order(from, to)?;
    let today = day_of(now);
    let last = to.unwrap_or_else(|| today.max(from.unwrap_or(today)));
    let first = from.unwrap_or(last - DEFAULT_DAYS + 1);
    if last - first >= MAX_DAYS {
        let message = format!("Must be at most {MAX_DAYS} days up to `to`.");
        return Err(invalid("from", message));
    }
    Ok((first, last))
}

/// Checks that a query has one attribute, to group by and to filter by: sums are kept for each
/// attribute on its own.
pub fn check_attributes(
    group: Option<&Attribute>,
    filter: Option<&AttributeValue>,
) -> Result<(), Error> {
    let (Some(group), Some((filter, _))) = (group, filter) else {
        return Ok(());
    };
    if group == filter {
        return Ok(());
    }
    let message =
        "Usage that is filtered by user or metadata.NAME can be grouped by no other of them.";
    Err(invalid("group_by", message))
}

impl UsageQuery {
    /// The query of an account. The default days depend on `now`.
    pub(crate) fn new(
        query: UsageParameters,
        account: AccountId,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let (first, last) = days(query.from, query.to, now)?;
        let groups = RowGroups::or_default::<UsageGroups>(query.group_by);
        let (attribute, attribute_filter) = (groups.attribute(), query.attribute.0);
        check_attributes(attribute.as_ref(), attribute_filter.as_ref())?;
        Ok(Self {
            selection: UsageSelection {
                filter: UsageFilter {
                    account,
                    from: start_of(first),
                    before: start_of(last + 1),
                    model: query.model,
                    key: query.key,
                },
                by_day: groups.contains("day"),
                by_model: groups.contains("model"),
                by_key: groups.contains("key"),
                attribute,
                attribute_filter,
            },
            from: first,
            to: last,
        })
    }
}

/// An account's usage and costs.
#[derive(Debug, Serialize, ToSchema)]
pub struct UsageList {
    /// Always `list`.
    pub object: &'static str,
    /// The first day, in UTC.
    pub from: String,
    /// The last day, in UTC.
    pub to: String,
    /// The rows, grouped by day, model, key and attribute.
    pub data: Vec<UsageRow>,
    /// The sum of all rows.
    pub total: UsageSum,
}

/// Usage and costs of one group.
#[derive(Debug, Serialize, ToSchema)]
pub struct UsageRow {
    /// The day, in UTC. Absent if not grouped by day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// The model's canonical name. Absent if not grouped by model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The id of the API key. Absent if not grouped by key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// The key's display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_name: Option<String>,
    #[serde(flatten)]
    pub attribute: AttributeColumns,
    #[serde(flatten)]
    pub sum: UsageSum,
}

/// The value of the attribute that rows are grouped by.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct AttributeColumns {
    /// The end user. Null for tasks without one. Absent if not grouped by user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, required = false)]
    pub user: Option<Option<String>>,
    /// The value under the name by which the rows are grouped, or null for tasks without one. Absent
    /// if not grouped by metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, Option<String>>>,
}

impl AttributeColumns {
    pub fn new(attribute: Option<&Attribute>, value: Option<&String>) -> Self {
        match attribute {
            None => Self::default(),
            Some(Attribute::User) => Self {
                user: Some(value.cloned()),
                metadata: None,
            },
            Some(Attribute::Metadata(name)) => Self {
                user: None,
                metadata: Some(BTreeMap::from([(name.clone(), value.cloned())])),
            },
        }
    }

    /// The value as a cell of a CSV file, if there is such a column.
    pub fn cell(&self) -> Option<String> {
        let metadata = self.metadata.as_ref().and_then(|all| all.values().next());
        let value = self.user.as_ref().or(metadata)?;
        Some(csv::text(value.as_deref().unwrap_or_default()))
    }
}

/// A sum over rows.
#[derive(Debug, Serialize, ToSchema)]
pub struct UsageSum {
    /// Number of tasks that ended.
    pub tasks: u64,
    /// Number of tasks that succeeded.
    pub succeeded: u64,
    /// Number of tasks that failed.
    pub failed: u64,
    /// Number of tasks that were cancelled.
    pub cancelled: u64,
    /// Amount charged, in US dollars.
    pub cost_usd: String,
}

impl From<&UsageTotals> for UsageSum {
    fn from(sum: &UsageTotals) -> Self {
        Self {
            tasks: sum.tasks(),
            succeeded: sum.succeeded,
            failed: sum.failed,
            cancelled: sum.cancelled,
            cost_usd: sum.cost.to_string(),
        }
    }
}

impl UsageList {
    pub fn new(query: &UsageQuery, (rows, names): &UsageReport) -> Self {
        let mut total = UsageTotals::default();
        for (_, sum) in rows {
            total.add(sum);
        }
        Self {
            object: "list",
            from: format_day(query.from),
            to: format_day(query.to),
            data: rows
                .iter()
                .map(|(group, sum)| row(&query.selection, group, sum, names))
                .collect(),
            total: (&total).into(),
        }
    }

    /// The rows as CSV, with a header and without the total.
    pub fn csv(&self, selection: &UsageSelection) -> String {
        let mut text = String::new();
        let mut names = Vec::new();
        names.extend(selection.by_day.then_some("day"));
        names.extend(selection.by_model.then_some("model"));
        names.extend(
            selection
                .by_key
                .then_some(["key_id", "key_name"])
                .into_iter()
                .flatten(),
        );
        let attribute = selection.attribute.as_ref().map(ToString::to_string);
        names.extend(attribute.as_deref());
        names.extend(["tasks", "succeeded", "failed", "cancelled", "cost_usd"]);
        csv::line(&mut text, names.into_iter().map(csv::text));
        for row in &self.data {
            let texts = [&row.day, &row.model, &row.key_id, &row.key_name];
            let texts = texts.into_iter().flatten().map(csv::text);
            let sum = &row.sum;
            let counts = [sum.tasks, sum.succeeded, sum.failed, sum.cancelled];
            let counts = counts.into_iter().map(csv::plain);
            let cost = csv::plain(&sum.cost_usd);
            let texts = texts.chain(row.attribute.cell());
            csv::line(&mut text, texts.chain(counts).chain([cost]));
        }
        text
    }
}

fn row(
    selection: &UsageSelection,
    group: &UsageGroup,
    sum: &UsageTotals,
    names: &BTreeMap<KeyId, String>,
) -> UsageRow {
    UsageRow {
        day: group.day.map(format_day),
        model: group.model.clone(),
        key_id: group.key.map(|key| key.to_string()),
        key_name: group
            .key
            .map(|key| names.get(&key).cloned().unwrap_or_default()),
        attribute: AttributeColumns::new(selection.attribute.as_ref(), group.value.as_ref()),
        sum: sum.into(),
    }
}
