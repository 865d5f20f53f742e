//! The engines inside this process, or in a child of it: the two that are always
//! there, and the operator's own models.
//!
//! An engine here is a blocking function from a job to files, with progress
//! and cancellation through [`Watch`]. Knows the model types and the engine
//! crates; knows nothing of tasks' lives, accounts or storage.

pub mod animatic_engine;
pub mod child;
pub mod clip;
pub mod film;
pub mod own_models;
pub mod stems_engine;

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::model::catalog::Model;

/// The models that are always there.
pub fn embedded_models() -> Vec<Model> {
    vec![animatic_engine::model(), stems_engine::model()]
}

/// How an engine that runs on another thread is watched and stopped.
#[derive(Debug, Default)]
pub struct Watch {
    progress: AtomicU8,
    stop: AtomicBool,
}

impl Watch {
    /// How far the work is: 0–99. Only a task that ended is at 100.
    pub fn progress(&self) -> u8 {
        self.progress.load(Ordering::Relaxed)
    }

    /// Asks the engine to stop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn report(&self, share: f32) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to 0..=99"
        )]
        let percent = (share * 100.0).clamp(0.0, 99.0) as u8;
        self.progress.fetch_max(percent, Ordering::Relaxed);
    }
}

/// Why an engine made nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// [`Watch::stop`] was called.
    #[error("stopped")]
    Stopped,
    /// The source cannot be used after all.
    #[error("the source cannot be read: {0}")]
    Source(String),
    /// The child that ran it died.
    #[error("its process died: {0}")]
    Died(String),
    /// A fault of the engine.
    #[error("{0}")]
    Broken(String),
}
