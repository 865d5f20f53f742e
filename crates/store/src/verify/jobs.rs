//! What providers were paid, as the hours sum it up, against the jobs themselves.

use std::collections::BTreeMap;

use super::Mismatch;
use super::hours::{HOURS, hour_name};
use crate::hours::HOUR;
use crate::usage::DAY;
use crate::{Conn, Row, StoreError};
use mediagate_model::money::Micros;
use mediagate_model::price::{Bill, Tariff};
use mediagate_model::submission::{JobCost, judge};

/// What jobs cost together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Costs {
    made: i64,
    wasted: i64,
    unknown: i64,
}

/// What the jobs of an hour cost that the rows themselves tell.
#[derive(Debug, Default)]
struct Told {
    summed: Costs,
    jobs: Costs,
    /// How much one of them made is written nowhere.
    is_vague: bool,
}

/// The hour, account, key, model, provider and outcome of a sum.
type Group = (i64, [String; 5]);

/// The sums of the hours of a day that are not those of the jobs that ended in them.
pub(super) fn of_day(conn: &mut Conn<'_>, day: i64) -> Result<Vec<Mismatch>, StoreError> {
    let mut groups: BTreeMap<Group, Told> = BTreeMap::new();
    conn.all(
        "SELECT hour, account_id, key_id, model, provider, outcome, made_micros, wasted_micros, unknown_jobs
         FROM hourly_sums WHERE hour >= ?1 AND hour < ?2",
        &[
            day.saturating_mul(HOURS).into(),
            day.saturating_add(1).saturating_mul(HOURS).into(),
        ],
        |row| {
            let told = groups.entry(group(row, row.int(0)?)?).or_default();
            told.summed = Costs {
                made: row.int(6)?,
                wasted: row.int(7)?,
                unknown: row.int(8)?,
            };
            Ok(())
        },
    )?;
    let first_instant = day.saturating_mul(DAY);
    conn.all(
        "SELECT s.ended_at, t.account_id, t.key_id, t.model, s.provider, t.state, s.route_model, s.state, s.error_class,
                s.error_message, s.cost_millionths, s.cost_unit, t.tariff, t.bill
         FROM submissions s JOIN tasks t ON t.id = s.task_id
         WHERE s.ended_at IS NOT NULL AND s.ended_at >= ?1 AND s.ended_at < ?2 AND s.state <> 'refused'",
        &[
            first_instant.into(),
            first_instant.saturating_add(DAY).into(),
        ],
        |row| {
            let hour = row.int(0)?.div_euclid(HOUR);
            groups.entry(group(row, hour)?).or_default().add(row)
        },
    )?;
    let wrong = groups
        .into_iter()
        .filter(|(_, told)| !told.is_vague && told.summed != told.jobs);
    Ok(wrong
        .map(|((hour, [account, key, model, provider, outcome]), told)| Mismatch {
            what: "hours",
            id: hour_name(hour),
            why: format!(
                "account {account}, key {key}, model {model}, provider {provider}, {outcome}: {}; by the submissions that \
                 ended then {}",
                told.summed.in_words(),
                told.jobs.in_words()
            ),
        })
        .collect())
}

fn group(row: &Row<'_>, hour: i64) -> Result<Group, StoreError> {
    let names = [
        row.text(1)?,
        row.text(2)?,
        row.text(3)?,
        row.text(4)?,
        row.text(5)?,
    ];
    Ok((hour, names))
}

impl Costs {
    fn in_words(self) -> String {
        format!(
            "jobs that were made cost {}, others {}, and of {} nobody knows",
            Micros::new(self.made),
            Micros::new(self.wasted),
            self.unknown
        )
    }
}

impl Told {
    /// Adds a submission that is over.
    fn add(&mut self, row: &Row<'_>) -> Result<(), StoreError> {
        let state = row.text(7)?;
        let why = (row.text_or_null(8)?, row.text_or_null(9)?);
        let (class, message) = (why.0.as_deref(), why.1.as_deref());
        // Of a cancelled task's job nobody fetched the result: it is what was ordered.
        let is_late = (class, message) == (Some("cancelled"), Some("made"));
        let is_made = state == "ended" && (class.is_none() || is_late);
        let told = row.int_or_null(10)?.zip(row.text_or_null(11)?);
        let tariff = parsed::<Tariff>(row.text_or_null(12)?.as_deref());
        let bill = parsed::<Bill>(row.text_or_null(13)?.as_deref());
        let asked = tariff.as_ref().map(|tariff| tariff.asked);
        let quantity = bill
            .map(|bill| bill.delivered.unwrap_or(bill.quantity))
            .or_else(|| asked.filter(|_| is_late));
        let (provider, model) = (row.text(4)?, row.text(6)?);
        let price = tariff.and_then(|tariff| tariff.cost_by(&provider, &model));
        let price = price.filter(|_| is_made);
        self.is_vague |= price.is_some() && quantity.is_none();
        let declared = price.map(|price| price.of(quantity.unwrap_or_default()));
        match judge(told, declared, is_made) {
            JobCost::Made(cost) => self.jobs.made += cost.get(),
            JobCost::Wasted(cost) => self.jobs.wasted += cost.get(),
            JobCost::Unknown => self.jobs.unknown += 1,
        }
        Ok(())
    }
}

fn parsed<T: serde::de::DeserializeOwned>(text: Option<&str>) -> Option<T> {
    serde_json::from_str(text?).ok()
}
