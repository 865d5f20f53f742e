//! Provider results: downloaded completely, checked by their content, and stored, before the task
//! succeeds.

use std::sync::Arc;

use providers::driver::{DownloadError, DownloadedFile, may_come_back};
use providers::{JobOutput, OutputKind, OutputSource, StemTarget};
use stems::DecodeLimits;
use tempfile::TempPath;

use super::hosted_task::AcceptedJob;
use super::result_error::{ResultError, StoreFailure};
use super::{failed_clips, signed_urls};
use crate::run_output::RunOutput;
use mediagate_config::providers::ResultPolicy;
use mediagate_core::app::App;
use mediagate_core::domain::assets::{self};
use mediagate_core::domain::provenance::marking::{self, ClipSource, SigningFacts};
use mediagate_core::domain::songs;
use mediagate_core::limits::{WorkKind, WorkSlot};
use mediagate_core::pricing::{ClipLengths, DeliveredWork};
use mediagate_core::retry;
use mediagate_core::upstream::ProviderSite;
use mediagate_media::engines::child::{self, ClipSources};
use mediagate_media::engines::clip::{self, ClipError, CoverStyle, MadeClip};
use mediagate_media::engines::film_probe::{self, VideoProperties};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_model::ids::{AccountId, ClipId};
use mediagate_model::music::ClipUpstream;
use mediagate_model::provenance::{PerceptualFingerprint, ResultKind};
use mediagate_model::task::{
    LinkOutput, SeparationMode, SongJob, StemsJob, Task, TaskPayload, TaskResult, VideoJob,
    VideoOutput,
};

/// Downloads, checks and stores the results. The files at the places `given_up` count as pieces
/// that the provider failed to make.
pub(super) async fn store_all(
    app: &App,
    task: &Task,
    accepted_job: &AcceptedJob,
    job_outputs: Vec<JobOutput>,
    given_up: &[usize],
) -> Result<RunOutput, StoreFailure> {
    let output = match &task.payload {
        TaskPayload::VideoV1(job) => video(app, task, accepted_job, job, job_outputs).await?,
        TaskPayload::StemsV1(job) => {
            stems(app, task, accepted_job, job, (&job_outputs, given_up)).await?
        }
        TaskPayload::SongV1(job) => {
            songs(app, task, accepted_job, job, (&job_outputs, given_up)).await?
        }
    };
    Ok(RunOutput {
        made_by: Some((
            accepted_job.site.provider.name().to_owned(),
            accepted_job.route_model.clone(),
        )),
        ..output
    })
}

/// A file on its way into the store.
struct FetchedFile {
    path: Arc<tempfile::TempPath>,
    facts: DownloadedFile,
}

async fn fetch(
    app: &App,
    account: AccountId,
    accepted_job: &AcceptedJob,
    source: &OutputSource,
) -> Result<FetchedFile, ResultError> {
    let spool = app.config.spool_path();
    // From the spool a file can be linked into the media folder without a copy.
    let file = tempfile::NamedTempFile::new_in(spool).map_err(Error::internal)?;
    let (file, path) = file.into_parts();
    let mut file = tokio::fs::File::from_std(file);
    let (site, secret) = (&accepted_job.site, &accepted_job.credential.secret);
    let provider = site.provider.name();
    // A result that is part of an answer is here already.
    let _turn = match source {
        OutputSource::Address(_) | OutputSource::Call(_) => {
            Some(app.limits.downloads.wait_at(account, provider).await)
        }
        OutputSource::Bytes(_) | OutputSource::Nothing => None,
    };
    let download = app
        .models
        .upstream
        .driver
        .download(&site.provider, secret, source, &mut file)
        .await;
    match download {
        Ok(facts) => {
            let provider = provider.to_owned();
            metrics::counter!("mediagate_upstream_download_bytes_total", "provider" => provider)
                .increment(facts.size_bytes);
            Ok(FetchedFile {
                path: Arc::new(path),
                facts,
            })
        }
        Err(DownloadError::TooLarge { .. }) => {
            Err(ResultError::Useless("the file is too large".into()))
        }
        Err(DownloadError::Refused(reason)) => Err(ResultError::ForbiddenAddress(reason)),
        Err(DownloadError::Expired) => {
            Err(ResultError::Missing("there is nothing at its URL".into()))
        }
        Err(error @ DownloadError::TooSlow) => Err(ResultError::Unavailable(error.to_string())),
        Err(DownloadError::Failed(error)) if may_come_back(&error) => {
            Err(ResultError::Unavailable(error.message))
        }
        Err(DownloadError::Failed(error)) => Err(ResultError::Incomplete(error.message)),
        Err(DownloadError::Local(error)) => Err(ResultError::Internal(Error::internal(error))),
    }
}

async fn video(
    app: &App,
    task: &Task,
    accepted_job: &AcceptedJob,
    job: &VideoJob,
    job_outputs: Vec<JobOutput>,
) -> Result<RunOutput, ResultError> {
    // The caller is sent to this URL, so it has to pass the same rules as URLs that are fetched
    // here.
    if let Some((job, url)) = link_of(&accepted_job.site, task, &job_outputs) {
        let url = accepted_job.site.provider.known_link(url).await;
        return Ok(link_output(
            job,
            url.map_err(ResultError::ForbiddenAddress)?.into(),
        ));
    }
    let job_output = job_outputs
        .into_iter()
        .find(|job_output| job_output.kind == OutputKind::Video)
        .ok_or_else(|| ResultError::Useless("it contains no video".into()))?;
    let file = fetch(app, task.account, accepted_job, &job_output.source).await?;
    let (shared_app, path) = (app.clone(), file.path.clone());
    // Checked before anything is stored: a broken file can still be downloaded again.
    let measure = move |slot: &WorkSlot| {
        let film = film_probe::probe(&path).map_err(|reason| ResultError::Broken(reason.into()))?;
        let provenance = marking::read_provenance(&shared_app, &path, slot.watch());
        let provenance = provenance.map_err(|error| ResultError::Internal(error.into()))?;
        Ok::<_, ResultError>((film, provenance))
    };
    let measurement = app
        .limits
        .media_work
        .work(task.account, WorkKind::Result, 0, measure);
    let (film, provenance) = measurement.await??;
    let (size, sha256) = (file.facts.size_bytes, file.facts.sha256.clone());
    let video = retry::store(|| {
        let sha256 = sha256.clone();
        assets::keep_file(app, task.account, film.media, &file.path, size, sha256)
    })
    .await?;
    let delivered = DeliveredWork::Film {
        milliseconds: film.properties.map(|film| film.milliseconds),
        pixels: film
            .properties
            .map(|film| u64::from(film.width) * u64::from(film.height)),
    };
    // A film that cannot be measured is shown as it was ordered.
    let properties = film.properties.unwrap_or(VideoProperties {
        width: job.width,
        height: job.height,
        milliseconds: job.milliseconds,
    });
    let result = TaskResult::VideoV1(VideoOutput {
        video: video.id,
        media: video.media,
        codec: film.codec.map(Into::into),
        // The poster is made later, when no caller waits for it.
        poster: None,
        sheet: None,
        width: properties.width,
        height: properties.height,
        milliseconds: properties.milliseconds,
        size_bytes: video.size_bytes,
        sha256: video.sha256.clone(),
        expires_at_micros: video.expires_at.map_or(i64::MAX, Timestamp::micros),
        direction: Vec::new(),
        not_understood: Box::default(),
        provenance: Some(provenance),
    });
    let fingerprint =
        marking::fingerprint_of_film(task, &video, false, None, PerceptualFingerprint::default());
    Ok(RunOutput {
        fingerprints: vec![fingerprint],
        assets: vec![video],
        ..RunOutput::new(result, delivered)
    })
}

/// The film's URL, if it is to stay at the provider, with the job for which it was made.
pub(super) fn link_of<'a>(
    site: &ProviderSite,
    task: &'a Task,
    job_outputs: &'a [JobOutput],
) -> Option<(&'a VideoJob, &'a str)> {
    let film = job_outputs
        .iter()
        .find(|job_output| job_output.kind == OutputKind::Video)?;
    match (&task.payload, &film.source) {
        (TaskPayload::VideoV1(job), OutputSource::Address(url))
            if site.config.results == ResultPolicy::Link =>
        {
            Some((job, url))
        }
        _ => None,
    }
}

/// The output of a film that stays at the provider. It is not measured.
fn link_output(job: &VideoJob, url: String) -> RunOutput {
    let result = TaskResult::LinkV1(LinkOutput {
        expires_at_micros: signed_urls::expiry(&url).map(Timestamp::micros),
        url,
        width: job.width,
        height: job.height,
        milliseconds: job.milliseconds,
    });
    let delivered = DeliveredWork::Film {
        milliseconds: None,
        pixels: None,
    };
    RunOutput::new(result, delivered)
}

/// Maximum length of a provider's recording, which may be longer than a caller's.
const LONGEST_SECONDS: u32 = 3600;

/// Converts a recording to the form in which clips are stored.
async fn clip(
    app: &App,
    account: AccountId,
    id: ClipId,
    file: &FetchedFile,
    picture: CoverStyle,
) -> Result<MadeClip, ResultError> {
    let sources = vec![file.path.clone()];
    let clip = make_clip(app, account, id, sources, picture, memory(file)).await?;
    clip.ok_or_else(|| ResultError::Internal(Error::internal("a recording yielded no clip")))
}

async fn make_clip(
    app: &App,
    account: AccountId,
    id: ClipId,
    sources: Vec<Arc<TempPath>>,
    picture: CoverStyle,
    memory: u64,
) -> Result<Option<MadeClip>, ResultError> {
    let recordings = ClipSources {
        clip: id,
        sources: sources.iter().map(|source| source.to_path_buf()).collect(),
        most_seconds: LONGEST_SECONDS,
        picture,
    };
    let engines = app.engines.clone();
    let convert = move |slot: &WorkSlot| {
        // The files are removed on drop. They must exist until the work ends, even if the future
        // that waits for it is dropped.
        let _sources = sources;
        child::clip_of(&engines, recordings, slot.watch())
    };
    let media_work = &app.limits.media_work;
    let clip = media_work
        .work(account, WorkKind::Recording, memory, convert)
        .await?;
    clip.map_err(unreadable)
}

const fn memory(file: &FetchedFile) -> u64 {
    clip::KEEPING_BYTES + file.facts.size_bytes
}

fn unreadable(error: ClipError) -> ResultError {
    match error {
        ClipError::Decode(reason) => {
            ResultError::Broken(format!("the audio file cannot be read: {reason}"))
        }
        ClipError::Engine(error) if error.is_start_failure() => ResultError::Internal(error.into()),
        ClipError::Engine(error) => ResultError::Useless(error.to_string()),
    }
}

async fn stems(
    app: &App,
    task: &Task,
    accepted_job: &AcceptedJob,
    job: &StemsJob,
    (job_outputs, given_up): (&[JobOutput], &[usize]),
) -> Result<RunOutput, StoreFailure> {
    // Without the requested track the remainder is not the requested result.
    let requested_track = job
        .outputs
        .first()
        .filter(|_| job.stem_task == SeparationMode::Two);
    let lost: Vec<StemTarget> = given_up
        .iter()
        .filter_map(|place| target_of(&job_outputs.get(*place)?.kind))
        .collect();
    if let Some((_, target)) = requested_track.filter(|(_, target)| lost.contains(target)) {
        return Err(ResultError::Useless(format!("it contains no {}", target.name())).into());
    }
    // All parts are fetched first, because a remainder that the provider does not return is their
    // sum.
    let parts = fetch_stems(app, task.account, accepted_job, (job_outputs, given_up)).await?;
    let mut output = RunOutput::new(
        TaskResult::ClipsV1 { clips: Vec::new() },
        DeliveredWork::Stems(Vec::new()),
    );
    let (mut ids, mut made, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for (id, target) in &job.outputs {
        let part = parts.iter().find(|part| part.target == *target);
        let clip = match part {
            Some(FetchedStem { place, file, .. }) => {
                let clip = clip(app, task.account, *id, file, CoverStyle::Spectrogram).await;
                Some(clip.map_err(|error| StoreFailure::of_files(error, vec![*place]))?)
            }
            None => remainder(app, task.account, *id, *target, (&parts, &lost)).await?,
        };
        let Some(clip) = clip else {
            missing.push(target.name().replace('_', " "));
            let mut failed = failed_clips::upstreams(accepted_job, job_outputs, Some(*target));
            let failed = failed.next().map(|upstream| (*id, String::new(), upstream));
            output.clip_facts.extend(failed);
            continue;
        };
        // Content Credentials refer to one source. For a computed remainder it is the first part
        // of the sum.
        let source = part.or_else(|| summed_parts(*target, &parts).next());
        let source = source.map(|part| part.file.path.clone());
        let source = source.ok_or_else(|| Error::internal("a stem without a source"))?;
        let facts = facts(app, task, accepted_job, &job.title);
        let (clip, clip_provenance) =
            marking::sign_clip(app, facts, clip, ClipSource::Edited(source)).await?;
        output.provenance.push((*id, clip_provenance));
        let (media, stored) = retry::store(|| assets::keep_clip(app, task.account, &clip)).await?;
        output
            .notes
            .extend(clip.notes.clone().map(|notes| (*id, notes)));
        output.clips.push((*id, media));
        let [audio, ..] = &stored;
        let (fingerprint, kind) = (clip.fingerprint.clone(), ResultKind::Stem);
        output.fingerprints.push(marking::fingerprint_of_clip(
            *id,
            audio,
            kind,
            false,
            None,
            fingerprint,
        ));
        output.assets.extend(stored);
        if let Some(upstream) = part.and_then(|part| part.upstream.clone()) {
            output.clip_facts.push((*id, String::new(), upstream));
        }
        ids.push(*id);
        made.push(*target);
    }
    if ids.is_empty() || requested_track.is_some_and(|(id, _)| !ids.contains(id)) {
        let message = format!("it contains no {}", missing.join(", "));
        return Err(ResultError::Useless(message).into());
    }
    output.delivered = DeliveredWork::Stems(made);
    output.result = TaskResult::ClipsV1 { clips: ids };
    Ok(output)
}

/// A stem that was fetched.
struct FetchedStem {
    /// Its place in the job's outputs.
    place: usize,
    target: StemTarget,
    file: FetchedFile,
    upstream: Option<ClipUpstream>,
}

/// The stem that an output is; `None` if it is none.
fn target_of(kind: &OutputKind) -> Option<StemTarget> {
    match kind {
        OutputKind::Stem(target) => Some(*target),
        OutputKind::Clip(facts) => facts.stem,
        OutputKind::Video | OutputKind::FailedClip { .. } | OutputKind::Persona { .. } => None,
    }
}

async fn fetch_stems(
    app: &App,
    account: AccountId,
    accepted_job: &AcceptedJob,
    (job_outputs, given_up): (&[JobOutput], &[usize]),
) -> Result<Vec<FetchedStem>, StoreFailure> {
    let mut parts = Vec::new();
    for (place, job_output) in job_outputs.iter().enumerate() {
        let target = target_of(&job_output.kind).filter(|_| !given_up.contains(&place));
        let Some(target) = target else {
            continue;
        };
        let file = fetch(app, account, accepted_job, &job_output.source).await;
        let file = file.map_err(|error| StoreFailure::of_files(error, vec![place]))?;
        let upstream = match &job_output.kind {
            OutputKind::Clip(facts) => Some(upstream_of(accepted_job, facts).await),
            OutputKind::Stem(_)
            | OutputKind::Video
            | OutputKind::FailedClip { .. }
            | OutputKind::Persona { .. } => None,
        };
        parts.push(FetchedStem {
            place,
            target,
            file,
            upstream,
        });
    }
    Ok(parts)
}

/// Whether a part belongs to the sum that is everything without the target's group.
fn is_summed(target: StemTarget, part: StemTarget) -> bool {
    match (target, part) {
        (StemTarget::Without(group), StemTarget::Only(other)) => other != group,
        (StemTarget::Without(_), StemTarget::Other) => true,
        _ => false,
    }
}

/// The parts that add up to everything without the target's group; none for other targets.
fn summed_parts(target: StemTarget, parts: &[FetchedStem]) -> impl Iterator<Item = &FetchedStem> {
    parts
        .iter()
        .filter(move |part| is_summed(target, part.target))
}

/// Computes the remainder without one group, as the sum of all other parts. `lost` are the parts
/// whose files are given up.
async fn remainder(
    app: &App,
    account: AccountId,
    id: ClipId,
    target: StemTarget,
    (parts, lost): (&[FetchedStem], &[StemTarget]),
) -> Result<Option<MadeClip>, StoreFailure> {
    // Without `Other` the sum would lack all sounds that belong to no group, and without a lost
    // part those of its group.
    let has_other = summed_parts(target, parts).any(|part| part.target == StemTarget::Other);
    if !has_other || lost.iter().any(|part| is_summed(target, *part)) {
        return Ok(None);
    }
    // A sum is completely in memory, while a single recording is read in pieces.
    let mut memory = clip::KEEPING_BYTES + DecodeLimits::default().max_bytes as u64;
    let (mut sources, mut places) = (Vec::new(), Vec::new());
    for part in summed_parts(target, parts) {
        memory += part.file.facts.size_bytes;
        sources.push(part.file.path.clone());
        places.push(part.place);
    }
    let sum = make_clip(app, account, id, sources, CoverStyle::Spectrogram, memory).await;
    sum.map_err(|error| StoreFailure::of_files(error, places))
}

async fn songs(
    app: &App,
    task: &Task,
    accepted_job: &AcceptedJob,
    job: &SongJob,
    (job_outputs, given_up): (&[JobOutput], &[usize]),
) -> Result<RunOutput, StoreFailure> {
    let mut ordered_ids = job.outputs.iter().copied();
    let route = (
        accepted_job.site.provider.name(),
        accepted_job.route_model.as_str(),
    );
    let terms = songs::terms_by_route(app, task, job, route);
    let song = |lengths| DeliveredWork::Song {
        clips: ClipLengths::Measured(lengths),
        terms,
    };
    let mut output = RunOutput::new(TaskResult::ClipsV1 { clips: Vec::new() }, song(Vec::new()));
    let (mut ids, mut lengths) = (Vec::new(), Vec::new());
    for (place, job_output) in job_outputs.iter().enumerate() {
        let OutputKind::Clip(facts) = &job_output.kind else {
            continue;
        };
        if given_up.contains(&place) {
            continue;
        }
        let of_file = |error| StoreFailure::of_files(error, vec![place]);
        let file = fetch(app, task.account, accepted_job, &job_output.source).await;
        let file = file.map_err(of_file)?;
        // A provider may return more clips than were ordered. They are stored as well.
        let id = ordered_ids.next().unwrap_or_else(|| {
            let id = ClipId::new();
            output.more_clips.push(songs::clip(task, id, &job.title));
            id
        });
        let clip = clip(app, task.account, id, &file, CoverStyle::Waveform).await;
        let clip = clip.map_err(of_file)?;
        let source = ClipSource::Generated(file.path.clone());
        let signing_facts = self::facts(app, task, accepted_job, &job.title);
        let (clip, clip_provenance) = marking::sign_clip(app, signing_facts, clip, source).await?;
        output.provenance.push((id, clip_provenance));
        let (media, stored) = retry::store(|| assets::keep_clip(app, task.account, &clip)).await?;
        output
            .notes
            .extend(clip.notes.clone().map(|notes| (id, notes)));
        lengths.push(media.milliseconds);
        output.clips.push((id, media));
        let [audio, ..] = &stored;
        let (fingerprint, kind) = (clip.fingerprint.clone(), ResultKind::Song);
        output.fingerprints.push(marking::fingerprint_of_clip(
            id,
            audio,
            kind,
            false,
            None,
            fingerprint,
        ));
        output.assets.extend(stored);
        let upstream = upstream_of(accepted_job, facts).await;
        output.clip_facts.push((id, facts.title.clone(), upstream));
        ids.push(id);
    }
    if ids.is_empty() {
        return Err(ResultError::Useless("it contains no audio".into()).into());
    }
    for (id, upstream) in ordered_ids.zip(failed_clips::upstreams(accepted_job, job_outputs, None))
    {
        output.clip_facts.push((id, String::new(), upstream));
    }
    output.delivered = song(lengths);
    output.result = TaskResult::ClipsV1 { clips: ids };
    Ok(output)
}

/// The facts that are signed into a recording.
fn facts(app: &App, task: &Task, accepted_job: &AcceptedJob, title: &str) -> SigningFacts {
    let shows_provider = app.models.catalog.load().shows_providers();
    let provider = shows_provider.then(|| accepted_job.site.provider.name().to_owned());
    SigningFacts::of_task(task, title, provider, "")
}

async fn upstream_of(
    accepted_job: &AcceptedJob,
    facts: &providers::port::ClipFacts,
) -> ClipUpstream {
    // Callers get this URL unchanged, so a forbidden one is omitted.
    let video_url = accepted_job
        .site
        .provider
        .known_link(&facts.video_url)
        .await;
    ClipUpstream {
        provider: accepted_job.site.provider.name().to_owned(),
        credential: accepted_job.credential.id.clone(),
        clip_id: facts.id.clone(),
        task_id: facts.task_id.clone(),
        tags: facts.tags.clone(),
        prompt: facts.prompt.clone(),
        video_url: video_url.map_or_else(|_| String::new(), Into::into),
        model_name: facts.model_name.clone(),
        failure: None,
    }
}
