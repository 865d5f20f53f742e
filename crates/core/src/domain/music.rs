//! Music: uploads, separations and the clips themselves.

use std::sync::Arc;

use providers::{ModelLimits, MusicLimits, StemLimits};

use crate::app::{App, AppParts, Ctx};
use crate::catalog::Catalog;
use crate::crash;
use crate::domain::assets;
use crate::domain::moderation;
use crate::domain::order_terms::OrderTerms;
use crate::domain::provenance::marking::{self, ClipSource, SigningFacts};
use crate::domain::storage_room;
use crate::domain::task_acceptance::{self, NewTask, OrderPurpose, TaskDraft};
use crate::domain::tasks;
use crate::domain::webhooks::callbacks::CallbackUrl;
use crate::intents::IntentAttempt;
use crate::limits::{WorkKind, WorkSlot};
use crate::pricing::{OrderedWork, QuotedQuantity};
use mediagate_media::engines::child::{self, ClipSources};
use mediagate_media::engines::clip::{self, ClipError, CoverStyle};
use mediagate_media::fetch::FetchError;
use mediagate_model::account::Caller;
use mediagate_model::attribution::Attribution;
use mediagate_model::catalog::Model;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, ClipId, TaskId};
use mediagate_model::intent::IntentResult;
use mediagate_model::music::{Clip, ClipMedia, ClipOrigin, ClipState, StemGroup, normalize_name};
use mediagate_model::task::{
    MediaKind, SeparationMode, StemTarget, StemsJob, Task, TaskPayload, TaskRequest,
};
use mediagate_store as store;
use mediagate_store::tasks::PageQuery;

/// Largest audio file.
pub const LIMIT_BYTES: u64 = 200_000_000;
/// Title of an upload without one.
const UNTITLED: &str = "Untitled";

/// Longest recording of a caller.
const LONGEST_SECONDS: u32 = 900;

/// The source of a recording.
#[derive(Debug)]
pub enum AudioSource {
    /// An http or https URL.
    Address(String),
    /// A temporary file, removed when dropped.
    Spooled(tempfile::TempPath),
}

/// Decodes a recording, stores it and creates a clip. `param` is the field to name in errors.
pub async fn upload(
    app: &App,
    caller: &Caller,
    attempt: &IntentAttempt,
    source: AudioSource,
    title: Option<String>,
    param: &str,
) -> Result<Clip, Error> {
    let file = match source {
        AudioSource::Spooled(file) => file,
        AudioSource::Address(address) => {
            // The slot is released after the fetch: decoding has limits of its own.
            let _slot = app.limits.fetches.wait(caller.account.id, 1).await;
            let spool = app.config.spool_path();
            let fetched = app.net.fetcher.fetch(&address, LIMIT_BYTES, &spool).await;
            fetched.map_err(|error| fetch_error(error, param))?
        }
    };
    let id = ClipId::new();
    let size = tokio::fs::metadata(&file).await.map_err(Error::internal)?;
    // In some formats the whole file is searched for tables, so the file's size counts too.
    let memory = clip::KEEPING_BYTES + size.len();
    let source = Arc::new(file);
    let recordings = ClipSources {
        clip: id,
        sources: vec![source.to_path_buf()],
        most_seconds: LONGEST_SECONDS,
        picture: CoverStyle::Waveform,
    };
    let (file, engines) = (source.clone(), app.engines.clone());
    let build = move |slot: &WorkSlot| {
        // Keeps the temporary file until the work has stopped, even if the caller disconnects.
        let _file = file;
        child::clip_of(&engines, recordings, slot.watch())
    };
    let (account, media_work) = (caller.account.id, &app.limits.media_work);
    let built = media_work
        .work(account, WorkKind::Recording, memory, build)
        .await?;
    let built = built.map_err(|error| clip_error(error, param))?;
    let built = built.ok_or_else(|| Error::internal("a recording yielded no clip"))?;
    let facts = SigningFacts {
        account,
        title: title.clone().unwrap_or_default(),
        model: "upload".to_owned(),
        provider: None,
        prompt: String::new(),
    };
    let (built, provenance) =
        marking::sign_clip(app, facts, built, ClipSource::Uploaded(source)).await?;
    let (media, files) = assets::keep_clip(app, caller.account.id, &built).await?;
    let clip = Clip {
        id,
        account: caller.account.id,
        past_payload: None,
        origin: ClipOrigin::Upload,
        title: title
            .filter(|title| !title.trim().is_empty())
            .unwrap_or_else(|| UNTITLED.into()),
        model: String::new(),
        asked_model: String::new(),
        state: ClipState::Complete,
        media: Some(media),
        media_removed: false,
        is_trashed: false,
        failure: None,
        upstream: None,
        provenance: Some(provenance),
        notes: built.notes,
        created_at: app.clock.now(),
    };
    let row = clip.clone();
    let (account, limit) = (caller.account.id, app.config.storage_limit);
    let stored = files.each_ref().map(|file| (file.id, file.media));
    let insertion = attempt.make(IntentResult::Clip(id), move |conn| {
        for file in &files {
            store::assets::insert(conn, file)?;
        }
        // After the inserts: their sum includes these files and those of uploads at the same time.
        storage_room::check_stored(conn, account, limit)?;
        Ok(store::clips::insert(conn, &row, 0)?)
    });
    if let Err(error) = insertion.await {
        assets::discard(app, &stored, &error).await;
        return Err(error);
    }
    crash::point("clip-uploaded");
    tracing::info!(clip_id = %id, "clip uploaded");
    Ok(clip)
}

fn clip_error(error: ClipError, param: &str) -> Error {
    match error {
        ClipError::Decode(error) => {
            let code = if error.is_too_long {
                ErrorCode::AudioTooLong
            } else {
                ErrorCode::AudioInvalid
            };
            let message = format!("The audio file cannot be used: {error}.");
            Error::at_field(code, param, message)
        }
        ClipError::Engine(error) => error.into(),
    }
}

fn fetch_error(error: FetchError, param: &str) -> Error {
    match error {
        FetchError::Blocked(reason) => Error::at_field(
            ErrorCode::AudioFetchBlocked,
            param,
            format!("Fetching the audio file's URL is not allowed: {reason}."),
        ),
        FetchError::Failed(_) | FetchError::TooLarge { .. } => Error::at_field(
            ErrorCode::AudioFetchFailed,
            param,
            format!("The audio file could not be fetched: {error}."),
        ),
        FetchError::Local(error) => Error::internal(error),
    }
}

/// A separation as ordered.
#[derive(Debug, Clone)]
pub struct SeparationOrder {
    /// `mv`; if `None`, the default model or the first that separates.
    pub model: Option<String>,
    /// `continue_clip_id`.
    pub source: ClipId,
    /// `task_id`: the task that must have made the clip.
    pub source_task: Option<TaskId>,
    pub stem_task: SeparationMode,
    /// `stem_type_group_name` as written.
    pub group_name: Option<String>,
    /// Title of the task.
    pub title: Option<String>,
    pub generation_type: String,
    pub make_instrumental: bool,
    /// URL that is called when the task ends.
    pub callback: Option<CallbackUrl>,
    pub terms: OrderTerms,
    /// The caller's id of its end user.
    pub user: Option<String>,
}

/// A separation that can be accepted: one queued task with its clips.
pub async fn draft(
    app: &App,
    caller: &Caller,
    request: &TaskRequest,
    order: SeparationOrder,
) -> Result<TaskDraft, Error> {
    let terms = order.terms.clone();
    let inputs = moderation::inputs_for_checks(app, || moderation::of_separation(&order));
    let (new, job) = prepare(app, caller, order, OrderPurpose::Order).await?;
    let task = task_acceptance::task(app, caller, request, new);
    Ok(TaskDraft {
        terms,
        clips: stem_clips(&task, &job.title, &job.outputs),
        tasks: vec![task],
        inputs,
        ..TaskDraft::default()
    })
}

/// The task for a separation.
pub async fn prepare(
    app: &App,
    caller: &Caller,
    order: SeparationOrder,
    purpose: OrderPurpose,
) -> Result<(NewTask, StemsJob), Error> {
    let catalog = app.models.catalog.load_full();
    let requested_model = match &order.model {
        Some(name) => name.clone(),
        None => default_separator(&catalog, |id| caller.key.may_use(id)).to_owned(),
    };
    let model = catalog.choose(&caller.key, MediaKind::Music, &requested_model, "mv")?;
    let targets = targets(&model, &order)?;
    // A quote is given even while every provider is down, and says so.
    if purpose == OrderPurpose::Order {
        task_acceptance::check_available(app, &model)?;
    }
    let source = clip_param(app, caller.account.id, order.source, "continue_clip_id").await?;
    let media = check_source(&source, &order)?;
    let outputs: Vec<(ClipId, StemTarget)> = targets
        .into_iter()
        .map(|target| (ClipId::new(), target))
        .collect();
    let job = StemsJob {
        source: source.id,
        source_audio: media.audio,
        milliseconds: media.milliseconds,
        stem_task: order.stem_task,
        group_name: order
            .group_name
            .clone()
            .unwrap_or_else(|| StemGroup::Vocals.name().into()),
        outputs,
        generation_type: order.generation_type,
        make_instrumental: order.make_instrumental,
        title: order.title.clone().unwrap_or_else(|| source.title.clone()),
    };
    // The model offers what any of its routes offers, so each stem may be available, but not all
    // together.
    check_routes(&model, &job)?;
    let callback = order.callback;
    let callback = callback
        .map(|callback| callback.check(app, caller.account.id))
        .transpose()?;
    let payload = TaskPayload::StemsV1(job.clone());
    let new = NewTask {
        model,
        asked_model: requested_model,
        quantity: QuotedQuantity::of(OrderedWork::of(&payload)),
        payload,
        attribution: Attribution {
            user: order.user,
            metadata: order.terms.metadata,
        },
        callback,
    };
    Ok((new, job))
}

/// The name of the model for a separation that names none. The default music model may be one that
/// only makes songs; then it is the first other one that separates and may be used.
pub fn default_separator(catalog: &Catalog, may_use: impl Fn(&str) -> bool) -> &str {
    let default_name = catalog.default_name(MediaKind::Music);
    if catalog.by_name(default_name).is_none_or(separates) {
        return default_name;
    }
    let mut models = catalog.models().iter();
    let other = models.find(|model| separates(model) && may_use(&model.id));
    other.map_or(default_name, |model| model.id.as_str())
}

fn separates(model: &Model) -> bool {
    matches!(&model.limits, ModelLimits::Music(music) if music.stems.is_some())
}

fn stem_clips(task: &Task, title: &str, outputs: &[(ClipId, StemTarget)]) -> Vec<Clip> {
    let TaskPayload::StemsV1(job) = &task.payload else {
        return Vec::new();
    };
    let clip = |(id, target): &(ClipId, StemTarget)| Clip {
        id: *id,
        account: task.account,
        past_payload: None,
        origin: ClipOrigin::Stem {
            task: task.id,
            source: job.source,
            target: *target,
        },
        title: format!("{title} ({})", target.name().replace('_', " ")),
        model: task.model.clone(),
        asked_model: task.asked_model.clone(),
        state: ClipState::Queued,
        media: None,
        media_removed: false,
        is_trashed: false,
        failure: None,
        upstream: None,
        provenance: None,
        notes: None,
        created_at: task.created_at,
    };
    outputs.iter().map(clip).collect()
}

/// The stems of a separation's clips.
fn targets(model: &Model, order: &SeparationOrder) -> Result<Vec<StemTarget>, Error> {
    let offered = match &model.limits {
        ModelLimits::Music(music) => music.stems.as_ref(),
        ModelLimits::Video(_) => None,
    };
    let offered = offered.ok_or_else(|| {
        let message = format!("{} does not support stem separation.", model.id);
        Error::at_field(ErrorCode::UnsupportedValue, "mv", message)
    })?;
    // The two tracks of `two` are each other's rest, so either can be the requested one.
    let name = order.group_name.as_deref();
    let wants_instrumental = order.stem_task == SeparationMode::Two
        && name.is_some_and(|name| normalize_name(name) == "instrumental");
    let name = name.filter(|_| !wants_instrumental);
    let group = requested_group(model, offered, name)?;
    match order.stem_task {
        SeparationMode::Two => {
            let group = group.unwrap_or(StemGroup::Vocals);
            check_offered(model, offered, group)?;
            let rest = StemTarget::Without(group);
            if !has_rest(offered, group) {
                let message = format!("{} cannot produce the mix without {group}.", model.id);
                let error =
                    Error::at_field(ErrorCode::UnsupportedValue, "stem_type_group_name", message);
                return Err(error);
            }
            let mut tracks = vec![StemTarget::Only(group), rest];
            if wants_instrumental {
                tracks.reverse();
            }
            Ok(tracks)
        }
        SeparationMode::Twelve if offered.full => {
            let groups = offered.groups.iter().map(|group| StemTarget::Only(*group));
            Ok(groups
                .chain(offered.other.then_some(StemTarget::Other))
                .collect())
        }
        SeparationMode::Twelve => {
            let message = format!("{} does not support a full split.", model.id);
            Err(Error::at_field(
                ErrorCode::UnsupportedValue,
                "stem_task",
                message,
            ))
        }
    }
}

/// Whether the mix without a group is available: from the provider, or as the sum of all other
/// stems of a complete split.
pub fn has_rest(offered: &StemLimits, group: StemGroup) -> bool {
    (offered.two && offered.complements.contains(&group)) || (offered.full && offered.other)
}

/// Whether a route can do a separation.
pub fn fits(limits: &ModelLimits, job: &StemsJob) -> bool {
    let ModelLimits::Music(MusicLimits {
        stems: Some(offered),
        ..
    }) = limits
    else {
        return false;
    };
    job.outputs.iter().all(|(_, target)| match target {
        StemTarget::Only(group) => offered.groups.contains(group),
        StemTarget::Without(group) => has_rest(offered, *group),
        StemTarget::Other => offered.other,
    }) && (job.stem_task == SeparationMode::Two || offered.full)
}

/// Refuses a separation that no single route can do completely.
fn check_routes(model: &Model, job: &StemsJob) -> Result<(), Error> {
    let routes = model.routes();
    if routes.is_empty() || routes.iter().any(|route| fits(&route.limits, job)) {
        return Ok(());
    }
    let message = format!(
        "No single provider of {} can produce all stems of this request.",
        model.id
    );
    Err(Error::at_field(
        ErrorCode::UnsupportedValue,
        "stem_task",
        message,
    ))
}

/// The group with this name; `None` without a name, or if the name is that of a separation mode.
fn requested_group(
    model: &Model,
    offered: &StemLimits,
    name: Option<&str>,
) -> Result<Option<StemGroup>, Error> {
    let Some(name) = name else { return Ok(None) };
    if ["two", "twelve"].contains(&normalize_name(name).as_str()) {
        return Ok(None);
    }
    let group = StemGroup::from_name(name).ok_or_else(|| refuse_group(model, offered, name))?;
    check_offered(model, offered, group)?;
    Ok(Some(group))
}

fn check_offered(model: &Model, offered: &StemLimits, group: StemGroup) -> Result<(), Error> {
    if offered.groups.contains(&group) {
        Ok(())
    } else {
        Err(refuse_group(model, offered, group.name()))
    }
}

fn refuse_group(model: &Model, offered: &StemLimits, name: &str) -> Error {
    let groups = offered
        .groups
        .iter()
        .map(|group| group.name())
        .collect::<Vec<_>>()
        .join(", ");
    let message = format!(
        "{} cannot separate {name:?}. It can separate: {groups}.",
        model.id
    );
    Error::at_field(ErrorCode::UnsupportedValue, "stem_type_group_name", message)
}

/// Checks that the source can be separated now, and returns its files.
fn check_source(source: &Clip, order: &SeparationOrder) -> Result<ClipMedia, Error> {
    let not_ready = |state: &str| {
        Error::at_field(
            ErrorCode::ClipNotReady,
            "continue_clip_id",
            format!("The clip {state}."),
        )
    };
    let source_task = source.origin.task();
    if order.source_task.is_some() && order.source_task != source_task {
        let message = "The clip did not come from this task.";
        return Err(Error::at_field(ErrorCode::InvalidValue, "task_id", message));
    }
    if source.is_trashed {
        return Err(not_ready("is in the trash. Restore it first"));
    }
    match (source.state, source.media) {
        (ClipState::Complete, Some(_)) if source.media_removed => {
            Err(not_ready("has expired, and its audio was removed"))
        }
        (ClipState::Complete, Some(media)) => Ok(media),
        (ClipState::Failed, _) => Err(not_ready(
            "was not made, because its task failed or was cancelled",
        )),
        _ => Err(not_ready("is not complete yet")),
    }
}

/// The clips of a task, by position.
pub async fn clips_of_task(
    app: &Ctx,
    account: AccountId,
    task: TaskId,
) -> Result<Vec<Clip>, Error> {
    Ok(app
        .store
        .read(move |conn| store::clips::of_task(conn, task, account))
        .await?)
}

pub async fn clip(app: &Ctx, account: AccountId, id: ClipId) -> Result<Clip, Error> {
    let found = app
        .store
        .read(move |conn| store::clips::by_id(conn, id, account))
        .await?;
    found.ok_or_else(clip_not_found)
}

/// The order that made a clip; `None` for an upload.
pub async fn order_of(
    app: &AppParts,
    account: AccountId,
    clip: &Clip,
) -> Result<Option<TaskPayload>, Error> {
    Ok(match (clip.origin.task(), &clip.past_payload) {
        // The task's record was removed; the clip has kept the order.
        (Some(_), Some(payload)) => Some(payload.clone()),
        (Some(task), None) => Some(tasks::get(app, account, task).await?.payload),
        (None, _) => None,
    })
}

/// The error for an id that is malformed or not the account's.
pub fn clip_not_found() -> Error {
    Error::plain(ErrorCode::ClipNotFound, "There is no clip with this id.")
}

/// The clip that a field of the body names.
pub async fn clip_param(
    app: &Ctx,
    account: AccountId,
    id: ClipId,
    param: &str,
) -> Result<Clip, Error> {
    let found = app
        .store
        .read(move |conn| store::clips::by_id(conn, id, account))
        .await?;
    found.ok_or_else(|| {
        Error::at_field(
            ErrorCode::ClipNotFound,
            param,
            "There is no clip with this id.",
        )
    })
}

/// The account's clips among these ids, in this order.
pub async fn clips(app: &Ctx, account: AccountId, ids: Vec<ClipId>) -> Result<Vec<Clip>, Error> {
    app.store
        .read(move |conn| -> Result<Vec<Clip>, Error> {
            let mut found = Vec::new();
            for id in ids {
                found.extend(store::clips::by_id(conn, id, account)?);
            }
            Ok(found)
        })
        .await
}

pub async fn list(
    app: &Ctx,
    account: AccountId,
    is_trashed: bool,
    page: PageQuery<ClipId>,
) -> Result<(Vec<Clip>, bool), Error> {
    let (limit, one_more) = (page.limit, page.with_one_more());
    let read = app
        .store
        .long_read(move |conn| store::clips::page(conn, account, is_trashed, one_more));
    let mut clips = store::await_within_limit(read).await?;
    let has_more = store::page::truncate_to_limit(&mut clips, limit);
    Ok((clips, has_more))
}

/// Moves a clip into the trash or out of it.
pub async fn set_trashed(
    app: &Ctx,
    account: AccountId,
    id: ClipId,
    is_trashed: bool,
) -> Result<Clip, Error> {
    let write = app
        .store
        .write(move |conn| store::clips::set_trashed(conn, id, account, is_trashed));
    store::await_within_limit(write).await?;
    clip(app, account, id).await
}
