//! Accepting tasks: the one place where a task begins.
//!
//! A key's limits are checked and the tasks written in one transaction; when
//! [`accept`] returns, they are on disk and their ids may be told.

use sha2::{Digest as _, Sha256};

use crate::app::Parts;
use crate::error::{Error, ErrorCode};
use crate::ids::{RequestId, TaskId};
use crate::model::account::{ApiKey, Caller};
use crate::model::catalog::{EMBEDDED, Maker, Model, Route};
use crate::model::money::{Micros, Quantity};
use crate::model::task::{Payload, Task, TaskState};
use crate::store::{self, Conn};
use crate::telemetry;

/// A task to be accepted.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// The model that makes it.
    pub model: Model,
    /// The model's name as the caller wrote it.
    pub asked_model: String,
    /// What is to be done.
    pub payload: Payload,
    /// How much that is, for the price.
    pub quantity: Quantity,
}

/// Writes the tasks, and whatever `also` adds in the same transaction, and
/// wakes the workers. All of them are accepted, or none.
pub async fn accept(
    app: &Parts,
    caller: &Caller,
    request_id: &RequestId,
    new: Vec<NewTask>,
    also: impl FnOnce(&mut Conn<'_>, &[Task]) -> Result<(), Error> + Send + 'static,
) -> Result<Vec<Task>, Error> {
    let tasks: Vec<Task> = new
        .into_iter()
        .map(|new| draft(app, caller, request_id, new))
        .collect();
    let (key, written) = (caller.key.clone(), tasks);
    let tasks = app
        .store
        .write(move |conn| -> Result<_, Error> {
            check_limits(conn, &key, &written)?;
            for task in &written {
                store::tasks::insert(conn, task)?;
            }
            also(conn, &written)?;
            Ok(written)
        })
        .await?;
    for task in &tasks {
        telemetry::task_accepted(task);
        tracing::info!(task_id = %task.id, kind = %task.kind(), model = %task.model, "task accepted");
        if task.provider == EMBEDDED {
            app.bell.ring_for_work();
        } else {
            app.bell.ring_for_upstream();
        }
    }
    Ok(tasks)
}

/// Refuses what the key has no room or money for. Runs in the transaction that
/// writes the tasks.
pub fn check_limits(conn: &mut Conn<'_>, key: &ApiKey, new: &[Task]) -> Result<(), Error> {
    // Two requests at once must not both fit into the last place.
    store::accounts::lock_key(conn, key.id)?;
    let open = store::tasks::open_of_key(conn, key.id, key.max_running)?;
    let new_tasks = u32::try_from(new.len()).unwrap_or(u32::MAX);
    if open.saturating_add(new_tasks) > key.max_running {
        let message = format!(
            "The API key has {open} open tasks and may have {}.",
            key.max_running
        );
        return Err(Error::later(ErrorCode::TooManyTasks, message, 5));
    }
    if let Some(budget) = key.budget {
        let spent = store::accounts::spent(conn, key.id)?;
        let cost = new
            .iter()
            .fold(Micros::ZERO, |sum, task| sum.plus(task.cost));
        if cost > Micros::ZERO && spent.plus(cost) > budget {
            let message = format!(
                "This would cost {cost} USD; {spent} of the API key's budget of {budget} USD are used."
            );
            return Err(Error::plain(ErrorCode::BudgetExceeded, message));
        }
    }
    Ok(())
}

/// The task that an order becomes, not yet written.
pub fn draft(app: &Parts, caller: &Caller, request_id: &RequestId, new: NewTask) -> Task {
    Task {
        id: TaskId::new(),
        account: caller.account.id,
        key: caller.key.id,
        fingerprint: fingerprint(&new.model, new.model.routes().first()),
        cost: new.model.reserve(new.quantity),
        provider: match new.model.routes().first() {
            // Whoever takes it in the end is written down then.
            Some(route) => route.provider.clone(),
            None => EMBEDDED.to_owned(),
        },
        model: new.model.id,
        asked_model: new.asked_model,
        payload: new.payload,
        state: TaskState::Queued,
        progress: 0,
        request_id: request_id.clone(),
        attempts: 0,
        created_at: app.clock.now(),
        started_at: None,
        finished_at: None,
        failure: None,
        output: None,
        event_seq: 1,
    }
}

/// Refuses work for a model whose every route is down.
pub fn check_available(app: &Parts, model: &Model) -> Result<(), Error> {
    if app.upstream.is_available(model, app.clock.now()) {
        return Ok(());
    }
    let message = format!(
        "No provider of {} can be reached now. Nothing was charged.",
        model.id
    );
    Err(Error::later(ErrorCode::ProviderUnavailable, message, 5))
}

/// `fp_` and ten hex digits that change only with the route, its version or its
/// settings.
pub fn fingerprint(model: &Model, route: Option<&Route>) -> String {
    let maker = match (&model.maker, route) {
        (Maker::Embedded { version }, _) => format!("{EMBEDDED} {version}"),
        (Maker::Routes(_), Some(route)) => {
            format!(
                "{} {} {:?} {:?}",
                route.provider, route.model, route.price, route.limits
            )
        }
        (Maker::Routes(_), None) => String::new(),
    };
    let settings = format!(
        "{}\n{maker}\n{:?}\n{:?}",
        model.id, model.price, model.limits
    );
    let digest = Sha256::digest(settings.as_bytes());
    digest
        .iter()
        .take(5)
        .fold("fp_".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}
