//! Identity of this process among the servers of a deployment, and the time until which the others
//! consider it alive.

use providers::driver::SendDeadline;
use tokio::sync::watch;
use tokio::time::Instant;

use mediagate_model::ids::AssetId;

/// The name of this process as a server, and the time until which its lease is proved.
pub struct ServerIdentity {
    name: String,
    proved_until: watch::Sender<Instant>,
}

impl ServerIdentity {
    /// An identity with a new name.
    pub(crate) fn new() -> Self {
        Self {
            // Short, because the row of every intent with a waiting client contains it.
            name: format!("c-{}", &AssetId::new().simple()[16..]),
            proved_until: watch::Sender::new(Instant::now()),
        }
    }

    /// The name of this process among the servers.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Notes that other processes consider this one alive until `until`.
    pub fn prove(&self, until: Instant) {
        self.proved_until.send_replace(until);
    }

    /// The time until which something may be ordered for a caller: later, another process may
    /// already have answered the caller.
    pub fn send_before(&self) -> SendDeadline {
        SendDeadline::from_watch(self.proved_until.subscribe())
    }
}
