//! Rings by NOTIFY of Postgres, batched for a short time.
//!
//! They are sent outside every transaction that writes: a NOTIFY inside a transaction takes a lock
//! that all commits of the server share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::bell::local_bell::LocalBell;
use crate::bell::message::BellMessage;
use mediagate_model::ids::AssetId;
use mediagate_model::secret::Secret;
use mediagate_store::pg_session::notify_channel::NotifyChannel;
use mediagate_store::{Store, StoreError};

/// How long rings are collected before they are sent.
const BATCH_WINDOW: Duration = Duration::from_millis(50);
/// Longest text of one NOTIFY, in bytes; Postgres takes 7,999.
const MAX_NOTIFY_BYTES: usize = 2000;
/// Pause before connecting again.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// Sends and receives rings until the process ends.
pub(super) async fn exchange(
    store: &Store,
    address: Option<&Secret>,
    local: &Arc<LocalBell>,
    mut outgoing: mpsc::Receiver<BellMessage>,
) {
    // Postgres sends a notification to its sender too. A process recognises its own by this name,
    // and skips them.
    let name = AssetId::new().simple();
    loop {
        local.set_connected(false);
        let error = match store.notify_channel(address.map(Secret::expose)).await {
            Ok(Some(channel)) => {
                local.set_connected(true);
                run_connection(channel, &name, local, &mut outgoing).await
            }
            Ok(None) => return,
            Err(error) => error,
        };
        local.set_connected(false);
        tracing::warn!(%error, "no connection for notifications; changes by other processes become visible later");
        tokio::time::sleep(RECONNECT_PAUSE).await;
        // Rings queued during the outage are outdated: the other processes have found those changes
        // by polling.
        while outgoing.try_recv().is_ok() {}
    }
}

/// Returns when the connection can no longer be used.
async fn run_connection(
    mut channel: NotifyChannel,
    name: &str,
    local: &LocalBell,
    outgoing: &mut mpsc::Receiver<BellMessage>,
) -> StoreError {
    let mut pending: Vec<BellMessage> = Vec::new();
    let mut send_at = Instant::now();
    loop {
        let batch = tokio::select! {
            received = channel.next_message() => match received {
                Ok(text) => {
                    receive(&text, name, local);
                    continue;
                }
                Err(error) => return error,
            },
            Some(ring) = outgoing.recv() => {
                if pending.is_empty() {
                    send_at = Instant::now() + BATCH_WINDOW;
                }
                if !pending.contains(&ring) {
                    pending.push(ring);
                }
                // Leaves room for one more ring, which is a word and an id.
                let is_full = encode(name, &pending).len() + 64 > MAX_NOTIFY_BYTES;
                is_full.then(|| std::mem::take(&mut pending))
            }
            () = tokio::time::sleep_until(send_at), if !pending.is_empty() => {
                Some(std::mem::take(&mut pending))
            }
        };
        if let Some(rings) = batch
            && let Err(error) = channel.notify(&encode(name, &rings)).await
        {
            return error;
        }
    }
}

fn encode(name: &str, rings: &[BellMessage]) -> String {
    let rings = rings.iter().map(ToString::to_string);
    let parts: Vec<String> = std::iter::once(name.to_owned()).chain(rings).collect();
    parts.join(" ")
}

fn receive(text: &str, name: &str, local: &LocalBell) {
    let mut parts = text.split(' ');
    if parts.next() == Some(name) {
        return;
    }
    // Another version may send rings that this one does not know. They are skipped.
    for ring in parts.filter_map(|part| part.parse().ok()) {
        local.receive(ring);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mediagate_model::ids::TaskId;

    #[test]
    fn rings_of_others_are_received_and_own_ones_are_skipped() {
        let (local, task) = (Arc::new(LocalBell::default()), TaskId::new());
        let (mut listener, _) = local.listen(task);
        let message = encode("me", &[BellMessage::Work, BellMessage::Task(task)]);
        receive(&message, "me", &local);
        assert!(!listener.take_ring());
        receive(&message, "you", &local);
        assert!(listener.take_ring() && !listener.take_ring());
        for forged in ["", " ", "you", "you nonsense task. task.x", "\u{0}"] {
            receive(forged, "me", &local);
        }
        assert!(!listener.take_ring());
    }
}
