//! Jobs of submissions: each belongs to one submission, whichever way it was learned of.

use orders::{JobHandle, ProviderCost};
use serde_json::Value;

use crate::conn::to_json;
use crate::statement::sql;
use crate::{Conn, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::SubmissionId;
use mediagate_model::submission::Submission;

/// Whether no other submission has the job `:job`.
macro_rules! is_free {
    () => {
        "NOT EXISTS (SELECT 1 FROM submissions other WHERE other.endpoint = submissions.endpoint
         AND COALESCE(other.job, other.handle) = :job AND other.handle IS NOT NULL AND other.id <> submissions.id)"
    };
}

/// The content of a provider's acceptance.
#[derive(Debug, Clone, Default)]
pub struct JobAcceptance {
    /// Identifies the job.
    pub handle: Option<JobHandle>,
    /// The results, if the job is already done.
    pub results: Option<Value>,
    /// What the provider reports that the job cost.
    pub cost: Option<ProviderCost>,
}

impl JobAcceptance {
    /// What identifies the job, as JSON.
    fn job(&self) -> Result<Option<String>, StoreError> {
        let handle = self.handle.as_ref();
        handle.map(|handle| to_json(&handle.identity())).transpose()
    }
}

/// Whether a submission was given the job that its acceptance names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptanceResult {
    /// It has the job now.
    Accepted,
    /// Another outcome of it was recorded before.
    Decided,
    /// The job belongs to this other submission.
    Taken(SubmissionId),
}

/// Records that the provider accepted a submission, unless its job belongs to another one.
///
/// If two processes do this with one job at the same time, the later one gets an error from a
/// unique index, and has to repeat the call.
pub fn accept(
    conn: &mut Conn<'_>,
    id: SubmissionId,
    acceptance: &JobAcceptance,
    now: Timestamp,
) -> Result<AcceptanceResult, StoreError> {
    let job = acceptance.job()?;
    let handle = acceptance.handle.as_ref().map(to_json).transpose()?;
    let results = acceptance.results.as_ref().map(to_json).transpose()?;
    let changed = sql!(
        concat!(
            "UPDATE submissions SET state = 'accepted', handle = :handle, job = :job, results = :results,
             accepted_at = :now, answered_at = :now
             WHERE id = :id AND state = 'intended' AND ", is_free!()
        ),
        id,
        handle = handle.as_ref(),
        now,
        results = results.as_ref(),
        job = job.as_ref()
    )
    .execute(conn)?;
    if changed == 1 {
        return Ok(AcceptanceResult::Accepted);
    }
    let owner = sql!(
        "SELECT other.id FROM submissions s JOIN submissions other ON other.endpoint = s.endpoint
         WHERE s.id = :id AND COALESCE(other.job, other.handle) = :job AND other.handle IS NOT NULL
         AND other.id <> s.id LIMIT 1",
        id,
        job = job.as_ref()
    )
    .value(conn)?;
    Ok(owner.map_or(AcceptanceResult::Decided, AcceptanceResult::Taken))
}

/// Records that the job of an unclear submission was found. Returns false if it is not unclear, or
/// if the job belongs to another submission.
pub fn mark_found(
    conn: &mut Conn<'_>,
    id: SubmissionId,
    acceptance: &JobAcceptance,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let job = acceptance.job()?;
    let handle = acceptance.handle.as_ref().map(to_json).transpose()?;
    let results = acceptance.results.as_ref().map(to_json).transpose()?;
    let changed = sql!(
        concat!(
            "UPDATE submissions SET state = 'found', handle = :handle, job = :job, results = :results,
             accepted_at = :now, due_at = NULL
             WHERE id = :id AND state = 'unclear' AND ", is_free!()
        ),
        id,
        handle = handle.as_ref(),
        now,
        results = results.as_ref(),
        job = job.as_ref()
    )
    .execute(conn)?;
    Ok(changed == 1)
}

/// Whether a job of this endpoint belongs to a submission.
pub fn is_taken(
    conn: &mut Conn<'_>,
    endpoint: &str,
    handle: &JobHandle,
) -> Result<bool, StoreError> {
    sql!(
        "SELECT CAST(1 AS BIGINT) FROM submissions
         WHERE endpoint = :endpoint AND COALESCE(job, handle) = :identity AND handle IS NOT NULL LIMIT 1",
        endpoint,
        identity = to_json(&handle.identity())?
    )
    .exists(conn)
}

/// Whether a list may show a job of another submission that looks like this one's: a similar one is
/// being sent, or was sent since `since` with an unknown outcome.
pub fn has_undecided_twin(
    conn: &mut Conn<'_>,
    submission: &Submission,
    since: Timestamp,
) -> Result<bool, StoreError> {
    let Some(likeness) = &submission.likeness else {
        return Ok(true);
    };
    sql!(
        "SELECT CAST(1 AS BIGINT) FROM submissions WHERE endpoint = :endpoint AND (likeness IS NULL
         OR likeness = :likeness)
         AND state IN ('intended', 'unclear') AND handle IS NULL AND (state = 'intended' OR created_at > :since)
         AND id <> :id LIMIT 1",
        endpoint = &submission.endpoint,
        likeness,
        since,
        id = submission.id
    )
    .exists(conn)
}
