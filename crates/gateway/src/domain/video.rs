//! Making videos: what was asked, checked against the model, becomes tasks.

use providers::{Durations, Limits, VideoLimits};

use crate::app::{App, Parts};
use crate::domain::assets;
use crate::domain::pictures::{self, Picture, PictureSource};
use crate::domain::submit::{self, Draft, NewTask, Purpose};
use crate::domain::tasks;
use crate::engines::animatic_engine;
use crate::error::{Error, ErrorCode, Fault};
use crate::ids::{AccountId, RequestId, TaskId};
use crate::model::account::Caller;
use crate::model::catalog::{Maker, Model};
use crate::model::money::Quantity;
use crate::model::task::{Message, Output, Payload, Task, TaskKind, VideoJob};
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
    /// The conversation before the prompt.
    pub conversation: Vec<Message>,
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
    pub prompt: &'static str,
    pub picture: &'static str,
}

/// The order as it can be accepted: a task for each video. Its pictures are
/// stored.
pub async fn draft(
    app: &App,
    caller: &Caller,
    request_id: &RequestId,
    order: VideoOrder,
) -> Result<Draft, Error> {
    if !order.pictures.is_empty() {
        assets::check_room(app, caller.account.id, 0).await?;
    }
    let (new, pictures) = prepare(app, caller, &order, Purpose::Order).await?;
    if !pictures.is_empty() {
        let size = pictures.iter().map(Picture::size_bytes).sum();
        assets::check_room(app, caller.account.id, size).await?;
    }
    let mut stored = Vec::new();
    for picture in &pictures {
        stored.push(pictures::keep(app, caller, picture).await?);
    }
    let new = new.into_iter();
    let tasks = new.map(|new| submit::task(app, caller, request_id, new));
    Ok(Draft {
        tasks: tasks.collect(),
        assets: stored,
        ..Draft::default()
    })
}

/// The tasks that an order becomes, and its pictures, checked and not stored.
pub async fn prepare(
    app: &App,
    caller: &Caller,
    order: &VideoOrder,
    purpose: Purpose,
) -> Result<(Vec<NewTask>, Vec<Picture>), Error> {
    let catalog = app.catalog.load_full();
    let asked = order
        .model
        .clone()
        .unwrap_or_else(|| catalog.default_name(TaskKind::Video).to_owned());
    let model = catalog.choose(&caller.key, TaskKind::Video, &asked, "model")?;
    refuse_what_is_not_offered(app, &model, order)?;
    if purpose == Purpose::Order {
        submit::check_available(app, &model)?;
    }
    let mut pictures = Vec::new();
    for (source, param) in &order.pictures {
        pictures.push(pictures::take(app, source.clone(), purpose, param).await?);
    }
    let job = plan(app, &model, order, &pictures)?;
    let quantity = Quantity {
        milliseconds: job.milliseconds,
        pixels: u64::from(job.width) * u64::from(job.height),
        parts: 1,
        parts_asked: 1,
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
    Ok((new.collect(), pictures))
}

/// Decides everything that the order leaves open.
fn plan(
    app: &Parts,
    model: &Model,
    order: &VideoOrder,
    pictures: &[Picture],
) -> Result<VideoJob, Error> {
    let mut files = pictures.iter().map(|picture| picture.id);
    let mut job = VideoJob {
        prompt: order.prompt.clone(),
        picture: files.next(),
        more_pictures: files.collect(),
        width: 0,
        height: 0,
        milliseconds: 0,
        fps: 0,
        seed: order.seed.unwrap_or_default(),
        seed_is_asked: order.seed.is_some(),
        negative_prompt: order.negative_prompt.clone(),
        conversation: order.conversation.clone(),
        user: order.user.clone(),
    };
    match (&model.maker, &model.limits) {
        (Maker::Embedded { .. }, _) => {
            let asked = animatic_engine::Asked {
                size: order.size,
                seconds: order.seconds,
                seed: order.seed,
                picture_size: pictures.first().map(|picture| picture.size),
            };
            let settled = animatic_engine::settle(&order.prompt, asked).map_err(Error::internal)?;
            (job.width, job.height) = (settled.width, settled.height);
            job.milliseconds = animatic_engine::milliseconds(settled.seconds);
            (job.fps, job.seed) = (settled.fps, settled.seed);
        }
        (Maker::Routes(routes), _) => {
            // The route that is likeliest to make it says what is usual.
            let usual = routes.iter().find_map(|route| {
                video_limits(&route.limits).ok().filter(|offered| {
                    refusals(&model.id, offered, order, true).is_empty()
                        && (pictures.is_empty()
                            || assets::can_be_handed(app, offered.pictures.handover))
                })
            });
            let usual = usual.ok_or_else(|| Error::internal("no route offers what was checked"))?;
            (job.width, job.height) = order
                .size
                .unwrap_or_else(|| usual_size(usual, pictures.first().map(|picture| picture.size)));
            job.milliseconds = animatic_engine::milliseconds(
                order
                    .seconds
                    .unwrap_or_else(|| f64::from(usual.default_seconds)),
            );
        }
    }
    Ok(job)
}

/// The size that is meant when none is asked for: the default one, or with a
/// picture the first that is as wide as high, upright or wide as it is.
fn usual_size(offered: &VideoLimits, picture: Option<(u32, u32)>) -> (u32, u32) {
    let shape = |(width, height): (u32, u32)| width.cmp(&height);
    let default = offered.sizes.first().copied().unwrap_or((1280, 720));
    let Some(picture) = picture else {
        return default;
    };
    let fitting = offered
        .sizes
        .iter()
        .find(|size| shape(**size) == shape(picture));
    fitting.copied().unwrap_or(default)
}

fn video_limits(limits: &Limits) -> Result<&VideoLimits, Error> {
    match limits {
        Limits::Video(video) => Ok(video),
        Limits::Music(_) => Err(Error::internal("a video model without video limits")),
    }
}

/// Whether a route offers what a job of this gateway's asks for.
pub fn fits(app: &Parts, limits: &Limits, job: &VideoJob) -> bool {
    let Limits::Video(offered) = limits else {
        return false;
    };
    #[expect(clippy::cast_precision_loss, reason = "a video's length is small")]
    let seconds = job.milliseconds as f64 / 1000.0;
    let pictures = usize::from(job.picture.is_some()) + job.more_pictures.len();
    offered.durations.contains(seconds)
        && offered.sizes.contains(&(job.width, job.height))
        && pictures <= offered.pictures.max
        && (pictures == 0 || assets::can_be_handed(app, offered.pictures.handover))
        && (pictures > 0 || !offered.pictures.needed)
        && (job.negative_prompt.is_none() || offered.negative_prompt)
        && (!job.seed_is_asked || offered.seed)
        && job.prompt.chars().count() <= offered.max_prompt
}

fn refuse_what_is_not_offered(app: &App, model: &Model, order: &VideoOrder) -> Result<(), Error> {
    let is_hosted = !model.routes().is_empty();
    let mut faults = refusals(&model.id, video_limits(&model.limits)?, order, is_hosted);
    if faults.is_empty() && is_hosted {
        let mut first = None;
        for route in model.routes() {
            let offered = video_limits(&route.limits)?;
            let mut refused = refusals(&model.id, offered, order, true);
            if let Some((_, param)) = order.pictures.first()
                && !assets::can_be_handed(app, offered.pictures.handover)
            {
                let message = "Pictures cannot be handed to this model's provider: this gateway has no public_url.";
                refused.push(Fault {
                    code: ErrorCode::UnsupportedValue,
                    param: param.clone(),
                    message: message.into(),
                });
            }
            if refused.is_empty() {
                return Ok(());
            }
            first.get_or_insert(refused);
        }
        faults = first.unwrap_or_default();
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Error::Invalid(faults))
    }
}

fn refusals(model: &str, offered: &VideoLimits, order: &VideoOrder, is_hosted: bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut refuse = |param: &str, message: String| {
        faults.push(Fault {
            code: ErrorCode::UnsupportedValue,
            param: param.to_owned(),
            message,
        });
    };
    let is_whole = |seconds: f64| !is_hosted || seconds.fract() == 0.0;
    if let Some(seconds) = order.seconds
        && !(offered.durations.contains(seconds) && is_whole(seconds))
    {
        let lengths = match &offered.durations {
            Durations::Range { min, max } if is_hosted => format!("{min} to {max} whole"),
            Durations::Range { min, max } => format!("{min} to {max}"),
            Durations::Only(list) => words(list),
        };
        refuse(
            order.params.seconds,
            format!("{model} makes videos of {lengths} seconds."),
        );
    }
    if order
        .size
        .is_some_and(|size| !offered.sizes.contains(&size))
    {
        let sizes: Vec<String> = offered
            .sizes
            .iter()
            .map(|(w, h)| format!("{w}x{h}"))
            .collect();
        refuse(
            order.params.size,
            format!("{model} makes videos of the sizes {}.", words(&sizes)),
        );
    }
    if order.negative_prompt.is_some() && !offered.negative_prompt {
        refuse(
            order.params.negative_prompt,
            format!("{model} takes no negative prompt."),
        );
    }
    if order.seed.is_some() && !offered.seed {
        refuse(order.params.seed, format!("{model} takes no seed."));
    }
    if order.prompt.chars().count() > offered.max_prompt {
        refuse(
            order.params.prompt,
            format!(
                "{model} takes prompts of up to {} characters.",
                offered.max_prompt
            ),
        );
    }
    if let Some((_, param)) = order.pictures.get(offered.pictures.max) {
        refuse(
            param,
            format!("{model} takes {} picture(s) at most.", offered.pictures.max),
        );
    }
    if offered.pictures.needed && order.pictures.is_empty() {
        refuse(
            order.params.picture,
            format!("{model} needs a picture to begin with."),
        );
    }
    faults
}

fn words<T: std::fmt::Display>(list: &[T]) -> String {
    list.iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
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
    let written = app.store.write(move |conn| -> Result<(), Error> {
        store::tasks::mark_deleted(conn, id, account, now)?;
        let task = store::tasks::by_id(conn, id, account)?;
        if let Some(Output::VideoV1(mut output)) = task.and_then(|task| task.output) {
            let files = [Some(output.video), output.poster, output.sheet];
            for file in files.into_iter().flatten() {
                store::assets::expire(conn, file, account, now)?;
            }
            // The task's record tells no address of what is gone.
            output.expires_at_micros = output.expires_at_micros.min(now.micros());
            store::tasks::set_output(conn, id, &Output::VideoV1(output))?;
        }
        Ok(())
    });
    store::soon(written).await?;
    app.ended.invalidate(&id);
    Ok(())
}
