//! Result of a run, before the transaction that ends its task.

use mediagate_core::pricing::{DeliveredWork, RouteName};
use mediagate_model::ids::ClipId;
use mediagate_model::media::Asset;
use mediagate_model::music::{Clip, ClipMedia, ClipUpstream, RecordingNotes};
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
    /// Per clip: how its recording differs from the file that was read.
    pub(super) notes: Vec<(ClipId, RecordingNotes)>,
    /// Fingerprints by which the results are recognised.
    pub(super) fingerprints: Vec<ResultFingerprint>,
    /// What was made, as far as prices count it.
    pub(super) delivered: DeliveredWork,
    /// The provider, and its name for the model.
    pub(super) made_by: Option<(String, String)>,
}

impl RunOutput {
    /// A result without extras.
    pub(super) fn new(result: TaskResult, delivered: DeliveredWork) -> Self {
        Self {
            result,
            delivered,
            assets: Vec::new(),
            clips: Vec::new(),
            more_clips: Vec::new(),
            clip_facts: Vec::new(),
            provenance: Vec::new(),
            notes: Vec::new(),
            fingerprints: Vec::new(),
            made_by: None,
        }
    }

    /// The route that made it; `None` if this process did.
    pub(super) fn route(&self) -> Option<RouteName<'_>> {
        let made_by = self.made_by.as_ref();
        made_by.map(|(provider, model)| (provider.as_str(), model.as_str()))
    }
}
