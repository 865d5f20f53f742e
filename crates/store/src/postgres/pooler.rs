//! Detection of a connection pooler in transaction mode between this process and Postgres.
//!
//! Such a pooler runs each transaction on any of its connections, and so loses the statements that
//! were prepared on another one, or, worse, runs what another process prepared under the same name.
//! `PgBouncer` from 1.21 on can keep them.

use std::time::{Duration, Instant};

use crate::StoreError;
use crate::pg_session::PgSession;
use crate::pg_session::server::PostgresServer;

/// Timeout of the check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a statement may wait for a connection of the pooler.
const POOL_WAIT: Duration = Duration::from_millis(1500);
/// Maximum number of tries: other clients may take the connection in between.
const MAX_TRIES: usize = 2;

/// Fails if prepared statements do not survive.
pub(super) fn check(server: &PostgresServer) -> Result<(), StoreError> {
    let mut first = server.connect()?;
    first.set_deadline(Instant::now() + CHECK_TIMEOUT);
    let mut second = match server.connect() {
        Ok(second) => second,
        Err(StoreError::Pooler) => return Err(StoreError::Pooler),
        // There is no second connection now. A lost statement is noticed when it is used.
        Err(_) => return Ok(()),
    };
    second.set_deadline(Instant::now() + CHECK_TIMEOUT);
    for _ in 0..MAX_TRIES {
        let connection = backend(&mut first)?;
        // An open transaction keeps a pooler's connection to itself.
        second.script("BEGIN")?;
        let is_shared = backend(&mut second)? == connection;
        let reuse_result = if is_shared {
            // `second` has the connection on which the statement was prepared, so this runs on
            // another.
            first.set_deadline(Instant::now() + POOL_WAIT);
            Some(backend(&mut first).map(drop))
        } else {
            None
        };
        second.script("ROLLBACK")?;
        match reuse_result {
            None => {}
            Some(Ok(())) => {
                tracing::info!("the pooler is in transaction mode and keeps prepared statements");
                return Ok(());
            }
            // No other connection came: the pooler has only this one.
            Some(Err(StoreError::TimedOut)) => {
                tracing::warn!("the pooler is in transaction mode and has a single connection");
                return Ok(());
            }
            Some(Err(error)) => return Err(error),
        }
    }
    Ok(())
}

/// The server process of the connection, read by a prepared statement.
fn backend(session: &mut PgSession) -> Result<i32, StoreError> {
    let rows = session.query("SELECT pg_backend_pid()", &[])?;
    let row = rows.first().ok_or(StoreError::Lost)?;
    row.try_get(0).map_err(StoreError::from)
}
