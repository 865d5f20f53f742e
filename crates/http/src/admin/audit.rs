//! `/v1/admin/audit`: who changed what.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use crate::auth::{Admin, AllowedCaller};
use crate::error::ErrorResponse;
use crate::page_params::{instant, page_of, wants_csv};
use crate::query::Query;
use crate::usage::csv_or_json;
use crate::wire::admin::audit::{AuditObject, audit_csv};
use crate::wire::list::List;
use mediagate_core::app::App;
use mediagate_core::domain::audit;
use mediagate_store::audit::{AuditFilter, AuditLog};

/// List the audit log, newest first.
///
/// It contains changes by operators' keys, by commands and by reloads of the configuration. What
/// other keys did is in a log of their account, which is listed with `account`.
#[utoipa::path(get, path = "/v1/admin/audit", tag = "admin", params(
    ("account" = Option<String>, Query, description = "The log of the account with this handle instead of the operators' log; `*` for those of all accounts"),
    ("action" = Option<String>, Query, description = "Only this action, for example `key.create`"),
    ("target" = Option<String>, Query, description = "Only changes of the object with this id or name"),
    ("actor" = Option<String>, Query, description = "Only changes by the actor with this id, name or kind"),
    ("since" = Option<String>, Query, description = "Only entries at or after this time, RFC 3339"),
    ("until" = Option<String>, Query, description = "Only entries before this time, RFC 3339"),
    ("limit" = Option<u32>, Query, description = "Number of entries, 1 to 100, default 20. For CSV 1 to 10000, default 1000"),
    ("after" = Option<String>, Query, description = "`last_id` of the previous page. For CSV, the id in the last line"),
    ("format" = Option<String>, Query, description = "`json` or `csv`. Default: according to the `Accept` header"),
), responses((status = 200, description = "A page of entries", content(
    (List<AuditObject> = "application/json"), (String = "text/csv")))))]
pub(crate) async fn list(
    _: AllowedCaller<Admin>,
    query: Query,
    headers: HeaderMap,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let (handle, filter, page, is_csv) = query.read(|query| {
        let handle = query.filled_string("account", 100);
        let filter = AuditFilter {
            log: AuditLog::Operators,
            action: query.filled_string("action", 100),
            target: query.filled_string("target", 200),
            actor: query.filled_string("actor", 200),
            since: instant(query, "since"),
            until: instant(query, "until"),
        };
        let is_csv = wants_csv(query, &headers);
        Some((
            handle,
            filter,
            page_of(query, is_csv, |text| text.parse().ok()),
            is_csv,
        ))
    })?;
    let log = audit::log_of(&app, handle.as_deref()).await?;
    let filter = AuditFilter { log, ..filter };
    let (entries, has_more) = audit::page(&app, filter, page.after, page.limit).await?;
    let entries = entries.into_iter();
    let entries: Vec<_> = entries
        .map(|(entry, account)| AuditObject::new(entry, account))
        .collect();
    let csv = is_csv.then(|| ("audit.csv".to_owned(), audit_csv(&entries)));
    let list = List::new(entries, has_more, |entry: &AuditObject| entry.id.clone());
    Ok(csv_or_json(csv, list)?)
}
