//! Stored state of routes to providers, and the outcomes of their submissions.

use std::time::Duration;

use orders::JobHandle;

use crate::columns::{FieldReader, TableRecord as _, insert, record};
use crate::statement::sql;
use crate::{Conn, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::route::{RouteCounts, RouteError, StoredRouteState};
use mediagate_model::submission::SubmissionState;

/// A provider and its name for the model.
pub type RouteKey = (String, String);

record! {
    columns for StoredRouteState of "route_notes" {
        paused_at: "paused_at",
        retry_requested_at: "tried_at",
        refused_at: "refused_at",
        error: error("error_class", "error_message", "error_at"),
    }
}

fn error(
    class: Option<String>,
    message: Option<String>,
    at: Option<Timestamp>,
) -> Option<RouteError> {
    Some(RouteError {
        class: class?,
        message: message.unwrap_or_default(),
        at: at?,
    })
}

/// The stored states of all routes that have one.
pub fn stored_states(conn: &mut Conn<'_>) -> Result<Vec<(RouteKey, StoredRouteState)>, StoreError> {
    sql!(concat!(
        "SELECT provider, model, ",
        columns!(),
        " FROM route_notes"
    ))
    .all(conn, |row| {
        let mut fields = FieldReader::new(row);
        let key = (
            fields.field("route_notes.provider")?,
            fields.field("route_notes.model")?,
        );
        Ok((key, fields.record()?))
    })
}

/// The stored state of a route.
pub fn stored_state(conn: &mut Conn<'_>, key: &RouteKey) -> Result<StoredRouteState, StoreError> {
    let row = sql!(
        concat!(
            "SELECT ",
            columns!(),
            " FROM route_notes WHERE provider = :provider AND model = :model"
        ),
        provider = &key.0,
        model = &key.1
    )
    .one(conn, StoredRouteState::from_row)?;
    Ok(row.unwrap_or_default())
}

/// Pauses a route for an operator, or resumes it.
pub fn set_paused(
    conn: &mut Conn<'_>,
    key: &RouteKey,
    paused_at: Option<Timestamp>,
) -> Result<(), StoreError> {
    sql!(
        "INSERT INTO route_notes (provider, model, paused_at) VALUES (:provider, :model, :paused_at)
         ON CONFLICT (provider, model) DO UPDATE SET paused_at = excluded.paused_at",
        provider = &key.0,
        model = &key.1,
        paused_at
    )
    .execute(conn)?;
    Ok(())
}

/// Records an operator's request to try a route again.
pub fn set_retry_requested(
    conn: &mut Conn<'_>,
    key: &RouteKey,
    at: Timestamp,
) -> Result<(), StoreError> {
    sql!(
        "INSERT INTO route_notes (provider, model, tried_at) VALUES (:provider, :model, :at)
         ON CONFLICT (provider, model) DO UPDATE SET tried_at = excluded.tried_at",
        provider = &key.0,
        model = &key.1,
        at
    )
    .execute(conn)?;
    Ok(())
}

/// Records the error with which a provider did not accept an order; `refuses_all` if it refused the
/// key or the model. The time of the first such refusal is kept.
pub fn set_error(
    conn: &mut Conn<'_>,
    key: &RouteKey,
    error: &RouteError,
    refuses_all: bool,
) -> Result<(), StoreError> {
    insert!(conn, "route_notes" {
        "provider": key.0,
        "model": key.1,
        "refused_at": refuses_all.then_some(error.at),
        "error_class": error.class,
        "error_message": error.message,
        "error_at": error.at,
    } "ON CONFLICT (provider, model) DO UPDATE SET refused_at = COALESCE(route_notes.refused_at, excluded.refused_at),
           error_class = excluded.error_class, error_message = excluded.error_message, error_at = excluded.error_at")?;
    Ok(())
}

/// Records that the provider accepted an order and so no longer refuses the key or the model.
pub fn clear_refusal(conn: &mut Conn<'_>, key: &RouteKey) -> Result<(), StoreError> {
    sql!(
        "UPDATE route_notes SET refused_at = NULL WHERE provider = :provider AND model = :model",
        provider = &key.0,
        model = &key.1
    )
    .execute(conn)?;
    Ok(())
}

/// How a provider's submissions since `since` ended, by its name for the model and by time
/// intervals of length `interval`.
pub fn outcomes(
    conn: &mut Conn<'_>,
    provider: &str,
    since: Timestamp,
    interval: Duration,
) -> Result<Vec<(String, usize, RouteCounts)>, StoreError> {
    let interval = i64::try_from(interval.as_micros()).unwrap_or(i64::MAX);
    sql!(
        "SELECT route_model, state, CAST(CASE WHEN error_class IS NULL THEN 0 ELSE 1 END AS BIGINT), COUNT(*),
                (created_at - :since) / :interval
         FROM submissions WHERE provider = :provider AND created_at > :since AND state NOT IN ('intended', 'accepted')
         GROUP BY route_model, state, CAST(CASE WHEN error_class IS NULL THEN 0 ELSE 1 END AS BIGINT),
         (created_at - :since) / :interval",
        provider,
        since,
        interval
    )
    .all(conn, |row| {
            let mut fields = FieldReader::new(row);
            let model = fields.field("submissions.route_model")?;
            let state = fields.field("submissions.state")?;
            let has_failed = fields.field("submissions.error_class")?;
            let count = u64::try_from(fields.field::<i64>("count")?).unwrap_or(0);
            let index = usize::try_from(fields.field::<i64>("part")?).unwrap_or(0);
            let mut counts = RouteCounts::default();
            match state {
                SubmissionState::Ended if has_failed => counts.failed = count,
                SubmissionState::Ended => counts.succeeded = count,
                SubmissionState::Refused => counts.refused = count,
                SubmissionState::Unclear | SubmissionState::Found => counts.unconfirmed = count,
                SubmissionState::Intended | SubmissionState::Accepted => {}
            }
            Ok((model, index, counts))
        })
}

/// How long the latest successes since `since` took, in microseconds, by the provider's name for
/// the model; at most 2,000 of the provider.
pub fn success_durations(
    conn: &mut Conn<'_>,
    provider: &str,
    since: Timestamp,
) -> Result<Vec<(String, i64)>, StoreError> {
    sql!(
        "SELECT s.route_model AS route_model, t.finished_at - s.created_at AS duration
         FROM submissions s JOIN tasks t ON t.id = s.task_id
         WHERE s.provider = :provider AND s.created_at > :since AND s.state = 'ended' AND s.error_class IS NULL
         AND t.finished_at IS NOT NULL AND t.state = 'succeeded' ORDER BY s.created_at DESC LIMIT 2000",
        provider,
        since
    )
    .all(conn, |row| Ok((row.field("route_model")?, row.field("duration")?)))
}

/// The latest job that a provider made at this endpoint since `since`, and the credential with which
/// it was ordered.
pub fn known_job(
    conn: &mut Conn<'_>,
    provider: &str,
    endpoint: &str,
    since: Timestamp,
) -> Result<Option<(String, JobHandle)>, StoreError> {
    sql!(
        "SELECT credential, handle FROM submissions
         WHERE provider = :provider AND created_at > :since AND endpoint = :endpoint AND handle IS NOT NULL
         ORDER BY created_at DESC LIMIT 1",
        provider,
        endpoint,
        since
    )
    .one(conn, |row| Ok((row.field("credential")?, row.field("handle")?)))
}
