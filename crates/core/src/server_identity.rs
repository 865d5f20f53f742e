//! Identity of this process among the servers of a deployment, and until when the others know that it lives.

use providers::driver::SendDeadline;
use tokio::sync::watch;
use tokio::time::Instant;

use mediagate_model::ids::AssetId;

/// The name under which this process serves callers, and the proof of its lease.
pub struct ServerIdentity {
    name: String,
    proved_until: watch::Sender<Instant>,
}

impl ServerIdentity {
    /// A new name.
    pub(crate) fn new() -> Self {
        Self {
            // Short: it stands in every row of an intent that is being asked for.
            name: format!("c-{}", &AssetId::new().simple()[16..]),
            proved_until: watch::Sender::new(Instant::now()),
        }
    }

    /// The name of this process among those that serve callers.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Other processes know until then that this one lives.
    pub fn prove(&self, until: Instant) {
        self.proved_until.send_replace(until);
    }

    /// Until when something may be ordered for a caller: later another process may
    /// have answered it.
    pub fn send_before(&self) -> SendDeadline {
        SendDeadline::from_watch(self.proved_until.subscribe())
    }
}
