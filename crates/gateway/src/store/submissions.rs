//! What was sent to providers. A row is on disk before its request leaves, so
//! that a crash never hides a submission.

use providers::Handle;

use crate::clock::Timestamp;
use crate::ids::{SubmissionId, TaskId};
use crate::model::submission::{Submission, SubmissionState};
use crate::store::conn::to_json;
use crate::store::{Conn, Row, StoreError};

/// Writes down that a request is about to leave.
pub fn intend(conn: &mut Conn<'_>, new: &Submission) -> Result<(), StoreError> {
    conn.execute(
        "INSERT INTO submissions (id, task_id, attempt, provider, route_model, credential, state, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, 'intended', $7)",
        &[
            (&new.id.to_string()).into(),
            (&new.task.to_string()).into(),
            i64::from(new.attempt).into(),
            (&new.provider).into(),
            (&new.route_model).into(),
            (&new.credential).into(),
            new.created_at.micros().into(),
        ],
    )?;
    Ok(())
}

/// The provider took it.
pub fn accept(
    conn: &mut Conn<'_>,
    id: SubmissionId,
    handle: Option<&Handle>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let handle = handle.map(to_json).transpose()?;
    conn.execute(
        "UPDATE submissions SET state = 'accepted', handle = $2, accepted_at = $3 WHERE id = $1",
        &[
            (&id.to_string()).into(),
            handle.as_ref().into(),
            now.micros().into(),
        ],
    )?;
    Ok(())
}

/// It is over, one way or the other; `error` is its class and message.
pub fn close(
    conn: &mut Conn<'_>,
    id: SubmissionId,
    state: SubmissionState,
    error: Option<(&str, &str)>,
) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE submissions SET state = $2, error_class = $3, error_message = $4 WHERE id = $1",
        &[
            (&id.to_string()).into(),
            state.name().into(),
            error.map(|error| error.0).into(),
            error.map(|error| error.1).into(),
        ],
    )?;
    Ok(())
}

/// The latest submission for a task.
pub fn latest(conn: &mut Conn<'_>, task: TaskId) -> Result<Option<Submission>, StoreError> {
    conn.one(
        "SELECT id, task_id, attempt, provider, route_model, credential, state, handle, created_at, accepted_at
         FROM submissions WHERE task_id = $1 ORDER BY attempt DESC LIMIT 1",
        &[(&task.to_string()).into()],
        submission,
    )
}

/// Open submissions of a provider, by route model and credential. Those of
/// tasks that have ended take no place, however they were left.
pub fn open_of(
    conn: &mut Conn<'_>,
    provider: &str,
) -> Result<Vec<(String, String, u32)>, StoreError> {
    conn.all(
        "SELECT s.route_model, s.credential, COUNT(*) FROM submissions s JOIN tasks t ON t.id = s.task_id
         WHERE s.provider = $1 AND s.state IN ('intended', 'accepted') AND t.state IN ('queued', 'running')
         GROUP BY s.route_model, s.credential",
        &[provider.into()],
        counted,
    )
}

/// Submissions to a provider since an instant, by route model and credential.
pub fn made_since(
    conn: &mut Conn<'_>,
    provider: &str,
    since: Timestamp,
) -> Result<Vec<(String, String, u32)>, StoreError> {
    conn.all(
        "SELECT route_model, credential, COUNT(*) FROM submissions
         WHERE provider = $1 AND created_at > $2 GROUP BY route_model, credential",
        &[provider.into(), since.micros().into()],
        counted,
    )
}

/// Keeps other processes from submitting to this provider until the
/// transaction ends, so that two cannot both take its last place.
pub fn lock_provider(conn: &mut Conn<'_>, provider: &str) -> Result<(), StoreError> {
    let sql = conn.dialect(
        "SELECT CAST(1 AS BIGINT)",
        "SELECT CAST(1 AS BIGINT) FROM (SELECT pg_advisory_xact_lock(hashtextextended($1, 7))) AS locked",
    );
    let provider = [provider.into()];
    let values = if matches!(conn, Conn::Sqlite(_)) {
        &[][..]
    } else {
        &provider
    };
    conn.one(sql, values, |row| row.int(0)).map(|_| ())
}

fn counted(row: &Row<'_>) -> Result<(String, String, u32), StoreError> {
    let count = u32::try_from(row.int(2)?).unwrap_or(u32::MAX);
    Ok((row.text(0)?, row.text(1)?, count))
}

fn submission(row: &Row<'_>) -> Result<Submission, StoreError> {
    Ok(Submission {
        id: row.parse(0, "submissions.id")?,
        task: row.parse(1, "submissions.task_id")?,
        attempt: u32::try_from(row.int(2)?).unwrap_or(u32::MAX),
        provider: row.text(3)?,
        route_model: row.text(4)?,
        credential: row.text(5)?,
        state: row.parse(6, "submissions.state")?,
        handle: row
            .text_or_null(7)?
            .map(|_| row.json(7, "submissions.handle"))
            .transpose()?,
        created_at: Timestamp::from_micros(row.int(8)?),
        accepted_at: row.int_or_null(9)?.map(Timestamp::from_micros),
    })
}
