//! The proof that child processes are confined, for commands that start them, and for
//! `config check`.

use std::thread;

use crate::cli::CliError;
use crate::cli::output::note;
use mediagate_config::Config;
use mediagate_core::app::App;
use mediagate_core::domain::confinement::{self, INCOMPLETE};
use mediagate_media::engines::EngineError;
use mediagate_media::engines::child::{
    ChildLauncher, ChildLimits, ConfinementError, ConfinementWall,
};
use mediagate_model::clock::Clock;

/// What to change if a filter of system calls prevents the confinement.
const ADVICE: &str = "The filter is `SystemCallFilter=` of the systemd unit, or the seccomp profile of the \
                      container. It must allow seccomp, landlock_create_ruleset, landlock_add_rule and \
                      landlock_restrict_self";

/// Opens the app of a process that will start children, and meanwhile proves that they are
/// confined.
pub(super) fn open(config: Config) -> Result<App, CliError> {
    let engines = App::engines(&config);
    thread::scope(|scope| {
        let prover = engines.clone();
        let proof = scope.spawn(move || confinement::prove(&prover));
        let app = App::open_with(config, Clock::system(), engines)?;
        let proof = proof.join();
        let proof = proof.map_err(|_| CliError::failed("the proof of the confinement panicked"))?;
        confinement::report(&app, proof.map_err(start_error)?);
        Ok(app)
    })
}

/// Proves it for a process that is started in the same way as this one.
pub(super) fn check(config: &Config) -> Result<(), CliError> {
    // The data folder need not exist yet.
    let spool = tempfile::tempdir().map_err(CliError::failed)?;
    let (program, spool) = (config.program.clone(), spool.path().to_owned());
    let launcher = ChildLauncher::new(program, spool, ChildLimits::ENGINES);
    let missing = confinement::prove(&launcher).map_err(start_error)?;
    if !missing.is_empty() {
        let names: Vec<_> = missing.into_iter().map(ConfinementWall::name).collect();
        note(&format!("warning: {INCOMPLETE}: {}", names.join(", ")));
    }
    Ok(())
}

fn start_error(error: EngineError) -> CliError {
    match error {
        EngineError::Unconfined(error) => {
            let advice = match error {
                ConfinementError::ForbiddenCall(_) | ConfinementError::Killed => ADVICE,
                ConfinementError::Breached(_) | ConfinementError::Failed(_) => {
                    "Nothing is started, because callers' media would be decoded without it"
                }
            };
            CliError::Unconfined(format!(
                "the processes that decode media cannot be confined: {error}. {advice}"
            ))
        }
        error => CliError::Failed(format!(
            "the processes that decode media cannot work: {error}"
        )),
    }
}
