//! One run of one task, from its payload to an [`Outcome`].

use std::sync::Arc;

use bytes::Bytes;

use crate::app::App;
use crate::domain::assets::{self, Lifetime};
use crate::error::{Error, ErrorCode};
use crate::ids::{AssetId, ClipId};
use crate::model::media::{Asset, MediaType};
use crate::model::money::Quantity;
use crate::model::music::ClipMedia;
use crate::model::task::{Output, Payload, StemsJob, Task, TaskFailure, VideoJob, VideoOutput};
use crate::engines::{EngineError, Watch, animatic_engine, stems_engine};
use crate::store;

/// Attempts after which a task that keeps killing its process is given up.
const ATTEMPTS: u32 = 50;

/// How a run ended.
pub(super) enum Outcome {
    /// It made this.
    Made(Box<Made>),
    /// It cannot be made.
    Failed(TaskFailure),
    /// It was interrupted: called off, or to be resumed.
    Stopped,
}

/// What a run made; the files are in place, nothing refers to them yet.
pub(super) struct Made {
    pub(super) output: Output,
    pub(super) assets: Vec<Asset>,
    pub(super) clips: Vec<(ClipId, ClipMedia)>,
    /// What is paid for.
    pub(super) quantity: Quantity,
}

/// Runs a task. Interrupting it loses nothing but time.
pub(super) async fn run(app: &App, task: &Task, watch: &Arc<Watch>) -> Outcome {
    if task.attempts > ATTEMPTS {
        let message = format!("The task was begun {ATTEMPTS} times and never came to an end.");
        return Outcome::Failed(TaskFailure {
            code: ErrorCode::GenerationFailed,
            message,
        });
    }
    tracing::info!(attempt = task.attempts, model = %task.model, "task begun");
    let made = match &task.payload {
        Payload::VideoV1(job) => video(app, task, job, watch).await,
        Payload::StemsV1(job) => separation(app, task, job, watch).await,
    };
    match made {
        Ok(made) => Outcome::Made(Box::new(made)),
        Err(RunError::Engine(EngineError::Stopped)) => Outcome::Stopped,
        Err(RunError::Engine(EngineError::Source(why))) => {
            let message = format!("The source cannot be used: {why}.");
            Outcome::Failed(TaskFailure {
                code: ErrorCode::GenerationFailed,
                message,
            })
        }
        Err(RunError::Engine(EngineError::Broken(why))) => {
            tracing::error!(%why, "the engine failed");
            let message = "The model failed at this task. It costs nothing.".into();
            Outcome::Failed(TaskFailure {
                code: ErrorCode::GenerationFailed,
                message,
            })
        }
        Err(RunError::Gone) => {
            let message = "The source's media was removed before the task began.".into();
            Outcome::Failed(TaskFailure {
                code: ErrorCode::GenerationFailed,
                message,
            })
        }
        Err(RunError::Inside(error)) => {
            tracing::error!(inside = ?error.inside(), "the run failed");
            let message = "Something went wrong inside the gateway. The task costs nothing.".into();
            Outcome::Failed(TaskFailure {
                code: ErrorCode::InternalError,
                message,
            })
        }
    }
}

enum RunError {
    Engine(EngineError),
    /// The source's file is not there any more.
    Gone,
    Inside(Error),
}

impl From<EngineError> for RunError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<Error> for RunError {
    fn from(error: Error) -> Self {
        Self::Inside(error)
    }
}

async fn video(
    app: &App,
    task: &Task,
    job: &VideoJob,
    watch: &Arc<Watch>,
) -> Result<Made, RunError> {
    let picture = match job.picture {
        Some(id) => Some(load(app, id).await?),
        None => None,
    };
    let (job, watching) = (job.clone(), watch.clone());
    let made = app
        .compute(move || animatic_engine::make(&job, picture.as_deref(), &watching))
        .await??;
    let keep = async |media, bytes: Vec<u8>| {
        assets::keep(app, task.account, media, bytes.into(), Lifetime::Media).await
    };
    let video = keep(MediaType::Mp4, made.mp4).await?;
    let poster = keep(MediaType::Jpeg, made.poster).await?;
    let sheet = keep(MediaType::Jpeg, made.sheet).await?;
    let output = Output::VideoV1(VideoOutput {
        video: video.id,
        poster: poster.id,
        sheet: sheet.id,
        width: made.width,
        height: made.height,
        milliseconds: made.milliseconds,
        size_bytes: video.size_bytes,
        sha256: video.sha256.clone(),
        expires_at_micros: video
            .expires_at
            .map_or(i64::MAX, crate::clock::Timestamp::micros),
        direction: made.direction,
    });
    let quantity = Quantity {
        milliseconds: made.milliseconds,
        pixels: u64::from(made.width) * u64::from(made.height),
        stems: 0,
    };
    Ok(Made {
        output,
        assets: vec![video, poster, sheet],
        clips: Vec::new(),
        quantity,
    })
}

async fn separation(
    app: &App,
    task: &Task,
    job: &StemsJob,
    watch: &Arc<Watch>,
) -> Result<Made, RunError> {
    let source = load(app, job.source_audio).await?;
    let (engine_job, watching) = (job.clone(), watch.clone());
    let made = app
        .compute(move || stems_engine::separate(&engine_job, &source, &watching))
        .await??;
    let mut assets = Vec::new();
    let mut clips = Vec::new();
    for ((id, _), clip) in job.outputs.iter().zip(made) {
        let (media, stored) = assets::keep_clip(app, task.account, clip).await?;
        clips.push((*id, media));
        assets.extend(stored);
    }
    let quantity = Quantity {
        milliseconds: job.milliseconds,
        pixels: 0,
        stems: clips.len() as u64,
    };
    let output = Output::ClipsV1 {
        clips: clips.iter().map(|(id, _)| *id).collect(),
    };
    Ok(Made {
        output,
        assets,
        clips,
        quantity,
    })
}

async fn load(app: &App, id: AssetId) -> Result<Bytes, RunError> {
    let asset = app
        .store
        .read(move |conn| store::assets::by_id(conn, id).map_err(Error::from))
        .await?;
    match asset {
        Some(asset) if asset.removed_at.is_none() => {
            Ok(app.blobs.get(id, asset.media).await.map_err(Error::from)?)
        }
        _ => Err(RunError::Gone),
    }
}
