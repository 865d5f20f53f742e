//! Submissions to providers as an operator sees them, and the resolution of those that nobody could
//! confirm. A resolution moves no money: the task has ended, and its caller was not charged.

use serde_json::{Value, json};

use crate::app::{App, Ctx};
use crate::domain::operator::OperatorAction;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::SubmissionId;
use mediagate_model::submission::{SubmissionFilter, SubmissionRecord};
use mediagate_store as store;
use mediagate_store::tasks::PageQuery;

/// A page of submissions, and whether more follow.
pub async fn page(
    app: &Ctx,
    filter: Option<SubmissionFilter>,
    page: PageQuery<SubmissionId>,
) -> Result<(Vec<SubmissionRecord>, bool), Error> {
    let (limit, one_more) = (page.limit, page.with_one_more());
    let read = app
        .store
        .long_read(move |conn| store::submissions::page(conn, filter, one_more));
    let mut submissions = store::await_within_limit(read).await?;
    let has_more = store::page::truncate_to_limit(&mut submissions, limit);
    Ok((submissions, has_more))
}

/// The error for a submission that does not exist.
pub fn not_found() -> Error {
    let message = "There is no submission with this id.";
    Error::plain(ErrorCode::SubmissionNotFound, message)
}

/// Records how an operator resolved an unconfirmed submission: why, and the provider's id of the job
/// if there was one. It leaves the list of unconfirmed submissions, and is no longer looked up.
pub async fn resolve(
    app: &App,
    operation: OperatorAction<'_, SubmissionRecord>,
    id: SubmissionId,
    note: String,
    job: Option<String>,
) -> Result<SubmissionRecord, Error> {
    let now = app.clock.now();
    operation
        .write(app, move |conn, author| {
            let before = store::submissions::record_by_id(conn, id)?.ok_or_else(not_found)?;
            if !store::submissions::resolve(conn, id, &note, job.as_deref(), now)? {
                return Err(not_unconfirmed(&before));
            }
            let after = store::submissions::record_by_id(conn, id)?.ok_or_else(not_found)?;
            let changed = (Some(audit_value(&before)), Some(audit_value(&after)));
            author.note(conn, "submission.resolve", &id, changed, now)?;
            Ok(after)
        })
        .await
}

fn not_unconfirmed(record: &SubmissionRecord) -> Error {
    let message = match &record.resolution {
        Some(resolution) => format!(
            "The submission was already resolved at {}.",
            resolution.at.rfc3339()
        ),
        None => format!(
            "Only unconfirmed submissions can be resolved. The state of this one is {}.",
            record.submission.state.name()
        ),
    };
    Error::plain(ErrorCode::NotUnconfirmed, message)
}

fn audit_value(record: &SubmissionRecord) -> Value {
    let resolution = record.resolution.as_ref();
    json!({
        "task_id": record.submission.task.to_string(),
        "provider": record.submission.provider,
        "state": record.submission.state.name(),
        "resolved_at": resolution.map(|resolution| resolution.at.rfc3339()),
        "note": resolution.map(|resolution| &resolution.note),
        "job": resolution.and_then(|resolution| resolution.job.as_ref()),
    })
}
