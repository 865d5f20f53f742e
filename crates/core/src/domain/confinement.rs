//! Proof, before a process accepts work, that its child processes are confined.

use crate::app::App;
use crate::private_files;
use mediagate_media::engines::EngineError;
use mediagate_media::engines::child::{self, ChildLauncher, ConfinementWall};
use mediagate_telemetry::counters;

/// The warning about a kernel that cannot confine child processes completely.
pub const INCOMPLETE: &str = "this kernel cannot fully confine the processes that decode media; \
                              docs/security.md lists what is left";

/// Proves it, or fails if no child can start, or if the kernel could confine it and it is not
/// confined. Returns what the kernel cannot keep children from. Blocks.
pub fn prove(engines: &ChildLauncher) -> Result<Vec<ConfinementWall>, EngineError> {
    private_files::folder(engines.spool())
        .map_err(|error| EngineError::Unstarted(error.to_string()))?;
    child::prove_confinement(engines)
}

/// Reports the result of the proof: once, because there is one proof, at the start.
pub fn report(app: &App, missing: Vec<ConfinementWall>) {
    for wall in ConfinementWall::ALL {
        counters::confinement(wall.name(), !missing.contains(&wall));
    }
    let names: Vec<&'static str> = missing.into_iter().map(ConfinementWall::name).collect();
    if !names.is_empty() {
        tracing::warn!(unconfined = names.join(", "), "{INCOMPLETE}");
    }
    let _ = app.process.unconfined.set(names);
}
