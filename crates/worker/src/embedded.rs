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
use mediagate_core::pricing::DeliveredWork;
use mediagate_core::retry;
use mediagate_media::engines::child::{self, OwnModel};
use mediagate_media::engines::clip::MadeClip;
use mediagate_media::engines::retouch::RetouchOptions;
use mediagate_media::engines::{self, EngineControl, EngineError, animatic_engine, video_codec};
use mediagate_media::origin::WatermarkPayload;
use mediagate_model::catalog::EmbeddedEngine;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::AssetId;
use mediagate_model::media::MediaType;
use mediagate_model::provenance::{ProvenanceMark, ResultKind};
use mediagate_model::task::{
    PictureRole, StemsJob, Task, TaskFailure, TaskPayload, TaskResult, VideoJob, VideoOutput,
};

/// Pause after a child that could not start, until the machine may be in order again.
const START_FAILURE_PAUSE: Duration = Duration::from_secs(2);

/// Number of children that a task may crash before it fails.
const MAX_DEATHS: u32 = 3;

/// Pause after a child's death, until its resources are free.
const DEATH_PAUSE: Duration = Duration::from_millis(500);

/// Pause before a task is claimed again if its model is missing, or if it waits for another task
/// that runs alone.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Runs a task; one that must run alone takes the only permit of `exclusive_slot`. An interruption
/// loses only time.
pub(super) async fn run(
    app: &App,
    task: &Task,
    run: &TaskRun,
    exclusive_slot: &Arc<Semaphore>,
) -> RunOutcome {
    if task.deaths >= Some(MAX_DEATHS) {
        // Retrying would crash more processes, so the failure is not retryable.
        let message = format!(
            "The task crashed its process {MAX_DEATHS} times and is not retried. Nothing was charged."
        );
        return RunOutcome::failed(ErrorCode::ProviderRejected, message);
    }
    // A task whose child died may need very much memory, so no two such tasks run at the same time.
    // A task that has to wait gives up its worker slot, so that other tasks can use the slot.
    let exclusive_permit = match task.deaths {
        None => None,
        Some(_) => match exclusive_slot.clone().try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => return RunOutcome::RetryLater(RETRY_PAUSE),
        },
    };
    let (is_alone, attempt) = (exclusive_permit.is_some(), task.attempts);
    tracing::info!(attempt, is_alone, model = %task.model, "task started");
    let is_installed = app.models.installed_models.has(&task.model);
    let engine = engines::engine(&task.model).or(is_installed.then_some(EmbeddedEngine::Onnx));
    let result = match (engine, &task.payload) {
        (None, _) => Err(RunError::NoModel),
        (Some(EmbeddedEngine::Animatic), TaskPayload::VideoV1(job)) => {
            run_video(app, task, job, &run.control, exclusive_permit).await
        }
        (
            Some(engine @ (EmbeddedEngine::Stems | EmbeddedEngine::Onnx)),
            TaskPayload::StemsV1(job),
        ) => run_separation(app, task, job, engine, &run.control, exclusive_permit).await,
        (Some(engine), _) => {
            let message = format!("{engine:?} cannot run tasks of this kind");
            Err(RunError::Internal(Error::internal(message)))
        }
    };
    match result {
        Ok(output) => RunOutcome::Succeeded(Box::new(output)),
        Err(RunError::Engine(EngineError::Stopped)) => RunOutcome::Stopped,
        Err(RunError::Engine(EngineError::Died(reason))) => count_death(task, &reason),
        // The task is not at fault, so this counts neither as a death nor as a failure.
        Err(RunError::Engine(EngineError::Unstarted(_) | EngineError::Unconfined(_))) => {
            RunOutcome::RetryLater(START_FAILURE_PAUSE)
        }
        Err(RunError::Engine(EngineError::Source(reason))) => {
            let message = format!("The source cannot be used: {reason}.");
            RunOutcome::Failed(TaskFailure {
                code: ErrorCode::GenerationFailed,
                message,
            })
        }
        Err(RunError::Engine(EngineError::Broken(reason))) => {
            tracing::error!(why = %reason, "the engine failed");
            let message = "The model failed at this task. Nothing was charged.".into();
            RunOutcome::Failed(TaskFailure {
                code: ErrorCode::GenerationFailed,
                message,
            })
        }
        Err(RunError::SourceRemoved) => {
            let message = "The source's media was removed before the task started.".into();
            RunOutcome::Failed(TaskFailure {
                code: ErrorCode::GenerationFailed,
                message,
            })
        }
        // The model existed when the task was claimed. Another process may still have it.
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
    SourceRemoved,
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
            MarkError::NoChild(error) => Self::Engine(error),
            MarkError::NotSigned(reason) => {
                Self::Engine(EngineError::Broken(format!("not signed: {reason}")))
            }
        }
    }
}

impl From<Error> for RunError {
    fn from(error: Error) -> Self {
        Self::Internal(error)
    }
}

/// Counts a death. The next run fails the task if there were too many.
fn count_death(task: &Task, cause: &str) -> RunOutcome {
    let deaths = task.deaths.unwrap_or(0) + 1;
    tracing::error!(deaths, why = %cause, "the task crashed its process");
    RunOutcome::Died(deaths, DEATH_PAUSE)
}

/// The permit to run alone, held by a task until its child has exited.
type ExclusivePermit = Option<OwnedSemaphorePermit>;

async fn run_video(
    app: &App,
    task: &Task,
    job: &VideoJob,
    control: &Arc<EngineControl>,
    exclusive_permit: ExclusivePermit,
) -> Result<RunOutput, RunError> {
    let retouch = RetouchOptions {
        mark: app.secrets.origin.watermark(task.id),
        label: job.options.label,
    };
    let made_video = make_video(app, job, retouch, control, exclusive_permit).await?;
    let watermark = retouch.mark.filter(|_| made_video.is_marked);
    let possible_marks = [
        (watermark.is_some(), ProvenanceMark::Watermark),
        (job.options.label, ProvenanceMark::Label),
    ];
    let marks: Vec<ProvenanceMark> = possible_marks
        .iter()
        .filter(|(is_applied, _)| *is_applied)
        .map(|(_, mark)| *mark)
        .collect();
    let facts = SigningFacts::of_task(task, &task.id.video(), None, &job.prompt);
    let film = RenderedFilm {
        mp4: made_video.mp4,
        poster: made_video.poster,
        sheet: made_video.sheet,
        is_from_words: job.pictures.is_empty(),
    };
    let (film, provenance) = marking::sign_film(app, facts, film, &marks).await?;
    let store_file = async |media, bytes: Vec<u8>| {
        let bytes = Bytes::from(bytes);
        let bytes = || bytes.clone();
        retry::store(|| assets::keep(app, task.account, media, bytes(), AssetLifetime::Media)).await
    };
    let video = store_file(MediaType::Mp4, film.mp4).await?;
    let poster = store_file(MediaType::Jpeg, film.poster).await?;
    let sheet = store_file(MediaType::Jpeg, film.sheet).await?;
    let result = TaskResult::VideoV1(VideoOutput {
        media: video.media,
        codec: Some(video_codec::H264.into()),
        video: video.id,
        poster: Some(poster.id),
        sheet: Some(sheet.id),
        width: made_video.width,
        height: made_video.height,
        milliseconds: made_video.milliseconds,
        size_bytes: video.size_bytes,
        sha256: video.sha256.clone(),
        expires_at_micros: video
            .expires_at
            .map_or(i64::MAX, mediagate_model::clock::Timestamp::micros),
        direction: made_video.reading.direction,
        not_understood: made_video.reading.not_understood.into(),
        provenance: Some(provenance),
    });
    let delivered = DeliveredWork::Film {
        milliseconds: Some(made_video.milliseconds),
        pixels: Some(u64::from(made_video.width) * u64::from(made_video.height)),
    };
    let watermark_id = watermark.map(|watermark| watermark.media_id);
    let fingerprint =
        marking::fingerprint_of_film(task, &video, true, watermark_id, made_video.fingerprint);
    Ok(RunOutput {
        fingerprints: vec![fingerprint],
        assets: vec![video, poster, sheet],
        ..RunOutput::new(result, delivered)
    })
}

async fn run_separation(
    app: &App,
    task: &Task,
    job: &StemsJob,
    engine: EmbeddedEngine,
    control: &Arc<EngineControl>,
    exclusive_permit: ExclusivePermit,
) -> Result<RunOutput, RunError> {
    let source = Arc::new(copy_source(app, job.source_audio).await?);
    let watermark = app.secrets.origin.watermark_of_stems(task.id);
    let own_model = (engine == EmbeddedEngine::Onnx).then(|| OwnModel {
        folder: app.config.models_folder.clone(),
        library: app.config.onnx_library.clone(),
        name: task.model.clone(),
    });
    let made_clips = separate(
        app,
        job,
        own_model,
        source.clone(),
        watermark,
        control,
        exclusive_permit,
    )
    .await?;
    let mut assets = Vec::new();
    let mut clips = Vec::new();
    let (mut provenance, mut fingerprints) = (Vec::new(), Vec::new());
    let mut made = Vec::new();
    for ((id, target), clip) in job.outputs.iter().zip(made_clips) {
        let facts = SigningFacts::of_task(task, &job.title, None, "");
        let clip_source = ClipSource::Edited(source.clone());
        let (clip, clip_provenance) = marking::sign_clip(app, facts, clip, clip_source).await?;
        let (media, stored) = retry::store(|| assets::keep_clip(app, task.account, &clip)).await?;
        let fingerprint = clip.fingerprint.clone();
        let watermark_id = watermark
            .filter(|_| clip.is_marked)
            .map(|watermark| watermark.media_id);
        let [audio, ..] = &stored;
        fingerprints.push(marking::fingerprint_of_clip(
            *id,
            audio,
            ResultKind::Stem,
            true,
            watermark_id,
            fingerprint,
        ));
        provenance.push((*id, clip_provenance));
        clips.push((*id, media));
        made.push(*target);
        assets.extend(stored);
    }
    let result = TaskResult::ClipsV1 {
        clips: clips.iter().map(|(id, _)| *id).collect(),
    };
    Ok(RunOutput {
        assets,
        clips,
        provenance,
        fingerprints,
        ..RunOutput::new(result, DeliveredWork::Stems(made))
    })
}

async fn make_video(
    app: &App,
    job: &VideoJob,
    retouch: RetouchOptions,
    control: &Arc<EngineControl>,
    exclusive_permit: ExclusivePermit,
) -> Result<animatic_engine::MadeVideo, RunError> {
    let picture = match job.picture(PictureRole::FirstFrame) {
        Some(id) => Some(copy_source(app, id).await?),
        None => None,
    };
    let (engines, job, control) = (app.engines.clone(), job.clone(), control.clone());
    let render = move || {
        // Moved here because the child may outlive the future that waits for it.
        let _permit = exclusive_permit;
        child::make_video(&engines, &job, picture.as_deref(), retouch, &control)
    };
    Ok(app.compute(render).await??)
}

async fn separate(
    app: &App,
    job: &StemsJob,
    own_model: Option<OwnModel>,
    source: Arc<TempPath>,
    watermark: Option<WatermarkPayload>,
    control: &Arc<EngineControl>,
    exclusive_permit: ExclusivePermit,
) -> Result<Vec<MadeClip>, RunError> {
    let (engines, job, control) = (app.engines.clone(), job.clone(), control.clone());
    let separate = move || {
        let _permit = exclusive_permit;
        child::separate(&engines, &job, own_model, &source, watermark, &control)
    };
    Ok(app.compute(separate).await??)
}

/// Copies a source to a temporary file.
async fn copy_source(app: &App, id: AssetId) -> Result<TempPath, RunError> {
    let file = retry::load(|| assets::load_file(app, id)).await?;
    file.ok_or(RunError::SourceRemoved)
}
