//! The usage of all accounts: the query, and the response as JSON and CSV.

use std::str::FromStr;

use serde::Serialize;
use utoipa::ToSchema;

use crate::fields::parameters::parameters;
use crate::fields::types::{IdField, OptionalText};
use crate::page_params::{
    AttributeChoice, DayField, FormatChoice, GroupField, GroupNames, RowGroups, WordField,
    WordValue,
};
use crate::wire::usage::{AttributeColumns, check_attributes, days};
use mediagate_core::domain::usage::{
    AttributeValue, EpochDay, OperatorUsageReport, OperatorUsageRow, format_day, start_of,
};
use mediagate_model::attribution::Attribute;
use mediagate_model::clock::Timestamp;
use mediagate_model::csv;
use mediagate_model::error::Error;
use mediagate_model::ids::KeyId;
use mediagate_model::money::MicroDollars;
use mediagate_model::task::TaskState;
use mediagate_store::hourly_sums::{HOUR_MICROS, HourlyQuery, HourlySum};

parameters! {
    /// The query's parameters.
    pub(crate) struct AdminUsageParameters {
        /// The first day in UTC, for example 2026-01-31. Default: 30 days up to `to`. At most 400
        /// days
        from: DayField,
        /// The last day in UTC. Default: today
        to: DayField,
        /// Any of `day`, `hour`, `account`, `provider`, `model`, `key`, `outcome`, and of `user` and
        /// `metadata.NAME` at most one, separated by commas. Default: day, account, provider and model
        group_by: GroupField<AdminUsageGroups>,
        /// Only for the account with this handle
        account: OptionalText<100>,
        /// Only usage of this provider; `embedded` for models that run in the gateway
        provider: OptionalText<200>,
        /// Only usage of this model
        model: OptionalText<200>,
        /// Only usage of the API key with this id
        key: IdField<KeyId>,
        /// `succeeded`, `failed` or `cancelled`
        outcome: WordField<TaskOutcome>,
        + attribute: AttributeChoice,
        + format: FormatChoice,
    }
}

/// What the rows can be grouped by.
pub(crate) struct AdminUsageGroups;

impl GroupNames for AdminUsageGroups {
    const ALL: &'static [&'static str] = &[
        "day", "hour", "account", "provider", "model", "key", "outcome", "user",
    ];
    const DEFAULT: &'static [&'static str] = &["day", "account", "provider", "model"];
    const HAS_METADATA: bool = true;
}

/// How a task ended: a state that is final.
pub(crate) struct TaskOutcome(TaskState);

impl FromStr for TaskOutcome {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let state: TaskState = text.parse().map_err(|_| ())?;
        state.is_terminal().then_some(Self(state)).ok_or(())
    }
}

impl WordValue for TaskOutcome {
    const WORDS: &'static [&'static str] = &["succeeded", "failed", "cancelled"];
}

/// The days and groups of a query.
pub struct AdminUsageQuery {
    /// What to sum up. The account is added once its handle is looked up.
    pub selection: HourlyQuery,
    /// The attribute to group by.
    pub attribute: Option<Attribute>,
    /// Only tasks with this value of an attribute.
    pub attribute_filter: Option<AttributeValue>,
    /// The first day.
    pub from: EpochDay,
    /// The last day, in UTC.
    pub to: EpochDay,
    by_day: bool,
    by_hour: bool,
}

impl AdminUsageQuery {
    /// The query for all accounts. The default days depend on `now`.
    pub(crate) fn new(query: AdminUsageParameters, now: Timestamp) -> Result<Self, Error> {
        let (from, to) = days(query.from, query.to, now)?;
        let groups = RowGroups::or_default::<AdminUsageGroups>(query.group_by);
        let (by_day, by_hour) = (groups.contains("day"), groups.contains("hour"));
        let (attribute, attribute_filter) = (groups.attribute(), query.attribute.0);
        check_attributes(attribute.as_ref(), attribute_filter.as_ref())?;
        Ok(Self {
            selection: HourlyQuery {
                from: start_of(from),
                before: start_of(to + 1),
                account: None,
                provider: query.provider,
                model: query.model,
                key: query.key,
                outcome: query.outcome.map(|TaskOutcome(state)| state),
                step: match (by_hour, by_day) {
                    (true, _) => Some(1),
                    (false, true) => Some(24),
                    (false, false) => None,
                },
                by_account: groups.contains("account"),
                by_provider: groups.contains("provider"),
                by_model: groups.contains("model"),
                by_key: groups.contains("key"),
                by_outcome: groups.contains("outcome"),
            },
            attribute,
            attribute_filter,
            from,
            to,
            by_day,
            by_hour,
        })
    }
}

/// Usage of all accounts.
#[derive(Debug, Serialize, ToSchema)]
pub struct AdminUsageList {
    /// Always `list`.
    pub object: &'static str,
    /// The first day, in UTC.
    pub from: String,
    /// The last day, in UTC.
    pub to: String,
    /// One row for each group, in order of time, account, provider, model, key, outcome and attribute.
    pub data: Vec<AdminUsageRow>,
    /// The sum of all rows.
    pub total: AdminUsageSum,
}

/// Usage, charges and provider costs of one group. Fields that the query does not group by are
/// absent.
#[derive(Debug, Serialize, ToSchema)]
pub struct AdminUsageRow {
    /// The day, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// Start of the hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hour: Option<String>,
    /// The account's handle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The provider; `embedded` for models that run in the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model's canonical name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The id of the API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// The key's display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_name: Option<String>,
    /// `succeeded`, `failed` or `cancelled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    #[serde(flatten)]
    pub attribute: AttributeColumns,
    #[serde(flatten)]
    pub sum: AdminUsageSum,
}

/// Sums over the tasks and jobs that ended.
#[derive(Debug, Serialize, ToSchema)]
pub struct AdminUsageSum {
    /// Number of tasks that ended.
    pub tasks: i64,
    /// Number of tasks that succeeded.
    pub succeeded: i64,
    /// Number of tasks that failed.
    pub failed: i64,
    /// Number of tasks that were cancelled.
    pub cancelled: i64,
    /// Amount charged to accounts, in US dollars.
    pub cost_usd: String,
    /// Provider cost of successful jobs, in US dollars: the amount that the provider reports,
    /// otherwise the route's `cost`.
    pub provider_cost_usd: String,
    /// Provider cost of jobs without a result, as reported by the providers, in US dollars.
    pub failed_cost_usd: String,
    /// Number of jobs with an unknown cost. They are not included in any amount.
    pub unknown_cost_jobs: i64,
    /// Amount charged minus both costs, in US dollars.
    pub margin_usd: String,
}

impl From<&HourlySum> for AdminUsageSum {
    fn from(sum: &HourlySum) -> Self {
        Self {
            tasks: sum.succeeded + sum.failed + sum.cancelled,
            succeeded: sum.succeeded,
            failed: sum.failed,
            cancelled: sum.cancelled,
            cost_usd: sum.charged.to_string(),
            provider_cost_usd: sum.made.to_string(),
            failed_cost_usd: sum.wasted.to_string(),
            unknown_cost_jobs: sum.unknown_jobs,
            margin_usd: sum.charged.minus(sum.made).minus(sum.wasted).to_string(),
        }
    }
}

impl AdminUsageList {
    pub fn new(query: &AdminUsageQuery, report: &OperatorUsageReport) -> Self {
        let mut total = HourlySum::default();
        for row in &report.rows {
            add(&mut total, &row.sum);
        }
        let rows = report.rows.iter();
        Self {
            object: "list",
            from: format_day(query.from),
            to: format_day(query.to),
            data: rows.map(|usage| row(query, report, usage)).collect(),
            total: (&total).into(),
        }
    }

    /// The rows as CSV, with a header and without the total.
    pub fn csv(&self, query: &AdminUsageQuery) -> String {
        let mut text = String::new();
        let selection = &query.selection;
        let groups = [
            (query.by_day, "day"),
            (query.by_hour, "hour"),
            (selection.by_account, "account"),
            (selection.by_provider, "provider"),
            (selection.by_model, "model"),
            (selection.by_key, "key_id"),
            (selection.by_key, "key_name"),
            (selection.by_outcome, "outcome"),
        ];
        let attribute = query.attribute.as_ref().map(ToString::to_string);
        let groups = groups.into_iter().filter(|(is_in, _)| *is_in);
        let sums = [
            "tasks",
            "succeeded",
            "failed",
            "cancelled",
            "cost_usd",
            "provider_cost_usd",
            "failed_cost_usd",
            "unknown_cost_jobs",
            "margin_usd",
        ];
        let names = groups.map(|(_, name)| name);
        let names = names.chain(attribute.as_deref()).chain(sums);
        csv::line(&mut text, names.map(csv::text));
        for row in &self.data {
            let texts = [
                &row.day,
                &row.hour,
                &row.account,
                &row.provider,
                &row.model,
                &row.key_id,
                &row.key_name,
                &row.outcome,
            ];
            let texts = texts.into_iter().flatten().map(csv::text);
            let texts = texts.chain(row.attribute.cell());
            let sum = &row.sum;
            let counts = [sum.tasks, sum.succeeded, sum.failed, sum.cancelled].map(csv::plain);
            let amounts = [
                csv::plain(&sum.cost_usd),
                csv::plain(&sum.provider_cost_usd),
                csv::plain(&sum.failed_cost_usd),
                csv::plain(sum.unknown_cost_jobs),
                csv::plain(&sum.margin_usd),
            ];
            csv::line(&mut text, texts.chain(counts).chain(amounts));
        }
        text
    }
}

fn add(total: &mut HourlySum, sum: &HourlySum) {
    let add_amount = |total_amount: &mut MicroDollars, amount: MicroDollars| {
        *total_amount = total_amount.plus(amount);
    };
    total.succeeded += sum.succeeded;
    total.failed += sum.failed;
    total.cancelled += sum.cancelled;
    total.unknown_jobs += sum.unknown_jobs;
    add_amount(&mut total.charged, sum.charged);
    add_amount(&mut total.made, sum.made);
    add_amount(&mut total.wasted, sum.wasted);
}

fn row(
    query: &AdminUsageQuery,
    report: &OperatorUsageReport,
    usage: &OperatorUsageRow,
) -> AdminUsageRow {
    let (selection, group) = (&query.selection, &usage.group);
    let if_grouped = |is_in: bool, name: &String| is_in.then(|| name.clone());
    let begin = group.step * selection.step.unwrap_or(0) * HOUR_MICROS;
    let begin = Timestamp::from_micros(begin).rfc3339();
    let handle = report.handles.get(&group.account);
    let key = report.keys.get(&group.key).cloned();
    AdminUsageRow {
        day: query.by_day.then(|| begin.chars().take(10).collect()),
        hour: query.by_hour.then_some(begin),
        account: if_grouped(selection.by_account, handle.unwrap_or(&group.account)),
        provider: if_grouped(selection.by_provider, &group.provider),
        model: if_grouped(selection.by_model, &group.model),
        key_id: if_grouped(selection.by_key, &group.key),
        key_name: selection.by_key.then(|| key.unwrap_or_default()),
        outcome: if_grouped(selection.by_outcome, &group.outcome),
        attribute: AttributeColumns::new(query.attribute.as_ref(), usage.value.as_ref()),
        sum: (&usage.sum).into(),
    }
}
