//! The engines, in this process or a child: two built-in ones, and the operator's own models.
//!
//! An engine is a blocking function from a job to files, with progress and cancellation through
//! [`EngineControl`]. Engines know the model types and the engine crates, but no tasks, accounts or
//! storage.

pub mod animatic_engine;
pub mod child;
pub mod clip;
pub mod film_probe;
pub mod film_scan;
pub mod fingerprints;
pub mod label;
mod matroska_probe;
mod mp4_probe;
pub mod own_models;
pub mod recording_scan;
pub mod retouch;
pub mod stems_engine;
pub mod video_codec;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::engines::child::ConfinementError;
use mediagate_model::catalog::{EmbeddedEngine, Model, ModelBackend};
use mediagate_model::error::{Error, ErrorCode};

/// The built-in models.
pub fn embedded_models() -> Vec<Model> {
    vec![animatic_engine::model(), stems_engine::model()]
}

/// The engine of an embedded model.
pub fn engine(model: &str) -> Option<EmbeddedEngine> {
    let models = embedded_models().into_iter();
    let mut matching = models.filter(|embedded| embedded.id == model);
    matching.find_map(|model| match model.backend {
        ModelBackend::Embedded { engine, .. } => Some(engine),
        ModelBackend::Routes(_) => None,
    })
}

/// How an engine that runs on another thread is watched and stopped.
#[derive(Debug, Default)]
pub struct EngineControl {
    progress: AtomicU8,
    /// Whether the progress is a guess.
    is_guess: AtomicBool,
    stop: AtomicBool,
}

impl EngineControl {
    /// The progress in percent, at most 99: only a task that has ended is at 100.
    pub fn progress(&self) -> u8 {
        self.progress.load(Ordering::Relaxed)
    }

    /// Raises the progress to at least this percentage.
    pub fn raise_progress(&self, percent: u8) {
        self.raise(percent, false);
    }

    /// Raises the progress to this percentage, as a guess from the elapsed time.
    pub fn raise_guessed_progress(&self, percent: u8) {
        self.raise(percent, true);
    }

    /// The progress, and whether it is a guess.
    pub fn progress_and_guess(&self) -> (u8, bool) {
        (self.progress(), self.is_guess.load(Ordering::Relaxed))
    }

    fn raise(&self, percent: u8, is_guess: bool) {
        let percent = percent.min(99);
        if self.progress.fetch_max(percent, Ordering::Relaxed) < percent {
            self.is_guess.store(is_guess, Ordering::Relaxed);
        }
    }

    /// Stops the engine when no caller waits for it any more.
    pub fn stop_on_drop(self: &Arc<Self>) -> impl Drop + use<> {
        struct StopOnDrop(Arc<EngineControl>);
        impl Drop for StopOnDrop {
            fn drop(&mut self) {
                self.0.stop();
            }
        }
        StopOnDrop(self.clone())
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn report(&self, share: f32) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to 0..=99"
        )]
        let percent = (share * 100.0).clamp(0.0, 99.0) as u8;
        self.raise_progress(percent);
    }
}

/// Why an engine made nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// [`EngineControl::stop`] was called.
    #[error("stopped")]
    Stopped,
    /// The source cannot be used after all.
    #[error("the source cannot be read: {0}")]
    Source(String),
    /// Its child process could not be started, or died before it read any input.
    #[error("its process cannot start: {0}")]
    Unstarted(String),
    /// Its child process could not confine itself, and therefore read no input.
    #[error("its process cannot be confined: {0}")]
    Unconfined(#[from] ConfinementError),
    /// Its child process died.
    #[error("its process terminated: {0}")]
    Died(String),
    /// A bug in the engine.
    #[error("{0}")]
    Broken(String),
}

impl EngineError {
    /// Whether no input was read, so that the same job can succeed once the machine is in order.
    pub const fn is_start_failure(&self) -> bool {
        matches!(self, Self::Unstarted(_) | Self::Unconfined(_))
    }
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        if error.is_start_failure() {
            let message = "The gateway cannot process media at the moment. Try again later.";
            return Self::retry_later(ErrorCode::Overloaded, message, 10);
        }
        Self::internal(error)
    }
}
