//! The one place that turns the outcome of a run into a state: task, cost,
//! records of files and clips change in one transaction, and only for the
//! holder of the lease.

use crate::app::App;
use crate::error::Error;
use crate::model::money::Micros;
use crate::model::task::{Payload, Task, TaskState};
use crate::store::tasks::Ending;
use crate::store::{self};
use crate::worker::run::{Made, Outcome};

/// Writes the outcome down. When the task ended otherwise in the meantime, the
/// files that were made are removed.
pub(super) async fn finish(
    app: &App,
    owner: &str,
    task: &Task,
    outcome: Outcome,
) -> Result<(), Error> {
    match outcome {
        Outcome::Stopped => {
            let (id, owner) = (task.id, owner.to_owned());
            app.store
                .write(move |conn| store::tasks::release(conn, id, &owner).map_err(Error::from))
                .await?;
            tracing::info!("task stopped");
        }
        Outcome::Failed(failure) => {
            tracing::warn!(code = %failure.code, "task failed");
            let ending = Ending {
                state: TaskState::Failed,
                cost: Micros::ZERO,
                output: None,
                failure: Some(failure),
            };
            end(app, owner, task, ending, None).await?;
        }
        Outcome::Made(made) => {
            let ending = Ending {
                state: TaskState::Succeeded,
                cost: settled(app, task, &made),
                output: Some(made.output.clone()),
                failure: None,
            };
            let files: Vec<_> = made
                .assets
                .iter()
                .map(|asset| (asset.id, asset.media))
                .collect();
            if end(app, owner, task, ending, Some(*made)).await? {
                tracing::info!("task succeeded");
            } else {
                for (id, media) in files {
                    app.blobs.delete(id, media).await?;
                }
            }
        }
    }
    Ok(())
}

async fn end(
    app: &App,
    owner: &str,
    task: &Task,
    ending: Ending,
    made: Option<Made>,
) -> Result<bool, Error> {
    let (id, owner, now) = (task.id, owner.to_owned(), app.clock.now());
    let ended = app
        .store
        .write(move |conn| -> Result<bool, Error> {
            if !store::tasks::finish(conn, id, Some(&owner), &ending, now)? {
                return Ok(false);
            }
            if let Some(made) = made {
                for asset in &made.assets {
                    store::assets::insert(conn, asset)?;
                }
                for (clip, media) in &made.clips {
                    store::clips::complete(conn, *clip, media)?;
                }
            }
            Ok(true)
        })
        .await?;
    if !ended {
        tracing::info!("the task ended otherwise before this run did");
    }
    Ok(ended)
}

/// What was made at the price that was reserved: never more than the reservation.
fn settled(app: &App, task: &Task, made: &Made) -> Micros {
    /// A delivery this much shorter than the order still counts as whole.
    const TOLERANCE_MS: u64 = 250;
    let catalog = app.catalog.load();
    let Some(price) = catalog.named(&task.model).and_then(|model| model.price) else {
        return task.cost;
    };
    let mut quantity = made.quantity;
    if let Payload::VideoV1(job) = &task.payload {
        quantity.milliseconds = if quantity.milliseconds + TOLERANCE_MS >= job.milliseconds {
            job.milliseconds
        } else {
            quantity.milliseconds / 100 * 100
        };
    }
    price.of(quantity).min(task.cost)
}
