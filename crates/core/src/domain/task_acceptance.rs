//! Accepts tasks: every task begins here.
//!
//! The key's limits are checked, the tasks written and their price held in one transaction; when
//! [`accept`] returns they are on disk, and their ids may be returned.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::context::FutureExt as _;
use opentelemetry::trace::SpanKind;
use spans::TraceSpan;
use tracing::Instrument as _;

use crate::app::{App, AppParts, Ctx};
use crate::crash;
use crate::domain::assets::{self, sha256_hex};
use crate::domain::end_users::UserOrder;
use crate::domain::moderation::{self, OrderInput, OrderSubject};
use crate::domain::order_terms::OrderTerms;
use crate::domain::{end_users, ledger, storage_room, webhooks};
use crate::intents::IntentAttempt;
use crate::local_dispatch::TaskClaim;
use crate::pricing::{OrderQuotation, QuotedQuantity};
use mediagate_model::account::{ApiKey, Caller};
use mediagate_model::attribution::Attribution;
use mediagate_model::catalog::{EMBEDDED, Model, ModelBackend, Route};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::TaskId;
use mediagate_model::intent::{IntentResult, StoredAnswer};
use mediagate_model::media::Asset;
use mediagate_model::money::MicroDollars;
use mediagate_model::music::Clip;
use mediagate_model::task::{Task, TaskApproval, TaskPayload, TaskRequest, TaskState};
use mediagate_store::{self as store, Conn};
use mediagate_telemetry::counters;
use mediagate_telemetry::traces;

/// A task to accept.
#[derive(Debug, Clone)]
pub struct NewTask {
    pub model: Model,
    pub asked_model: String,
    pub payload: TaskPayload,
    /// The quantity, for the price.
    pub quantity: QuotedQuantity,
    pub attribution: Attribution,
    /// URL that is called when the task ends, encrypted.
    pub callback: Option<String>,
}

impl NewTask {
    /// Its prices at `now`.
    pub fn quotation(&self, now: Timestamp) -> OrderQuotation {
        OrderQuotation::of(&self.model, self.quantity, self.payload.is_silent(), now)
    }
}

/// Everything that one request creates, all or nothing.
#[derive(Debug, Clone, Default)]
pub struct TaskDraft {
    pub tasks: Vec<Task>,
    pub terms: OrderTerms,
    /// The clips they will make, in order.
    pub clips: Vec<Clip>,
    /// Files they need, already stored.
    pub assets: Vec<Asset>,
    /// The texts and pictures that moderation sees; empty if nothing is moderated.
    pub inputs: Vec<OrderInput>,
    /// The response to keep for repeats of the request, if it is already known.
    pub answer: Option<StoredAnswer>,
}

impl TaskDraft {
    /// What all of its tasks reserve.
    fn cost(&self) -> MicroDollars {
        let amounts = self.tasks.iter().map(|task| task.reserved);
        amounts.fold(MicroDollars::ZERO, MicroDollars::plus)
    }

    /// Whether it or its tasks store anything.
    fn stores_files(&self) -> bool {
        let mut tasks = self.tasks.iter();
        !self.assets.is_empty() || tasks.any(|task| task.expected_bytes.is_some())
    }

    /// Makes its tasks wait for approval until `expires_at` if together they reserve more than the
    /// key may order without.
    fn request_approval(&mut self, key: &ApiKey, expires_at: Timestamp, media_ttl: Duration) {
        if !key.needs_approval(self.cost()) {
            return;
        }
        for task in &mut self.tasks {
            task.approval = Some(TaskApproval::pending_until(expires_at));
        }
        // An order that is approved in the last moment still needs its pictures.
        for asset in &mut self.assets {
            let until = expires_at.plus(media_ttl);
            asset.expires_at = asset.expires_at.map(|expiry| expiry.max(until));
        }
    }

    fn awaits_approval(&self) -> bool {
        self.tasks.iter().any(Task::awaits_approval)
    }

    /// Notes the task of an earlier, identical order.
    #[must_use]
    pub fn with_attempt(mut self, attempt: &IntentAttempt) -> Self {
        for task in &mut self.tasks {
            task.identical_task = attempt.identical_task();
        }
        self
    }
}

/// Writes the draft, its reservations and its intent in one transaction, wakes the workers, unless
/// its tasks wait for approval, and returns the tasks. Continues if the caller disconnects.
pub async fn accept(
    app: &App,
    caller: &Caller,
    attempt: &IntentAttempt,
    mut draft: TaskDraft,
) -> Result<Vec<Task>, Error> {
    if draft.stores_files() {
        storage_room::check_disk_for_order(app)?;
    }
    let inputs = std::mem::take(&mut draft.inputs);
    if let Err(error) = check_content(app, caller, attempt, &draft, &inputs).await {
        discard_files(app, &draft, &error).await;
        return Err(error);
    }
    drop(inputs);
    let (app, key) = (app.clone(), caller.key.clone());
    let (record, accepting) = (attempt.record(), attempt.begin_acceptance());
    let span = TraceSpan::begin("accept", SpanKind::Internal);
    let acceptance = async move {
        let mut draft = draft;
        let now = app.clock.now();
        let approval_expiry = now.plus(app.config.approval_ttl);
        draft.request_approval(&key, approval_expiry, app.config.media_ttl);
        let awaits_approval = draft.awaits_approval();
        // Claimed before the write, because the lease is part of the rows that are inserted.
        let mut claim = if awaits_approval {
            None
        } else {
            app.process.local_dispatch.claim(&mut draft.tasks)
        };
        let owner = claim.as_ref().map(TaskClaim::owner);
        let draft = Arc::new(draft);
        let result = IntentResult::Tasks(draft.tasks.iter().map(|task| task.id).collect());
        let (rows, shared_app) = (draft.clone(), app.clone());
        let write = record.make(result, draft.answer.as_ref(), move |conn| {
            write_draft(conn, &shared_app, &key, &rows, owner.as_deref(), now)
        });
        let outcome = write.await;
        // Repeats of this request wait for this result. If the outcome of the write is open, none
        // of them may conclude that nothing was made.
        accepting.record_result(&outcome);
        if let Err(error) = &outcome {
            if claim.take().is_some() {
                // The claim had reserved slots at the dispatcher. They are free again for waiting
                // tasks.
                app.bell.ring_for_upstream();
            }
            discard_files(&app, &draft, error).await;
        }
        outcome?;
        let tasks = Arc::unwrap_or_clone(draft).tasks;
        crash::point("task-accepted");
        // Announced after the commit: a worker that is woken before it would find nothing.
        for task in &tasks {
            announce(&app, task, claim.is_some());
        }
        if awaits_approval {
            // The request for approval goes to the account's webhook endpoints.
            app.bell.ring_for_deliveries();
        }
        if let Some(claim) = claim {
            claim.start(tasks.clone());
        }
        Ok(tasks)
    };
    // A separate async task. If it were dropped with the caller's connection after the write, the
    // claimed tasks would not be started, and the files of a refused order not removed.
    #[expect(clippy::disallowed_methods, reason = "it ends with its one write")]
    let acceptance = tokio::spawn(
        acceptance
            .with_context(span.into_context())
            .in_current_span(),
    );
    // The caller gets an answer within seconds. The write continues, and a repetition finds its
    // result.
    store::await_within_limit(async { acceptance.await.map_err(Error::internal)? }).await
}

/// Refuses a draft whose content the operator's checks refuse.
async fn check_content(
    app: &App,
    caller: &Caller,
    attempt: &IntentAttempt,
    draft: &TaskDraft,
    inputs: &[OrderInput],
) -> Result<(), Error> {
    let Some(first) = draft.tasks.first() else {
        return Ok(());
    };
    let subject = OrderSubject {
        task: Some(first.id),
        request: Some(&first.request.id),
        kind: first.kind().name(),
        model: &first.model,
        user: first.attribution.user.as_deref(),
        idempotency_key: attempt.idempotency_key(),
    };
    moderation::check_order(app, caller, subject, inputs).await
}

/// Removes the files of a draft that was refused with this error.
async fn discard_files(app: &App, draft: &TaskDraft, error: &Error) {
    let files = draft.assets.iter().map(|asset| (asset.id, asset.media));
    assets::discard(app, &files.collect::<Vec<_>>(), error).await;
}

/// Writes all of a draft but its intent.
fn write_draft(
    conn: &mut Conn<'_>,
    app: &App,
    key: &ApiKey,
    draft: &TaskDraft,
    owner: Option<&str>,
    now: Timestamp,
) -> Result<(), Error> {
    // The prices may have changed since the order was checked. These are those that are reserved.
    draft.terms.check_cost(draft.cost())?;
    write(conn, key, &draft.tasks, owner)?;
    for asset in &draft.assets {
        store::assets::insert(conn, asset)?;
    }
    // Checked after the inserts, so that the sum includes them: if only one of two orders fits, only
    // one passes. The check before its pictures were received may be out of date.
    if draft.stores_files() {
        let limit = app.config.storage_limit;
        storage_room::check_order(conn, key.account, &draft.tasks, limit)?;
    }
    for (clip, position) in draft.clips.iter().zip(0..) {
        store::clips::insert(conn, clip, position)?;
    }
    // Last, because an event shows the pictures and clips of its task.
    for task in draft.tasks.iter().filter(|task| task.awaits_approval()) {
        webhooks::events::approval_requested(conn, app, task, now)?;
    }
    Ok(())
}

fn announce(app: &AppParts, task: &Task, is_claimed: bool) {
    counters::task_accepted(task);
    tracing::info!(task_id = %task.id, kind = %task.kind(), model = %task.model, "task accepted");
    // This process starts the task itself, or nobody may start it yet. Waking others would cost each
    // of them a useless look-up.
    if is_claimed || task.awaits_approval() {
        return;
    }
    if task.provider == EMBEDDED {
        app.bell.ring_for_work();
    } else {
        app.bell.ring_for_upstream();
    }
}

/// Writes tasks and their reservations, unless the key has too many open tasks or too little money.
/// `owner` is the lease under which they are claimed, if they are.
pub fn write(
    conn: &mut Conn<'_>,
    key: &ApiKey,
    tasks: &[Task],
    owner: Option<&str>,
) -> Result<(), Error> {
    let new_tasks = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
    // One conditional update, so that two requests cannot both take the last slot. It locks the
    // key's row first, as the ledger does, so that the two cannot deadlock.
    if !store::accounts::reserve_open_tasks(conn, key.id, new_tasks, key.max_running)? {
        let open = store::accounts::open_tasks(conn, key.id)?;
        return Err(too_many_tasks(key, open));
    }
    for task in tasks {
        store::tasks::insert_held(conn, task, owner)?;
    }
    ledger::reserve(conn, tasks)?;
    // After the rows of key and account, in the same order for all orders.
    end_users::admit(conn, tasks)
}

/// Refuses an order that may cost more than its caller will pay, before its files are stored.
pub fn check_cost(app: &AppParts, terms: &OrderTerms, new: &[NewTask]) -> Result<(), Error> {
    let now = app.clock.now();
    let amounts = new.iter().map(|task| task.quotation(now).reserve());
    terms.check_cost(amounts.fold(MicroDollars::ZERO, MicroDollars::plus))
}

/// Refuses an order of more tasks than the key may ever have open at once. Waiting for other tasks
/// to end cannot help it, so the error is not one that clients retry. `param` is the field with the
/// number.
pub fn check_count(key: &ApiKey, new_tasks: u32, param: &str) -> Result<(), Error> {
    let limit = key.max_running;
    if new_tasks <= limit {
        return Ok(());
    }
    let message = format!("Must be at most {limit}: the API key may have {limit} open tasks.");
    Err(Error::at_field(ErrorCode::InvalidValue, param, message))
}

fn too_many_tasks(key: &ApiKey, open: u32) -> Error {
    let message = format!(
        "The API key has {open} open tasks. Its limit is {}.",
        key.max_running
    );
    Error::retry_later(ErrorCode::TooManyTasks, message, 5)
}

/// Refuses an order that the key's limits would refuse anyway, before its media are fetched and
/// decoded. An order that passes is checked again when it is written. `cost` is the least that its
/// tasks reserve together.
pub async fn check_limits(
    app: &Ctx,
    caller: &Caller,
    user: Option<String>,
    new_tasks: u32,
    cost: MicroDollars,
) -> Result<(), Error> {
    let (key, account, now) = (caller.key.clone(), caller.account.id, app.clock.now());
    app.store
        .read(move |conn| -> Result<(), Error> {
            let open = store::accounts::open_tasks(conn, key.id)?;
            if open.saturating_add(new_tasks) > key.max_running {
                return Err(too_many_tasks(&key, open));
            }
            ledger::check_reserve(conn, (account, key.id), cost, now)?;
            let Some(user) = &user else { return Ok(()) };
            let order = UserOrder {
                account,
                user,
                tasks: new_tasks,
                cost,
            };
            end_users::check(conn, order, now)
        })
        .await
}

/// The task for an order, not stored yet.
pub fn task(app: &AppParts, caller: &Caller, request: &TaskRequest, new: NewTask) -> Task {
    let now = app.clock.now();
    let hold = new.quotation(now).hold();
    let expected_bytes = storage_room::expected_bytes(app, &new.model, &new.payload);
    Task {
        id: TaskId::new(),
        account: caller.account.id,
        key: caller.key.id,
        fingerprint: fingerprint(&new.model, new.model.routes().first()),
        cost: hold.reserved,
        reserved: hold.reserved,
        money: hold.money,
        tariff: hold.tariff,
        bill: None,
        approval: None,
        provider: match new.model.routes().first() {
            // Replaced by the provider that accepts it.
            Some(route) => route.provider.clone(),
            None => EMBEDDED.to_owned(),
        },
        model: new.model.id,
        asked_model: new.asked_model,
        payload: new.payload,
        state: TaskState::Queued,
        progress: 0,
        progress_is_guess: false,
        attribution: new.attribution,
        request: request.clone(),
        identical_task: None,
        callback: new.callback,
        trace: traces::current_traceparent(),
        attempts: 0,
        deaths: None,
        expected_bytes,
        created_at: now,
        started_at: None,
        finished_at: None,
        failure: None,
        output: None,
        event_seq: 1,
    }
}

/// Why an order is checked and planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderPurpose {
    /// The order will be made.
    Order,
    /// The order is only quoted.
    Quote,
}

/// Refuses work for a model whose routes are all down.
pub fn check_available(app: &AppParts, model: &Model) -> Result<(), Error> {
    if app.models.upstream.is_available(model, app.clock.now()) {
        return Ok(());
    }
    let message = format!(
        "No provider of {} is available at the moment. Nothing was charged.",
        model.id
    );
    Err(Error::retry_later(
        ErrorCode::ProviderUnavailable,
        message,
        5,
    ))
}

/// `fp_` and ten hex digits that change with the route, its version or its settings.
pub fn fingerprint(model: &Model, route: Option<&Route>) -> String {
    let backend = match (&model.backend, route) {
        (ModelBackend::Embedded { version, .. }, _) => format!("{EMBEDDED} {version}"),
        (ModelBackend::Routes(_), Some(route)) => {
            format!(
                "{} {} {:?} {:?} {:?}",
                route.provider, route.model, route.price, route.limits, route.extra
            )
        }
        (ModelBackend::Routes(_), None) => String::new(),
    };
    // Debug output is enough: the text is never read back and only has to change with the settings.
    let settings = format!(
        "{}\n{backend}\n{:?}\n{:?}",
        model.id, model.price, model.limits
    );
    format!("fp_{}", &sha256_hex(settings.as_bytes())[..10])
}
