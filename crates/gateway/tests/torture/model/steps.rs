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
    /// The caller disconnects, and may retry.
    HangUp,
    /// The answer reaches the caller.
    Answer,
    /// The caller cancels the task.
    Cancel(usize),
    /// A worker claims a task.
    Claim(usize, usize),
    /// A worker does its next step.
    Work(usize),
    /// An answer to a worker is lost, or was never given.
    Lose(usize),
    /// The worker's lease expires without its knowledge.
    Stall(usize),
    /// The provider accepts a request.
    Take(usize),
    /// The provider provably refuses a request.
    Refuse(usize),
    /// The request is lost.
    Drop(usize),
    /// A job ends.
    JobMade(usize),
    JobFailed(usize),
    /// A job is cancelled.
    CallOff(usize),
    /// A backup of the database is made.
    BackUp,
    /// The database is restored from it, with all processes down.
    Restore,
    /// The operator changes the provider's address or key, or puts it back.
    Move,
    /// The operator ends an open task of a restored database as failed.
    GiveUp(usize),
    /// A process dies. The first serves callers and runs tasks, the second only runs tasks.
    Crash(usize),
}

pub(super) fn actions(rules: &Rules, state: &State, actions: &mut Vec<Action>) {
    caller_actions(rules, state, actions);
    for worker in 0..state.workers.len() {
        worker_actions(rules, state, worker, actions);
        if state.crashes < rules.crashes {
            actions.push(Action::Crash(worker));
        }
    }
    operator_actions(rules, state, actions);
    for (number, _) in state.sent.iter().enumerate() {
        actions.extend([
            Action::Take(number),
            Action::Refuse(number),
            Action::Drop(number),
        ]);
    }
    for (number, job) in state.jobs.iter().enumerate() {
        let task = &state.tasks[job.task];
        // Once the task has ended and its money is settled, the job no longer matters.
        let is_closed = task.status.is_over() && !task.money_is_open();
        if job.phase == Phase::Running && !is_closed {
            actions.extend([Action::JobMade(number), Action::JobFailed(number)]);
            let is_cancelled = task.status == Status::Cancelled;
            if rules.cancels && is_cancelled {
                actions.push(Action::CallOff(number));
            }
        }
    }
}

fn caller_actions(rules: &Rules, state: &State, actions: &mut Vec<Action>) {
    match state.caller {
        Caller::Idle => actions.push(Action::Ask),
        Caller::Asking => actions.extend([Action::Accept, Action::HangUp]),
        Caller::Waiting(task) if state.tasks[task].status.is_over() => {
            actions.extend([Action::Answer, Action::HangUp]);
        }
        Caller::Waiting(_) => actions.push(Action::HangUp),
        Caller::Answered | Caller::Gone => {}
    }
    if state.ghost {
        actions.push(Action::AcceptGhost);
    }
    if state.cancellations < rules.cancellations {
        let is_open = |task: &Task| task.status == Status::Open;
        let open_tasks = state
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| is_open(task));
        actions.extend(open_tasks.map(|(number, _)| Action::Cancel(number)));
    }
}

fn operator_actions(rules: &Rules, state: &State, actions: &mut Vec<Action>) {
    // Beyond the allowed moves, the operator can still move to the address that a task waits for,
    // so that no task waits forever.
    let is_moved_away = |task: &Task| {
        task.addresses
            .last()
            .is_some_and(|address| *address != state.is_moved)
    };
    let has_moved_tasks = state.tasks.iter().any(is_moved_away);
    if state.is_moved || state.moves < rules.moves || (rules.moves > 0 && has_moved_tasks) {
        actions.push(Action::Move);
    }
    if state.restores >= rules.restores {
        // The database was restored as often as the rules allow.
    } else if let Some(backup) = &state.backup {
        // Restoring a backup that lacks some of the tasks is not modelled here.
        if backup.len() == state.tasks.len() {
            actions.push(Action::Restore);
        }
    } else if !state.tasks.is_empty() {
        actions.push(Action::BackUp);
    }
    // The operator can end each task that is held, so that none waits forever.
    let is_held = |task: &Task| task.owner == Some(OPERATOR) && task.status == Status::Open;
    let held_tasks = state
        .tasks
        .iter()
        .enumerate()
        .filter(|(_, task)| is_held(task));
    actions.extend(held_tasks.map(|(number, _)| Action::GiveUp(number)));
}

fn worker_actions(rules: &Rules, state: &State, worker: usize, actions: &mut Vec<Action>) {
    let Some(work) = state.workers[worker] else {
        let is_free = |task: &Task| {
            let is_cancelled = task.status == Status::Cancelled;
            let is_followed =
                is_cancelled && task.money_is_open() && rules.has(Safeguard::FollowCancelled);
            task.owner.is_none() && (task.status == Status::Open || is_followed)
        };
        let free_tasks = state
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| is_free(task));
        actions.extend(free_tasks.map(|(number, _)| Action::Claim(worker, number)));
        return;
    };
    match work.step {
        Step::Await { .. } => actions.push(Action::Lose(worker)),
        Step::Follow { job, .. } => {
            // A poll that finds the job running changes nothing.
            let is_running = state.jobs[job].phase == Phase::Running;
            if !is_running || state.tasks[work.task].status.is_over() {
                actions.push(Action::Work(worker));
            }
        }
        _ => actions.push(Action::Work(worker)),
    }
    if state.stalls < rules.stalls && state.tasks[work.task].owner == Some(worker) {
        actions.push(Action::Stall(worker));
    }
}
