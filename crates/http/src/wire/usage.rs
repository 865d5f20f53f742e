//! Usage: the query, and the response as JSON and CSV.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use crate::fields::BodyFields;
use mediagate_core::domain::usage::{
    EpochDay, UsageGroup, UsageReport, UsageSelection, UsageTotals, day_of, format_day, parse_day,
    start_of,
};
use mediagate_model::clock::Timestamp;
use mediagate_model::csv;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::{AccountId, KeyId};
use mediagate_store::usage::UsageFilter;

/// Maximum number of days per query.
const MAX_DAYS: i64 = 400;
/// Number of days if `from` is not given.
const DEFAULT_DAYS: i64 = 30;

/// The days and groups of a query.
pub struct UsageQuery {
    /// What to sum up.
    pub selection: UsageSelection,
    /// The first day.
    pub from: EpochDay,
    /// The last day, in UTC.
    pub to: EpochDay,
}

/// The first and the last day as far as they are given.
pub fn given_days(query: &BodyFields<'_>) -> (Option<EpochDay>, Option<EpochDay>) {
    let to = date(query, "to");
    let from = date(query, "from");
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        query.fault("from", ErrorCode::InvalidValue, "Must not be after `to`.");
    }
    (from, to)
}

/// The first and the last day. The defaults depend on the day of `now`.
pub fn days(query: &BodyFields<'_>, now: Timestamp) -> (EpochDay, EpochDay) {
    let today = day_of(now);
    let (from, to) = given_days(query);
    let last = to.unwrap_or_else(|| today.max(from.unwrap_or(today)));
    let first = from.unwrap_or(last - DEFAULT_DAYS + 1);
    if last - first >= MAX_DAYS {
        let message = format!("Must be at most {MAX_DAYS} days up to `to`.");
        query.fault("from", ErrorCode::InvalidValue, message);
    }
    (first, last)
}

/// Reads the query. The default days depend on `now`.
pub fn read(query: &BodyFields<'_>, account: AccountId, now: Timestamp) -> UsageQuery {
    let (first, last) = days(query, now);
    let groups = groups(query, &["day", "model", "key"], &["day", "model", "key"]);
    let is_in = |name: &str| groups.iter().any(|group| group == name);
    UsageQuery {
        selection: UsageSelection {
            filter: UsageFilter {
                account,
                from: start_of(first),
                before: start_of(last + 1),
                model: query.filled_string("model", 200),
                key: query.id("key"),
            },
            by_day: is_in("day"),
            by_model: is_in("model"),
            by_key: is_in("key"),
        },
        from: first,
        to: last,
    }
}

fn date(query: &BodyFields<'_>, name: &str) -> Option<EpochDay> {
    let text = query.filled_string(name, 40)?;
    let day = parse_day(&text);
    if day.is_none() {
        let message = "Must be a date such as \"2026-01-31\".";
        query.fault(name, ErrorCode::InvalidValue, message);
    }
    day
}

/// What to group by: any of `allowed`, or `default_groups`.
pub fn groups(query: &BodyFields<'_>, allowed: &[&str], default_groups: &[&str]) -> Vec<String> {
    let Some(text) = query.filled_string("group_by", 100) else {
        return default_groups
            .iter()
            .map(|name| (*name).to_owned())
            .collect();
    };
    let groups: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    if groups
        .iter()
        .any(|group| !allowed.contains(&group.as_str()))
    {
        let message = format!(
            "Must be any of {}, separated by commas.",
            allowed.join(", ")
        );
        query.fault("group_by", ErrorCode::InvalidValue, message);
    }
    groups
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
    /// The rows, grouped by day, model and key.
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
    pub sum: UsageSum,
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
                .map(|(group, sum)| row(group, sum, names))
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
        names.extend(["tasks", "succeeded", "failed", "cancelled", "cost_usd"]);
        csv::line(&mut text, names.into_iter().map(csv::text));
        for row in &self.data {
            let texts = [&row.day, &row.model, &row.key_id, &row.key_name];
            let texts = texts.into_iter().flatten().map(csv::text);
            let sum = &row.sum;
            let counts = [sum.tasks, sum.succeeded, sum.failed, sum.cancelled];
            let counts = counts.into_iter().map(csv::plain);
            let cost = csv::plain(&sum.cost_usd);
            csv::line(&mut text, texts.chain(counts).chain([cost]));
        }
        text
    }
}

fn row(group: &UsageGroup, sum: &UsageTotals, names: &BTreeMap<KeyId, String>) -> UsageRow {
    UsageRow {
        day: group.day.map(format_day),
        model: group.model.clone(),
        key_id: group.key.map(|key| key.to_string()),
        key_name: group
            .key
            .map(|key| names.get(&key).cloned().unwrap_or_default()),
        sum: sum.into(),
    }
}
