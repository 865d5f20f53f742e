//! Two Postgres servers, of which the second replicates the first.

use super::cluster::Cluster;
use crate::process::eventually;

/// A server and its standby, which can change places.
pub(crate) struct Pair {
    pub(crate) servers: [Cluster; 2],
    first: usize,
}

impl Pair {
    /// Commits wait for the standby.
    pub(crate) async fn synchronous() -> Self {
        let pair = Self::asynchronous();
        pair.synchronize().await;
        pair
    }

    /// Commits do not wait for the standby, which may lag behind.
    pub(crate) fn asynchronous() -> Self {
        let server = Cluster::start();
        let standby = server.full_standby();
        Self {
            servers: [server, standby],
            first: 0,
        }
    }

    pub(crate) fn primary(&self) -> &Cluster {
        &self.servers[self.first]
    }

    pub(crate) fn standby(&self) -> &Cluster {
        &self.servers[1 - self.first]
    }

    /// From now on commits wait for the standby.
    pub(crate) async fn synchronize(&self) {
        let primary = self.primary();
        primary.set("synchronous_standby_names", "*").await;
        let query = "SELECT FROM pg_stat_replication WHERE sync_state = 'sync'";
        eventually("the standby keeps up", async || {
            (primary.execute(query).await == 1).then_some(())
        })
        .await;
    }

    /// The server dies and the standby takes its place, alone.
    pub(crate) fn fail_over(&mut self) {
        self.primary().stop_immediately();
        self.first = 1 - self.first;
        self.primary().promote();
    }

    /// The dead server comes back as the other's standby.
    pub(crate) fn rebuild(&self) {
        self.standby().follow(self.primary());
    }

    /// The URL of the servers at both ports, for whichever accepts writes.
    pub(crate) fn url(ports: [u16; 2]) -> String {
        let [first, second] = ports;
        format!(
            "postgres://postgres@127.0.0.1:{first},127.0.0.1:{second}/postgres?target_session_attrs=read-write"
        )
    }

    pub(crate) fn direct(&self) -> String {
        Self::url([self.servers[0].port(), self.servers[1].port()])
    }
}
