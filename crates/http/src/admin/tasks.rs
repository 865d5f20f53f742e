//! `/v1/admin/tasks`: the tasks of every account.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};

use super::account_of_filter;
use crate::auth::{Admin, AllowedCaller};
use crate::error::ErrorResponse;
use crate::fields::parameters::parameters;
use crate::fields::types::OptionalText;
use crate::query::Query;
use crate::tasks::{TaskParameters, parse, task_id_header, view};
use crate::wire::admin::tasks::AdminTask;
use crate::wire::list::List;
use mediagate_core::app::App;
use mediagate_core::domain::webhooks::delivery_log;
use mediagate_core::domain::{accounts, tasks};
use mediagate_core::records::task::TaskView;
use mediagate_store::tasks::TaskFilter;

parameters! {
    /// The filters of the list of all accounts' tasks.
    pub(crate) struct AdminTaskParameters {
        /// Only for the account with this handle
        account: OptionalText<100>,
        /// Only tasks that this provider accepted
        provider: OptionalText<200>,
        + tasks: TaskParameters,
    }
}

/// List the tasks of all accounts, newest first.
#[utoipa::path(get, path = "/v1/admin/tasks", tag = "admin", params(AdminTaskParameters),
    responses((status = 200, description = "A page of tasks", body = List<TaskView>)))]
pub(crate) async fn list(
    allowed: AllowedCaller<Admin>,
    Query(query): Query<AdminTaskParameters>,
    State(app): State<App>,
) -> Result<Json<List<TaskView>>, ErrorResponse> {
    let (filter, search, page) = query.tasks.split();
    let filter = TaskFilter {
        provider: query.provider,
        ..filter
    };
    let account = account_of_filter(&app, query.account).await?;
    let (tasks, has_more) = tasks::search_all(&app, account, filter, search, page).await?;
    let handles = accounts::handles(&app, tasks.iter().map(|task| task.account)).await?;
    let extras = tasks::task_extras_each(&app, &tasks).await?;
    let pairs = tasks.iter().zip(&extras);
    let views = pairs.map(|(task, extras)| TaskView {
        account: handles.get(&task.account).cloned(),
        ..TaskView::new(&allowed.links, task, extras)
    });
    let views: Vec<TaskView> = views.collect();
    Ok(Json(List::new(views, has_more, |task| task.id.clone())))
}

/// Get a task of any account, with its attempts and its webhook deliveries.
#[utoipa::path(get, path = "/v1/admin/tasks/{id}", tag = "admin",
    params(("id" = String, Path, description = "The task's id")),
    responses((status = 200, description = "The task", body = AdminTask)))]
pub(crate) async fn get(
    allowed: AllowedCaller<Admin>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let id = parse(&id)?;
    let task = tasks::by_id_any_account(&app, id).await?;
    let attempts = tasks::attempts(&app, task.account, id).await?;
    let deliveries = delivery_log::task_deliveries(&app, task.account, id).await?;
    let handles = accounts::handles(&app, std::iter::once(task.account)).await?;
    let view = TaskView {
        account: handles.get(&task.account).cloned(),
        ..view(&app, &allowed.links, &task).await?
    };
    let object = AdminTask::new(view, &allowed.links, &attempts, &deliveries);
    Ok((task_id_header(id), Json(object)).into_response())
}
