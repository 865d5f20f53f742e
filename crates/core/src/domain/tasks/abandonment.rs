//! Jobs that the operator gives up: their provider, its URL or its key is gone from the
//! settings for good, so that their outcome cannot be looked up.

use crate::app::App;
use crate::domain::audit::ChangeAuthor;
use crate::domain::tasks::JobOutcome;
use crate::domain::{costs, tasks};
use mediagate_model::error::Error;
use mediagate_model::ids::TaskId;
use mediagate_model::submission::SubmissionState;
use mediagate_model::task::Task;
use mediagate_store as store;

/// Cancels the task if it has not ended, and stops polling its job: nothing is charged, and the
/// operator's cost is unknown.
pub async fn abandon(app: &App, id: TaskId, author: ChangeAuthor) -> Result<Task, Error> {
    let task = tasks::by_id_any_account(app, id).await?;
    let account = task.account;
    // A separate transaction. If the next one fails, the task is cancelled and the command can be
    // repeated.
    if !task.state.is_terminal() {
        tasks::cancel(app, account, id, Some(author)).await?;
    }
    let (now, allowance) = (app.clock.now(), app.config.cancel_allowance);
    app.store
        .write_for(account, move |conn| -> Result<(), Error> {
            // Read again, because the cancellation has decided about its money.
            let Some(task) = store::tasks::by_id_any_account(conn, id)? else {
                return Ok(());
            };
            let last = store::submissions::latest(conn, id)?;
            let Some(submission) = last.filter(|last| last.state.is_open()) else {
                return Ok(());
            };
            let reason = Some(("abandoned", "the operator abandoned the job"));
            let (from, to) = (submission.state, SubmissionState::Unclear);
            // The process that follows the job may have closed it first, with its real outcome.
            if let Some(closed) =
                store::submissions::close(conn, submission.id, from, to, reason, now)?
            {
                let route = (closed.provider.as_str(), closed.route_model.as_str());
                tasks::settle_job(conn, &task, route, JobOutcome::Abandoned, allowance, now)?;
                costs::record_job_cost(conn, &task, closed, None, None, now)?;
            }
            Ok(())
        })
        .await?;
    tasks::by_id_any_account(app, id).await
}
