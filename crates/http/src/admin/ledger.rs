//! `/v1/admin/ledger`: every movement of money, consistency checks, and corrections.

use axum::Json;
use axum::extract::State;
use axum::response::Response;

use super::account_of_filter;
use super::write::OperatorWrite;
use crate::auth::{Admin, AllowedCaller};
use crate::body::JsonBody;
use crate::error::ErrorResponse;
use crate::fields::parameters::parameters;
use crate::fields::types::{IdField, OptionalText};
use crate::orders::admin::money::{AdjustmentRequest, read_adjustment};
use crate::page_params::{CsvPage, DayField};
use crate::query::Query;
use crate::usage::csv_or_json;
use crate::wire::admin::money::{AdjustmentObject, LedgerCheck, LedgerEntry, entries_csv};
use crate::wire::list::List;
use crate::wire::usage::check_order;
use mediagate_core::app::App;
use mediagate_core::domain::operator::OperatorAction;
use mediagate_core::domain::usage::start_of;
use mediagate_core::domain::{accounting, ledger};
use mediagate_model::ids::TaskId;
use mediagate_model::money::MicroDollars;
use mediagate_store::ledger::LedgerFilter;

parameters! {
    /// The parameters of the list.
    pub(crate) struct LedgerParameters {
        /// Only for the account with this handle
        account: OptionalText<100>,
        /// Only for this task
        task: IdField<TaskId>,
        /// Only entries written on or after this day in UTC, for example 2026-01-31
        from: DayField,
        /// Only entries written on or before this day in UTC
        to: DayField,
        + page: CsvPage<String>,
    }
}

/// List ledger entries, newest first.
#[utoipa::path(get, path = "/v1/admin/ledger", tag = "admin", params(LedgerParameters),
    responses((status = 200, description = "A page of entries", content(
        (List<LedgerEntry> = "application/json"), (String = "text/csv")))))]
pub(crate) async fn list(
    allowed: AllowedCaller<Admin>,
    Query(query): Query<LedgerParameters>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    check_order(query.from, query.to)?;
    let (page, is_csv) = query.page.into_query(&allowed.headers)?;
    let filter = LedgerFilter {
        account: account_of_filter(&app, query.account).await?,
        task: query.task,
        from: query.from.map(start_of),
        before: query.to.map(|last| start_of(last + 1)),
        ..LedgerFilter::default()
    };
    let (entries, has_more) = accounting::page(&app, filter, page.after, page.limit).await?;
    let handles = accounting::handles(&app, &entries).await?;
    let objects: Vec<_> = entries
        .iter()
        .map(|entry| LedgerEntry::new(entry, &handles))
        .collect();
    let csv = is_csv.then(|| ("ledger.csv".to_owned(), entries_csv(&objects)));
    let list = List::new(objects, has_more, |entry: &LedgerEntry| entry.id.clone());
    Ok(csv_or_json(csv, list)?)
}

/// Verify all sums of the ledger.
///
/// This changes nothing.
#[utoipa::path(get, path = "/v1/admin/ledger/verify", tag = "admin",
    responses((status = 200, description = "The result of the check", body = LedgerCheck)))]
pub(crate) async fn verify(
    _: AllowedCaller<Admin>,
    State(app): State<App>,
) -> Result<Json<LedgerCheck>, ErrorResponse> {
    let mismatches = ledger::verify(&app).await?;
    let counts = accounting::counts(&app).await?;
    Ok(Json(LedgerCheck::new(&mismatches, counts)))
}

/// Adjust the cost of a task that has ended.
///
/// A positive amount charges, a negative amount refunds. A task can be adjusted only once.
#[utoipa::path(post, path = "/v1/admin/ledger/adjustments", tag = "admin",
    request_body = AdjustmentRequest,
    responses((status = 200, description = "The adjustment", body = AdjustmentObject)))]
pub(crate) async fn adjust(
    write: OperatorWrite,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    let ((task, amount, note), fingerprint) = write.read(&app, body, read_adjustment).await?;
    let reason = note.clone();
    let make = async |operation: OperatorAction<'_, MicroDollars>| {
        accounting::adjust(&app, operation, task, amount, reason).await
    };
    let show = move |cost: &MicroDollars, _| AdjustmentObject::new(task, amount, &note, *cost);
    Ok(write.make(&app, fingerprint, make, show).await?)
}
