//! A task as a provider's order: media loaded from the store, this gateway's ids replaced by the
//! provider's.

use std::sync::Arc;

use bytes::Bytes;
use providers::order::{
    Choice, MediaFile, PictureRole, SeparationSpec, SongSpec, SourcePicture, SourceRecording,
    UpstreamClip, VideoOptions, VideoSpec, WorkSpec,
};
use providers::{ModelLimits, Order, PicturePurpose, StemGroup, StemTarget, VideoLimits};
use serde_json::{Map, Value};

use mediagate_core::app::App;
use mediagate_core::domain::assets;
use mediagate_core::retry;
use mediagate_core::upstream::{ProviderCredential, ProviderSite};
use mediagate_model::catalog::Route;
use mediagate_model::error::Error;
use mediagate_model::ids::{AssetId, ClipId};
use mediagate_model::music::{Clip, ClipUpstream};
use mediagate_model::task::{SeparationMode, SongJob, StemsJob, Task, TaskPayload, VideoJob};
use mediagate_store as store;

/// An order, and the credential with which it must be sent.
pub(super) struct PreparedOrder {
    pub(super) order: Order,
    pub(super) credential: Option<Arc<ProviderCredential>>,
}

/// Why a task cannot become an order.
pub(super) enum OrderError {
    /// A source was removed.
    Gone(&'static str),
    /// The route cannot pass on the model name that the caller used.
    UnknownName,
    /// The database or the files failed.
    Internal(Error),
}

impl From<Error> for OrderError {
    fn from(error: Error) -> Self {
        Self::Internal(error)
    }
}

/// Builds the order for this route.
pub(super) async fn build(
    app: &App,
    task: &Task,
    route: &Route,
    site: &ProviderSite,
) -> Result<PreparedOrder, OrderError> {
    let (work, credential) = match &task.payload {
        TaskPayload::VideoV1(job) => (WorkSpec::Video(video(app, job, route).await?), None),
        TaskPayload::StemsV1(job) => {
            let (stems, credential) = stems(app, task, job, route).await?;
            (WorkSpec::Stems(stems), credential)
        }
        TaskPayload::SongV1(job) => {
            let (song, credential) = song(app, task, job, route).await?;
            (WorkSpec::Song(song), credential)
        }
    };
    let model = route
        .sent_name(&task.asked_model)
        .ok_or(OrderError::UnknownName)?;
    Ok(PreparedOrder {
        order: Order {
            // Set when the submission is created: it is the submission's id.
            idempotency_key: String::new(),
            model: model.to_owned(),
            work,
            extra: extra(task, route),
        },
        credential: credential.and_then(|id| site.credential(&id).cloned()),
    })
}

/// Additional fields for the provider's request: the operator's are applied last.
pub(super) fn extra(task: &Task, route: &Route) -> Map<String, Value> {
    let mut extra = match &task.payload {
        TaskPayload::VideoV1(job) => job.options.provider_options.clone(),
        TaskPayload::StemsV1(_) | TaskPayload::SongV1(_) => Map::new(),
    };
    providers::merge(&mut extra, &route.extra);
    extra
}

async fn video(app: &App, job: &VideoJob, route: &Route) -> Result<VideoSpec, OrderError> {
    let takes_references = matches!(&route.limits, ModelLimits::Video(video) if video.pictures.purpose == PicturePurpose::References);
    let mut pictures = Vec::new();
    for (position, picture) in job.pictures.iter().enumerate() {
        // Pictures without a role in the request come first, and count by their position: the first
        // is the first frame and the second the last, unless the model takes only references.
        let role = match (picture.role, position) {
            (Choice::Asked(role), _) => role,
            (Choice::Default(_), 0) if !takes_references => PictureRole::FirstFrame,
            (Choice::Default(_), 1) if !takes_references => PictureRole::LastFrame,
            (Choice::Default(_), _) => PictureRole::Reference,
        };
        let file = file(app, picture.file, "picture")
            .await?
            .ok_or(OrderError::Gone("An image"))?;
        pictures.push(SourcePicture { role, file });
    }
    Ok(VideoSpec {
        prompt: job.prompt.clone(),
        options: VideoOptions {
            audio: audio(job, route),
            ..job.options.clone()
        },
        pictures,
        seconds: u32::try_from(job.milliseconds / 1000).unwrap_or(u32::MAX),
        size: (job.width, job.height),
    })
}

/// The audio field of the request: the caller's choice, or the priced choice if this route's
/// default differs from it.
fn audio(job: &VideoJob, route: &Route) -> Option<Choice<bool>> {
    let ModelLimits::Video(VideoLimits {
        audio: Some(route_default),
        ..
    }) = route.limits
    else {
        return None;
    };
    let priced = job.options.audio;
    priced.filter(|choice| *choice != Choice::Default(route_default))
}

async fn stems(
    app: &App,
    task: &Task,
    job: &StemsJob,
    route: &Route,
) -> Result<(SeparationSpec, Option<String>), OrderError> {
    let source = clip(app, task, job.source).await?;
    let (recording, credential) = recording(app, &source, job.source_audio, route).await?;
    let ModelLimits::Music(limits) = &route.limits else {
        return Err(Error::internal("a music route without music limits").into());
    };
    let (groups, other): (&[StemGroup], bool) = limits
        .stems
        .as_ref()
        .map_or((&[], false), |stems| (&stems.groups, stems.other));
    let returns_remainder = |group| {
        limits
            .stems
            .as_ref()
            .is_some_and(|stems| stems.two && stems.complements.contains(group))
    };
    let is_full = match job.stem_task {
        SeparationMode::Twelve => true,
        // If the provider does not return the remainder, all parts are ordered and the remainder is
        // their sum.
        SeparationMode::Two => !job.outputs.iter().all(|(_, target)| match target {
            StemTarget::Only(group) | StemTarget::Without(group) => returns_remainder(group),
            StemTarget::Other => false,
        }),
    };
    let targets = if is_full {
        let single_groups = groups.iter().map(|group| StemTarget::Only(*group));
        single_groups
            .chain(other.then_some(StemTarget::Other))
            .collect()
    } else {
        job.outputs.iter().map(|(_, target)| *target).collect()
    };
    let stems = SeparationSpec {
        source: recording,
        targets,
        full: is_full,
        title: job.title.clone(),
    };
    Ok((stems, credential))
}

async fn song(
    app: &App,
    task: &Task,
    job: &SongJob,
    route: &Route,
) -> Result<(SongSpec, Option<String>), OrderError> {
    let mut song = SongSpec {
        task: job.task.clone(),
        fields: job.fields.clone(),
        uploads: Vec::new(),
    };
    let mut credential = None;
    for (index, (field, id)) in job.clips.iter().enumerate() {
        let clip = clip(app, task, *id).await?;
        let media = clip.media.ok_or(OrderError::Gone("A clip"))?;
        let (recording, clip_credential) = recording(app, &clip, media.audio, route).await?;
        credential = credential.or(clip_credential);
        if let Some(upstream) = &recording.upstream {
            set_id(&mut song.fields, field, &upstream.clip_id);
            if let (0, Some(task_id)) = (index, &upstream.task_id) {
                // From this id the provider finds the account that owns the clip.
                song.fields
                    .insert("task_id".into(), Value::from(task_id.as_str()));
            }
        }
        song.uploads.push((field.clone(), recording));
    }
    if job.persona.is_some() {
        match persona_upstream(app, task, job).await {
            Some((provider, id, persona_credential)) if provider == route.provider => {
                song.fields.insert("persona_id".into(), Value::from(id));
                credential = Some(persona_credential);
            }
            _ => return Err(OrderError::Gone("The persona")),
        }
    }
    Ok((song, credential))
}

/// Sets an id at the path given by a field such as `cover_clip_id` or `mashup_clip_ids[1]`.
fn set_id(fields: &mut Map<String, Value>, field: &str, id: &str) {
    let position = field
        .strip_suffix(']')
        .and_then(|field| field.split_once('['))
        .and_then(|(name, index)| Some((name, index.parse::<usize>().ok()?)));
    match position {
        None => {
            fields.insert(field.to_owned(), Value::from(id));
        }
        Some((name, index)) => {
            if let Some(entry) = fields.get_mut(name).and_then(|list| list.get_mut(index)) {
                *entry = Value::from(id);
            }
        }
    }
}

/// A clip's recording: if the route's provider made it, the provider's id with the credential that
/// it belongs to; else its content.
async fn recording(
    app: &App,
    clip: &Clip,
    audio: AssetId,
    route: &Route,
) -> Result<(SourceRecording, Option<String>), OrderError> {
    let upstream: Option<&ClipUpstream> = clip
        .upstream
        .as_ref()
        // Without an id the provider does not know the clip, so its content is sent.
        .filter(|upstream| upstream.provider == route.provider && !upstream.clip_id.is_empty());
    let file = match file(app, audio, "recording").await? {
        Some(file) => file,
        // The provider has the recording and is sent only its id.
        None if upstream.is_some() => MediaFile {
            name: "recording.flac".into(),
            mime: "audio/flac",
            bytes: Bytes::new(),
            url: None,
        },
        None => return Err(OrderError::Gone("The source's audio")),
    };
    let recording = SourceRecording {
        file,
        milliseconds: clip.media.map_or(0, |media| media.milliseconds),
        upstream: upstream.map(|upstream| UpstreamClip {
            clip_id: upstream.clip_id.clone(),
            task_id: upstream.task_id.clone(),
        }),
    };
    Ok((
        recording,
        upstream.map(|upstream| upstream.credential.clone()),
    ))
}

/// The persona's provider, its id there, and the credential with which it was made.
async fn persona_upstream(
    app: &App,
    task: &Task,
    job: &SongJob,
) -> Option<(String, String, String)> {
    let (id, account) = (job.persona?, task.account);
    let persona = app
        .store
        .read(move |conn| store::personas::by_id(conn, id, account))
        .await;
    let upstream = persona.ok()??.upstream?;
    Some((upstream.provider, upstream.persona_id, upstream.credential))
}

async fn clip(app: &App, task: &Task, id: ClipId) -> Result<Clip, OrderError> {
    let account = task.account;
    let clip = app
        .store
        .read(move |conn| store::clips::by_id(conn, id, account))
        .await
        .map_err(Error::from)?;
    clip.ok_or(OrderError::Gone("A clip"))
}

async fn file(app: &App, id: AssetId, name: &str) -> Result<Option<MediaFile>, OrderError> {
    let Some((asset, bytes)) = retry::load(|| assets::load(app, id)).await? else {
        return Ok(None);
    };
    Ok(Some(MediaFile {
        name: format!("{name}.{}", asset.media.extension()),
        mime: asset.media.mime(),
        url: assets::temporary_url(app, &asset),
        bytes,
    }))
}
