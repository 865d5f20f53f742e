//! Check of payments to providers, as recorded in the hourly sums, against the jobs themselves.

use std::collections::BTreeMap;

use super::Mismatch;
use super::hours::{HOURS_PER_DAY, hour_name};
use crate::columns::{FieldReader, TableRecord as _, record};
use crate::hourly_sums::HOUR_MICROS;
use crate::statement::sql;
use crate::usage::DAY_MICROS;
use crate::{Conn, StoreError};
use mediagate_model::money::MicroDollars;
use mediagate_model::price::{Bill, Tariff};
use mediagate_model::submission::{JobCost, classify_job_cost};

/// The total cost of some jobs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct JobCosts {
    made: i64,
    wasted: i64,
    unknown: i64,
}

record! {
    costs_columns for JobCosts of "hourly_sums" {
        made: "made_micros",
        wasted: "wasted_micros",
        unknown: "unknown_jobs",
    }
}

/// The costs of an hour's jobs: as summed, and according to the jobs' own rows.
#[derive(Debug, Default)]
struct HourCosts {
    summed: JobCosts,
    jobs: JobCosts,
    /// Whether the quantity of at least one of them was not recorded.
    has_unknown_quantity: bool,
}

/// The key by which costs are summed.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct JobGroup {
    hour: i64,
    account: String,
    key: String,
    model: String,
    provider: String,
    outcome: String,
}

record! {
    group_columns for JobGroup of "hourly_sums" {
        hour: "hour",
        account: "account_id",
        key: "key_id",
        model: "model",
        provider: "provider",
        outcome: "outcome",
    }
}

/// An ended submission, with the part of its task that determines its price.
struct EndedJob {
    ended_at: i64,
    account: String,
    key: String,
    model: String,
    provider: String,
    outcome: String,
    route_model: String,
    state: String,
    error_class: Option<String>,
    error_message: Option<String>,
    cost: Option<(i64, String)>,
    /// As JSON.
    tariff: Option<String>,
    /// As JSON.
    bill: Option<String>,
}

record! {
    job_columns for EndedJob of "submissions" {
        ended_at: "s.ended_at",
        account: "t.account_id",
        key: "t.key_id",
        model: "t.model",
        provider: "s.provider",
        outcome: "t.state",
        route_model: "s.route_model",
        state: "s.state",
        error_class: "s.error_class",
        error_message: "s.error_message",
        cost: Option::zip("s.cost_millionths", "s.cost_unit"),
        tariff: "t.tariff",
        bill: "t.bill",
    }
}

/// Finds the hourly sums of a day that differ from those of the jobs that ended in these hours.
pub(super) fn of_day(conn: &mut Conn<'_>, day: i64) -> Result<Vec<Mismatch>, StoreError> {
    let mut groups: BTreeMap<JobGroup, HourCosts> = BTreeMap::new();
    sql!(
        concat!(
            "SELECT ",
            group_columns!(),
            ", ",
            costs_columns!(),
            " FROM hourly_sums WHERE hour >= :first_hour AND hour < :end_hour"
        ),
        first_hour = day.saturating_mul(HOURS_PER_DAY),
        end_hour = day.saturating_add(1).saturating_mul(HOURS_PER_DAY)
    )
    .all(conn, |row| {
        let mut fields = FieldReader::new(row);
        let costs = groups.entry(fields.record()?).or_default();
        costs.summed = fields.record()?;
        Ok(())
    })?;
    let first_instant = day.saturating_mul(DAY_MICROS);
    sql!(
        concat!(
            "SELECT ",
            job_columns!(),
            " FROM submissions s JOIN tasks t ON t.id = s.task_id
              WHERE s.ended_at IS NOT NULL AND s.ended_at >= :first_instant AND s.ended_at < :end
              AND s.state <> 'refused'"
        ),
        first_instant,
        end = first_instant.saturating_add(DAY_MICROS)
    )
    .all(conn, |row| {
        let job = EndedJob::from_row(row)?;
        let costs = groups.entry(job.group()).or_default();
        costs.add(&job);
        Ok(())
    })?;
    // If the quantity of a job was not recorded, its cost cannot be computed again.
    let differing = groups
        .into_iter()
        .filter(|(_, costs)| !costs.has_unknown_quantity && costs.summed != costs.jobs);
    Ok(differing
        .map(|(group, costs)| Mismatch {
            kind: "hours",
            id: hour_name(group.hour),
            detail: format!(
                "account {}, key {}, model {}, provider {}, {}: {}; by the submissions that ended then {}",
                group.account,
                group.key,
                group.model,
                group.provider,
                group.outcome,
                costs.summed.in_words(),
                costs.jobs.in_words()
            ),
        })
        .collect())
}

impl EndedJob {
    /// The group to which the job belongs.
    fn group(&self) -> JobGroup {
        JobGroup {
            hour: self.ended_at.div_euclid(HOUR_MICROS),
            account: self.account.clone(),
            key: self.key.clone(),
            model: self.model.clone(),
            provider: self.provider.clone(),
            outcome: self.outcome.clone(),
        }
    }
}

impl JobCosts {
    fn in_words(self) -> String {
        format!(
            "finished jobs cost {}, others {}, and {} jobs have unknown costs",
            MicroDollars::new(self.made),
            MicroDollars::new(self.wasted),
            self.unknown
        )
    }
}

impl HourCosts {
    fn add(&mut self, job: &EndedJob) {
        let error = (job.error_class.as_deref(), job.error_message.as_deref());
        // The result of a cancelled task was not fetched, so its size is taken from the order.
        let is_late = error == (Some("cancelled"), Some("made"));
        let is_made = job.state == "ended" && (error.0.is_none() || is_late);
        let tariff = from_json::<Tariff>(job.tariff.as_deref());
        let bill = from_json::<Bill>(job.bill.as_deref());
        let ordered_quantity = tariff.as_ref().map(|tariff| tariff.asked);
        let quantity = bill
            .map(|bill| bill.delivered.unwrap_or(bill.quantity))
            .or_else(|| ordered_quantity.filter(|_| is_late));
        let price = tariff.and_then(|tariff| tariff.cost_by(&job.provider, &job.route_model));
        let price = price.filter(|_| is_made);
        self.has_unknown_quantity |= price.is_some() && quantity.is_none();
        let declared = price.map(|price| price.cost_of(quantity.unwrap_or_default()));
        // The sums were written by the same rule, so a difference means that a row was lost or
        // counted twice.
        match classify_job_cost(job.cost.clone(), declared, is_made) {
            JobCost::Made(cost) => self.jobs.made += cost.get(),
            JobCost::Wasted(cost) => self.jobs.wasted += cost.get(),
            JobCost::Unknown => self.jobs.unknown += 1,
        }
    }
}

fn from_json<T: serde::de::DeserializeOwned>(text: Option<&str>) -> Option<T> {
    serde_json::from_str(text?).ok()
}
