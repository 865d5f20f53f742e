//! `/v1/admin/tasks`: the tasks of every account.

use axum::Json;
use axum::extract::State;

use super::named;
use crate::app::App;
use crate::domain::{accounts, tasks};
use crate::error::Error;
use crate::http::auth::{Admin, Allowed};
use crate::http::page_params::{Query, page};
use crate::http::tasks::{filter, view};
use crate::http::wire::list::List;
use crate::records::Base;
use crate::records::task::TaskView;

/// List the tasks of every account, newest first.
#[utoipa::path(get, path = "/v1/admin/tasks", tag = "admin", params(
    ("account" = Option<String>, Query, description = "Only of the account with this handle"),
    ("provider" = Option<String>, Query, description = "Only those that this provider took"),
    ("limit" = Option<u32>, Query, description = "1 to 100, 20 by default"),
    ("after" = Option<String>, Query, description = "`last_id` of the page before"),
    ("kind" = Option<String>, Query, description = "`video` or `music`"),
    ("status" = Option<String>, Query, description = "`queued`, `running`, `succeeded`, `failed` or `cancelled`"),
    ("model" = Option<String>, Query, description = "A model's name"),
), responses((status = 200, description = "A page of tasks", body = List<TaskView>)))]
pub(in crate::http) async fn list(
    _: Allowed<Admin>,
    query: Query,
    base: Base,
    State(app): State<App>,
) -> Result<Json<List<TaskView>>, Error> {
    let (account, provider, filter, page) = query.read(|query| {
        let account = query.filled_string("account", 100);
        let provider = query.filled_string("provider", 200);
        let page = page(query, |text| text.parse().ok());
        Some((account, provider, filter(query), page))
    })?;
    let account = named(&app, account).await?;
    let (found, has_more) = tasks::list_all(&app, account, provider, filter, page).await?;
    let handles = accounts::handles(&app, found.iter().map(|task| task.account)).await?;
    let mut views = Vec::with_capacity(found.len());
    for task in found {
        let mut view = view(&app, &base, &task).await?;
        view.account = handles.get(&task.account).cloned();
        views.push(view);
    }
    Ok(Json(List::new(views, has_more, |task| task.id.clone())))
}
