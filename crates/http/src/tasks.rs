//! `/v1/tasks`: reading, following, approving and cancelling tasks of every kind.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use futures_util::Stream;

use crate::auth::{AllowedCaller, Approve, CurrentSecret, TasksCancel, TasksRead};
use crate::context::RequestContext;
use crate::docs::EventSchema;
use crate::error::ErrorResponse;
use crate::event_stream;
use crate::fields::parameters::parameters;
use crate::fields::types::{IdField, NumberField, OptionalText};
use crate::page_params::{AttributeFilter, ErrorCodeField, ListPage, TimeField, WordField};
use crate::query::Query;
use crate::wire::list::List;
use mediagate_core::app::App;
use mediagate_core::domain::tasks::{self, ApprovalDecision, TaskSearch};
use mediagate_core::limits::{OpenKind, count_during};
use mediagate_core::records::Links;
use mediagate_core::records::attempt::AttemptView;
use mediagate_core::records::task::TaskView;
use mediagate_model::account::Scope;
use mediagate_model::error::Error;
use mediagate_model::ids::{AccountId, KeyId, RequestId, TaskId};
use mediagate_model::money::MicroDollars;
use mediagate_model::task::{ApprovalState, MediaKind, Task, TaskEvent, TaskState};
use mediagate_store::tasks::{PageQuery, TaskFilter};

parameters! {
    /// The filters of a list of tasks.
    pub(super) struct TaskParameters {
        /// `video` or `music`
        kind: WordField<MediaKind>,
        /// `queued`, `running`, `succeeded`, `failed` or `cancelled`
        status: WordField<TaskState>,
        /// `pending`, `approved`, `rejected`, `expired` or `cancelled`: only tasks whose order needed approval
        approval: WordField<ApprovalState>,
        /// A model's name
        model: OptionalText<200>,
        /// The id of an API key
        key: IdField<KeyId>,
        /// The error code of a failed task
        error: ErrorCodeField,
        /// Only tasks accepted at or after this time: RFC 3339 or a date
        since: TimeField,
        /// Only tasks accepted before this time: RFC 3339 or a date
        until: TimeField,
        /// Search words, all of which must occur in the prompt, title, lyrics or tags; or the id of a
        /// task, video, chat completion, clip or request
        q: OptionalText<500>,
        + attributes: AttributeFilter,
        + page: ListPage<TaskId>,
    }
}

impl TaskParameters {
    /// The filter, the search and the page.
    pub(super) fn split(self) -> (TaskFilter, TaskSearch, PageQuery<TaskId>) {
        let filter = TaskFilter {
            kind: self.kind,
            state: self.status,
            approval: self.approval,
            model: self.model,
            key: self.key,
            error: self.error,
            since: self.since,
            until: self.until,
            ..TaskFilter::default()
        };
        let search = TaskSearch {
            text: self.q,
            attributes: self.attributes.0,
        };
        (filter, search, self.page.into_query())
    }
}

/// List tasks, newest first.
#[utoipa::path(get, path = "/v1/tasks", tag = "tasks", params(TaskParameters),
    responses((status = 200, description = "A page of tasks", body = List<TaskView>)))]
pub(super) async fn list(
    allowed: AllowedCaller<TasksRead>,
    Query(query): Query<TaskParameters>,
    State(app): State<App>,
) -> Result<Json<List<TaskView>>, ErrorResponse> {
    let (filter, search, page) = query.split();
    let account = allowed.caller.account.id;
    let (tasks, has_more) = tasks::search(&app, account, filter, search, page).await?;
    let extras = tasks::task_extras_each(&app, &tasks).await?;
    let pairs = tasks.iter().zip(&extras);
    let views = pairs.map(|(task, extras)| TaskView::new(&allowed.links, task, extras));
    let views: Vec<TaskView> = views.collect();
    Ok(Json(List::new(views, has_more, |task| task.id.clone())))
}

parameters! {
    /// The parameters of a task.
    pub(super) struct WaitParameters {
        /// Seconds to wait for the task to end, at most 60
        wait: NumberField<0, 60>,
    }
}

/// Get a task.
///
/// With `?wait=30`, the response is delayed until the task ends, for at most 30 seconds.
#[utoipa::path(get, path = "/v1/tasks/{id}", tag = "tasks", params(
    ("id" = String, Path, description = "The task's id"),
    WaitParameters,
), responses((status = 200, description = "The task", body = TaskView)))]
pub(super) async fn get(
    allowed: AllowedCaller<TasksRead>,
    Path(id): Path<String>,
    Query(query): Query<WaitParameters>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let wait = query.wait.unwrap_or(0.0);
    let id = parse(&id)?;
    let account = allowed.caller.account.id;
    let task = if wait > 0.0 {
        let _open = app
            .limits
            .open_requests
            .enter(&allowed.caller, OpenKind::Follow)?;
        let ended = tasks::wait(&app, account, id, Duration::from_secs_f64(wait));
        tokio::select! {
            task = allowed.watch.hold(ended) => task?,
            () = allowed.connection.displaced() => tasks::get(&app, account, id).await?,
        }
    } else {
        tasks::get(&app, account, id).await?
    };
    Ok((
        task_id_header(id),
        Json(view(&app, &allowed.links, &task).await?),
    )
        .into_response())
}

/// The events of a task.
type ViewEvent = EventSchema<TaskView>;

/// Stream the changes of a task.
///
/// The stream sends a `task` event for each change, until the task has ended.
#[utoipa::path(get, path = "/v1/tasks/{id}/events", tag = "tasks", params(
    ("id" = String, Path, description = "The task's id"),
    ("Last-Event-ID" = Option<u32>, Header, description = "Number of the last event received"),
), responses((status = 200, description = "Server-sent events, each a task", body = ViewEvent, content_type = "text/event-stream")))]
pub(super) async fn events(
    allowed: AllowedCaller<TasksRead>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let id = parse(&id)?;
    let account = allowed.caller.account.id;
    // A 404 is only possible before the stream begins; later, an error is an event.
    tasks::get(&app, account, id).await?;
    let open = app
        .limits
        .open_requests
        .enter(&allowed.caller, OpenKind::Follow)?;
    let last_seq = allowed
        .headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .unwrap_or(0);
    let last = {
        let request_id = allowed.request_id.clone();
        move |error: &Error| error_event(error, &request_id)
    };
    let RequestContext {
        watch,
        request_id,
        links,
        ..
    } = allowed.context;
    let events = follow(app, links, request_id, account, id, last_seq);
    let events = count_during(open, events);
    let stream = event_stream::respond(events, watch, last);
    Ok((task_id_header(id), stream).into_response())
}

fn follow(
    app: App,
    links: Links,
    request_id: RequestId,
    account: AccountId,
    id: TaskId,
    mut seq: u32,
) -> impl Stream<Item = Event> {
    async_stream::stream! {
        loop {
            let (task, events) = match tasks::next_events(&app, account, id, seq).await {
                Ok(batch) => batch,
                Err(error) => {
                    yield error_event(&error, &request_id);
                    return;
                }
            };
            for event in events {
                seq = event.seq;
                let view = match view(&app, &links, &as_of(&task, event)).await {
                    Ok(view) => view,
                    // Without an error event the stream would look complete.
                    Err(error) => {
                        yield error_event(&error, &request_id);
                        return;
                    }
                };
                let sse_event = Event::default().event("task").id(seq.to_string()).json_data(view);
                yield sse_event.unwrap_or_default();
            }
            // The task is read after its events and can be newer than they are.
            if task.state.is_terminal() && task.event_seq <= seq {
                return;
            }
        }
    }
}

/// The last event of a stream that cannot continue.
pub(super) fn error_event(error: &Error, request_id: &RequestId) -> Event {
    super::error::log(error);
    let body = super::error::body(error, request_id);
    Event::default()
        .event("error")
        .json_data(body)
        .unwrap_or_default()
}

/// The task as it was after an event.
fn as_of(task: &Task, event: TaskEvent) -> Task {
    let mut task = Task {
        state: event.state,
        progress: event.progress,
        ..task.clone()
    };
    // The record is the newest one. An earlier event must not show how the task ended.
    if !event.state.is_terminal() {
        (task.finished_at, task.failure, task.output) = (None, None, None);
    }
    task
}

/// List the attempts of a task: its submissions to providers, oldest first.
///
/// Tasks of embedded models have none.
#[utoipa::path(get, path = "/v1/tasks/{id}/attempts", tag = "tasks",
    params(("id" = String, Path, description = "The task's id")),
    responses((status = 200, description = "The attempts", body = List<AttemptView>)))]
pub(super) async fn attempts(
    allowed: AllowedCaller<TasksRead>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let id = parse(&id)?;
    let rows = tasks::attempts(&app, allowed.caller.account.id, id).await?;
    let attempts = rows.iter();
    let attempts =
        attempts.map(|(submission, end)| AttemptView::new(&allowed.links, submission, end));
    let list = List::new(attempts.collect(), false, |attempt: &AttemptView| {
        attempt.id.clone()
    });
    Ok((task_id_header(id), Json(list)).into_response())
}

/// Cancel a task that has not ended.
#[utoipa::path(post, path = "/v1/tasks/{id}/cancel", tag = "tasks",
    params(("id" = String, Path, description = "The task's id")),
    responses((status = 200, description = "The cancelled task", body = TaskView)))]
pub(super) async fn cancel(
    allowed: AllowedCaller<TasksCancel>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let id = parse(&id)?;
    let caller = &allowed.caller;
    // The audit log is about operators. An owner that cancels its own task is not recorded there.
    let author = caller.key.may(Scope::Admin).then(|| allowed.actor());
    let task = tasks::cancel(&app, caller.account.id, id, author).await?;
    Ok((
        task_id_header(id),
        Json(view(&app, &allowed.links, &task).await?),
    )
        .into_response())
}

/// Approve an order that waits for approval: it is sent as soon as its model has room.
///
/// The account is charged at most the price that was held when the order was accepted. A key that
/// also has the scope `admin` may decide about orders of every account.
#[utoipa::path(post, path = "/v1/tasks/{id}/approve", tag = "tasks",
    params(("id" = String, Path, description = "The task's id")),
    responses((status = 200, description = "The approved task", body = TaskView)))]
pub(super) async fn approve(
    allowed: AllowedCaller<CurrentSecret<Approve>>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    decide(&app, &allowed, &id, ApprovalDecision::Approve).await
}

/// Reject an order that waits for approval: its task ends as cancelled, and nothing is charged.
#[utoipa::path(post, path = "/v1/tasks/{id}/reject", tag = "tasks",
    params(("id" = String, Path, description = "The task's id")),
    responses((status = 200, description = "The rejected task", body = TaskView)))]
pub(super) async fn reject(
    allowed: AllowedCaller<CurrentSecret<Approve>>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    decide(&app, &allowed, &id, ApprovalDecision::Reject).await
}

async fn decide(
    app: &App,
    allowed: &AllowedCaller<CurrentSecret<Approve>>,
    id: &str,
    decision: ApprovalDecision,
) -> Result<Response, ErrorResponse> {
    let (id, caller) = (parse(id)?, &allowed.caller);
    let is_operator = caller.key.may(Scope::Admin);
    let account = (!is_operator).then_some(caller.account.id);
    let task = tasks::decide(app, account, id, decision, allowed.actor()).await?;
    Ok((
        task_id_header(id),
        Json(view(app, &allowed.links, &task).await?),
    )
        .into_response())
}

/// The id of a task in a path.
pub(super) fn parse(id: &str) -> Result<TaskId, Error> {
    id.parse().map_err(|_| tasks::not_found())
}

/// The header for responses about a task.
pub(super) fn task_id_header(id: TaskId) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::try_from(id.to_string()) {
        headers.insert("x-task-id", value);
    }
    headers
}

/// Headers for responses that create tasks: the first task's id, and the total cost, in which an
/// open task counts with its reservation.
pub(super) fn created_tasks_headers(tasks: &[Task]) -> HeaderMap {
    let mut headers = tasks
        .first()
        .map(|task| task_id_header(task.id))
        .unwrap_or_default();
    let costs = tasks.iter().map(Task::charged_or_reserved);
    headers.extend(cost(costs.fold(MicroDollars::ZERO, MicroDollars::plus)));
    let identical = tasks.iter().find_map(|task| task.identical_task);
    if let Some(value) = identical.and_then(|id| HeaderValue::try_from(id.to_string()).ok()) {
        headers.insert("x-identical-task", value);
    }
    headers
}

/// The cost header.
pub(super) fn cost(amount: MicroDollars) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::try_from(amount.to_string()) {
        headers.insert("x-cost-usd", value);
    }
    headers
}

/// The view of a task.
pub(super) async fn view(app: &App, links: &Links, task: &Task) -> Result<TaskView, Error> {
    let extras = tasks::task_extras_each(app, std::slice::from_ref(task)).await?;
    let extras = extras.first().ok_or_else(tasks::not_found)?;
    Ok(TaskView::new(links, task, extras))
}
