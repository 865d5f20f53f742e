//! What is on disk, what is in memory, and what the provider has.

/// What the provider can do, how the operator settles, and how much may go wrong.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the flags are independent of each other"
)]
pub(super) struct Rules {
    /// The provider creates one job for two submissions with the same key.
    pub(super) deduplicates: bool,
    /// It can be asked whether it accepted a submission.
    pub(super) looks_up: bool,
    /// It can cancel jobs.
    pub(super) cancels: bool,
    /// A cancelled task is paid for if its result was made anyway.
    pub(super) charges: bool,
    /// How often the caller sends its request.
    pub(super) tries: u8,
    pub(super) crashes: u8,
    /// Times that a worker loses its lease and does not know.
    pub(super) stalls: u8,
    /// Times that the caller cancels a task.
    pub(super) cancellations: u8,
    /// Submissions of one task, while providers refuse them.
    pub(super) routes: usize,
    /// Times that the database is restored from a backup.
    pub(super) restores: u8,
    /// Times that the operator changes the provider's address or key, and puts it back.
    pub(super) moves: u8,
    /// Safeguards that are left out, to show that they are needed.
    pub(super) without: &'static [Safeguard],
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            deduplicates: false,
            looks_up: false,
            cancels: false,
            charges: false,
            tries: 2,
            crashes: 2,
            stalls: 1,
            cancellations: 1,
            routes: 2,
            restores: 0,
            moves: 0,
            without: &[],
        }
    }
}

impl Rules {
    pub(super) fn has(&self, safeguard: Safeguard) -> bool {
        !self.without.contains(&safeguard)
    }
}

/// The mechanisms that keep anybody from paying twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Safeguard {
    /// Only the holder of the lease records that a submission was refused.
    RefusalByHolder,
    /// A submission is sent again, with its key, only by the holder of the lease.
    RepetitionByHolder,
    /// A submission that the look-up does not find may still be on its way.
    NotFoundIsUnclear,
    /// A submission that was about to leave may have left.
    IntendedIsUnclear,
    /// The end is written by compare-and-set, by the holder of the lease.
    EndOnce,
    /// The submission is on disk before its request leaves.
    IntentFirst,
    /// A repetition joins the existing task.
    Join,
    /// State and money change in one transaction.
    MoneyWithState,
    /// A cancelled task whose money is open is claimed like an open one.
    FollowCancelled,
    /// A worker checks the task and records its intent to submit under one
    /// lock of the task's row.
    RowLock,
    /// A request is sent only while the last answered heartbeat proves the lease.
    Fence,
    /// An acceptance is recorded only while the submission is still under way; else
    /// it is reported to the operator.
    GuardedAccept,
    /// Open tasks of a restored database that were not submitted wait, as they may have been sent
    /// since.
    HoldRestored,
    /// So do those that were being sent: since then the provider may have refused them, and another
    /// one may have made them.
    HoldInterrupted,
    /// A submission is looked up, and sent again, only at the address where it was made.
    SameAddress,
}

/// A state of the whole system.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) caller: Caller,
    /// A request whose caller has gone, and which the gateway has not read yet.
    pub(super) ghost: bool,
    pub(super) tries: u8,
    pub(super) crashes: u8,
    pub(super) stalls: u8,
    pub(super) cancellations: u8,
    pub(super) restores: u8,
    pub(super) moves: u8,
    /// Whether the settings have another address now than at first.
    pub(super) is_moved: bool,
    /// On disk.
    pub(super) tasks: Vec<Task>,
    /// What was on disk when a backup was made.
    pub(super) backup: Option<Vec<Task>>,
    /// In memory.
    pub(super) workers: [Option<Work>; 2],
    /// Requests that have left and not arrived.
    pub(super) sent: Vec<Request>,
    /// At the provider.
    pub(super) jobs: Vec<Job>,
}

impl State {
    /// Whether nothing is left to be done.
    pub(super) fn is_over(&self) -> bool {
        let is_closed = |task: &Task| task.status.is_over() && !task.money_is_open();
        self.tasks.iter().all(is_closed) && matches!(self.caller, Caller::Answered | Caller::Gone)
    }
}

/// The state of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Caller {
    /// It is about to ask.
    Idle,
    /// Its request is on its way.
    Asking,
    /// It waits for this task.
    Waiting(usize),
    Answered,
    /// It gave up.
    Gone,
}

/// A task, its submissions and its entries in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Task {
    pub(super) status: Status,
    /// Who holds the lease; the operator, if the task waits for a decision.
    pub(super) owner: Option<usize>,
    pub(super) submissions: Vec<Submission>,
    /// The address at which each submission was made: `State::is_moved` at that time.
    pub(super) addresses: Vec<bool>,
    pub(super) reserved: u8,
    pub(super) settled: u8,
    pub(super) released: u8,
}

impl Task {
    pub(super) fn money_is_open(&self) -> bool {
        self.reserved > self.settled + self.released
    }
}

/// Owns the tasks of a restored database that wait for a decision.
pub(super) const OPERATOR: usize = 9;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Status {
    /// Queued or running.
    Open,
    Succeeded,
    Failed(FailureCause),
    Cancelled,
}

impl Status {
    pub(super) fn is_over(self) -> bool {
        self != Self::Open
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum FailureCause {
    /// The provider failed at it.
    Generation,
    /// No provider accepted it.
    Unavailable,
    /// Nobody knows whether one did.
    Unconfirmed,
}

impl FailureCause {
    pub(super) fn may_be_repeated(self) -> bool {
        self != Self::Unconfirmed
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Submission {
    /// Its request is about to be sent, or was sent.
    Intended,
    /// The provider accepted it, as this job.
    Accepted(usize),
    Refused,
    Unclear,
    /// Given up as unclear, later found to be accepted, and reported to the operator.
    Found,
    Ended,
}

/// The next step of a worker; in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Work {
    pub(super) task: usize,
    pub(super) step: Step,
    /// Whether the last answered heartbeat proves the lease, by the worker's own clock.
    pub(super) proved: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// Read what was done before.
    Look,
    /// Record the intent to submit.
    Intend,
    /// The second half of that, where no lock joins it to the first.
    Insert,
    /// Send the submission, for the first time or once more with the same key.
    Send { submission: usize, again: bool },
    /// Wait for the answer.
    Await { submission: usize, again: bool },
    /// Record the answer.
    Write { submission: usize, reply: Reply },
    /// Ask the provider whether it accepted the submission.
    LookUp { submission: usize },
    /// Poll the job.
    Follow { submission: usize, job: usize },
    /// Record the end.
    End { submission: Option<usize>, end: End },
    /// Move the money in a transaction of its own, which is wrong.
    Pay { end: End },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Taken(usize),
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum End {
    Made,
    Failed(FailureCause),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Request {
    pub(super) task: usize,
    pub(super) submission: usize,
    /// The address it goes to.
    pub(super) address: bool,
    /// The worker that waits for the answer, if any.
    pub(super) sender: Option<usize>,
    /// It was sent after its task had failed.
    pub(super) is_late: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Job {
    pub(super) task: usize,
    /// The key that it was ordered with.
    pub(super) submission: usize,
    /// The address at which it is.
    pub(super) address: bool,
    pub(super) phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Running,
    Made,
    Failed,
    Cancelled,
}
