//! Making videos: turns an order, checked against the model, into tasks.

mod identity;
mod order;
mod order_check;

use providers::VideoLimits;

use crate::app::{App, AppParts, Ctx};
use crate::domain::moderation;
use crate::domain::pictures::{self, SpooledPicture};
use crate::domain::task_acceptance::{self, NewTask, OrderPurpose, TaskDraft};
use crate::domain::{storage_room, tasks};
use crate::pricing::{OrderQuotation, OrderedWork, QuotedQuantity};
use mediagate_media::engines::animatic_engine;
use mediagate_model::account::Caller;
use mediagate_model::attribution::Attribution;
use mediagate_model::catalog::{EmbeddedEngine, Model, ModelBackend};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, TaskId};
use mediagate_model::money::MicroDollars;
use mediagate_model::task::{
    Choice, JobPicture, MediaKind, PictureRole, Task, TaskPayload, TaskRequest, TaskResult,
    VideoJob,
};
use mediagate_store as store;

use order_check::video_limits;

pub use identity::identity;
pub use order::{ParamNames, RequestedPicture, VideoOrder};
pub use order_check::route_faults;
pub use orders::FrameShape;

/// A source picture that is not stored yet, and its role.
type SourcePicture = (Choice<PictureRole>, SpooledPicture);

/// An order that can be accepted, with a task per video. Its pictures are stored.
pub async fn draft(
    app: &App,
    caller: &Caller,
    request: &TaskRequest,
    order: VideoOrder,
) -> Result<TaskDraft, Error> {
    // Before anything is fetched, when no size is known. The check below knows the sizes.
    if order.every_picture().next().is_some() {
        storage_room::check(app, caller.account.id, 0).await?;
    }
    let (new_tasks, pictures) = prepare(app, caller, &order, OrderPurpose::Order).await?;
    task_acceptance::check_cost(app, &order.terms, &new_tasks)?;
    if !pictures.is_empty() {
        let size = pictures.iter().map(SpooledPicture::size_bytes).sum();
        storage_room::check(app, caller.account.id, size).await?;
    }
    let mut stored = Vec::new();
    for picture in &pictures {
        stored.push(pictures::keep(app, caller, picture).await?);
    }
    let inputs = moderation::inputs_for_checks(app, || moderation::of_video(&order, &pictures));
    let tasks = new_tasks.into_iter();
    let tasks = tasks.map(|new| task_acceptance::task(app, caller, request, new));
    Ok(TaskDraft {
        terms: order.terms,
        tasks: tasks.collect(),
        assets: stored,
        inputs,
        ..TaskDraft::default()
    })
}

/// The tasks for an order, and its pictures, checked but not stored.
pub async fn prepare(
    app: &App,
    caller: &Caller,
    order: &VideoOrder,
    purpose: OrderPurpose,
) -> Result<(Vec<NewTask>, Vec<SpooledPicture>), Error> {
    let (model, requested_model) = choose(app, caller, order)?;
    order_check::check(app, &model, order)?;
    task_acceptance::check_count(&caller.key, order.count, order.params.count)?;
    if purpose == OrderPurpose::Order {
        task_acceptance::check_available(app, &model)?;
    }
    let callback = order.callback.clone();
    let callback = callback
        .map(|callback| callback.check(app, caller.account.id))
        .transpose()?;
    // Fetching and decoding pictures is the expensive part. An order that will be refused must not
    // get that far.
    if purpose == OrderPurpose::Order && order.every_picture().next().is_some() {
        let minimum = least_cost(app, &model, order)?;
        order.terms.check_cost(minimum)?;
        let user = order.options.user.clone();
        task_acceptance::check_limits(app, caller, user, order.count, minimum).await?;
    }
    let sources = fetch_pictures(app, caller.account.id, &model, order, purpose).await?;
    let job = plan(app, &model, order, &sources)?;
    let quantity = QuotedQuantity::of(OrderedWork::film(&job));
    let new_tasks = (0..u64::from(order.count)).map(|number| {
        let mut job = job.clone();
        // Several videos of one order must differ.
        let seed = job.options.seed;
        job.options.seed = seed.map(|seed| seed.map(|seed| seed.wrapping_add(number)));
        NewTask {
            model: model.clone(),
            asked_model: requested_model.clone(),
            payload: TaskPayload::VideoV1(job),
            quantity,
            attribution: Attribution {
                user: order.options.user.clone(),
                metadata: order.terms.metadata.clone(),
            },
            callback: callback.clone(),
        }
    });
    let pictures = sources.into_iter().map(|(_, picture)| picture);
    Ok((new_tasks.collect(), pictures.collect()))
}

/// The model of an order and the requested name, if the key may use it for this order.
pub fn choose(app: &App, caller: &Caller, order: &VideoOrder) -> Result<(Model, String), Error> {
    let catalog = app.models.catalog.load_full();
    let requested_model = order
        .model
        .clone()
        .unwrap_or_else(|| catalog.default_name(MediaKind::Video).to_owned());
    let model = catalog.choose(&caller.key, MediaKind::Video, &requested_model, "model")?;
    if order.is_housekeeping && caller.key.refuses_housekeeping {
        let message = "This API key rejects requests that chat interfaces send on their own, such as \
                       titles, tags and follow-up questions. Turn them off in the interface, or \
                       use another model for them.";
        let param = order.params.prompt;
        return Err(Error::at_field(ErrorCode::UnsupportedValue, param, message));
    }
    Ok((model, requested_model))
}

/// The least that an order reserves, whatever size its pictures have.
fn least_cost(app: &AppParts, model: &Model, order: &VideoOrder) -> Result<MicroDollars, Error> {
    let job = plan(app, model, order, &[])?;
    let quantity = QuotedQuantity::of(OrderedWork::Film {
        milliseconds: job.milliseconds,
        size: order.size,
    });
    let is_silent = TaskPayload::VideoV1(job).is_silent();
    let quotation = OrderQuotation::of(model, quantity, is_silent, app.clock.now());
    Ok(quotation.reserve().times(order.count.into()))
}

async fn fetch_pictures(
    app: &App,
    account: AccountId,
    model: &Model,
    order: &VideoOrder,
    purpose: OrderPurpose,
) -> Result<Vec<SourcePicture>, Error> {
    let fetch = async |picture: &RequestedPicture| {
        let (source, param) = picture;
        pictures::fetch_checked(app, account, source.clone(), purpose, param).await
    };
    let mut sources = Vec::new();
    for (position, picture) in order.pictures.iter().enumerate() {
        let role = Choice::Default(role_of_position(model, position));
        sources.push((role, fetch(picture).await?));
    }
    if let Some(picture) = &order.end_picture {
        let role = Choice::Asked(PictureRole::LastFrame);
        sources.push((role, fetch(picture).await?));
    }
    for picture in &order.references {
        let role = Choice::Asked(PictureRole::Reference);
        sources.push((role, fetch(picture).await?));
    }
    Ok(sources)
}

/// Fills in everything that the order does not specify.
fn plan(
    app: &AppParts,
    model: &Model,
    order: &VideoOrder,
    sources: &[SourcePicture],
) -> Result<VideoJob, Error> {
    let pictures = sources.iter().map(|(role, picture)| JobPicture {
        role: *role,
        file: picture.id,
    });
    let is_first = |role: &Choice<PictureRole>| *role == Choice::Default(PictureRole::FirstFrame);
    let first_frame = sources.iter().find(|(role, _)| is_first(role));
    let first_size = first_frame.map(|(_, picture)| picture.size);
    let mut job = VideoJob {
        prompt: order.prompt.clone(),
        pictures: pictures.collect(),
        width: 0,
        height: 0,
        milliseconds: 0,
        fps: None,
        options: order.options.clone(),
    };
    match (&model.backend, &model.limits) {
        (
            ModelBackend::Embedded {
                engine: EmbeddedEngine::Animatic,
                ..
            },
            limits,
        ) => {
            let options = animatic_engine::CallerOptions {
                size: order.best_size(&video_limits(limits)?.sizes, first_size),
                seconds: order.seconds,
                seed: order.options.seed.map(Choice::value),
                picture_size: first_size,
            };
            let resolved = animatic_engine::resolve_options(&order.prompt, options)
                .map_err(Error::internal)?;
            (job.width, job.height) = (resolved.width, resolved.height);
            job.milliseconds = animatic_engine::milliseconds(resolved.seconds);
            job.fps = Some(resolved.fps);
            if job.options.seed.is_none() {
                job.options.seed = Some(Choice::Default(drawn_seed()?));
            }
        }
        (ModelBackend::Embedded { engine, .. }, _) => {
            return Err(Error::internal(format!("{engine:?} makes no videos")));
        }
        (ModelBackend::Routes(routes), _) => {
            // Routes differ in their defaults. Those of the first capable route apply, whichever
            // route makes the video later.
            let demand = order.demand();
            let mut capable = routes.iter();
            let capable = capable.find(|route| route_faults(app, route, &demand).is_empty());
            let route_limits = capable.and_then(|route| video_limits(&route.limits).ok());
            let route_limits =
                route_limits.ok_or_else(|| Error::internal("no route offers the checked order"))?;
            (job.width, job.height) = order
                .best_size(&route_limits.sizes, first_size)
                .unwrap_or_else(|| default_size(route_limits, first_size));
            let audio = &mut job.options.audio;
            *audio = audio.or(route_limits.audio.map(Choice::Default));
            job.milliseconds = animatic_engine::milliseconds(
                order
                    .seconds
                    .unwrap_or_else(|| f64::from(route_limits.default_seconds)),
            );
        }
    }
    Ok(job)
}

/// A random seed for a film whose order names none, so that a repeated order makes another film.
fn drawn_seed() -> Result<u64, Error> {
    // 32 bits: every client of a JSON API can hold that and send it back.
    let mut bits = [0; 4];
    getrandom::fill(&mut bits).map_err(Error::internal)?;
    Ok(u32::from_ne_bytes(bits).into())
}

/// The role of a picture for which the request names none. The second is the last frame. A route
/// that takes pictures as references has none, and if the routes of a model differ, it is not known
/// before one is chosen.
fn role_of_position(model: &Model, position: usize) -> PictureRole {
    match position {
        0 => PictureRole::FirstFrame,
        1 if model.takes_frames() => PictureRole::LastFrame,
        _ => PictureRole::Reference,
    }
}

/// The size if none is requested: the default; with a picture, the first size of the picture's
/// orientation.
fn default_size(offered: &VideoLimits, picture: Option<(u32, u32)>) -> (u32, u32) {
    let orientation = |(width, height): (u32, u32)| width.cmp(&height);
    let default = offered.sizes.first().copied().unwrap_or((1280, 720));
    let Some(picture) = picture else {
        return default;
    };
    let fitting = offered
        .sizes
        .iter()
        .find(|size| orientation(**size) == orientation(picture));
    fitting.copied().unwrap_or(default)
}

/// The account's video task with this id, unless the video was deleted.
pub async fn get(app: &Ctx, account: AccountId, id: TaskId) -> Result<Task, Error> {
    let row = app
        .store
        .read(move |conn| -> Result<_, Error> {
            Ok((
                store::tasks::by_id(conn, id, account)?,
                store::tasks::is_deleted(conn, id)?,
            ))
        })
        .await?;
    match row {
        (Some(task), false) if task.kind() == MediaKind::Video => Ok(task),
        _ => Err(tasks::not_found()),
    }
}

/// The error for finished films whose files are gone, with what they cost. Ordering them again
/// would cost again, so the caller must know both.
pub fn link_expired(tasks: &[&Task]) -> Error {
    let cost = tasks
        .iter()
        .fold(MicroDollars::ZERO, |sum, task| sum.plus(task.cost));
    let ids: Vec<String> = tasks.iter().map(|task| task.id.to_string()).collect();
    let is_linked = |task: &&Task| matches!(task.output, Some(TaskResult::LinkV1(_)));
    let reason = if tasks.iter().any(is_linked) {
        "the provider's URL has expired and no copy was stored, or the video was deleted"
    } else {
        "its file has expired or was deleted"
    };
    let (charged, charged_again) = if cost == MicroDollars::ZERO {
        ("nothing was charged".to_owned(), "")
    } else {
        let charged = format!("{cost} USD were charged");
        (charged, " and is charged again")
    };
    let message = format!(
        "The video was made and {charged} (task {}), but {reason}. A new request creates it again{charged_again}.",
        ids.join(", ")
    );
    Error::plain(ErrorCode::LinkExpired, message)
}

/// Deletes a video from the list and its files from the store; cancels it first if it is not
/// finished.
pub async fn delete(app: &App, task: &Task) -> Result<(), Error> {
    if !task.state.is_terminal() {
        match tasks::cancel(app, task.account, task.id, None).await {
            Ok(_) => {}
            // It ended between the look-up and the cancellation, and can be deleted anyway.
            Err(error) if error.code() == ErrorCode::TaskNotCancellable => {}
            Err(error) => return Err(error),
        }
    }
    let now = app.clock.now();
    let (id, account) = (task.id, task.account);
    let write = app.store.write(move |conn| -> Result<(), Error> {
        store::tasks::mark_deleted(conn, id, account, now)?;
        let task = store::tasks::by_id(conn, id, account)?;
        let output = task.and_then(|task| task.output);
        if let Some(TaskResult::LinkV1(mut link)) = output {
            link.expires_at_micros = Some(now.micros());
            // The file at the provider cannot be deleted from here, so only its URL is removed.
            link.url.clear();
            store::tasks::set_output(conn, id, &TaskResult::LinkV1(link))?;
        } else if let Some(TaskResult::VideoV1(mut output)) = output {
            let files = [Some(output.video), output.poster, output.sheet];
            for file in files.into_iter().flatten() {
                store::assets::expire(conn, file, account, now)?;
            }
            // The task's record must not link to removed files.
            output.expires_at_micros = output.expires_at_micros.min(now.micros());
            store::tasks::set_output(conn, id, &TaskResult::VideoV1(output))?;
        }
        Ok(())
    });
    store::await_within_limit(write).await?;
    // The cached record still links to the files.
    app.caches.ended_tasks.invalidate(&id);
    Ok(())
}
