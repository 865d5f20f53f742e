//! Reading tasks, waiting for them, approving and cancelling them.

use std::sync::Arc;
use std::time::Duration;

use providers::driver::schedule::DurationQuantiles;

use crate::app::{AppParts, Ctx};
use crate::records::input;
use crate::records::task::TaskExtras;
use mediagate_model::attribution::Attribute;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, RequestId, TaskId};
use mediagate_model::money::ChargeState;
use mediagate_model::search_terms;
use mediagate_model::submission::{Submission, SubmissionEnd};
use mediagate_model::task::{MediaKind, Task, TaskResult};
use mediagate_store::tasks::{PageQuery, TaskFilter};
use mediagate_store::{self as store, Conn, StoreError};
use mediagate_telemetry::counters;

mod abandonment;
mod approval;
mod cancel;
mod task_waiter;

pub use abandonment::abandon;
pub use approval::{ApprovalDecision, decide, end_expired_approvals, has_expired_approvals};
pub use cancel::{JobOutcome, cancel, cancel_with_key, settle_job};
pub use task_waiter::{TaskWaiter, next_events, wait};

/// The tasks of one order, of which at least one must exist.
pub async fn get_all(
    app: &AppParts,
    account: AccountId,
    ids: Vec<TaskId>,
) -> Result<Vec<Task>, Error> {
    let read = app.store.read(move |conn| -> Result<Vec<Task>, Error> {
        let mut tasks = Vec::new();
        for id in ids {
            tasks.extend(store::tasks::by_id(conn, id, account)?);
        }
        Ok(tasks)
    });
    let tasks = read.await?;
    if tasks.is_empty() {
        return Err(Error::internal("an order without a task"));
    }
    Ok(tasks)
}

pub async fn get(app: &AppParts, account: AccountId, id: TaskId) -> Result<Task, Error> {
    let cached = app.caches.ended_tasks.get(&id);
    // The cache serves all accounts: without the check an id would give access to another account's
    // task.
    if let Some(task) = cached.filter(|task| task.account == account && !is_expired(app, task)) {
        return Ok(Task::clone(&task));
    }
    let read = app
        .store
        .read(move |conn| store::tasks::by_id(conn, id, account));
    let task = read.await?.ok_or_else(not_found)?;
    // Cached once nothing can change any more. Held money is settled later, and another process may
    // add a poster, of which this cache would not be notified.
    if task.state.is_terminal() && task.money != ChargeState::Held && !may_get_a_poster(app, &task)
    {
        app.caches.ended_tasks.insert(id, Arc::new(task.clone()));
    }
    Ok(task)
}

/// Whether any process may still make the poster of the task's film.
fn may_get_a_poster(app: &Ctx, task: &Task) -> bool {
    /// How long a film usually waits for its poster, unless there are very many.
    const POSTER_WAIT: Duration = Duration::from_mins(1);
    let has_none =
        matches!(&task.output, Some(TaskResult::VideoV1(video)) if video.poster.is_none());
    let ended = task.finished_at.unwrap_or(task.created_at);
    has_none && app.clock.now().since(ended) < POSTER_WAIT
}

/// A task of any account, for the operator.
pub async fn by_id_any_account(app: &Ctx, id: TaskId) -> Result<Task, Error> {
    let read = app
        .store
        .read(move |conn| store::tasks::by_id_any_account(conn, id));
    read.await?.ok_or_else(not_found)
}

/// Whether the task's record may have been deleted.
fn is_expired(app: &Ctx, task: &Task) -> bool {
    let end = task.finished_at.zip(app.config.record_ttl);
    end.is_some_and(|(finished, ttl)| finished <= app.clock.cutoff(ttl))
}

/// Deletes the records of finished tasks older than `record_ttl`.
pub async fn remove_expired(app: &Ctx) -> Result<(), Error> {
    /// Tasks per transaction.
    const BATCH: u32 = 200;
    /// Maximum number of transactions per run.
    const ROUNDS: u32 = 50;
    let Some(ttl) = app.config.record_ttl else {
        return Ok(());
    };
    for _ in 0..ROUNDS {
        let (now, before) = (app.clock.now(), app.clock.cutoff(ttl));
        // A read looks first: mostly there is nothing to delete, and a write would cost a commit.
        let expired = app
            .store
            .long_read(move |conn| store::record_expiry::expired_tasks(conn, before, BATCH))
            .await?;
        if expired.is_empty() {
            return Ok(());
        }
        tracing::info!(tasks = expired.len(), "expired records removed");
        app.store
            .write(move |conn| store::record_expiry::remove(conn, &expired, now))
            .await?;
    }
    Ok(())
}

pub fn not_found() -> Error {
    Error::plain(ErrorCode::TaskNotFound, "There is no task with this id.")
}

/// The submissions of a task, in order.
pub async fn attempts(
    app: &Ctx,
    account: AccountId,
    id: TaskId,
) -> Result<Vec<(Submission, SubmissionEnd)>, Error> {
    /// More than any task needs; if there are more, the latest are shown.
    const MAX_ATTEMPTS: u32 = 100;
    let read = app.store.read(move |conn| {
        // Submissions have no account. The task determines who may see them.
        if store::tasks::by_id(conn, id, account)?.is_none() {
            return Ok(None);
        }
        store::submissions::of_task(conn, id, MAX_ATTEMPTS).map(Some)
    });
    read.await?.ok_or_else(not_found)
}

/// The other rows that a task's record shows.
pub fn task_extras(conn: &mut Conn<'_>, task: &Task) -> Result<TaskExtras, StoreError> {
    let mut extras = TaskExtras {
        key_name: store::accounts::key_name(conn, task.key)?.unwrap_or_default(),
        ..TaskExtras::default()
    };
    for id in input::pictures(&task.payload) {
        extras.pictures.extend(store::assets::by_id(conn, id)?);
    }
    for id in input::sources(&task.payload) {
        let source = store::clips::by_id(conn, id, task.account)?;
        extras.sources.extend(source);
    }
    if task.kind() == MediaKind::Music {
        extras.clips = store::clips::of_task(conn, task.id, task.account)?;
    }
    Ok(extras)
}

/// The extras of each of these tasks, in order.
pub async fn task_extras_each(app: &AppParts, tasks: &[Task]) -> Result<Vec<TaskExtras>, Error> {
    let cached = tasks.iter().map(|task| {
        // The record of such a task needs only the key's name. A list of such tasks costs no
        // statement while the names are cached.
        let needs_only_key_name =
            task.kind() == MediaKind::Video && input::pictures(&task.payload).is_empty();
        let key_name = needs_only_key_name.then(|| app.caches.key_names.get(&task.key));
        key_name.flatten().map(|key_name| TaskExtras {
            key_name,
            ..TaskExtras::default()
        })
    });
    if let Some(all) = cached.collect() {
        return Ok(all);
    }
    let requested = tasks.to_vec();
    let read = app.store.read(move |conn| {
        let extras = requested.iter().map(|task| task_extras(conn, task));
        extras.collect::<Result<Vec<_>, StoreError>>()
    });
    let extras = read.await?;
    for (task, own_extras) in tasks.iter().zip(&extras) {
        let names = &app.caches.key_names;
        names.insert(task.key, own_extras.key_name.clone());
    }
    Ok(extras)
}

/// What is searched for in tasks.
#[derive(Debug, Clone, Default)]
pub struct TaskSearch {
    /// Words of the prompt or title; or the id of the request, of the task, of its video or chat
    /// completion, or of one of its clips.
    pub text: Option<String>,
    /// Attributes that the tasks must have, with these values.
    pub attributes: Vec<(Attribute, String)>,
}

impl TaskSearch {
    /// The index terms of an account; without words if the text is an id.
    fn terms(&self, account: AccountId, is_id: bool) -> Vec<i64> {
        let attributes = self.attributes.iter();
        let mut terms: Vec<i64> = attributes
            .map(|(name, value)| search_terms::attribute_term(account, name, value))
            .collect();
        if let Some(text) = self.text.as_ref().filter(|_| !is_id) {
            terms.extend(search_terms::query_terms(account, text));
        }
        terms.truncate(search_terms::MAX_QUERY_TERMS);
        terms
    }

    fn has_attributes_of(&self, task: &Task) -> bool {
        let mut attributes = self.attributes.iter();
        attributes.all(|(name, value)| task.attribution.value(name) == Some(value.as_str()))
    }
}

/// A page of the tasks of an account that the search finds, and whether more follow.
pub async fn search(
    app: &Ctx,
    account: AccountId,
    mut filter: TaskFilter,
    search: TaskSearch,
    page: PageQuery<TaskId>,
) -> Result<(Vec<Task>, bool), Error> {
    let (limit, one_more) = (page.limit, page.with_one_more());
    let read = app.store.long_read(move |conn| {
        if let Some(text) = &search.text {
            filter.request = request_in(conn, Some(account), text.trim())?;
            if filter.request.is_none() {
                filter.id = id_in(conn, account, text.trim())?;
                // Text without a word finds nothing. An empty filter would list everything.
                if filter.id.is_none() && !search_terms::has_words(text) {
                    return Ok(Vec::new());
                }
            }
        }
        filter.terms = search.terms(account, filter.id.is_some() || filter.request.is_some());
        store::tasks::page(conn, account, &filter, one_more)
    });
    let mut tasks = store::await_within_limit(read).await?;
    let has_more = store::page::truncate_to_limit(&mut tasks, limit);
    Ok((tasks, has_more))
}

/// The id of the task, read from its own id or from that of its video or chat completion.
fn parse_task_id(text: &str) -> Option<TaskId> {
    let bare = text.strip_prefix("chatcmpl-").unwrap_or(text);
    TaskId::from_video(text).or_else(|_| bare.parse()).ok()
}

/// The request that a search names, if it has tasks. Callers choose their requests' ids, so one may
/// also be a word or look like another id.
fn request_in(
    conn: &mut Conn<'_>,
    account: Option<AccountId>,
    text: &str,
) -> Result<Option<RequestId>, StoreError> {
    let Some(request) = RequestId::from_caller(text) else {
        return Ok(None);
    };
    let has_tasks = store::tasks::has_request(conn, account, &request)?;
    Ok(has_tasks.then_some(request))
}

/// The task that a search names by one of its ids or by that of a clip.
fn id_in(
    conn: &mut Conn<'_>,
    account: AccountId,
    text: &str,
) -> Result<Option<TaskId>, StoreError> {
    let Some(id) = parse_task_id(text) else {
        return Ok(None);
    };
    // Ids of tasks and clips look the same, so it may be either.
    let clip = match text.parse() {
        Ok(clip) => store::clips::by_id(conn, clip, account)?,
        Err(_) => None,
    };
    let source_task = clip.and_then(|clip| clip.origin.task());
    Ok(Some(source_task.unwrap_or(id)))
}

/// A page of the tasks of all accounts or of one, and whether more follow.
pub async fn search_all(
    app: &Ctx,
    account: Option<AccountId>,
    mut filter: TaskFilter,
    search: TaskSearch,
    page: PageQuery<TaskId>,
) -> Result<(Vec<Task>, bool), Error> {
    if let Some(account) = account {
        return self::search(app, account, filter, search, page).await;
    }
    let (limit, one_more) = (page.limit, page.with_one_more());
    let read = app.store.long_read(move |conn| {
        let text = search.text.as_deref().map(str::trim);
        filter.request = match text {
            Some(text) => request_in(conn, None, text)?,
            None => None,
        };
        if filter.request.is_none() {
            filter.id = text.and_then(parse_task_id);
        }
        if filter.request.is_some() || filter.id.is_some() {
            let mut found = store::tasks::page_of_all(conn, &filter, one_more)?;
            found.retain(|task| search.has_attributes_of(task));
            return Ok(found);
        }
        if text.is_none() && search.attributes.is_empty() {
            return store::tasks::page_of_all(conn, &filter, one_more);
        }
        // Terms are hashed with their account, so each account has its own for the same words.
        let has_words = text.is_none_or(search_terms::has_words);
        let terms = |account| {
            if has_words {
                search.terms(account, false)
            } else {
                Vec::new()
            }
        };
        store::tasks::search_of_all(conn, &filter, one_more, terms)
    });
    let mut tasks = store::await_within_limit(read).await?;
    let has_more = store::page::truncate_to_limit(&mut tasks, limit);
    Ok((tasks, has_more))
}

/// The tasks that requests with this id made, at most `limit`, the oldest first.
pub async fn of_request(app: &Ctx, request: &str, limit: u32) -> Result<Vec<TaskId>, Error> {
    let Some(request) = RequestId::from_caller(request) else {
        return Ok(Vec::new());
    };
    let filter = TaskFilter {
        request: Some(request),
        ..TaskFilter::default()
    };
    let page = PageQuery {
        after: None,
        limit,
        ascending: true,
    };
    let read = app
        .store
        .long_read(move |conn| store::tasks::page_of_all(conn, &filter, page));
    let tasks = store::await_within_limit(read).await?;
    Ok(tasks.iter().map(|task| task.id).collect())
}

/// The durations of the model's tasks of the last 24 hours, from their start.
pub async fn lengths(app: &Ctx, model: &str) -> Result<Option<DurationQuantiles>, Error> {
    let (model, now) = (model.to_owned(), app.clock.now());
    let since = now.minus(Duration::from_hours(24));
    let read = app
        .store
        .long_read(move |conn| store::tasks::duration_samples(conn, &model, since, now));
    Ok(DurationQuantiles::from_samples(
        store::await_within_limit(read).await?,
    ))
}

/// Like [`lengths`], cached for a few seconds, because thousands of jobs need it.
pub async fn usual_durations(
    app: &AppParts,
    model: &str,
) -> Result<Option<DurationQuantiles>, Error> {
    if let Some(cached) = app.caches.usual_durations.get(model) {
        return Ok(cached);
    }
    let lengths = lengths(app, model).await?;
    app.caches.usual_durations.insert(model.to_owned(), lengths);
    Ok(lengths)
}

/// Counts the tasks that no worker has claimed, for the metric.
pub async fn count_waiting(app: &Ctx) {
    /// Larger numbers are not distinguished.
    const MAX_COUNT: u32 = 10_000;
    let now = app.clock.now();
    let count: Result<u32, StoreError> = app
        .store
        .long_read(move |conn| store::tasks::count_waiting(conn, now, MAX_COUNT))
        .await;
    // Only a metric. If the database is unavailable, it keeps its last value.
    if let Ok(waiting) = count {
        counters::tasks_waiting(waiting);
    }
}
