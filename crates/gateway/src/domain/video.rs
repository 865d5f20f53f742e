//! Making videos: what was asked, checked against the model, becomes tasks.

use crate::app::App;
use crate::domain::pictures::{self, Picture, PictureSource};
use crate::domain::submit::{self, NewTask};
use crate::domain::tasks;
use crate::error::{Error, ErrorCode, Fault};
use crate::ids::{AccountId, RequestId, TaskId};
use crate::model::account::Caller;
use crate::model::catalog::{Capabilities, Model, VideoCapabilities};
use crate::model::money::Quantity;
use crate::model::task::{Output, Payload, Task, TaskKind, VideoJob};
use crate::providers::animatic_engine;
use crate::store;

/// What a caller asks for, in whatever dialect. The names in `params` are those
/// of its fields, for errors.
#[derive(Debug, Clone)]
pub struct VideoOrder {
    /// The model's name; the default model when `None`.
    pub model: Option<String>,
    /// What the video shall show.
    pub prompt: String,
    /// Source pictures with the fields that named them, the first frame first.
    pub pictures: Vec<(PictureSource, String)>,
    /// Length in seconds.
    pub seconds: Option<f64>,
    /// Width and height in pixels.
    pub size: Option<(u32, u32)>,
    /// Decides everything that the prompt leaves to chance.
    pub seed: Option<u64>,
    /// What the video shall not show.
    pub negative_prompt: Option<String>,
    /// How many videos, 1–4.
    pub count: u32,
    /// The caller's own name for its end user.
    pub user: Option<String>,
    /// How this dialect names its fields.
    pub params: Params,
}

/// Field names of a dialect, for errors.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the names of the order's fields")]
pub struct Params {
    pub seconds: &'static str,
    pub size: &'static str,
    pub seed: &'static str,
    pub negative_prompt: &'static str,
}

/// Accepts the order: one task for each video.
pub async fn order(
    app: &App,
    caller: &Caller,
    request_id: &RequestId,
    order: VideoOrder,
) -> Result<Vec<Task>, Error> {
    let catalog = app.catalog.load_full();
    let asked = order
        .model
        .clone()
        .unwrap_or_else(|| catalog.default_name(TaskKind::Video).to_owned());
    let model = catalog.choose(&caller.key, TaskKind::Video, &asked, "model")?;
    refuse_what_is_not_offered(&model, &order)?;
    let picture = match order.pictures.first() {
        Some((source, param)) => Some(pictures::ingest(app, caller, source.clone(), param).await?),
        None => None,
    };
    let job = plan(&order, picture.as_ref())?;
    let quantity = Quantity {
        milliseconds: job.milliseconds,
        pixels: u64::from(job.width) * u64::from(job.height),
        stems: 0,
    };
    let new = (0..u64::from(order.count)).map(|number| NewTask {
        model: model.clone(),
        asked_model: asked.clone(),
        // Several videos of one order shall differ.
        payload: Payload::VideoV1(VideoJob {
            seed: job.seed.wrapping_add(number),
            ..job.clone()
        }),
        quantity,
    });
    submit::accept(app, caller, request_id, new.collect(), move |conn, _| {
        picture.map_or(Ok(()), |picture| {
            Ok(store::assets::insert(conn, &picture.asset)?)
        })
    })
    .await
}

/// Decides everything that the order leaves open.
fn plan(order: &VideoOrder, picture: Option<&Picture>) -> Result<VideoJob, Error> {
    let asked = animatic_engine::Asked {
        size: order.size,
        seconds: order.seconds,
        seed: order.seed,
        picture_size: picture.map(|picture| picture.size),
    };
    let settled = animatic_engine::settle(&order.prompt, asked).map_err(Error::internal)?;
    Ok(VideoJob {
        prompt: order.prompt.clone(),
        picture: picture.map(|picture| picture.asset.id),
        width: settled.width,
        height: settled.height,
        milliseconds: animatic_engine::milliseconds(settled.seconds),
        fps: settled.fps,
        seed: settled.seed,
        user: order.user.clone(),
    })
}

fn refuse_what_is_not_offered(model: &Model, order: &VideoOrder) -> Result<(), Error> {
    let Capabilities::Video(offered) = &model.capabilities else {
        return Err(Error::internal("a video model without video capabilities"));
    };
    let faults = refusals(&model.id, offered, order);
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Error::Invalid(faults))
    }
}

fn refusals(model: &str, offered: &VideoCapabilities, order: &VideoOrder) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut refuse = |param: &str, message: String| {
        faults.push(Fault {
            code: ErrorCode::UnsupportedValue,
            param: param.to_owned(),
            message,
        });
    };
    if let Some(seconds) = order.seconds {
        let (shortest, longest) = (offered.min_seconds, offered.max_seconds);
        if !(f64::from(shortest)..=f64::from(longest)).contains(&seconds) {
            refuse(
                order.params.seconds,
                format!("{model} makes videos of {shortest} to {longest} seconds."),
            );
        }
    }
    if order
        .size
        .is_some_and(|size| !offered.sizes.contains(&size))
    {
        let sizes = offered
            .sizes
            .iter()
            .map(|(w, h)| format!("{w}x{h}"))
            .collect::<Vec<_>>()
            .join(", ");
        refuse(
            order.params.size,
            format!("{model} makes videos of the sizes {sizes}."),
        );
    }
    if order.negative_prompt.is_some() && !offered.negative_prompt {
        refuse(
            order.params.negative_prompt,
            format!("{model} takes no negative prompt."),
        );
    }
    if let Some((_, param)) = order.pictures.get(offered.max_pictures) {
        refuse(
            param,
            format!("{model} takes {} picture(s) at most.", offered.max_pictures),
        );
    }
    faults
}

/// The account's video with this task, unless it was deleted.
pub async fn get(app: &App, account: AccountId, id: TaskId) -> Result<Task, Error> {
    let found = app
        .store
        .read(move |conn| -> Result<_, Error> {
            Ok((
                store::tasks::by_id(conn, id, account)?,
                store::tasks::is_deleted(conn, id)?,
            ))
        })
        .await?;
    match found {
        (Some(task), false) if task.kind() == TaskKind::Video => Ok(task),
        _ => Err(tasks::not_found()),
    }
}

/// Takes a video out of the list and its files out of the store; one that is
/// being made is cancelled first.
pub async fn delete(app: &App, task: &Task) -> Result<(), Error> {
    if !task.state.is_terminal() {
        match tasks::cancel(app, task.account, task.id).await {
            Ok(_) => {}
            // It ended a moment ago.
            Err(error) if error.code() == ErrorCode::TaskNotCancellable => {}
            Err(error) => return Err(error),
        }
    }
    let now = app.clock.now();
    let (id, account) = (task.id, task.account);
    app.store
        .write(move |conn| -> Result<(), Error> {
            store::tasks::mark_deleted(conn, id, account, now)?;
            let task = store::tasks::by_id(conn, id, account)?;
            if let Some(Output::VideoV1(output)) = task.and_then(|task| task.output) {
                for file in [output.video, output.poster, output.sheet] {
                    store::assets::expire(conn, file, account, now)?;
                }
            }
            Ok(())
        })
        .await
}
