//! `/v1/admin/tasks`: the tasks of every account.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};

use super::account_of_filter;
use crate::auth::{Admin, AllowedCaller};
use crate::error::ErrorResponse;
use crate::links::MediaLinks;
use crate::page_params::page;
use crate::query::Query;
use crate::tasks::{filter, parse, task_id_header, view};
use crate::wire::admin::tasks::AdminTask;
use crate::wire::list::List;
use mediagate_core::app::App;
use mediagate_core::domain::webhooks::delivery_log;
use mediagate_core::domain::{accounts, tasks};
use mediagate_core::records::task::TaskView;
use mediagate_store::tasks::TaskFilter;

/// List the tasks of all accounts, newest first.
#[utoipa::path(get, path = "/v1/admin/tasks", tag = "admin", params(
    ("account" = Option<String>, Query, description = "Only for the account with this handle"),
    ("provider" = Option<String>, Query, description = "Only tasks that this provider accepted"),
    ("limit" = Option<u32>, Query, description = "Number of items, 1 to 100. Default: 20"),
    ("after" = Option<String>, Query, description = "`last_id` of the previous page"),
    ("kind" = Option<String>, Query, description = "`video` or `music`"),
    ("status" = Option<String>, Query, description = "`queued`, `running`, `succeeded`, `failed` or `cancelled`"),
    ("model" = Option<String>, Query, description = "A model's name"),
    ("key" = Option<String>, Query, description = "The id of an API key"),
    ("error" = Option<String>, Query, description = "The error code of a failed task"),
    ("since" = Option<String>, Query, description = "Only tasks accepted at or after this time, RFC 3339"),
    ("until" = Option<String>, Query, description = "Only tasks accepted before this time, RFC 3339"),
    ("q" = Option<String>, Query, description = "Search words, all of which must occur in the prompt, title, lyrics or tags; or an id"),
), responses((status = 200, description = "A page of tasks", body = List<TaskView>)))]
pub(crate) async fn list(
    _: AllowedCaller<Admin>,
    query: Query,
    MediaLinks(links): MediaLinks,
    State(app): State<App>,
) -> Result<Json<List<TaskView>>, ErrorResponse> {
    let (handle, filter, text, page) = query.read_only(&PARAMETERS, |query| {
        let account = query.filled_string("account", 100);
        let filter = TaskFilter {
            provider: query.filled_string("provider", 200),
            ..filter(query)
        };
        let text = query.filled_string("q", 500);
        Some((account, filter, text, page(query, |text| text.parse().ok())))
    })?;
    let account = account_of_filter(&app, handle).await?;
    let (tasks, has_more) = tasks::search_all(&app, account, filter, text, page).await?;
    let handles = accounts::handles(&app, tasks.iter().map(|task| task.account)).await?;
    let extras = tasks::task_extras_each(&app, &tasks).await?;
    let pairs = tasks.iter().zip(&extras);
    let views = pairs.map(|(task, extras)| TaskView {
        account: handles.get(&task.account).cloned(),
        ..TaskView::new(&links, task, extras)
    });
    let views: Vec<TaskView> = views.collect();
    Ok(Json(List::new(views, has_more, |task| task.id.clone())))
}

/// The parameters of the list.
const PARAMETERS: [&str; 13] = [
    "limit", "after", "order", "account", "provider", "kind", "status", "model", "key", "error",
    "since", "until", "q",
];

/// Get a task of any account, with its attempts and its webhook deliveries.
#[utoipa::path(get, path = "/v1/admin/tasks/{id}", tag = "admin",
    params(("id" = String, Path, description = "The task's id")),
    responses((status = 200, description = "The task", body = AdminTask)))]
pub(crate) async fn get(
    _: AllowedCaller<Admin>,
    Path(id): Path<String>,
    MediaLinks(links): MediaLinks,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let id = parse(&id)?;
    let task = tasks::by_id_any_account(&app, id).await?;
    let attempts = tasks::attempts(&app, task.account, id).await?;
    let deliveries = delivery_log::task_deliveries(&app, task.account, id).await?;
    let handles = accounts::handles(&app, std::iter::once(task.account)).await?;
    let view = TaskView {
        account: handles.get(&task.account).cloned(),
        ..view(&app, &links, &task).await?
    };
    let object = AdminTask::new(view, &links, &attempts, &deliveries);
    Ok((task_id_header(id), Json(object)).into_response())
}
