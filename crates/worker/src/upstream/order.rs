//! A task as a provider's order: media loaded from the store, this gateway's
//! ids replaced by the provider's own.

use std::sync::Arc;

use bytes::Bytes;
use providers::order::{
    File, Picture, PictureRole, Recording, Song, Stems, UpstreamClip, Video, Work,
};
use providers::{Limits, Order, Purpose, StemGroup, StemTarget, VideoLimits};
use serde_json::{Map, Value};

use mediagate_core::app::App;
use mediagate_core::domain::assets;
use mediagate_core::upstream::{Credential, Site};
use mediagate_model::catalog::Route;
use mediagate_model::error::Error;
use mediagate_model::ids::{AssetId, ClipId};
use mediagate_model::music::{Clip, ClipUpstream};
use mediagate_model::patience;
use mediagate_model::task::{Payload, SongJob, StemTask, StemsJob, Task, VideoJob};
use mediagate_store as store;

/// An order, and the credential that it must be sent with.
pub(super) struct Prepared {
    pub(super) order: Order,
    pub(super) credential: Option<Arc<Credential>>,
}

/// Why a task cannot become an order.
pub(super) enum Unusable {
    /// A source was removed.
    Gone(&'static str),
    /// The route cannot hand on the name that the caller used.
    Name,
    /// The database or the files.
    Inside(Error),
}

impl From<Error> for Unusable {
    fn from(error: Error) -> Self {
        Self::Inside(error)
    }
}

/// The order for this route.
pub(super) async fn build(
    app: &App,
    task: &Task,
    route: &Route,
    site: &Site,
) -> Result<Prepared, Unusable> {
    let (work, credential) = match &task.payload {
        Payload::VideoV1(job) => (Work::Video(video(app, job, route).await?), None),
        Payload::StemsV1(job) => {
            let (stems, known) = stems(app, task, job, route).await?;
            (Work::Stems(stems), known)
        }
        Payload::SongV1(job) => {
            let (song, known) = song(app, task, job, route).await?;
            (Work::Song(song), known)
        }
    };
    let model = route.sent_name(&task.asked_model).ok_or(Unusable::Name)?;
    Ok(Prepared {
        order: Order {
            key: String::new(),
            model: model.to_owned(),
            work,
            extra: extra(task, route),
        },
        credential: credential.and_then(|id| site.credential(&id).cloned()),
    })
}

/// What goes into the provider's request besides: the operator's word last.
fn extra(task: &Task, route: &Route) -> Map<String, Value> {
    let mut extra = match &task.payload {
        Payload::VideoV1(job) => job.provider_options.clone(),
        Payload::StemsV1(_) | Payload::SongV1(_) => Map::new(),
    };
    providers::merge(&mut extra, &route.extra);
    extra
}

async fn video(app: &App, job: &VideoJob, route: &Route) -> Result<Video, Unusable> {
    let references = matches!(&route.limits, Limits::Video(video) if video.pictures.purpose == Purpose::References);
    let sources = job.picture.iter().chain(&job.more_pictures);
    let by_place = sources.enumerate().map(|(place, id)| match place {
        _ if references => (PictureRole::Reference, id),
        0 => (PictureRole::FirstFrame, id),
        1 => (PictureRole::LastFrame, id),
        _ => (PictureRole::Reference, id),
    });
    let last = job
        .end_picture
        .iter()
        .map(|id| (PictureRole::LastFrame, id));
    let about = job.references.iter().map(|id| (PictureRole::Reference, id));
    let mut pictures = Vec::new();
    for (role, id) in by_place.chain(last).chain(about) {
        let file = file(app, *id, "picture")
            .await?
            .ok_or(Unusable::Gone("A picture"))?;
        pictures.push(Picture { role, file });
    }
    Ok(Video {
        prompt: job.prompt.clone(),
        negative_prompt: job.negative_prompt.clone(),
        pictures,
        seconds: u32::try_from(job.milliseconds / 1000).unwrap_or(u32::MAX),
        size: (job.width, job.height),
        seed: job.seed_is_asked.then_some(job.seed),
        audio: audio(job, route),
        user: job.user.clone(),
        conversation: job.conversation.clone(),
    })
}

/// What is said of the sound: what the caller chose, and what was priced where
/// this route would do otherwise by itself.
fn audio(job: &VideoJob, route: &Route) -> Option<bool> {
    let Limits::Video(VideoLimits {
        audio: Some(usual), ..
    }) = route.limits
    else {
        return None;
    };
    job.audio.filter(|on| job.audio_is_asked || *on != usual)
}

async fn stems(
    app: &App,
    task: &Task,
    job: &StemsJob,
    route: &Route,
) -> Result<(Stems, Option<String>), Unusable> {
    let source = clip(app, task, job.source).await?;
    let (recording, credential) = recording(app, &source, job.source_audio, route).await?;
    let Limits::Music(limits) = &route.limits else {
        return Err(Error::internal("a music route without music limits").into());
    };
    let (groups, other): (&[StemGroup], bool) = limits
        .stems
        .as_ref()
        .map_or((&[], false), |stems| (&stems.groups, stems.other));
    let rest_is_given = |group| {
        limits
            .stems
            .as_ref()
            .is_some_and(|stems| stems.two && stems.rests.contains(group))
    };
    let full = match job.stem_task {
        StemTask::Twelve => true,
        // The rest is then the sum of all other parts.
        StemTask::Two => !job.outputs.iter().all(|(_, target)| match target {
            StemTarget::Only(group) | StemTarget::Without(group) => rest_is_given(group),
            StemTarget::Other => false,
        }),
    };
    let targets = if full {
        let all = groups.iter().map(|group| StemTarget::Only(*group));
        all.chain(other.then_some(StemTarget::Other)).collect()
    } else {
        job.outputs.iter().map(|(_, target)| *target).collect()
    };
    let stems = Stems {
        source: recording,
        targets,
        full,
        title: job.title.clone(),
    };
    Ok((stems, credential))
}

async fn song(
    app: &App,
    task: &Task,
    job: &SongJob,
    route: &Route,
) -> Result<(Song, Option<String>), Unusable> {
    let mut song = Song {
        task: job.task.clone(),
        fields: job.fields.clone(),
        uploads: Vec::new(),
    };
    let mut credential = None;
    for (number, (field, id)) in job.clips.iter().enumerate() {
        let clip = clip(app, task, *id).await?;
        let media = clip.media.ok_or(Unusable::Gone("A clip"))?;
        let (recording, with) = recording(app, &clip, media.audio, route).await?;
        credential = credential.or(with);
        if let Some(known) = &recording.upstream {
            put(&mut song.fields, field, &known.clip_id);
            if let (0, Some(task_id)) = (number, &known.task_id) {
                // It leads the provider to the account that owns the clip.
                song.fields
                    .insert("task_id".into(), Value::from(task_id.as_str()));
            }
        }
        song.uploads.push((field.clone(), recording));
    }
    if job.persona.is_some() {
        match persona_upstream(app, task, job).await {
            Some((provider, id, with)) if provider == route.provider => {
                song.fields.insert("persona_id".into(), Value::from(id));
                credential = Some(with);
            }
            _ => return Err(Unusable::Gone("The persona")),
        }
    }
    Ok((song, credential))
}

/// Puts an id where a field such as `cover_clip_id` or `mashup_clip_ids[1]` says.
fn put(fields: &mut Map<String, Value>, field: &str, id: &str) {
    let place = field
        .strip_suffix(']')
        .and_then(|field| field.split_once('['))
        .and_then(|(name, index)| Some((name, index.parse::<usize>().ok()?)));
    match place {
        None => {
            fields.insert(field.to_owned(), Value::from(id));
        }
        Some((name, index)) => {
            if let Some(place) = fields.get_mut(name).and_then(|list| list.get_mut(index)) {
                *place = Value::from(id);
            }
        }
    }
}

/// A clip's recording: what the route's provider calls it when it made it,
/// with the credential that knows it; else its content.
async fn recording(
    app: &App,
    clip: &Clip,
    audio: AssetId,
    route: &Route,
) -> Result<(Recording, Option<String>), Unusable> {
    let known: Option<&ClipUpstream> = clip
        .upstream
        .as_ref()
        // Some providers keep no record of what they make.
        .filter(|upstream| upstream.provider == route.provider && !upstream.clip_id.is_empty());
    let file = match file(app, audio, "recording").await? {
        Some(file) => file,
        // The provider has it, whatever became of this gateway's copy.
        None if known.is_some() => File {
            name: "recording.flac".into(),
            mime: "audio/flac",
            bytes: Bytes::new(),
            url: None,
        },
        None => return Err(Unusable::Gone("The source's audio")),
    };
    let recording = Recording {
        file,
        milliseconds: clip.media.map_or(0, |media| media.milliseconds),
        upstream: known.map(|known| UpstreamClip {
            clip_id: known.clip_id.clone(),
            task_id: known.task_id.clone(),
        }),
    };
    Ok((recording, known.map(|known| known.credential.clone())))
}

/// The persona's provider, its id there, and the credential that made it.
async fn persona_upstream(
    app: &App,
    task: &Task,
    job: &SongJob,
) -> Option<(String, String, String)> {
    let (id, account) = (job.persona?, task.account);
    let found = app
        .store
        .read(move |conn| store::personas::by_id(conn, id, account))
        .await;
    let upstream = found.ok()??.upstream?;
    Some((upstream.provider, upstream.persona_id, upstream.credential))
}

async fn clip(app: &App, task: &Task, id: ClipId) -> Result<Clip, Unusable> {
    let account = task.account;
    let found = app
        .store
        .read(move |conn| store::clips::by_id(conn, id, account))
        .await
        .map_err(Error::from)?;
    found.ok_or(Unusable::Gone("A clip"))
}

async fn file(app: &App, id: AssetId, name: &str) -> Result<Option<File>, Unusable> {
    let Some((asset, bytes)) = patience::load(|| assets::load(app, id)).await? else {
        return Ok(None);
    };
    Ok(Some(File {
        name: format!("{name}.{}", asset.media.extension()),
        mime: asset.media.mime(),
        url: assets::lending_address(app, &asset),
        bytes,
    }))
}
