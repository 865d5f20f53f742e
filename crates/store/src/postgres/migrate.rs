//! Migration of a Postgres database while other processes work.

use std::time::{Duration, Instant};

use crate::pg_session::server::PostgresServer;
use crate::pg_session::{CommitOutcome, PgSession, SessionTrouble};
use crate::{Conn, StoreError, migrations};
use mediagate_model::database::MigrationMode;

/// Timeout of the whole migration.
const MIGRATION_TIMEOUT: Duration = Duration::from_hours(1);
/// Begins a migration. Its lock timeout is short, because a statement that waits for a table blocks
/// all others from that table.
const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = 3000; SET LOCAL statement_timeout = 0;
    SET LOCAL idle_in_transaction_session_timeout = 0;
    SELECT pg_advisory_xact_lock(7304283110)";
/// Maximum number of tries, and the pause between them.
const MAX_TRIES: u32 = 20;
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Runs missing migrations; replicas that start together take turns.
pub(super) fn run(server: &PostgresServer, migrate: MigrationMode) -> Result<(), StoreError> {
    let mut session = server.connect()?;
    session.set_deadline(Instant::now() + MIGRATION_TIMEOUT);
    // Checked without the lock, because most starts find nothing to do.
    if migrations::is_done(&mut Conn::Postgres(&mut session), migrate)? {
        return Ok(());
    }
    for tries_left in (0..MAX_TRIES).rev() {
        match run_once(&mut session) {
            Err(error)
                if tries_left == 0
                    || session.take_trouble() != Some(SessionTrouble::LockConflict) =>
            {
                return Err(error);
            }
            Err(error) => tracing::warn!(%error, "a migration is waiting"),
            Ok(()) => return Ok(()),
        }
        session.roll_back();
        session.flush()?;
        std::thread::sleep(RETRY_PAUSE);
    }
    Ok(())
}

fn run_once(session: &mut PgSession) -> Result<(), StoreError> {
    session.script(BEGIN)?;
    migrations::run(&mut Conn::Postgres(session))?;
    match session.commit(Instant::now() + MIGRATION_TIMEOUT) {
        CommitOutcome::Committed => Ok(()),
        CommitOutcome::Refused(error) => Err(error),
        // The next start finds out what was written.
        CommitOutcome::InDoubt { .. } => Err(StoreError::Lost),
    }
}
