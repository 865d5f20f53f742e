//! `/v1/admin/audit`: who changed what.

use axum::extract::State;
use axum::response::Response;

use crate::auth::{Admin, AllowedCaller};
use crate::error::ErrorResponse;
use crate::fields::parameters::parameters;
use crate::fields::types::OptionalText;
use crate::orders::admin::fields::InstantField;
use crate::page_params::CsvPage;
use crate::query::Query;
use crate::usage::csv_or_json;
use crate::wire::admin::audit::{AuditObject, audit_csv};
use crate::wire::list::List;
use mediagate_core::app::App;
use mediagate_core::domain::audit;
use mediagate_model::ids::AuditId;
use mediagate_store::audit::AuditFilter;

parameters! {
    /// The parameters of the log.
    pub(crate) struct AuditParameters {
        /// The log of the account with this handle instead of the operators' log; `*` for those of
        /// all accounts
        account: OptionalText<100>,
        /// Only this action, for example `key.create`
        action: OptionalText<100>,
        /// Only changes of the object with this id or name
        target: OptionalText<200>,
        /// Only changes by the actor with this id, name or kind
        actor: OptionalText<200>,
        /// Only entries at or after this time, RFC 3339
        since: InstantField,
        /// Only entries before this time, RFC 3339
        until: InstantField,
        + page: CsvPage<AuditId>,
    }
}

/// List the audit log, newest first.
///
/// It contains changes by operators' keys, by commands and by reloads of the configuration. What
/// other keys did is in a log of their account, which is listed with `account`.
#[utoipa::path(get, path = "/v1/admin/audit", tag = "admin", params(AuditParameters),
    responses((status = 200, description = "A page of entries", content(
        (List<AuditObject> = "application/json"), (String = "text/csv")))))]
pub(crate) async fn list(
    allowed: AllowedCaller<Admin>,
    Query(query): Query<AuditParameters>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let (page, is_csv) = query.page.into_query(&allowed.headers)?;
    let filter = AuditFilter {
        log: audit::log_of(&app, query.account.as_deref()).await?,
        action: query.action,
        target: query.target,
        actor: query.actor,
        since: query.since,
        until: query.until,
    };
    let (entries, has_more) = audit::page(&app, filter, page.after, page.limit).await?;
    let entries = entries.into_iter();
    let entries: Vec<_> = entries
        .map(|(entry, account)| AuditObject::new(entry, account))
        .collect();
    let csv = is_csv.then(|| ("audit.csv".to_owned(), audit_csv(&entries)));
    let list = List::new(entries, has_more, |entry: &AuditObject| entry.id.clone());
    Ok(csv_or_json(csv, list)?)
}
