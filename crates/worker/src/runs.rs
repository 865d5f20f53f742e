//! Registry of this process's work: its lease, its running tasks and the means to stop them, and
//! the jobs of cancelled tasks that it follows.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use locks::lock;
use providers::driver::SendDeadline;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use mediagate_media::engines::EngineControl;
use mediagate_model::ids::{AssetId, SubmissionId, TaskId};
use mediagate_model::task::Task;
use mediagate_store::{ProcessLock, Store};

/// The right to work on tasks claimed under its name.
pub(super) struct Lease {
    pub(super) name: Arc<str>,
    /// The time until which the last answered heartbeat guarantees the lease.
    valid_until: watch::Sender<Instant>,
    /// Cancelled when others take over its tasks.
    lost: CancellationToken,
    /// The lock by which other processes of this machine notice that this one was killed.
    process_lock: OnceLock<Option<ProcessLock>>,
}

impl Lease {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            // The name is unique: a lease that was declared dead must not become valid again.
            name: format!("{}-{}", std::process::id(), AssetId::new().simple()).into(),
            valid_until: watch::Sender::new(Instant::now()),
            lost: CancellationToken::new(),
            process_lock: OnceLock::new(),
        })
    }

    /// Takes the process lock, before the lease is inserted into the database.
    pub(super) fn begin(&self, store: &Store) {
        self.process_lock
            .get_or_init(|| store.lock_process(&self.name));
    }

    /// Extends the lease after an answered heartbeat, which guarantees it until `until`.
    pub(super) fn extend(&self, until: Instant) {
        self.valid_until.send_replace(until);
    }

    /// Whether the lease is guaranteed now.
    pub(super) fn is_valid(&self) -> bool {
        Instant::now() < *self.valid_until.borrow()
    }

    /// The deadline for submissions of tasks that were claimed under this lease.
    pub(super) fn send_before(&self) -> SendDeadline {
        SendDeadline::from_watch(self.valid_until.subscribe())
    }

    /// Waits until others have taken over its tasks.
    pub(super) async fn wait_lost(&self) {
        self.lost.cancelled().await;
    }
}

/// A task that this process runs.
#[derive(Clone)]
pub(super) struct TaskRun {
    /// The lease under which it was claimed; the task may only be ended under this one.
    pub(super) lease: Arc<Lease>,
    /// Holds the progress of the run, and stops its engine.
    pub(super) control: Arc<EngineControl>,
    /// The task's progress in percent according to the database.
    written: Arc<AtomicU8>,
    /// Cancelled when the task ended elsewhere or is no longer ours.
    pub(super) cancel_token: CancellationToken,
}

impl TaskRun {
    /// The lease's name in the database.
    pub(super) fn owner(&self) -> &str {
        &self.lease.name
    }

    /// Stops the run.
    pub(super) fn stop(&self) {
        self.control.stop();
        self.cancel_token.cancel();
    }
}

/// A task's progress that is not yet in the database.
pub(super) struct ProgressUpdate {
    pub(super) id: TaskId,
    /// Its progress, and whether that is a guess.
    pub(super) progress: (u8, bool),
    run: TaskRun,
}

impl ProgressUpdate {
    fn has_risen(&self) -> bool {
        self.run.written.load(Ordering::Relaxed) < self.progress.0
    }

    /// The lease under which the task is held.
    pub(super) fn owner(&self) -> Arc<str> {
        self.run.lease.name.clone()
    }

    /// Records that this progress is now in the database.
    pub(super) fn mark_written(&self) {
        self.run
            .written
            .fetch_max(self.progress.0, Ordering::Relaxed);
    }
}

/// Exists while a task runs here.
pub(super) struct RunGuard {
    id: TaskId,
    run: TaskRun,
    runs: Arc<RunRegistry>,
}

impl Deref for RunGuard {
    type Target = TaskRun;

    fn deref(&self) -> &TaskRun {
        &self.run
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        lock(&self.runs.tasks).remove(&self.id);
    }
}

/// Exists while the job of a cancelled task is followed here.
pub(super) struct StrayGuard {
    id: SubmissionId,
    runs: Arc<RunRegistry>,
}

impl Drop for StrayGuard {
    fn drop(&mut self) {
        lock(&self.runs.strays).remove(&self.id);
    }
}

/// Exists from the moment before new tasks are accepted under this process's lease until they run
/// here.
pub(super) struct ExpectedGuard {
    ids: Vec<TaskId>,
    runs: Arc<RunRegistry>,
}

impl Drop for ExpectedGuard {
    fn drop(&mut self) {
        let mut expected = lock(&self.runs.expected);
        for id in &self.ids {
            expected.remove(id);
        }
    }
}

/// Exists from the moment before a claim is written until everything that it returned is
/// registered.
pub(super) struct ClaimGuard(Arc<RunRegistry>);

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        lock(&self.0.claims).under_way -= 1;
    }
}

#[derive(Default)]
struct ClaimCounts {
    begun: u64,
    under_way: u32,
}

/// The tasks that ran here at a moment when nothing was being claimed.
pub(super) struct RunSnapshot {
    claims: u64,
    tasks: HashMap<TaskId, TaskRun>,
    strays: HashSet<SubmissionId>,
}

impl RunSnapshot {
    /// Tasks under this lease that were not running here, neither before `holdings` was read nor
    /// after. (A task that was accepted in between is expected, or runs, or has ended.)
    pub(super) fn forgotten_tasks(
        &self,
        holdings: &LeaseHoldings,
        runs: &RunRegistry,
    ) -> Vec<TaskId> {
        let tasks = holdings.tasks.iter().copied();
        let missing = tasks.filter(|id| !self.tasks.contains_key(id));
        missing.filter(|id| !runs.has(*id)).collect()
    }

    /// Strays under this lease that are not followed here.
    pub(super) fn forgotten_strays<'a>(
        &'a self,
        holdings: &'a LeaseHoldings,
    ) -> impl Iterator<Item = SubmissionId> + 'a {
        let strays = holdings.strays.iter();
        strays
            .filter(|(id, task)| !self.strays.contains(id) && !self.tasks.contains_key(task))
            .map(|(id, _)| *id)
    }

    /// Stops what runs here under this lease but is not held in the database.
    pub(super) fn stop_unheld(&self, lease: &Lease, holdings: &LeaseHoldings) {
        let own_runs = self.tasks.iter();
        let own_runs = own_runs.filter(|(_, run)| run.lease.name == lease.name);
        for (_, run) in own_runs.filter(|(id, _)| !holdings.tasks.contains(id)) {
            run.stop();
        }
    }
}

/// The tasks and submissions that the database has under a lease.
pub(super) struct LeaseHoldings {
    pub(super) tasks: HashSet<TaskId>,
    /// Submissions of cancelled tasks, and those tasks.
    pub(super) strays: Vec<(SubmissionId, TaskId)>,
}

/// Everything that this process runs.
pub(super) struct RunRegistry {
    lease: Mutex<Arc<Lease>>,
    registered: watch::Sender<bool>,
    tasks: Mutex<HashMap<TaskId, TaskRun>>,
    expected: Mutex<HashSet<TaskId>>,
    strays: Mutex<HashSet<SubmissionId>>,
    claims: Mutex<ClaimCounts>,
}

impl RunRegistry {
    /// An empty registry, with a new lease.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            lease: Mutex::new(Lease::new()),
            registered: watch::Sender::new(false),
            tasks: Mutex::default(),
            expected: Mutex::default(),
            strays: Mutex::default(),
            claims: Mutex::default(),
        })
    }

    pub(super) fn lease(&self) -> Arc<Lease> {
        lock(&self.lease).clone()
    }

    /// Whether the lease is in the database.
    pub(super) fn is_registered(&self) -> bool {
        *self.registered.borrow()
    }

    /// Records that the lease is now in the database.
    pub(super) fn mark_registered(&self) {
        self.registered.send_replace(true);
    }

    /// Waits until the lease is in the database.
    pub(super) async fn wait_registered(&self) {
        let mut registered = self.registered.subscribe();
        // The sender lives as long as `self`.
        let _ = registered.wait_for(|is_registered| *is_registered).await;
    }

    /// Stops everything and creates a new lease, because the old one was lost.
    pub(super) fn start_over(&self) {
        // This comes first, so that nothing is claimed under a lease that the database does not
        // have.
        self.registered.send_replace(false);
        let old = std::mem::replace(&mut *lock(&self.lease), Lease::new());
        // The old lease ends now, so orders that still wait for their connection are no longer
        // sent.
        old.extend(Instant::now());
        for run in lock(&self.tasks).values() {
            run.stop();
        }
        old.lost.cancel();
    }

    pub(super) fn begin_claim(self: &Arc<Self>) -> ClaimGuard {
        let mut claims = lock(&self.claims);
        claims.begun += 1;
        claims.under_way += 1;
        ClaimGuard(self.clone())
    }

    /// Announces that these new tasks are about to be accepted under the lease.
    pub(super) fn expect(self: &Arc<Self>, tasks: &[Task]) -> ExpectedGuard {
        let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
        lock(&self.expected).extend(&ids);
        ExpectedGuard {
            ids,
            runs: self.clone(),
        }
    }

    /// Whether a task runs here or is about to. `expected` is checked first: a task that is no
    /// longer expected already runs.
    fn has(&self, id: TaskId) -> bool {
        lock(&self.expected).contains(&id) || lock(&self.tasks).contains_key(&id)
    }

    pub(super) fn start_run(self: &Arc<Self>, task: &Task, lease: Arc<Lease>) -> RunGuard {
        let id = task.id;
        let run = TaskRun {
            lease,
            control: Arc::default(),
            written: Arc::new(AtomicU8::new(task.progress)),
            cancel_token: CancellationToken::new(),
        };
        lock(&self.tasks).insert(id, run.clone());
        RunGuard {
            id,
            run,
            runs: self.clone(),
        }
    }

    pub(super) fn follow(self: &Arc<Self>, id: SubmissionId) -> StrayGuard {
        lock(&self.strays).insert(id);
        StrayGuard {
            id,
            runs: self.clone(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.tasks).is_empty()
    }

    /// Progress that has risen since it was last written.
    pub(super) fn progress_updates(&self) -> Vec<ProgressUpdate> {
        let tasks = lock(&self.tasks);
        let updates = tasks.iter().map(|(id, run)| ProgressUpdate {
            id: *id,
            progress: run.control.progress_and_guess(),
            run: run.clone(),
        });
        updates.filter(ProgressUpdate::has_risen).collect()
    }

    /// Stops those of these tasks that run here.
    pub(super) fn stop_all(&self, ids: &[TaskId]) {
        let tasks = lock(&self.tasks);
        for run in ids.iter().filter_map(|id| tasks.get(id)) {
            run.stop();
        }
    }

    /// A snapshot of the running tasks; `None` while something is being claimed.
    pub(super) fn snapshot(&self) -> Option<RunSnapshot> {
        // Held while the maps are copied, so that no claim begins in between.
        let claims = lock(&self.claims);
        (claims.under_way == 0).then(|| RunSnapshot {
            claims: claims.begun,
            tasks: lock(&self.tasks).clone(),
            strays: lock(&self.strays).clone(),
        })
    }

    /// Whether nothing was claimed since the snapshot.
    pub(super) fn is_current(&self, snapshot: &RunSnapshot) -> bool {
        lock(&self.claims).begun == snapshot.claims
    }
}
