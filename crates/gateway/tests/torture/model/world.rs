//! What a step changes. A function that changes a [`Task`] is one transaction.

use super::state::{
    Caller, End, FailureCause, Job, OPERATOR, Phase, Reply, Request, Rules, Safeguard, State,
    Status, Step, Submission, Task, Work,
};
use super::steps::Action;

pub(super) fn after(rules: &Rules, state: &State, action: Action) -> Option<State> {
    let mut next = state.clone();
    match action {
        Action::Ask => next.caller = Caller::Asking,
        Action::Accept => next.caller = Caller::Waiting(accept(rules, &mut next)),
        Action::AcceptGhost => {
            next.ghost = false;
            accept(rules, &mut next);
        }
        Action::HangUp => {
            next.ghost |= next.caller == Caller::Asking;
            retry(rules, &mut next);
        }
        Action::Answer => answer(rules, &mut next),
        Action::Cancel(task) => {
            next.cancellations += 1;
            cancel(rules, &mut next.tasks[task]);
        }
        Action::Claim(worker, task) => {
            next.tasks[task].owner = Some(worker);
            let step = Step::Look;
            next.workers[worker] = Some(Work {
                task,
                step,
                proved: true,
            });
        }
        Action::Work(worker) => work(rules, &mut next, worker),
        Action::Lose(worker) => lose_answer(rules, &mut next, worker),
        Action::Stall(worker) => {
            next.stalls += 1;
            if let Some(work) = &mut next.workers[worker] {
                work.proved = false;
            }
            release(&mut next, worker);
        }
        Action::Take(number) => accept_at_provider(rules, &mut next, number),
        Action::Refuse(number) => {
            let request = next.sent.remove(number);
            reply(&mut next, request, Reply::Refused);
        }
        Action::Drop(number) => {
            next.sent.remove(number);
        }
        Action::JobMade(job) => next.jobs[job].phase = Phase::Made,
        Action::JobFailed(job) => next.jobs[job].phase = Phase::Failed,
        Action::CallOff(job) => next.jobs[job].phase = Phase::Cancelled,
        Action::BackUp => next.backup = Some(next.tasks.clone()),
        Action::Restore => restore(rules, &mut next),
        Action::Move => {
            next.moves = rules.moves.min(next.moves + 1);
            next.is_moved = !next.is_moved;
        }
        Action::GiveUp(task) => {
            let task = &mut next.tasks[task];
            task.status = Status::Failed(FailureCause::Unconfirmed);
            (task.owner, task.released) = (None, task.released + 1);
            if let Some(interrupted @ Submission::Intended) = task.submissions.last_mut() {
                *interrupted = Submission::Unclear;
            }
        }
        Action::Crash(process) => crash(rules, &mut next, process),
    }
    canonicalize(rules, &mut next);
    (next != *state).then_some(next)
}

/// Removes differences that do not matter, so that there are fewer states.
fn canonicalize(rules: &Rules, next: &mut State) {
    let jobs = std::mem::take(&mut next.jobs);
    let is_duplicate = |request: &Request| {
        let mut jobs = jobs.iter();
        rules.deduplicates
            && jobs.any(|job| {
                (job.task, job.submission, job.address)
                    == (request.task, request.submission, request.address)
            })
    };
    // Nobody waits for this answer, and the provider has the job already.
    next.sent
        .retain(|request| request.sender.is_some() || !is_duplicate(request));
    next.sent.sort();
    next.sent.dedup();
    next.jobs = jobs;
}

// --- The caller ----------------------------------------------------------------

/// Task, intent and reservation in one transaction; or the task that exists.
fn accept(rules: &Rules, next: &mut State) -> usize {
    let joins =
        |task: &Task| !matches!(task.status, Status::Failed(cause) if cause.may_be_repeated());
    if let Some(last) = next.tasks.last()
        && joins(last)
        && rules.has(Safeguard::Join)
    {
        return next.tasks.len() - 1;
    }
    next.tasks.push(Task {
        status: Status::Open,
        owner: None,
        submissions: Vec::new(),
        addresses: Vec::new(),
        reserved: 1,
        settled: 0,
        released: 0,
    });
    next.tasks.len() - 1
}

fn retry(rules: &Rules, next: &mut State) {
    next.tries += 1;
    next.caller = if next.tries < rules.tries {
        Caller::Idle
    } else {
        Caller::Gone
    };
}

fn answer(rules: &Rules, next: &mut State) {
    let Caller::Waiting(task) = next.caller else {
        return;
    };
    match next.tasks[task].status {
        Status::Failed(cause) if cause.may_be_repeated() => retry(rules, next),
        _ => next.caller = Caller::Answered,
    }
}

fn cancel(rules: &Rules, task: &mut Task) {
    task.status = Status::Cancelled;
    task.owner = None;
    let mut submissions = task.submissions.iter();
    let may_be_made = submissions.any(|submission| *submission != Submission::Refused);
    if !(rules.charges && may_be_made) {
        task.released += 1;
    }
}

// --- Processes -----------------------------------------------------------------

fn crash(rules: &Rules, next: &mut State, process: usize) {
    next.crashes += 1;
    next.workers[process] = None;
    release(next, process);
    for request in &mut next.sent {
        if request.sender == Some(process) {
            request.sender = None;
        }
    }
    if process == 0 {
        next.ghost = false;
        if matches!(next.caller, Caller::Asking | Caller::Waiting(_)) {
            retry(rules, next);
        }
    }
}

/// The database is restored; sent requests stay sent, and nobody waits for their answers.
fn restore(rules: &Rules, next: &mut State) {
    next.restores += 1;
    for process in 0..next.workers.len() {
        next.workers[process] = None;
    }
    for request in &mut next.sent {
        request.sender = None;
    }
    next.tasks = next.backup.take().unwrap_or_default();
    for task in &mut next.tasks {
        task.owner = None;
        let would_order = match task.submissions.last() {
            None | Some(Submission::Refused) => rules.has(Safeguard::HoldRestored),
            Some(Submission::Intended) => rules.has(Safeguard::HoldInterrupted),
            _ => false,
        };
        if would_order && task.status == Status::Open {
            task.owner = Some(OPERATOR);
        }
    }
}

/// A worker's leases end.
fn release(next: &mut State, worker: usize) {
    for task in &mut next.tasks {
        if task.owner == Some(worker) {
            task.owner = None;
        }
    }
}

// --- Workers -------------------------------------------------------------------

fn work(rules: &Rules, next: &mut State, worker: usize) {
    let Some(Work { task, step, proved }) = next.workers[worker] else {
        return;
    };
    let address = next.is_moved;
    let next_step = match step {
        Step::Look => first_step(rules, &next.tasks[task], worker, address),
        Step::Intend => intend(rules, &mut next.tasks[task], worker, address),
        Step::Insert => Some(insert(rules, &mut next.tasks[task], address)),
        // The process was stopped for too long: it sends nothing.
        Step::Send { .. } if !proved && rules.has(Safeguard::Fence) => None,
        Step::Send { submission, again } => {
            next.sent.push(Request {
                task,
                submission,
                address: lookup_address(rules, next, task, submission),
                sender: Some(worker),
                is_late: matches!(next.tasks[task].status, Status::Failed(_)),
            });
            Some(Step::Await { submission, again })
        }
        Step::Await { .. } => Some(step),
        Step::Write { submission, reply } => {
            write(rules, &mut next.tasks[task], worker, submission, reply)
        }
        Step::LookUp { submission } => look_up(rules, next, task, submission),
        Step::Follow { submission, job } => follow(rules, next, task, submission, job),
        Step::End { submission, end } => {
            finish(rules, &mut next.tasks[task], worker, submission, end)
        }
        Step::Pay { end } => {
            pay(&mut next.tasks[task], end);
            None
        }
    };
    next.workers[worker] = next_step.map(|step| Work { task, step, proved });
    if next_step.is_none() && next.tasks[task].owner == Some(worker) {
        next.tasks[task].owner = None;
    }
}

fn unconfirmed_end(submission: usize) -> Step {
    Step::End {
        submission: Some(submission),
        end: End::Failed(FailureCause::Unconfirmed),
    }
}

/// The address at which a submission is sent or looked up.
fn lookup_address(rules: &Rules, state: &State, task: usize, submission: usize) -> bool {
    if rules.has(Safeguard::SameAddress) {
        state.tasks[task].addresses[submission]
    } else {
        state.is_moved
    }
}

/// The next step, by what was done before.
fn first_step(rules: &Rules, task: &Task, worker: usize, address: bool) -> Option<Step> {
    let is_elsewhere = task
        .addresses
        .last()
        .is_some_and(|made_at| *made_at != address);
    let last = task.submissions.last();
    let is_open = matches!(last, Some(Submission::Intended | Submission::Accepted(_)));
    if is_elsewhere && is_open && rules.has(Safeguard::SameAddress) {
        return None;
    }
    let count = task.submissions.len();
    let last = count.saturating_sub(1);
    let is_cancelled = task.status == Status::Cancelled;
    let may_repeat = task.owner == Some(worker) || !rules.has(Safeguard::RepetitionByHolder);
    Some(match task.submissions.last() {
        None | Some(Submission::Refused) if is_cancelled || count >= rules.routes => Step::End {
            submission: None,
            end: End::Failed(FailureCause::Unavailable),
        },
        None | Some(Submission::Refused) => Step::Intend,
        Some(Submission::Accepted(job)) => Step::Follow {
            submission: last,
            job: *job,
        },
        Some(Submission::Intended) if rules.deduplicates && !is_cancelled => {
            if !may_repeat {
                return None;
            }
            Step::Send {
                submission: last,
                again: true,
            }
        }
        Some(Submission::Intended) if rules.looks_up => Step::LookUp { submission: last },
        Some(Submission::Intended) if !is_cancelled && !rules.has(Safeguard::IntendedIsUnclear) => {
            Step::Intend
        }
        Some(
            Submission::Intended | Submission::Unclear | Submission::Found | Submission::Ended,
        ) => unconfirmed_end(last),
    })
}

fn intend(rules: &Rules, task: &mut Task, worker: usize, address: bool) -> Option<Step> {
    if task.owner != Some(worker) || task.status.is_over() {
        return None;
    }
    if !rules.has(Safeguard::RowLock) {
        return Some(Step::Insert);
    }
    let previous = task.submissions.last();
    if previous.is_some_and(|submission| *submission != Submission::Refused)
        && rules.has(Safeguard::IntendedIsUnclear)
        && rules.has(Safeguard::NotFoundIsUnclear)
    {
        return None;
    }
    Some(insert(rules, task, address))
}

fn insert(rules: &Rules, task: &mut Task, address: bool) -> Step {
    task.addresses.push(address);
    // Without the safeguard no record shows later that a request was sent.
    task.submissions.push(if rules.has(Safeguard::IntentFirst) {
        Submission::Intended
    } else {
        Submission::Refused
    });
    Step::Send {
        submission: task.submissions.len() - 1,
        again: false,
    }
}

/// No answer came. The request is sent again if the provider creates one job for both.
fn lose_answer(rules: &Rules, next: &mut State, worker: usize) {
    let Some(Work { task, step, proved }) = next.workers[worker] else {
        return;
    };
    let Step::Await { submission, .. } = step else {
        return;
    };
    for request in &mut next.sent {
        if request.sender == Some(worker) {
            request.sender = None;
        }
    }
    let has_other_requests = next.sent.len() > 1;
    let step = if rules.deduplicates && !has_other_requests {
        Step::Send {
            submission,
            again: true,
        }
    } else if rules.looks_up {
        Step::LookUp { submission }
    } else {
        unconfirmed_end(submission)
    };
    next.workers[worker] = Some(Work { task, step, proved });
}

fn write(
    rules: &Rules,
    task: &mut Task,
    worker: usize,
    submission: usize,
    reply: Reply,
) -> Option<Step> {
    match reply {
        Reply::Taken(_)
            if task.submissions[submission] != Submission::Intended
                && rules.has(Safeguard::GuardedAccept) =>
        {
            if task.submissions[submission] == Submission::Unclear {
                task.submissions[submission] = Submission::Found;
            }
            None
        }
        Reply::Taken(job) => {
            task.submissions[submission] = Submission::Accepted(job);
            Some(Step::Follow { submission, job })
        }
        Reply::Refused => {
            if rules.has(Safeguard::RefusalByHolder) && task.owner != Some(worker) {
                return None;
            }
            task.submissions[submission] = Submission::Refused;
            Some(Step::Look)
        }
    }
}

/// Asks the provider; a submission that it does not know may still be on its way.
fn look_up(rules: &Rules, next: &mut State, task: usize, submission: usize) -> Option<Step> {
    let address = lookup_address(rules, next, task, submission);
    let mut jobs = next.jobs.iter();
    let job_index =
        jobs.position(|job| (job.task, job.submission, job.address) == (task, submission, address));
    match job_index {
        Some(job) => {
            let recorded = &mut next.tasks[task].submissions[submission];
            if *recorded != Submission::Intended && rules.has(Safeguard::GuardedAccept) {
                if *recorded == Submission::Unclear {
                    *recorded = Submission::Found;
                }
                return None;
            }
            *recorded = Submission::Accepted(job);
            Some(Step::Follow { submission, job })
        }
        None if rules.has(Safeguard::NotFoundIsUnclear) => Some(unconfirmed_end(submission)),
        None => Some(Step::Intend),
    }
}

/// Polls the job; nothing, if the task has ended and its money is settled.
fn follow(rules: &Rules, next: &State, task: usize, submission: usize, job: usize) -> Option<Step> {
    let is_open = next.tasks[task].status == Status::Open || next.tasks[task].money_is_open();
    // At another address the provider does not know the job.
    let is_lost = next.jobs[job].address != lookup_address(rules, next, task, submission);
    let end = match next.jobs[job].phase {
        _ if is_lost && is_open => End::Failed(FailureCause::Generation),
        Phase::Running if is_open => return Some(Step::Follow { submission, job }),
        _ if !is_open => return None,
        Phase::Made => End::Made,
        Phase::Running | Phase::Failed | Phase::Cancelled => End::Failed(FailureCause::Generation),
    };
    let submission = Some(submission);
    Some(Step::End { submission, end })
}

/// State, money and submission in one transaction, by the holder of the lease.
fn finish(
    rules: &Rules,
    task: &mut Task,
    worker: usize,
    submission: Option<usize>,
    end: End,
) -> Option<Step> {
    let is_open = task.status == Status::Open || task.money_is_open();
    let is_allowed = task.owner == Some(worker) && is_open;
    if rules.has(Safeguard::EndOnce) && !is_allowed {
        return None;
    }
    if task.status == Status::Open || !rules.has(Safeguard::EndOnce) {
        task.status = match end {
            End::Made => Status::Succeeded,
            End::Failed(cause) => Status::Failed(cause),
        };
    }
    if let Some(submission) = submission {
        task.submissions[submission] = match end {
            End::Failed(FailureCause::Unconfirmed) => Submission::Unclear,
            _ => Submission::Ended,
        };
    }
    if !rules.has(Safeguard::MoneyWithState) {
        return Some(Step::Pay { end });
    }
    pay(task, end);
    None
}

fn pay(task: &mut Task, end: End) {
    match end {
        End::Made => task.settled += 1,
        End::Failed(_) => task.released += 1,
    }
}

// --- The provider --------------------------------------------------------------

fn accept_at_provider(rules: &Rules, next: &mut State, number: usize) {
    let request = next.sent.remove(number);
    let (task, submission, address) = (request.task, request.submission, request.address);
    let mut jobs = next.jobs.iter();
    let existing =
        jobs.position(|job| (job.task, job.submission, job.address) == (task, submission, address));
    let job = existing.filter(|_| rules.deduplicates).unwrap_or_else(|| {
        next.jobs.push(Job {
            task,
            submission,
            address,
            phase: Phase::Running,
        });
        next.jobs.len() - 1
    });
    reply(next, request, Reply::Taken(job));
}

/// The answer reaches whoever waits for it. The refusal of a repetition proves nothing.
fn reply(next: &mut State, request: Request, reply: Reply) {
    let Some(worker) = request.sender else {
        return;
    };
    let Some(Work { task, step, proved }) = next.workers[worker] else {
        return;
    };
    let Step::Await { submission, again } = step else {
        return;
    };
    let step = if again && reply == Reply::Refused {
        unconfirmed_end(submission)
    } else {
        Step::Write { submission, reply }
    };
    next.workers[worker] = Some(Work { task, step, proved });
}
