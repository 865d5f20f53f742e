//! Rings by NATS: a subject for each task, to which a process subscribes while it has listeners
//! for it, so that the server carries a ring only to where it is wanted.
//!
//! Core NATS only: it holds nothing, and what is lost is found by looking.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, Message, ServerAddr};
use futures_util::stream::{BoxStream, SelectAll};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::bell::local::{Churn, Local};
use crate::bell::ring::Ring;
use crate::ids::TaskId;
use crate::secret::Secret;

/// What each subject begins with.
const PREFIX: &str = "mediagate.";
/// What every process wants to hear.
const ALWAYS: [&str; 4] = [
    "mediagate.off.*",
    "mediagate.work",
    "mediagate.upstream",
    "mediagate.deliveries",
];
/// How often subscriptions follow the listeners. A ring before that is lost.
const FOLLOW: Duration = Duration::from_millis(10);
/// Timeout for connecting, and for handing something over.
const CONNECT: Duration = Duration::from_secs(2);
/// Longest pause before connecting again.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Messages that wait to be heard, for each subscription.
const UNHEARD: usize = 256;

/// Sends and hears rings for ever.
pub(super) async fn exchange(
    address: &Secret,
    local: &Arc<Local>,
    mut outgoing: mpsc::Receiver<Ring>,
) {
    let connected = Arc::new(Notify::new());
    let client = match connect(address, connected.clone(), local).await {
        Ok(client) => client,
        Err(reason) => {
            tracing::error!(
                reason,
                "bell.nats cannot be used; changes of other processes are seen later"
            );
            return;
        }
    };
    let mut wires = Wires {
        client,
        heard: SelectAll::new(),
        tasks: HashMap::new(),
    };
    for subject in ALWAYS {
        wires.subscribe(subject, CancellationToken::new()).await;
    }
    let mut follow = tokio::time::interval(FOLLOW);
    follow.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            Some(ring) = outgoing.recv() => wires.send(ring).await,
            Some(message) = wires.heard.next() => hear(&message, local),
            () = connected.notified() => wires.follow(Churn::All, local).await,
            _ = follow.tick() => {
                let churn = local.churn();
                if wires.is_connected() {
                    wires.follow(churn, local).await;
                }
            }
        }
    }
}

/// A client that connects in the background, again and again.
async fn connect(
    address: &Secret,
    connected: Arc<Notify>,
    local: &Arc<Local>,
) -> Result<Client, String> {
    let hosts = address.expose().split(',');
    let hosts: Result<Vec<ServerAddr>, _> = hosts.map(str::parse).collect();
    // The reason could show the address, and a password with it.
    let hosts = hosts.map_err(|_| "its address cannot be read".to_owned())?;
    local.connected(false);
    let local = local.clone();
    let options = ConnectOptions::new()
        .name("mediagate")
        .no_echo()
        .retry_on_initial_connect()
        .connection_timeout(CONNECT)
        .ping_interval(Duration::from_secs(5))
        .subscription_capacity(UNHEARD)
        .reconnect_delay_callback(|tries| {
            let tries = u32::try_from(tries).unwrap_or(u32::MAX);
            Duration::from_millis(100)
                .saturating_mul(tries)
                .min(LONGEST_PAUSE)
        })
        .event_callback(move |event| {
            note(&event, &connected, &local);
            std::future::ready(())
        });
    let client = options.connect(hosts).await;
    client.map_err(|error| error.kind().to_string())
}

fn note(event: &Event, connected: &Notify, local: &Local) {
    match event {
        Event::Connected => {
            tracing::info!("connected to NATS");
            local.connected(true);
            connected.notify_one();
        }
        Event::Disconnected | Event::Closed => {
            tracing::warn!("NATS is away; changes of other processes are seen later");
            local.connected(false);
        }
        Event::ServerError(error) => tracing::warn!(%error, "NATS refuses something"),
        Event::ClientError(_) | Event::SlowConsumer(_) | Event::LameDuckMode | Event::Draining => {}
    }
}

/// The connection and what it is subscribed to.
struct Wires {
    client: Client,
    heard: SelectAll<BoxStream<'static, Message>>,
    /// Cancelled when nobody listens to the task any more.
    tasks: HashMap<TaskId, CancellationToken>,
}

impl Wires {
    fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    async fn send(&mut self, ring: Ring) {
        // The client would keep it until it is connected again.
        if self.is_connected() {
            let subject = format!("{PREFIX}{ring}");
            let sent = self.client.publish(subject, bytes::Bytes::new());
            drop(tokio::time::timeout(CONNECT, sent).await);
        }
    }

    /// Subscribes for those tasks that have listeners now, and ends the others' subscriptions.
    async fn follow(&mut self, churn: Churn, local: &Local) {
        let tasks = match churn {
            Churn::Ignored => return,
            Churn::Of(tasks) => tasks,
            Churn::All => {
                let known = self.tasks.keys().copied();
                local.watched().into_iter().chain(known).collect()
            }
        };
        for task in tasks {
            match (local.is_watched(task), self.tasks.contains_key(&task)) {
                (true, false) => {
                    let end = CancellationToken::new();
                    let subject = format!("{PREFIX}{}", Ring::Task(task));
                    if self.subscribe(&subject, end.clone()).await {
                        self.tasks.insert(task, end);
                    }
                }
                (false, true) => {
                    if let Some(end) = self.tasks.remove(&task) {
                        end.cancel();
                    }
                }
                (true, true) | (false, false) => {}
            }
        }
    }

    /// Hears what is sent there until `end`. Returns whether the client took it on.
    async fn subscribe(&mut self, subject: &str, end: CancellationToken) -> bool {
        let subscribing = self.client.subscribe(subject.to_owned());
        match tokio::time::timeout(CONNECT, subscribing).await {
            Ok(Ok(subscriber)) => {
                let end = async move { end.cancelled().await };
                self.heard.push(subscriber.take_until(end.boxed()).boxed());
                true
            }
            Ok(Err(_)) | Err(_) => false,
        }
    }
}

/// A message that this version does not know is somebody else's.
fn hear(message: &Message, local: &Local) {
    let ring = message.subject.strip_prefix(PREFIX);
    if let Some(Ok(ring)) = ring.map(str::parse) {
        local.hear(ring);
    }
}
