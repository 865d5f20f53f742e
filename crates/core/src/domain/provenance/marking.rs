//! Marks results before they are hashed and stored, and reads the marks of files that come in.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::app::{App, AppParts};
use crate::limits::{WorkKind, WorkSlot};
use mediagate_media::engines::clip::{self, MadeClip};
use mediagate_media::engines::{EngineControl, EngineError, child};
use mediagate_media::origin::{
    CreationMethod, FileExamination, OriginMarker, ResultStatement, SignedFormat, SigningError,
};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, ClipId};
use mediagate_model::media::Asset;
use mediagate_model::provenance::{
    PerceptualFingerprint, Provenance, ProvenanceMark, ProvenanceStatus, ResultFingerprint,
    ResultKind,
};
use mediagate_model::task::Task;

/// The facts with which a file is signed, besides how it was made.
#[derive(Debug, Clone)]
pub struct SigningFacts {
    /// Signing waits for this account's turn.
    pub account: AccountId,
    pub title: String,
    pub model: String,
    /// The provider's name, if the operator shows it.
    pub provider: Option<String>,
    pub prompt: String,
}

/// Why something was not marked.
#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    #[error("not signed: {0}")]
    NotSigned(#[from] SigningError),
    /// No child process can start, so nothing is known about the files.
    #[error("{0}")]
    NoChild(EngineError),
    #[error("{0}")]
    Internal(Error),
}

impl From<Error> for MarkError {
    fn from(error: Error) -> Self {
        Self::Internal(error)
    }
}

impl From<EngineError> for MarkError {
    fn from(error: EngineError) -> Self {
        if error.is_start_failure() {
            return Self::NoChild(error);
        }
        Self::NotSigned(SigningError(error.to_string()))
    }
}

impl From<MarkError> for Error {
    fn from(error: MarkError) -> Self {
        match error {
            MarkError::Internal(error) => error,
            MarkError::NoChild(error) => error.into(),
            MarkError::NotSigned(reason) => {
                tracing::error!(why = %reason, "cannot sign a result");
                let message = "The file cannot be signed now. Try again later.";
                Self::retry_later(ErrorCode::Overloaded, message, 10)
            }
        }
    }
}

/// How a clip was made.
#[derive(Debug, Clone)]
pub enum ClipSource {
    /// By processing this recording, without anything generated.
    Edited(Arc<tempfile::TempPath>),
    /// By a hosted model, which returned this file.
    Generated(Arc<tempfile::TempPath>),
    /// It is an upload, which came in this file.
    Uploaded(Arc<tempfile::TempPath>),
}

/// A film that was made here, and pictures of it.
pub struct RenderedFilm {
    pub mp4: Vec<u8>,
    /// JPEG.
    pub poster: Vec<u8>,
    /// JPEG.
    pub sheet: Vec<u8>,
    /// Whether it was made from words alone.
    pub is_from_words: bool,
}

/// Signs a film that was made here, and its pictures, which name the film as their source. `marks`
/// are those that the film has besides the signature.
pub async fn sign_film(
    app: &App,
    facts: SigningFacts,
    film: RenderedFilm,
    marks: &[ProvenanceMark],
) -> Result<(RenderedFilm, Provenance), MarkError> {
    let (app_handle, when) = (app.clone(), app.clock.now().rfc3339());
    let memory = film.mp4.len() as u64 * 4;
    let (marks, account) = (marks.to_vec(), facts.account);
    let sign = move |_: &WorkSlot| {
        let method = if film.is_from_words {
            CreationMethod::Algorithmic
        } else {
            CreationMethod::AlgorithmicComposite
        };
        let origin = &app_handle.secrets.origin;
        let mp4 = origin.sign(film.mp4, SignedFormat::Mp4, &facts.statement(&when, method))?;
        let source = CreationMethod::Edited {
            title: &facts.title,
            source: &mp4,
        };
        let statement = facts.statement(&when, source);
        let poster = origin.sign(film.poster, SignedFormat::Jpeg, &statement)?;
        let sheet = origin.sign(film.sheet, SignedFormat::Jpeg, &statement)?;
        let provenance = origin.examine_own(&mp4).with_marks(marks);
        let film = RenderedFilm {
            mp4,
            poster,
            sheet,
            ..film
        };
        Ok((film, provenance))
    };
    let media_work = &app.limits.media_work;
    media_work
        .work(account, WorkKind::Result, memory, sign)
        .await?
}

/// Reads what an untrusted file states about its origin; its credentials are read in a child
/// process. Fails only if no child can start. Blocks.
pub fn read_provenance(
    app: &AppParts,
    file: &Path,
    watch: &EngineControl,
) -> Result<Provenance, EngineError> {
    let examined = FileExamination::claims(file);
    if !examined.can_be_verified() {
        return Ok(examined.provenance);
    }
    let certificates = app.secrets.origin.certificates();
    let verified = child::verify(&app.engines, file, certificates, watch)?;
    Ok(examined.with_verification(verified).provenance)
}

/// Signs the poster of a film that was made elsewhere and is stored at `film`.
pub async fn sign_poster(
    app: &App,
    facts: SigningFacts,
    poster: Vec<u8>,
    film: Arc<tempfile::TempPath>,
) -> Result<Vec<u8>, MarkError> {
    if !OriginMarker::signs() {
        return Ok(poster);
    }
    let size = tokio::fs::metadata(&*film).await.map_err(Error::internal)?;
    let (app_handle, when) = (app.clone(), app.clock.now().rfc3339());
    let account = facts.account;
    let sign = move |slot: &WorkSlot| -> Result<Vec<u8>, MarkError> {
        let spool = app_handle.config.spool_path();
        let file = tempfile::NamedTempFile::new_in(spool).map_err(Error::internal)?;
        std::fs::write(&file, poster).map_err(Error::internal)?;
        let target = (file.path(), SignedFormat::Jpeg);
        sign_edited(&app_handle, &facts, &when, target, &film, slot.watch())
    };
    let (media_work, memory) = (&app.limits.media_work, size.len() * 2);
    media_work
        .work(account, WorkKind::Result, memory, sign)
        .await?
}

/// Signs an avatar that was drawn here.
pub async fn sign_avatar(
    app: &App,
    account: AccountId,
    id: &str,
    picture: Vec<u8>,
) -> Result<Vec<u8>, MarkError> {
    if !OriginMarker::signs() {
        return Ok(picture);
    }
    let (app_handle, when) = (app.clone(), app.clock.now().rfc3339());
    let facts = SigningFacts {
        account,
        title: id.to_owned(),
        model: "avatar".to_owned(),
        provider: None,
        prompt: String::new(),
    };
    let memory = picture.len() as u64 * 3;
    let sign = move |_: &WorkSlot| {
        let statement = facts.statement(&when, CreationMethod::Algorithmic);
        Ok(app_handle
            .secrets
            .origin
            .sign(picture, SignedFormat::Png, &statement)?)
    };
    let media_work = &app.limits.media_work;
    media_work
        .work(account, WorkKind::Result, memory, sign)
        .await?
}

/// Signs a clip and its covers, and returns the provenance for its record. An upload is signed only
/// to continue the credentials that it came with.
pub async fn sign_clip(
    app: &App,
    facts: SigningFacts,
    clip: MadeClip,
    clip_source: ClipSource,
) -> Result<(MadeClip, Provenance), MarkError> {
    let (app_handle, when) = (app.clone(), app.clock.now().rfc3339());
    let source = match &clip_source {
        ClipSource::Edited(source)
        | ClipSource::Generated(source)
        | ClipSource::Uploaded(source) => source.to_path_buf(),
    };
    let size = tokio::fs::metadata(&source)
        .await
        .map_err(Error::internal)?;
    let memory = if OriginMarker::signs() {
        clip.size_bytes * 3 + size.len() * 2
    } else {
        1 << 20
    };
    let account = facts.account;
    let sign = move |slot: &WorkSlot| {
        sign_clip_files(&app_handle, &facts, &when, clip, &clip_source, slot.watch())
    };
    let media_work = &app.limits.media_work;
    media_work
        .work(account, WorkKind::Result, memory, sign)
        .await?
}

/// Signs a file that was made from an untrusted one, in a child process. Blocks.
#[cfg(feature = "c2pa")]
fn sign_edited(
    app: &AppParts,
    facts: &SigningFacts,
    when: &str,
    (file, format): (&Path, SignedFormat),
    source: &Path,
    watch: &EngineControl,
) -> Result<Vec<u8>, MarkError> {
    let origin = &app.secrets.origin;
    let order = child::SignOrder {
        file: file.to_owned(),
        format,
        source: source.to_owned(),
        title: facts.title.clone(),
        model: facts.model.clone(),
        provider: facts.provider.clone(),
        prompt: facts.prompt.clone(),
        tells_prompt: origin.tells_prompt(),
        when: when.to_owned(),
    };
    Ok(child::sign(&app.engines, order, origin.signer(), watch)?)
}

#[cfg(not(feature = "c2pa"))]
fn sign_edited(
    _: &AppParts,
    _: &SigningFacts,
    _: &str,
    (file, _): (&Path, SignedFormat),
    _: &Path,
    _: &EngineControl,
) -> Result<Vec<u8>, MarkError> {
    Ok(std::fs::read(file).map_err(Error::internal)?)
}

fn sign_clip_files(
    app: &AppParts,
    facts: &SigningFacts,
    when: &str,
    mut clip: MadeClip,
    clip_source: &ClipSource,
    watch: &EngineControl,
) -> Result<(MadeClip, Provenance), MarkError> {
    let (ClipSource::Edited(source) | ClipSource::Generated(source) | ClipSource::Uploaded(source)) =
        clip_source;
    let source_provenance = read_provenance(app, source, watch)?;
    let watermark = clip.is_marked.then_some(ProvenanceMark::Watermark);
    if !OriginMarker::signs() {
        return Ok((clip, source_provenance.with_marks(watermark)));
    }
    let internal_error = |error: std::io::Error| MarkError::Internal(Error::internal(error));
    let has_credentials = source_provenance.marks.contains(&ProvenanceMark::C2pa);
    let is_edited = match clip_source {
        // A source can be named as an ingredient only if its marks can be read.
        ClipSource::Edited(_) => source_provenance.status != ProvenanceStatus::Unreadable,
        ClipSource::Uploaded(_) | ClipSource::Generated(_) => has_credentials,
    };
    let signed = if is_edited {
        let file = (&*clip.flac, SignedFormat::Flac);
        Some(sign_edited(app, facts, when, file, source, watch)?)
    } else if matches!(clip_source, ClipSource::Generated(_)) {
        let flac = std::fs::read(&clip.flac).map_err(internal_error)?;
        let statement = facts.statement(when, CreationMethod::Generated);
        Some(
            app.secrets
                .origin
                .sign(flac, SignedFormat::Flac, &statement)?,
        )
    } else {
        None
    };
    if let Some(signed) = signed {
        std::fs::write(&clip.flac, signed).map_err(internal_error)?;
        // Signing changed the file, and the record must describe the stored file.
        (clip.size_bytes, clip.sha256) = clip::digest(&clip.flac).map_err(internal_error)?;
    }
    for cover in [&mut clip.cover, &mut clip.cover_large] {
        let statement = facts.statement(when, CreationMethod::Algorithmic);
        let signed = app
            .secrets
            .origin
            .sign(cover.to_vec(), SignedFormat::Png, &statement)?;
        *cover = Bytes::from(signed);
    }
    // The record of a stem describes the marks that the stem itself now has; that of a song or an
    // upload describes the marks of the file that came in.
    let provenance = match clip_source {
        ClipSource::Edited(_) if is_edited => read_provenance(app, &clip.flac, watch)?,
        ClipSource::Edited(_) | ClipSource::Generated(_) | ClipSource::Uploaded(_) => {
            source_provenance
        }
    };
    Ok((clip, provenance.with_marks(watermark)))
}

impl SigningFacts {
    /// The facts of a task's result. `provider` is `None` if the operator hides it, or there is
    /// none.
    pub fn of_task(task: &Task, title: &str, provider: Option<String>, prompt: &str) -> Self {
        Self {
            account: task.account,
            title: title.to_owned(),
            model: task.model.clone(),
            provider,
            prompt: prompt.to_owned(),
        }
    }

    fn statement<'a>(&'a self, when: &'a str, method: CreationMethod<'a>) -> ResultStatement<'a> {
        ResultStatement {
            title: &self.title,
            model: &self.model,
            provider: self.provider.as_deref(),
            prompt: &self.prompt,
            when,
            made: method,
        }
    }
}

/// The registry's entry for a film.
pub fn fingerprint_of_film(
    task: &Task,
    film: &Asset,
    is_embedded: bool,
    watermark: Option<u64>,
    likeness: PerceptualFingerprint,
) -> ResultFingerprint {
    ResultFingerprint {
        id: film.id,
        account: task.account,
        kind: ResultKind::Video,
        is_embedded,
        task: Some(task.id),
        clip: None,
        sha256: film.sha256.clone(),
        watermark,
        fingerprint: likeness,
        created_at: film.created_at,
    }
}

/// The registry's entry for a clip, whose recording is `audio`.
pub fn fingerprint_of_clip(
    clip: ClipId,
    audio: &Asset,
    kind: ResultKind,
    is_embedded: bool,
    watermark: Option<u64>,
    likeness: PerceptualFingerprint,
) -> ResultFingerprint {
    ResultFingerprint {
        id: audio.id,
        account: audio.account,
        kind,
        is_embedded,
        task: None,
        clip: Some(clip),
        sha256: audio.sha256.clone(),
        watermark,
        fingerprint: likeness,
        created_at: audio.created_at,
    }
}
