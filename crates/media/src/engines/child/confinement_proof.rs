//! The proof that children are confined: a child attempts what its confinement forbids, and reports
//! what succeeded.

use std::fs::File;
use std::path::PathBuf;

use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::confinement::{AppliedConfinement, ConfinementError, ConfinementWall};
use super::parent_side::run_job;
use super::{ChildJob, ChildLauncher, ChildLimits, ChildMessage};
use crate::engines::clip::engine_failure;
use crate::engines::{EngineControl, EngineError};

/// What a child attempts although it must not. Without a confinement all of it succeeds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ForbiddenAttempts {
    /// A file to read.
    file: PathBuf,
    /// A process to signal.
    process: u32,
}

/// The outcome of a child's attempts.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AttemptReport {
    confinement: AppliedConfinement,
    /// What it could do although it must not.
    reached: Vec<ConfinementWall>,
}

/// Runs a child that attempts to leave its confinement. Returns the walls that it lacks because the
/// kernel cannot build them. Blocks.
pub fn prove_confinement(launcher: &ChildLauncher) -> Result<Vec<ConfinementWall>, EngineError> {
    let file = NamedTempFile::new_in(launcher.spool()).map_err(engine_failure)?;
    let job = ChildJob::Confinement(ForbiddenAttempts {
        file: file.path().to_owned(),
        process: std::process::id(),
    });
    let control = EngineControl::default();
    match run_job(launcher, job, ChildLimits::MEDIA, &control)? {
        (_, ChildMessage::Attempted(report)) => match report.breach() {
            Some(wall) => Err(ConfinementError::Breached(wall).into()),
            None => Ok(report.reached),
        },
        (_, message) => Err(EngineError::Broken(format!("a child sent {message:?}"))),
    }
}

impl ForbiddenAttempts {
    /// The child's side.
    pub(super) fn make(&self, confinement: AppliedConfinement) -> AttemptReport {
        let is_reached = |wall: &ConfinementWall| match wall {
            ConfinementWall::Files => File::open(&self.file).is_ok(),
            ConfinementWall::Network => {
                rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None).is_ok()
            }
            // Asks whether a signal may be sent, and sends none.
            ConfinementWall::Processes => Pid::from_raw(self.process.cast_signed())
                .is_some_and(|process| test_kill_process(process).is_ok()),
        };
        AttemptReport {
            confinement,
            reached: ConfinementWall::ALL
                .into_iter()
                .filter(is_reached)
                .collect(),
        }
    }
}

impl AttemptReport {
    /// A wall that was built and does not hold.
    fn breach(&self) -> Option<ConfinementWall> {
        let is_built = |wall: &&ConfinementWall| match wall {
            ConfinementWall::Files => self.confinement.landlock,
            ConfinementWall::Network | ConfinementWall::Processes => self.confinement.seccomp,
        };
        self.reached.iter().find(is_built).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_that_was_built_and_does_not_hold_is_a_breach() {
        let report = |landlock, reached| AttemptReport {
            confinement: AppliedConfinement {
                landlock,
                seccomp: true,
            },
            reached,
        };
        assert_eq!(report(false, vec![ConfinementWall::Files]).breach(), None);
        assert_eq!(
            report(true, vec![ConfinementWall::Files]).breach(),
            Some(ConfinementWall::Files)
        );
        let reached = vec![ConfinementWall::Files, ConfinementWall::Processes];
        assert_eq!(
            report(false, reached).breach(),
            Some(ConfinementWall::Processes)
        );
    }
}
