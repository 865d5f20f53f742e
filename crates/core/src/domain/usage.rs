//! Usage: an account's work and costs, by day, model and key; and the same for all accounts, with
//! the costs of providers.
//!
//! Money comes from the ledger, by the day of each entry, so that the sums are equal. Tasks count
//! on the day they ended. Both are read from daily sums, so the cost does not grow with the number
//! of tasks.

use std::collections::{BTreeMap, HashMap};

use crate::app::Ctx;
use mediagate_model::attribution::Attribute;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::KeyId;
use mediagate_model::money::MicroDollars;
use mediagate_model::task::TaskState;
pub use mediagate_store::usage::day_of;
use mediagate_store::usage::{DAY_MICROS, DailyUsage, UsageFilter};
use mediagate_store::{self as store, Conn, hourly_sums};

/// Days since the epoch.
pub type EpochDay = i64;

/// A usage query.
#[derive(Debug, Clone)]
pub struct UsageSelection {
    /// Account, time, model and key.
    pub filter: UsageFilter,
    /// Whether to group by day.
    pub by_day: bool,
    /// Whether to group by model.
    pub by_model: bool,
    /// Whether to group by key.
    pub by_key: bool,
    /// The attribute to group by.
    pub attribute: Option<Attribute>,
    /// Only tasks with this value of an attribute. The rows can be grouped by no other attribute.
    pub attribute_filter: Option<AttributeValue>,
}

/// An attribute and its value.
pub type AttributeValue = (Attribute, String);

/// A group's values; `None` if not grouped by it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsageGroup {
    pub day: Option<EpochDay>,
    /// The model's canonical name.
    pub model: Option<String>,
    pub key: Option<KeyId>,
    /// The value of the attribute; `None` also for tasks without it.
    pub value: Option<String>,
}

/// Sums of work and cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageTotals {
    pub succeeded: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Charged, including adjustments.
    pub cost: MicroDollars,
}

impl UsageTotals {
    /// Tasks that ended.
    pub const fn tasks(&self) -> u64 {
        self.succeeded + self.failed + self.cancelled
    }

    fn count(&mut self, state: TaskState, tasks: u64) {
        match state {
            TaskState::Succeeded => self.succeeded += tasks,
            TaskState::Failed => self.failed += tasks,
            TaskState::Cancelled => self.cancelled += tasks,
            TaskState::Queued | TaskState::Running => {}
        }
    }

    /// What is in `self` and not in `part`.
    fn without(&self, part: &Self) -> Self {
        Self {
            succeeded: self.succeeded.saturating_sub(part.succeeded),
            failed: self.failed.saturating_sub(part.failed),
            cancelled: self.cancelled.saturating_sub(part.cancelled),
            cost: self.cost.minus(part.cost),
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.cost = self.cost.plus(other.cost);
    }
}

/// Rows ordered by day, model and key, and the names of the keys.
pub type UsageReport = (Vec<(UsageGroup, UsageTotals)>, BTreeMap<KeyId, String>);

pub async fn usage(app: &Ctx, selection: UsageSelection) -> Result<UsageReport, Error> {
    let (filter, now) = (selection.filter.clone(), app.clock.now());
    let attribute = selection.attribute.clone();
    let attribute_filter = selection.attribute_filter.clone();
    let read = app.store.long_read(move |conn| -> Result<_, Error> {
        let attributed = match (&attribute_filter, &attribute) {
            (Some((attribute, value)), _) => {
                attributed_rows(conn, &filter, attribute, Some(value))?
            }
            (None, Some(attribute)) => attributed_rows(conn, &filter, attribute, None)?,
            (None, None) => Vec::new(),
        };
        let all = if attribute_filter.is_some() {
            Vec::new()
        } else {
            store::usage::rows(conn, &filter)?
        };
        let keys = store::accounts::keys_of(conn, filter.account, now)?;
        Ok((all, attributed, keys))
    });
    let (usage_rows, attributed_rows, keys) = store::await_within_limit(read).await?;
    let is_grouped = selection.attribute.is_some();
    let attributed_rows = attributed_rows.into_iter();
    let attributed = attributed_rows.map(|(value, row)| (is_grouped.then_some(value), row));
    let attributed = sum_up(&selection, attributed);
    let rows = if selection.attribute_filter.is_some() {
        attributed
    } else {
        let mut rows = sum_up(&selection, usage_rows.into_iter().map(|row| (None, row)));
        if is_grouped {
            subtract_attributed(&mut rows, attributed);
        }
        rows
    };
    let names = keys.into_iter().map(|(key, ..)| (key.id, key.name));
    Ok((rows.into_iter().collect(), names.collect()))
}

/// Maximum number of rows with values of an attribute that are read for a report about an account.
/// Callers choose the values, so there may be one for each order.
const MAX_ATTRIBUTED_ROWS: i64 = 100_000;

fn attributed_rows(
    conn: &mut Conn<'_>,
    filter: &UsageFilter,
    attribute: &Attribute,
    value: Option<&str>,
) -> Result<Vec<(String, DailyUsage)>, Error> {
    let limit = MAX_ATTRIBUTED_ROWS + 1;
    let rows = store::attributed_sums::daily_rows(conn, filter, attribute, value, limit)?;
    if i64::try_from(rows.len()).unwrap_or(i64::MAX) < limit {
        return Ok(rows);
    }
    let message = format!(
        "There are more than {MAX_ATTRIBUTED_ROWS} values by day, model and key. Request fewer days, or one model or key."
    );
    Err(Error::at_field(
        ErrorCode::InvalidValue,
        "group_by",
        message,
    ))
}

/// The sums of rows, each with the value of the attribute.
fn sum_up(
    selection: &UsageSelection,
    usage: impl Iterator<Item = (Option<String>, DailyUsage)>,
) -> BTreeMap<UsageGroup, UsageTotals> {
    let mut rows: BTreeMap<UsageGroup, UsageTotals> = BTreeMap::new();
    for (value, row) in usage {
        let group = UsageGroup {
            day: selection.by_day.then_some(row.day),
            model: selection.by_model.then_some(row.model),
            key: selection.by_key.then_some(row.key),
            value,
        };
        let sum = rows.entry(group).or_default();
        sum.cost = sum.cost.plus(row.paid);
        for (state, tasks) in row.ended {
            sum.count(state, tasks);
        }
    }
    rows
}

/// Adds the rows by the values of an attribute to those of all tasks, which keep what has none, so
/// that the total stays the same.
fn subtract_attributed(
    rows: &mut BTreeMap<UsageGroup, UsageTotals>,
    attributed: BTreeMap<UsageGroup, UsageTotals>,
) {
    for (group, sum) in attributed {
        let rest = UsageGroup {
            value: None,
            ..group.clone()
        };
        if let Some(all) = rows.get_mut(&rest) {
            *all = all.without(&sum);
        }
        rows.insert(group, sum);
    }
    rows.retain(|group, sum| group.value.is_some() || *sum != UsageTotals::default());
}

/// Maximum number of rows of a report about all accounts.
pub const MOST_ROWS: i64 = 10_000;

/// The sums of a group of all accounts.
#[derive(Debug, Clone)]
pub struct OperatorUsageRow {
    pub group: hourly_sums::HourlyGroup,
    /// The value of the attribute; `None` also for tasks without it.
    pub value: Option<String>,
    pub sum: hourly_sums::HourlySum,
}

/// Rows in their order, and the names of their accounts and keys, by id.
#[derive(Debug, Default)]
pub struct OperatorUsageReport {
    pub rows: Vec<OperatorUsageRow>,
    pub handles: HashMap<String, String>,
    pub keys: HashMap<String, String>,
}

/// The work of all accounts, what was charged for it, and what providers were paid. `None` if there
/// are more rows than [`MOST_ROWS`].
pub async fn all_accounts(
    app: &Ctx,
    query: hourly_sums::HourlyQuery,
    attribute: Option<Attribute>,
    attribute_filter: Option<AttributeValue>,
) -> Result<Option<OperatorUsageReport>, Error> {
    let read = app.store.long_read(move |conn| -> Result<_, Error> {
        let mut report = OperatorUsageReport {
            rows: match &attribute_filter {
                Some(filter) => filtered_rows(conn, &query, filter, attribute.is_some())?,
                None => operator_rows(conn, &query, attribute.as_ref())?,
            },
            ..OperatorUsageReport::default()
        };
        // The query asks for one row more than allowed. A truncated report would show wrong sums,
        // so there is none.
        if i64::try_from(report.rows.len()).unwrap_or(i64::MAX) > MOST_ROWS {
            return Ok(None);
        }
        for OperatorUsageRow { group, .. } in &report.rows {
            if let (Ok(id), false) = (
                group.account.parse(),
                report.handles.contains_key(&group.account),
            ) && let Some(account) = store::accounts::account_by_id(conn, id)?
            {
                report.handles.insert(group.account.clone(), account.handle);
            }
            if let (Ok(id), false) = (group.key.parse(), report.keys.contains_key(&group.key))
                && let Some(name) = store::accounts::key_name(conn, id)?
            {
                report.keys.insert(group.key.clone(), name);
            }
        }
        Ok(Some(report))
    });
    let mut report = store::await_within_limit(read).await?;
    if let Some(report) = &mut report {
        let handle = |group: &hourly_sums::HourlyGroup| report.handles.get(&group.account).cloned();
        report.rows.sort_by_cached_key(|row| {
            let group = &row.group;
            (group.step, handle(group), group.clone(), row.value.clone())
        });
    }
    Ok(report)
}

/// The rows of all accounts, at most one more than [`MOST_ROWS`] of each kind. With an attribute, the
/// rows of its values, and what no value has.
fn operator_rows(
    conn: &mut Conn<'_>,
    query: &hourly_sums::HourlyQuery,
    attribute: Option<&Attribute>,
) -> Result<Vec<OperatorUsageRow>, Error> {
    let all = hourly_sums::sums(conn, query, MOST_ROWS + 1)?;
    let row = |group, value, sum| OperatorUsageRow { group, value, sum };
    let Some(attribute) = attribute else {
        let rows = all.into_iter().map(|(group, sum)| row(group, None, sum));
        return Ok(rows.collect());
    };
    let attributed = store::attributed_sums::sums(conn, query, attribute, None, MOST_ROWS + 1)?;
    let mut rest: BTreeMap<_, _> = all.into_iter().collect();
    for (group, _, sum) in &attributed {
        if let Some(all) = rest.get_mut(group) {
            *all = all.without(sum);
        }
    }
    rest.retain(|_, sum| *sum != hourly_sums::HourlySum::default());
    let attributed = attributed.into_iter();
    let attributed = attributed.map(|(group, value, sum)| row(group, Some(value), sum));
    let rest = rest.into_iter().map(|(group, sum)| row(group, None, sum));
    Ok(attributed.chain(rest).collect())
}

/// The rows of the tasks with one value of an attribute, at most one more than [`MOST_ROWS`].
fn filtered_rows(
    conn: &mut Conn<'_>,
    query: &hourly_sums::HourlyQuery,
    (attribute, value): &AttributeValue,
    is_grouped: bool,
) -> Result<Vec<OperatorUsageRow>, Error> {
    let sums = store::attributed_sums::sums(conn, query, attribute, Some(value), MOST_ROWS + 1)?;
    let rows = sums
        .into_iter()
        .map(|(group, value, sum)| OperatorUsageRow {
            group,
            value: is_grouped.then_some(value),
            sum,
        });
    Ok(rows.collect())
}

/// The first instant of a day.
pub const fn start_of(day: EpochDay) -> Timestamp {
    Timestamp::from_micros(day.saturating_mul(DAY_MICROS))
}

/// The day of a text such as `2026-01-31`.
pub fn parse_day(text: &str) -> Option<EpochDay> {
    // `Timestamp::parse` also takes times; a date has ten characters.
    let date = Some(text).filter(|text| text.len() == 10);
    date.and_then(Timestamp::parse).map(day_of)
}

/// `2026-01-31`.
pub fn format_day(day: EpochDay) -> String {
    let mut text = start_of(day).rfc3339();
    text.truncate(10);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_begin_at_midnight_utc() {
        let instant = Timestamp::parse("2026-03-01T23:59:59Z").unwrap();
        let day = day_of(instant);
        assert_eq!(format_day(day), "2026-03-01");
        assert_eq!(format_day(day + 1), "2026-03-02");
        assert_eq!(start_of(day).rfc3339(), "2026-03-01T00:00:00.000Z");
        assert_eq!(day_of(start_of(day)), day);
    }
}
