//! Cancelling a task, and who pays if its provider finishes the job anyway.
//!
//! | a provider may be working on it | at once | when its job is over |
//! |---|---|---|
//! | no | the hold is released | – |
//! | yes, `charge` | the hold stays | what was made is charged, the rest released |
//! | yes, `refund` | the hold is released, and counts against the account's allowance of the day | what was made counts, the rest no longer |
//!
//! Beyond the allowance, `refund` works like `charge`, so that the unpaid work of providers is
//! limited.
//!
//! If it stays unknown whether the provider completed the job, that counts against the allowance
//! under both policies. Beyond the allowance it is charged as if the job had been completed: a job
//! that its provider no longer shows, perhaps because of the cancellation, is not one that was not
//! made.

use serde_json::json;

use super::not_found;
use crate::app::App;
use crate::crash;
use crate::domain::audit::ChangeAuthor;
use crate::domain::{endings, keys, ledger};
use crate::pricing::{self, DeliveredWork, RouteName};
use mediagate_config::CancelPolicy;
use mediagate_model::account::{KeyEndReason, TasksAtEnd};
use mediagate_model::catalog::EMBEDDED;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, TaskId};
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::price::Bill;
use mediagate_model::submission::SubmissionState;
use mediagate_model::task::{Task, TaskFailure, TaskState};
use mediagate_store::tasks::TaskEnding;
use mediagate_store::{self as store, Conn};
use mediagate_telemetry::counters;

/// The operator's rules for a task whose job its provider may continue.
#[derive(Debug, Clone, Copy)]
pub(super) struct CancelRules {
    policy: CancelPolicy,
    /// The most that may be refunded to an account per day for jobs that continue.
    allowance: MicroDollars,
}

impl CancelRules {
    pub(super) fn of(app: &App) -> Self {
        Self {
            policy: app.config.cancel_policy,
            allowance: app.config.cancel_allowance,
        }
    }
}

/// What to do with a cancelled task's hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HoldDecision {
    /// Released, because nothing was sent.
    Released,
    /// Released, and counted against the allowance.
    Refunded,
    /// Kept until the provider's job is over.
    Kept,
    /// Kept in the same way, because the allowance is used up.
    KeptBeyondAllowance,
}

/// Why a task is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CancelCause {
    /// Its owner or the operator wants it.
    Request,
    /// Its API key has ended.
    KeyEnd(KeyEndReason),
    /// It was rejected instead of approved.
    Rejection,
    /// Nobody approved it in time.
    ApprovalExpiry,
}

impl CancelCause {
    const fn code(self) -> ErrorCode {
        match self {
            Self::Request | Self::KeyEnd(_) => ErrorCode::TaskCancelled,
            Self::Rejection => ErrorCode::ApprovalRejected,
            Self::ApprovalExpiry => ErrorCode::ApprovalExpired,
        }
    }

    /// The beginning of the message for a task that no provider is working on.
    const fn opening(self) -> &'static str {
        match self {
            Self::Request => "The task was cancelled.",
            Self::KeyEnd(KeyEndReason::Revoked) => {
                "The task was cancelled because its API key was revoked."
            }
            Self::KeyEnd(KeyEndReason::Expired) => {
                "The task was cancelled because its API key has expired."
            }
            Self::Rejection => "The order was rejected. Nothing was sent.",
            Self::ApprovalExpiry => "The order was not approved in time. Nothing was sent.",
        }
    }

    /// Like [`Self::opening`], for a task that a provider is working on.
    const fn opening_at_work(self) -> &'static str {
        match self {
            // A task that waits for approval is at no provider.
            Self::Request | Self::Rejection | Self::ApprovalExpiry => {
                "The task was cancelled while its provider was working on it."
            }
            Self::KeyEnd(_) => {
                "The task was cancelled, because its API key has ended, while its provider was working on it."
            }
        }
    }
}

/// Cancels a task. When this returns, the task is cancelled; a worker that runs it stops soon after
/// and can no longer write a result. `author` is the operator who cancels it, for the audit log.
pub async fn cancel(
    app: &App,
    account: AccountId,
    id: TaskId,
    author: Option<ChangeAuthor>,
) -> Result<Task, Error> {
    let now = app.clock.now();
    let rules = CancelRules::of(app);
    let app_handle = app.clone();
    let write = app
        .store
        .write_for(account, move |conn| -> Result<Task, Error> {
            // A worker that is about to send this task's order waits for this lock, or already has
            // its submission on disk, where it is visible here.
            store::tasks::lock(conn, id)?;
            let task = store::tasks::by_id(conn, id, account)?.ok_or_else(not_found)?;
            if !end(conn, &app_handle, &task, rules, CancelCause::Request, now)? {
                let message = "The task has already ended and cannot be cancelled.";
                return Err(Error::plain(ErrorCode::TaskNotCancellable, message).with_task(id));
            }
            if let Some(author) = &author {
                let status = |state: TaskState| Some(json!({"status": state.name()}));
                let changed = (status(task.state), status(TaskState::Cancelled));
                author.note(conn, "task.cancel", &id, changed, now)?;
            }
            store::tasks::by_id(conn, id, account)?.ok_or_else(not_found)
        });
    let task = store::await_within_limit(write).await?;
    crash::point("task-cancelled");
    announce(app, &task);
    Ok(task)
}

/// Cancels a task of a key that has ended, unless the operator wants the key's tasks to continue.
/// If only unsent tasks of the key end and `is_begun` is not known to be false, a task that a
/// provider may have, or that has begun here, continues. Returns whether this call cancelled it.
pub async fn cancel_with_key(app: &App, id: TaskId, is_begun: Option<bool>) -> Result<bool, Error> {
    let (now, expired) = (app.clock.now(), keys::expiry_cutoff(app));
    let rules = CancelRules::of(app);
    let app_handle = app.clone();
    let write = app.store.write(move |conn| -> Result<Option<Task>, Error> {
        store::tasks::lock(conn, id)?;
        let Some(task) = store::tasks::by_id_any_account(conn, id)? else {
            return Ok(None);
        };
        let Some(end_of_key) = store::accounts::key_end(conn, task.key, expired)? else {
            return Ok(None);
        };
        let continues = match end_of_key.tasks {
            TasksAtEnd::Keep => true,
            TasksAtEnd::Cancel => false,
            TasksAtEnd::CancelUnsent => match is_begun {
                Some(is_begun) => is_begun,
                None => is_begun_or_sent(conn, &task)?,
            },
        };
        let cause = CancelCause::KeyEnd(end_of_key.reason);
        if continues || !end(conn, &app_handle, &task, rules, cause, now)? {
            return Ok(None);
        }
        store::tasks::by_id_any_account(conn, id).map_err(Error::from)
    });
    let cancelled = store::await_within_limit(write).await?;
    if let Some(task) = &cancelled {
        crash::point("task-cancelled");
        announce(app, task);
    }
    Ok(cancelled.is_some())
}

/// Whether a provider has the task, or may have it, or whether it has begun here.
fn is_begun_or_sent(conn: &mut Conn<'_>, task: &Task) -> Result<bool, Error> {
    if task.provider == EMBEDDED {
        return Ok(task.state != TaskState::Queued);
    }
    let last = store::submissions::latest(conn, task.id)?;
    Ok(last.is_some_and(|last| last.state != SubmissionState::Refused))
}

/// Ends a task as cancelled. Returns whether this call ended it.
pub(super) fn end(
    conn: &mut Conn<'_>,
    app: &App,
    task: &Task,
    rules: CancelRules,
    cause: CancelCause,
    now: Timestamp,
) -> Result<bool, Error> {
    let hold = decide(conn, task, rules, now)?;
    let ending = ending(task, hold, cause);
    // Without a lease: a caller may end a task that a worker holds. The worker then finds that it
    // lost the lease and discards its result.
    endings::end(conn, app, task, None, &ending, now, |_| Ok(()))
}

/// Tells everyone concerned that a task was cancelled. Called after the commit, so that whoever is
/// woken finds it cancelled: its worker, the process that follows its job, and the sender of
/// webhooks.
pub(super) fn announce(app: &App, task: &Task) {
    counters::task_ended(task, TaskState::Cancelled);
    tracing::info!(task_id = %task.id, money = task.money.name(), "task cancelled");
    app.bell.call_off(task.id);
    app.bell.ring_for_upstream();
    app.bell.ring_for_deliveries();
}

/// Decides about the hold of a task that is being cancelled, and counts it against the allowance if
/// it is refunded.
fn decide(
    conn: &mut Conn<'_>,
    task: &Task,
    rules: CancelRules,
    now: Timestamp,
) -> Result<HoldDecision, Error> {
    let last = store::submissions::latest(conn, task.id)?;
    // A submission is on disk before its request is sent, so without an open one no provider works
    // on the task.
    let is_at_work = last.is_some_and(|last| last.state.is_open());
    if !is_at_work || task.money != ChargeState::Held || task.state.is_terminal() {
        return Ok(HoldDecision::Released);
    }
    match rules.policy {
        CancelPolicy::Charge => Ok(HoldDecision::Kept),
        CancelPolicy::Refund => {
            let subject = ledger::entry_subject(task);
            // Two cancellations that read the same sum could together exceed the allowance.
            store::ledger::lock(conn, subject)?;
            let refunded_today = store::usage::refunded_on(conn, task.account, now)?;
            // The task counts with its whole reservation until it is known what the job costs.
            if refunded_today.plus(task.reserved) > rules.allowance {
                return Ok(HoldDecision::KeptBeyondAllowance);
            }
            store::usage::add_refund(conn, subject, task.reserved, now)?;
            Ok(HoldDecision::Refunded)
        }
    }
}

/// The ending of a cancelled task, with a message about its money.
fn ending(task: &Task, hold: HoldDecision, cause: CancelCause) -> TaskEnding {
    let opening = cause.opening();
    let reserved = task.reserved;
    let (money, cost, message) = match (task.money, hold) {
        (ChargeState::Held, HoldDecision::Kept | HoldDecision::KeptBeyondAllowance) => {
            let allowance_note = match hold {
                HoldDecision::KeptBeyondAllowance => {
                    " The account's daily allowance for such cancellations is used up."
                }
                _ => "",
            };
            let opening = cause.opening_at_work();
            let message = format!(
                "{opening} If the provider completes it anyway, the result is charged, at most {reserved} USD. The rest is released when the provider's job has ended.{allowance_note}"
            );
            (ChargeState::Held, reserved, message)
        }
        (ChargeState::Held, HoldDecision::Released | HoldDecision::Refunded) => {
            let message = format!("{opening} The {reserved} USD held for it were released.");
            (ChargeState::Released, MicroDollars::ZERO, message)
        }
        (money, _) => (money, MicroDollars::ZERO, opening.to_owned()),
    };
    TaskEnding {
        state: TaskState::Cancelled,
        cost,
        money,
        bill: None,
        output: None,
        failure: Some(TaskFailure {
            code: cause.code(),
            message,
        }),
    }
}

/// The outcome of a cancelled task's job.
#[derive(Debug, Clone, Copy)]
pub enum JobOutcome<'a> {
    /// This was made anyway; `None` if its provider does not say what it made.
    Made(Option<&'a DeliveredWork>),
    /// The provider cancelled the job, or it failed.
    NotMade,
    /// It is unknown how the job ended.
    Unknown,
    /// The operator gave the job up, and with it the money.
    Abandoned,
}

/// Settles the money of a cancelled task whose job is over, in the transaction that closes its
/// submission at `route`. `allowance` is the most that is given back to an account per day. Returns
/// whether money was still held.
pub fn settle_job(
    conn: &mut Conn<'_>,
    task: &Task,
    route: RouteName<'_>,
    outcome: JobOutcome<'_>,
    allowance: MicroDollars,
    now: Timestamp,
) -> Result<bool, Error> {
    let bill = match outcome {
        JobOutcome::Made(work) => pricing::cancelled_bill(task, work, route),
        JobOutcome::Unknown => pricing::unknown_bill(task, route),
        JobOutcome::NotMade | JobOutcome::Abandoned => None,
    };
    let bill = bill.as_ref();
    if task.money == ChargeState::Held {
        return match outcome {
            JobOutcome::Unknown => close_unknown(conn, task, bill, allowance, now),
            JobOutcome::Abandoned => ledger::close_unknown(conn, task, bill, now),
            JobOutcome::Made(_) | JobOutcome::NotMade => ledger::close(conn, task, bill, now),
        };
    }
    // The job's real cost replaces the reservation in the count: nothing if it made nothing. If the
    // cost stays unknown, the whole reservation keeps counting, otherwise the allowance would limit
    // nothing.
    let was_refunded = task.state == TaskState::Cancelled && task.money == ChargeState::Released;
    let is_known = matches!(outcome, JobOutcome::Made(_) | JobOutcome::NotMade);
    if was_refunded && is_known {
        let cost = bill.map_or(MicroDollars::ZERO, |bill| bill.cost);
        // On the day that it was counted on, which may be yesterday.
        let cancelled_at = task.finished_at.unwrap_or(now);
        let correction = cost.minus(task.reserved);
        store::usage::add_refund(conn, ledger::entry_subject(task), correction, cancelled_at)?;
    }
    Ok(false)
}

/// Releases the hold of a cancelled task whose job's outcome stays unknown, as far as the allowance
/// goes, and otherwise charges it.
fn close_unknown(
    conn: &mut Conn<'_>,
    task: &Task,
    bill: Option<&Bill>,
    allowance: MicroDollars,
    now: Timestamp,
) -> Result<bool, Error> {
    let subject = ledger::entry_subject(task);
    store::ledger::lock(conn, subject)?;
    let cost = bill.map_or(task.reserved, |bill| bill.cost);
    let refunded_today = store::usage::refunded_on(conn, task.account, now)?;
    if refunded_today.plus(cost) > allowance {
        return ledger::close_unknown(conn, task, bill, now);
    }
    let is_closed = ledger::close_unknown(conn, task, None, now)?;
    if is_closed {
        store::usage::add_refund(conn, subject, cost, now)?;
    }
    Ok(is_closed)
}
