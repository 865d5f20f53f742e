//! The doorbell: wakes waiters when something may have changed.
//!
//! The database is the source of truth; the bell only says "look again". A waiter first starts to
//! listen, then looks, then sleeps until the bell rings. So a lost ring costs a delay and never a
//! result, and a forged ring costs one look-up.
//!
//! `local_bell` wakes waiters of this process. `polling` works even if no ring arrives: once per
//! interval, each process looks up the tasks that have listeners. `notify` brings rings from other
//! processes sooner.

mod local_bell;
mod message;
mod notify;
mod polling;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use locks::lock;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use crate::bell::local_bell::LocalBell;
use crate::bell::message::BellMessage;
use mediagate_model::bounds;
use mediagate_model::ids::TaskId;
use mediagate_model::secret::Secret;
use mediagate_store::tasks::DueWork;
use mediagate_store::{self as store, Store, StoreError};

pub use local_bell::TaskListener;

/// How long a worker sleeps before it looks for work without a ring. Work that no ring announced is
/// found sooner by the poll of its process ([`Bell::wake`]).
const MAX_SLEEP: Duration = Duration::from_secs(10);
/// Maximum number of rings that wait to be sent; further ones are dropped.
const OUTBOX: usize = bounds::BELL_MESSAGES.total.count();

/// How processes send each other rings.
#[derive(Debug, Clone)]
pub enum BellTransport {
    /// Not at all: each process finds changes by polling.
    None,
    /// By Postgres, at this address; at the store's if `None`.
    Notify(Option<Secret>),
}

/// Reads the progress of tasks: the number of each one's newest event. Those that do not exist are
/// left out.
type ProgressReader = Arc<
    dyn Fn(Vec<TaskId>) -> BoxFuture<'static, Result<Vec<(TaskId, u32)>, StoreError>> + Send + Sync,
>;

/// The bells of one process. Cheap to clone.
#[derive(Clone)]
pub struct Bell(Arc<BellState>);

struct BellState {
    local: Arc<LocalBell>,
    read_progress: ProgressReader,
    store: Store,
    transport: BellTransport,
    outbox: mpsc::Sender<BellMessage>,
    /// [`Bell::exchange`] takes it.
    outgoing: Mutex<Option<mpsc::Receiver<BellMessage>>>,
}

impl Bell {
    pub fn new(store: Store, transport: BellTransport) -> Self {
        let (outbox, outgoing) = mpsc::channel(OUTBOX);
        let reader = store.clone();
        let read_progress: ProgressReader = Arc::new(move |tasks| {
            let reader = reader.clone();
            Box::pin(async move {
                reader
                    .read(move |conn| store::task_progress::newest_events(conn, &tasks))
                    .await
            })
        });
        Self(Arc::new(BellState {
            local: Arc::default(),
            read_progress,
            store,
            transport,
            outbox,
            outgoing: Mutex::new(Some(outgoing)),
        }))
    }

    /// Exchanges rings with other processes until stopped. Without this, they find changes by
    /// polling. Only the first call does anything.
    pub async fn exchange(&self, stop: &CancellationToken) {
        let Some(outgoing) = self.outgoing() else {
            return;
        };
        let local = &self.0.local;
        let exchange: BoxFuture<'_, ()> = match &self.0.transport {
            BellTransport::None => return,
            BellTransport::Notify(address) => Box::pin(notify::exchange(
                &self.0.store,
                address.as_ref(),
                local,
                outgoing,
            )),
        };
        tokio::select! {
            () = exchange => {}
            () = stop.cancelled() => {}
        }
    }

    fn outgoing(&self) -> Option<mpsc::Receiver<BellMessage>> {
        lock(&self.0.outgoing).take()
    }

    /// The time from which rings have not reached other processes; `None` if they do, or if there
    /// are no other processes.
    pub fn silent_since(&self) -> Option<Instant> {
        self.0.local.silent_since()
    }

    /// The task has changed, and may have ended.
    pub fn ring(&self, task: TaskId) {
        self.0.local.ring(task);
        self.send(BellMessage::Task(task));
    }

    /// The task has changed and continues: waiters for its end in this process sleep on.
    pub fn ring_underway(&self, task: TaskId) {
        self.0.local.ring_underway(task);
        self.send(BellMessage::Task(task));
    }

    /// A task was cancelled: the worker that runs it should stop.
    pub fn call_off(&self, task: TaskId) {
        self.0.local.call_off(task);
        self.send(BellMessage::Cancelled(task));
    }

    /// Cancelled tasks from now on; misses some if there are very many.
    pub fn cancellations(&self) -> broadcast::Receiver<TaskId> {
        self.0.local.cancellations.subscribe()
    }

    /// Listens for changes of a task.
    pub fn listen(&self, task: TaskId) -> TaskListener {
        let (listener, is_first) = self.0.local.listen(task);
        if is_first {
            polling::start(&self.0.local, &self.0.read_progress);
        }
        listener
    }

    pub fn ring_for_work(&self) {
        // Other processes are rung only if no worker of this process is free. Otherwise each task
        // would wake every process.
        if !self.0.local.work.ring() {
            self.send(BellMessage::Work);
        }
    }

    pub fn ring_for_upstream(&self) {
        if !self.0.local.upstream.ring() {
            self.send(BellMessage::Upstream);
        }
    }

    pub fn ring_for_deliveries(&self) {
        if !self.0.local.deliveries.ring() {
            self.send(BellMessage::Deliveries);
        }
    }

    /// Sleeps until there may be webhooks to send.
    pub async fn wait_for_deliveries(&self) {
        self.0.local.deliveries.wait(MAX_SLEEP).await;
    }

    /// Sleeps until there may be work for hosted providers, but at least until `earliest`.
    /// Meanwhile no other process is rung for this work.
    pub async fn wait_for_upstream(&self, earliest: tokio::time::Instant) {
        self.0.local.upstream.wait_until(earliest, MAX_SLEEP).await;
    }

    /// Sleeps until there may be work.
    pub async fn wait_for_work(&self) {
        self.0.local.work.wait(MAX_SLEEP).await;
    }

    /// Wakes workers of this process for the work that a poll has found. No other process is rung:
    /// each polls for itself.
    pub fn wake(&self, due: DueWork) {
        let local = &self.0.local;
        for (is_due, workers) in [
            (due.embedded, &local.work),
            (due.hosted, &local.upstream),
            (due.deliveries, &local.deliveries),
        ] {
            if is_due {
                workers.ring();
            }
        }
    }

    fn send(&self, ring: BellMessage) {
        if !matches!(self.0.transport, BellTransport::None) {
            // If the outbox is full the ring is dropped. Waiters that miss it find the change by
            // polling.
            let _ = self.0.outbox.try_send(ring);
        }
    }
}
