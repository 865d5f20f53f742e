//! Who can do what next.

use super::state::{Caller, OPERATOR, Phase, Rules, Safeguard, State, Status, Step, Task};

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// The caller sends its request.
    Ask,
    /// The gateway accepts it: task, intent and reservation, or a join.
    Accept,
    /// The gateway accepts a request whose caller has gone.
    AcceptGhost,
    /// The caller goes away, and will be back.
    HangUp,
    /// The answer reaches the caller.
    Answer,
    /// The caller calls the task off.
    Cancel(usize),
    /// A worker takes a task.
    Claim(usize, usize),
    /// A worker does its next step.
    Work(usize),
    /// An answer to a worker is lost, or was never given.
    Lose(usize),
    /// Another may take the task, and the worker does not know.
    Stall(usize),
    /// The provider gets a request and takes it.
    Take(usize),
    /// It provably does not.
    Refuse(usize),
    /// The request is lost.
    Drop(usize),
    /// A job comes to its end.
    JobMade(usize),
    JobFailed(usize),
    /// A job is called off.
    CallOff(usize),
    /// A backup of the database is made.
    BackUp,
    /// The database is restored from it, with all processes down.
    Restore,
    /// The operator changes the provider's address or key, or puts it back.
    Move,
    /// The operator fails a task that a restored database has open.
    GiveUp(usize),
    /// A process dies: the first one serves callers and works, the second works.
    Crash(usize),
}

pub(super) fn actions(rules: &Rules, state: &State, found: &mut Vec<Action>) {
    of_caller(rules, state, found);
    for worker in 0..state.workers.len() {
        of_worker(rules, state, worker, found);
        if state.crashes < rules.crashes {
            found.push(Action::Crash(worker));
        }
    }
    of_operator(rules, state, found);
    for (number, _) in state.sent.iter().enumerate() {
        found.extend([
            Action::Take(number),
            Action::Refuse(number),
            Action::Drop(number),
        ]);
    }
    for (number, job) in state.jobs.iter().enumerate() {
        let task = &state.tasks[job.task];
        // What becomes of it later concerns nobody.
        let is_closed = task.status.is_over() && !task.money_is_open();
        if job.phase == Phase::Running && !is_closed {
            found.extend([Action::JobMade(number), Action::JobFailed(number)]);
            let is_cancelled = task.status == Status::Cancelled;
            if rules.cancels && is_cancelled {
                found.push(Action::CallOff(number));
            }
        }
    }
}

fn of_caller(rules: &Rules, state: &State, found: &mut Vec<Action>) {
    match state.caller {
        Caller::Idle => found.push(Action::Ask),
        Caller::Asking => found.extend([Action::Accept, Action::HangUp]),
        Caller::Waiting(task) if state.tasks[task].status.is_over() => {
            found.extend([Action::Answer, Action::HangUp]);
        }
        Caller::Waiting(_) => found.push(Action::HangUp),
        Caller::Answered | Caller::Gone => {}
    }
    if state.ghost {
        found.push(Action::AcceptGhost);
    }
    if state.cancellations < rules.cancellations {
        let open = |task: &Task| task.status == Status::Open;
        let open = state
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| open(task));
        found.extend(open.map(|(number, _)| Action::Cancel(number)));
    }
}

fn of_operator(rules: &Rules, state: &State, found: &mut Vec<Action>) {
    // Settings that jobs wait for are put back in the end.
    let waits = |task: &Task| {
        task.places
            .last()
            .is_some_and(|made| *made != state.is_moved)
    };
    let are_missed = state.tasks.iter().any(waits);
    if state.is_moved || state.moves < rules.moves || (rules.moves > 0 && are_missed) {
        found.push(Action::Move);
    }
    if state.restores >= rules.restores {
        // What waits is decided on in the end.
    } else if let Some(backup) = &state.backup {
        // Tasks that the backup does not know of are another story.
        if backup.len() == state.tasks.len() {
            found.push(Action::Restore);
        }
    } else if !state.tasks.is_empty() {
        found.push(Action::BackUp);
    }
    let held = |task: &Task| task.owner == Some(OPERATOR) && task.status == Status::Open;
    let held = state
        .tasks
        .iter()
        .enumerate()
        .filter(|(_, task)| held(task));
    found.extend(held.map(|(number, _)| Action::GiveUp(number)));
}

fn of_worker(rules: &Rules, state: &State, worker: usize, found: &mut Vec<Action>) {
    let Some(work) = state.workers[worker] else {
        let free = |task: &Task| {
            let is_cancelled = task.status == Status::Cancelled;
            let followed =
                is_cancelled && task.money_is_open() && rules.has(Safeguard::FollowCancelled);
            task.owner.is_none() && (task.status == Status::Open || followed)
        };
        let free = state
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| free(task));
        found.extend(free.map(|(number, _)| Action::Claim(worker, number)));
        return;
    };
    match work.step {
        Step::Await { .. } => found.push(Action::Lose(worker)),
        Step::Follow { job, .. } => {
            // A poll that finds it running changes nothing.
            let is_running = state.jobs[job].phase == Phase::Running;
            if !is_running || state.tasks[work.task].status.is_over() {
                found.push(Action::Work(worker));
            }
        }
        _ => found.push(Action::Work(worker)),
    }
    if state.stalls < rules.stalls && state.tasks[work.task].owner == Some(worker) {
        found.push(Action::Stall(worker));
    }
}
