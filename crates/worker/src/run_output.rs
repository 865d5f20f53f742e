//! Result of a run, before the transaction that ends its task.

use mediagate_model::ids::ClipId;
use mediagate_model::media::Asset;
use mediagate_model::music::{Clip, ClipMedia, ClipUpstream};
use mediagate_model::price::WorkQuantity;
use mediagate_model::provenance::{Provenance, ResultFingerprint};
use mediagate_model::task::TaskResult;

/// The result of a run; its files are stored, but nothing refers to them yet.
#[derive(Clone)]
pub(super) struct RunOutput {
    pub(super) result: TaskResult,
    pub(super) assets: Vec<Asset>,
    pub(super) clips: Vec<(ClipId, ClipMedia)>,
    /// Clips in addition to the ordered ones.
    pub(super) more_clips: Vec<Clip>,
    /// Per clip: its title, and what the provider reports about it.
    pub(super) clip_facts: Vec<(ClipId, String, ClipUpstream)>,
    /// Per clip: the marks of origin in its recording.
    pub(super) provenance: Vec<(ClipId, Provenance)>,
    /// Fingerprints by which the results are recognised.
    pub(super) fingerprints: Vec<ResultFingerprint>,
    /// The quantity that was produced.
    pub(super) quantity: WorkQuantity,
    /// What is missing, if not everything was produced.
    pub(super) partial: Option<String>,
    /// The provider, and its name for the model.
    pub(super) made_by: Option<(String, String)>,
}

impl RunOutput {
    /// A result without extras.
    pub(super) fn new(result: TaskResult, quantity: WorkQuantity) -> Self {
        Self {
            result,
            quantity,
            assets: Vec::new(),
            clips: Vec::new(),
            more_clips: Vec::new(),
            clip_facts: Vec::new(),
            provenance: Vec::new(),
            fingerprints: Vec::new(),
            partial: None,
            made_by: None,
        }
    }
}
