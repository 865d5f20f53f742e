//! Embedded runs: a task in an engine, from its payload to a [`RunOutcome`].
//!
//! Engines run in children of this process, so that a crash ends only the child. Tasks that crashed
//! a child run one at a time, so that they do not compete for memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempPath;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::finish::RunOutcome;
use crate::run_output::RunOutput;
use crate::runs::TaskRun;
use mediagate_core::app::App;
use mediagate_core::domain::assets::{self, AssetLifetime};
use mediagate_core::domain::provenance::marking::{
    self, ClipSource, MarkError, RenderedFilm, SigningFacts,
};
use mediagate_media::engines::child::{self, OwnModel};
use mediagate_media::engines::clip::MadeClip;
use mediagate_media::engines::retouch::RetouchOptions;
use mediagate_media::engines::{self, EngineControl, EngineError, animatic_engine};
use mediagate_media::origin::WatermarkPayload;
use mediagate_model::catalog::EmbeddedEngine;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::AssetId;
use mediagate_model::media::MediaType;
use mediagate_model::price::WorkQuantity;
use mediagate_model::provenance::{ProvenanceMark, ResultKind};
use mediagate_model::retry;
use mediagate_model::task::{
    StemsJob, Task, TaskFailure, TaskPayload, TaskResult, VideoJob, VideoOutput,
};

/// Number of children that a task may crash before it fails.
const DEATHS: u32 = 3;

/// Pause after a child's death, until its resources are free.
const AFTER_DEATH: Duration = Duration::from_millis(500);

/// Pause before a task is claimed again if its model is missing, or if it waits for another task
/// that runs alone.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Runs a task; one that must run alone takes the only permit of `alone`. An interruption loses
/// nothing but time.
pub(super) async fn run(
    app: &App,
    task: &Task,
    run: &TaskRun,
    alone: &Arc<Semaphore>,
) -> RunOutcome {
    if task.deaths >= Some(DEATHS) {
        // Retrying would crash more processes, so the failure is not retryable.
        let message = format!(
            "The task crashed its process {DEATHS} times and is not retried. Nothing was charged."
        );
        return RunOutcome::failed(ErrorCode::ProviderRejected, message);
    }
    // A task whose child died may need very much memory, so no two such tasks run at the same time.
    // It does not wait in this slot, so that other tasks can use the slot.
    let alone = match task.deaths {
        None => None,
        Some(_) => match alone.clone().try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => return RunOutcome::RetryLater(RETRY_PAUSE),
        },
    };
    let (is_alone, attempt) = (alone.is_some(), task.attempts);
    tracing::info!(attempt, is_alone, model = %task.model, "task started");
    let is_own = app.models.installed_models.has(&task.model);
    let engine = engines::engine(&task.model).or(is_own.then_some(EmbeddedEngine::Onnx));
    let made = match (engine, &task.payload) {
        (None, _) => Err(RunError::NoModel),
        (Some(EmbeddedEngine::Animatic), TaskPayload::VideoV1(job)) => {
            run_video(app, task, job, &run.watch, alone).await
        }
        (
            Some(engine @ (EmbeddedEngine::Stems | EmbeddedEngine::Onnx)),
            TaskPayload::StemsV1(job),
        ) => run_separation(app, task, job, engine, &run.watch, alone).await,
        (Some(engine), _) => {
            let why = format!("{engine:?} does no work of this kind");
            Err(RunError::Internal(Error::internal(why)))
        }
    };
    match made {
        Ok(made) => RunOutcome::RunOutput(Box::new(made)),
        Err(RunError::Engine(EngineError::Stopped)) => RunOutcome::Stopped,
        Err(RunError::Engine(EngineError::Died(why))) => count_death(task, &why),
        Err(RunError::Engine(EngineError::Source(why))) => {
            let message = format!("The source cannot be used: {why}.");
            RunOutcome::Failed(TaskFailure {
                code: ErrorCode::GenerationFailed,
                message,
            })
        }
        Err(RunError::Engine(EngineError::Broken(why))) => {
            tracing::error!(%why, "the engine failed");
            let message = "The model failed at this task. Nothing was charged.".into();
            RunOutcome::Failed(TaskFailure {
                code: ErrorCode::GenerationFailed,
                message,
            })
        }
        Err(RunError::Gone) => {
            let message = "The source's media was removed before the task started.".into();
            RunOutcome::Failed(TaskFailure {
                code: ErrorCode::GenerationFailed,
                message,
            })
        }
        // The model existed when the task was claimed. Another process may have it.
        Err(RunError::NoModel) => RunOutcome::RetryLater(RETRY_PAUSE),
        Err(RunError::Internal(error)) => {
            tracing::error!(inside = ?error.internal_cause(), "the run failed");
            let message = "An internal error occurred in the gateway. Nothing was charged.".into();
            RunOutcome::Failed(TaskFailure {
                code: ErrorCode::InternalError,
                message,
            })
        }
    }
}

enum RunError {
    Engine(EngineError),
    /// The source's file has been removed.
    Gone,
    /// The model's files have been removed, or are not on this machine.
    NoModel,
    Internal(Error),
}

impl From<EngineError> for RunError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<MarkError> for RunError {
    fn from(error: MarkError) -> Self {
        match error {
            MarkError::Internal(error) => Self::Internal(error),
            MarkError::NotSigned(why) => {
                Self::Engine(EngineError::Broken(format!("not signed: {why}")))
            }
        }
    }
}

impl From<Error> for RunError {
    fn from(error: Error) -> Self {
        Self::Internal(error)
    }
}

/// Counts a death; the task is run again, or fails.
fn count_death(task: &Task, why: &str) -> RunOutcome {
    let deaths = task.deaths.unwrap_or(0) + 1;
    tracing::error!(deaths, %why, "the task crashed its process");
    RunOutcome::Died(deaths, AFTER_DEATH)
}

/// The permit to run alone, held by a task until its child has exited.
type ExclusivePermit = Option<OwnedSemaphorePermit>;

async fn run_video(
    app: &App,
    task: &Task,
    job: &VideoJob,
    watch: &Arc<EngineControl>,
    alone: ExclusivePermit,
) -> Result<RunOutput, RunError> {
    let touch = RetouchOptions {
        mark: app.secrets.origin.watermark(task.id),
        label: job.label,
    };
    let made = make_video(app, job, touch, watch, alone).await?;
    let marked = touch.mark.filter(|_| made.is_marked);
    let more = [
        (marked.is_some(), ProvenanceMark::Watermark),
        (job.label, ProvenanceMark::Label),
    ];
    let more: Vec<ProvenanceMark> = more
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, mark)| *mark)
        .collect();
    let facts = SigningFacts::of_task(task, &task.id.video(), None, &job.prompt);
    let film = RenderedFilm {
        mp4: made.mp4,
        poster: made.poster,
        sheet: made.sheet,
        is_from_words: job.picture.is_none(),
    };
    let (film, provenance) = marking::sign_film(app, facts, film, &more).await?;
    let keep = async |media, bytes: Vec<u8>| {
        let bytes = Bytes::from(bytes);
        let bytes = || bytes.clone();
        retry::store(|| assets::keep(app, task.account, media, bytes(), AssetLifetime::Media)).await
    };
    let video = keep(MediaType::Mp4, film.mp4).await?;
    let poster = keep(MediaType::Jpeg, film.poster).await?;
    let sheet = keep(MediaType::Jpeg, film.sheet).await?;
    let output = TaskResult::VideoV1(VideoOutput {
        video: video.id,
        poster: Some(poster.id),
        sheet: Some(sheet.id),
        width: made.width,
        height: made.height,
        milliseconds: made.milliseconds,
        size_bytes: video.size_bytes,
        sha256: video.sha256.clone(),
        expires_at_micros: video
            .expires_at
            .map_or(i64::MAX, mediagate_model::clock::Timestamp::micros),
        direction: made.direction,
        provenance: Some(provenance),
    });
    let quantity = WorkQuantity {
        milliseconds: made.milliseconds,
        pixels: u64::from(made.width) * u64::from(made.height),
        parts: 1,
        parts_asked: 1,
    };
    let watermark = marked.map(|marking| marking.media_id);
    let print = marking::fingerprint_of_film(task, &video, true, watermark, made.fingerprint);
    Ok(RunOutput {
        prints: vec![print],
        assets: vec![video, poster, sheet],
        ..RunOutput::new(output, quantity)
    })
}

async fn run_separation(
    app: &App,
    task: &Task,
    job: &StemsJob,
    engine: EmbeddedEngine,
    watch: &Arc<EngineControl>,
    alone: ExclusivePermit,
) -> Result<RunOutput, RunError> {
    let source = Arc::new(file(app, job.source_audio).await?);
    let mark = app.secrets.origin.watermark_of_stems(task.id);
    let own_model = (engine == EmbeddedEngine::Onnx).then(|| OwnModel {
        folder: app.config.models_folder.clone(),
        library: app.config.onnx_library.clone(),
        name: task.model.clone(),
    });
    let made = separate(app, job, own_model, source.clone(), mark, watch, alone).await?;
    let mut assets = Vec::new();
    let mut clips = Vec::new();
    let (mut provenance, mut prints) = (Vec::new(), Vec::new());
    for ((id, _), clip) in job.outputs.iter().zip(made) {
        let facts = SigningFacts::of_task(task, &job.title, None, "");
        let made = ClipSource::Edited(source.clone());
        let (clip, told) = marking::sign_clip(app, facts, clip, made).await?;
        let (media, stored) = retry::store(|| assets::keep_clip(app, task.account, &clip)).await?;
        let likeness = clip.fingerprint.clone();
        let watermark = mark.filter(|_| clip.is_marked).map(|mark| mark.media_id);
        let [audio, ..] = &stored;
        prints.push(marking::fingerprint_of_clip(
            *id,
            audio,
            ResultKind::Stem,
            true,
            watermark,
            likeness,
        ));
        provenance.push((*id, told));
        clips.push((*id, media));
        assets.extend(stored);
    }
    let quantity = WorkQuantity {
        milliseconds: job.milliseconds,
        pixels: 0,
        parts: clips.len() as u64,
        parts_asked: job.outputs.len() as u64,
    };
    let output = TaskResult::ClipsV1 {
        clips: clips.iter().map(|(id, _)| *id).collect(),
    };
    Ok(RunOutput {
        assets,
        clips,
        provenance,
        prints,
        ..RunOutput::new(output, quantity)
    })
}

async fn make_video(
    app: &App,
    job: &VideoJob,
    touch: RetouchOptions,
    watch: &Arc<EngineControl>,
    alone: ExclusivePermit,
) -> Result<animatic_engine::MadeVideo, RunError> {
    let picture = match job.picture {
        Some(id) => Some(file(app, id).await?),
        None => None,
    };
    let (engines, job, watching) = (app.engines.clone(), job.clone(), watch.clone());
    let make = move || {
        // Moved here because the child may outlive the future that waits for it.
        let _alone = alone;
        child::make_video(&engines, &job, picture.as_deref(), touch, &watching)
    };
    Ok(app.compute(make).await??)
}

async fn separate(
    app: &App,
    job: &StemsJob,
    own_model: Option<OwnModel>,
    source: Arc<TempPath>,
    mark: Option<WatermarkPayload>,
    watch: &Arc<EngineControl>,
    alone: ExclusivePermit,
) -> Result<Vec<MadeClip>, RunError> {
    let (engines, job, watching) = (app.engines.clone(), job.clone(), watch.clone());
    let separate = move || {
        let _alone = alone;
        child::separate(&engines, &job, own_model, &source, mark, &watching)
    };
    Ok(app.compute(separate).await??)
}

/// Copies a source to a temporary file.
async fn file(app: &App, id: AssetId) -> Result<TempPath, RunError> {
    let file = retry::load(|| assets::load_file(app, id)).await?;
    file.ok_or(RunError::Gone)
}
