//! What is on disk, what is in memory, and what the provider has.

/// What the provider can do, how the operator settles, and how much may go wrong.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says what somebody can do, whatever the others say"
)]
pub(super) struct Rules {
    /// The provider makes one job of two submissions with the same key.
    pub(super) deduplicates: bool,
    /// It can be asked whether it took a submission.
    pub(super) looks_up: bool,
    /// It can call jobs off.
    pub(super) cancels: bool,
    /// What was cancelled is paid for when it was made all the same.
    pub(super) charges: bool,
    /// Times that the caller asks.
    pub(super) tries: u8,
    pub(super) crashes: u8,
    /// Times that a worker loses its lease and does not know.
    pub(super) stalls: u8,
    /// Times that the caller calls a task off.
    pub(super) cancellations: u8,
    /// Submissions of one task, while providers refuse them.
    pub(super) routes: usize,
    /// Times that the database is restored from a backup.
    pub(super) restores: u8,
    /// Times that the operator changes the provider's address or key, and puts it back.
    pub(super) moves: u8,
    /// What is left out, to see that it is needed.
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

/// What keeps anybody from paying twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Safeguard {
    /// That nothing was taken is written only by the holder of the lease.
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
    /// A repetition joins.
    Join,
    /// State and money change in one transaction.
    MoneyWithState,
    /// A cancelled task whose money is open is taken up as open ones are.
    FollowCancelled,
    /// Who is about to send looks at the task and writes its intent down under one
    /// lock of the task's row.
    RowLock,
    /// A request leaves only while the last answered heartbeat proves the lease.
    Fence,
    /// An acceptance is written only where the submission is still under way; else
    /// it is told to the operator.
    GuardedAccept,
    /// What a restored database has open, and may have been sent since, waits.
    HoldRestored,
    /// A submission is asked for, and sent again, only where it was made.
    SamePlace,
}

/// A state of everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) caller: Caller,
    /// A request whose caller has gone, and which nobody has looked at yet.
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
    /// Gone with their process.
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

/// Where the caller stands.
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
    /// Who holds the lease; the operator, of what waits for a decision.
    pub(super) owner: Option<usize>,
    pub(super) submissions: Vec<Submission>,
    /// Which address each was made at: `State::is_moved` at that time.
    pub(super) places: Vec<bool>,
    pub(super) reserved: u8,
    pub(super) settled: u8,
    pub(super) released: u8,
}

impl Task {
    pub(super) fn money_is_open(&self) -> bool {
        self.reserved > self.settled + self.released
    }
}

/// Holds what a restored database has open.
pub(super) const OPERATOR: usize = 9;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Status {
    /// Queued or running.
    Open,
    Succeeded,
    Failed(Why),
    Cancelled,
}

impl Status {
    pub(super) fn is_over(self) -> bool {
        self != Self::Open
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Why {
    /// The provider failed at it.
    Generation,
    /// No provider took it.
    Unavailable,
    /// Nobody knows whether one did.
    Unconfirmed,
}

impl Why {
    pub(super) fn may_be_repeated(self) -> bool {
        self != Self::Unconfirmed
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Submission {
    /// Its request is about to leave, or has left.
    Intended,
    /// The provider took it, as this job.
    Accepted(usize),
    Refused,
    Unclear,
    /// Given up as unclear, it turned out to have been taken, and the operator was told.
    Found,
    Ended,
}

/// What a worker is about to do; all of it is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Work {
    pub(super) task: usize,
    pub(super) step: Step,
    /// Whether the last answered heartbeat proves the lease, by a clock of its own.
    pub(super) proved: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// Look what was done before.
    Look,
    /// Write down that a request is about to leave.
    Intend,
    /// The second half of that, where no lock joins it to the first.
    Insert,
    /// Send it; the first time, or once more with the same key.
    Send { submission: usize, again: bool },
    /// Wait for the answer.
    Await { submission: usize, again: bool },
    /// Write down what the answer says.
    Write { submission: usize, reply: Reply },
    /// Ask the provider whether it took it.
    LookUp { submission: usize },
    /// Ask how the job stands.
    Follow { submission: usize, job: usize },
    /// Write down how it ended.
    End { submission: Option<usize>, end: End },
    /// Move the money afterwards, as nobody should.
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
    Failed(Why),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Request {
    pub(super) task: usize,
    pub(super) submission: usize,
    /// The address it goes to.
    pub(super) place: bool,
    /// Who waits for the answer, if anybody does.
    pub(super) by: Option<usize>,
    /// It left after its task had failed.
    pub(super) late: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Job {
    pub(super) task: usize,
    /// The key that it was ordered with.
    pub(super) submission: usize,
    /// The address at which it is.
    pub(super) place: bool,
    pub(super) phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Running,
    Made,
    Failed,
    CalledOff,
}
