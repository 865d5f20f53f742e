//! Marks what is made here before it is hashed and kept, and tells what came in.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::app::{App, Parts};
use crate::limits::{Work, Workplace};
use mediagate_media::engines::clip::{self, MadeClip};
use mediagate_media::engines::{Watch, child};
use mediagate_media::origin::{Examined, Format, Made, NotSigned, Origin, Statement};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, ClipId};
use mediagate_model::media::Asset;
use mediagate_model::provenance::{Likeness, Mark, Print, PrintKind, Provenance, ProvenanceStatus};
use mediagate_model::task::Task;

/// What a file is signed with, beside how it was made.
#[derive(Debug, Clone)]
pub struct Facts {
    /// At whose turn it is signed.
    pub account: AccountId,
    pub title: String,
    pub model: String,
    /// As the operator shows it.
    pub provider: Option<String>,
    pub prompt: String,
}

/// Why something was not marked.
#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    #[error("not signed: {0}")]
    NotSigned(#[from] NotSigned),
    #[error("{0}")]
    Inside(Error),
}

impl From<Error> for MarkError {
    fn from(error: Error) -> Self {
        Self::Inside(error)
    }
}

impl From<MarkError> for Error {
    fn from(error: MarkError) -> Self {
        match error {
            MarkError::Inside(error) => error,
            MarkError::NotSigned(why) => {
                tracing::error!(%why, "a result was not signed");
                let message = "The file cannot be signed now. Try again later.";
                Self::later(ErrorCode::Overloaded, message, 10)
            }
        }
    }
}

/// How a clip came to be.
#[derive(Debug, Clone)]
pub enum ClipMade {
    /// From this recording, without anything generated.
    Edited(Arc<tempfile::TempPath>),
    /// By a hosted model, in this file.
    Generated(Arc<tempfile::TempPath>),
    /// It is an upload, which came in this file.
    Uploaded(Arc<tempfile::TempPath>),
}

/// A film that was made here, and pictures of it.
pub struct DrawnFilm {
    pub mp4: Vec<u8>,
    /// JPEG.
    pub poster: Vec<u8>,
    /// JPEG.
    pub sheet: Vec<u8>,
    /// Whether it was made from words alone.
    pub is_from_words: bool,
}

/// Signs a film that was made here, with `more` marks than a signature, and its pictures, which
/// name the film.
pub async fn film(
    app: &App,
    facts: Facts,
    film: DrawnFilm,
    more: &[Mark],
) -> Result<(DrawnFilm, Provenance), MarkError> {
    let (parts, when) = (app.clone(), app.clock.now().rfc3339());
    let memory = film.mp4.len() as u64 * 4;
    let (more, account) = (more.to_vec(), facts.account);
    let sign = move |_: &Workplace| {
        let made = if film.is_from_words {
            Made::Drawn
        } else {
            Made::DrawnFrom
        };
        let origin = &parts.secrets.origin;
        let mp4 = origin.sign(film.mp4, Format::Mp4, &facts.stated(&when, made))?;
        let source = Made::Edited {
            title: &facts.title,
            source: &mp4,
        };
        let stated = facts.stated(&when, source);
        let poster = origin.sign(film.poster, Format::Jpeg, &stated)?;
        let sheet = origin.sign(film.sheet, Format::Jpeg, &stated)?;
        let told = origin.tell_of_own(&mp4).and(more);
        let film = DrawnFilm {
            mp4,
            poster,
            sheet,
            ..film
        };
        Ok((film, told))
    };
    let room = &app.limits.room;
    room.work(account, Work::Result, memory, sign).await?
}

/// What a stranger's file says of its origin; its credentials are read in a child. Blocks.
pub fn told(app: &Parts, file: &Path, watch: &Watch) -> Provenance {
    let examined = Examined::claims(file);
    if !examined.can_be_verified() {
        return examined.provenance;
    }
    let certificates = app.secrets.origin.certificates();
    let verified = child::verify(&app.engines, file, certificates, watch);
    examined.verified(verified).provenance
}

/// Signs the poster of a film that somebody else made and that lies at `film`.
pub async fn poster(
    app: &App,
    facts: Facts,
    poster: Vec<u8>,
    film: Arc<tempfile::TempPath>,
) -> Result<Vec<u8>, MarkError> {
    if !Origin::signs() {
        return Ok(poster);
    }
    let size = tokio::fs::metadata(&*film).await.map_err(Error::internal)?;
    let (parts, when) = (app.clone(), app.clock.now().rfc3339());
    let account = facts.account;
    let sign = move |place: &Workplace| -> Result<Vec<u8>, MarkError> {
        let spool = parts.config.spool_path();
        let file = tempfile::NamedTempFile::new_in(spool).map_err(Error::internal)?;
        std::fs::write(&file, poster).map_err(Error::internal)?;
        let target = (file.path(), Format::Jpeg);
        let signed = sign_edited(&parts, &facts, &when, target, &film, place.watch());
        Ok(signed?)
    };
    let (room, memory) = (&app.limits.room, size.len() * 2);
    room.work(account, Work::Result, memory, sign).await?
}

/// Signs an avatar that was drawn here.
pub async fn avatar(
    app: &App,
    account: AccountId,
    id: &str,
    picture: Vec<u8>,
) -> Result<Vec<u8>, MarkError> {
    if !Origin::signs() {
        return Ok(picture);
    }
    let (parts, when) = (app.clone(), app.clock.now().rfc3339());
    let facts = Facts {
        account,
        title: id.to_owned(),
        model: "avatar".to_owned(),
        provider: None,
        prompt: String::new(),
    };
    let memory = picture.len() as u64 * 3;
    let sign = move |_: &Workplace| {
        let stated = facts.stated(&when, Made::Drawn);
        Ok(parts.secrets.origin.sign(picture, Format::Png, &stated)?)
    };
    let room = &app.limits.room;
    room.work(account, Work::Result, memory, sign).await?
}

/// Signs a clip and its covers; what its record tells. An upload is signed only to carry on the
/// credentials that it came with.
pub async fn clip(
    app: &App,
    facts: Facts,
    clip: MadeClip,
    made: ClipMade,
) -> Result<(MadeClip, Provenance), MarkError> {
    let (parts, when) = (app.clone(), app.clock.now().rfc3339());
    let source = match &made {
        ClipMade::Edited(source) | ClipMade::Generated(source) | ClipMade::Uploaded(source) => {
            source.to_path_buf()
        }
    };
    let size = tokio::fs::metadata(&source)
        .await
        .map_err(Error::internal)?;
    let memory = if Origin::signs() {
        clip.size_bytes * 3 + size.len() * 2
    } else {
        1 << 20
    };
    let account = facts.account;
    let sign =
        move |place: &Workplace| sign_clip(&parts, &facts, &when, clip, &made, place.watch());
    let room = &app.limits.room;
    room.work(account, Work::Result, memory, sign).await?
}

/// Signs a file that was made of a stranger's, in a child. Blocks.
#[cfg(feature = "c2pa")]
fn sign_edited(
    app: &Parts,
    facts: &Facts,
    when: &str,
    (file, format): (&Path, Format),
    source: &Path,
    watch: &Watch,
) -> Result<Vec<u8>, NotSigned> {
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
    child::sign(&app.engines, order, origin.signer(), watch)
}

#[cfg(not(feature = "c2pa"))]
fn sign_edited(
    _: &Parts,
    _: &Facts,
    _: &str,
    (file, _): (&Path, Format),
    _: &Path,
    _: &Watch,
) -> Result<Vec<u8>, NotSigned> {
    std::fs::read(file).map_err(|error| NotSigned(error.to_string()))
}

fn sign_clip(
    app: &Parts,
    facts: &Facts,
    when: &str,
    mut clip: MadeClip,
    made: &ClipMade,
    watch: &Watch,
) -> Result<(MadeClip, Provenance), MarkError> {
    let (ClipMade::Edited(source) | ClipMade::Generated(source) | ClipMade::Uploaded(source)) =
        made;
    let came_in = told(app, source, watch);
    let marked = clip.is_marked.then_some(Mark::Watermark);
    if !Origin::signs() {
        return Ok((clip, came_in.and(marked)));
    }
    let inside = |error: std::io::Error| MarkError::Inside(Error::internal(error));
    let has_credentials = came_in.marks.contains(&Mark::C2pa);
    let is_edited = match made {
        // The kinds that can be an ingredient are those whose marks can be read.
        ClipMade::Edited(_) => came_in.status != ProvenanceStatus::Unreadable,
        ClipMade::Uploaded(_) | ClipMade::Generated(_) => has_credentials,
    };
    let signed = if is_edited {
        let file = (&*clip.flac, Format::Flac);
        Some(sign_edited(app, facts, when, file, source, watch)?)
    } else if matches!(made, ClipMade::Generated(_)) {
        let flac = std::fs::read(&clip.flac).map_err(inside)?;
        let stated = facts.stated(when, Made::Generated);
        Some(app.secrets.origin.sign(flac, Format::Flac, &stated)?)
    } else {
        None
    };
    if let Some(signed) = signed {
        std::fs::write(&clip.flac, signed).map_err(inside)?;
        (clip.size_bytes, clip.sha256) = clip::digest(&clip.flac).map_err(inside)?;
    }
    for cover in [&mut clip.cover, &mut clip.cover_large] {
        let stated = facts.stated(when, Made::Drawn);
        let signed = app
            .secrets
            .origin
            .sign(cover.to_vec(), Format::Png, &stated)?;
        *cover = Bytes::from(signed);
    }
    // Of a stem the record tells what it carries, of others what came in.
    let tells = match made {
        ClipMade::Edited(_) if is_edited => told(app, &clip.flac, watch),
        ClipMade::Edited(_) | ClipMade::Generated(_) | ClipMade::Uploaded(_) => came_in,
    };
    Ok((clip, tells.and(marked)))
}

impl Facts {
    /// Of a task. `provider` is `None` if the operator hides it, or there is none.
    pub fn of(task: &Task, title: &str, provider: Option<String>, prompt: &str) -> Self {
        Self {
            account: task.account,
            title: title.to_owned(),
            model: task.model.clone(),
            provider,
            prompt: prompt.to_owned(),
        }
    }

    fn stated<'a>(&'a self, when: &'a str, made: Made<'a>) -> Statement<'a> {
        Statement {
            title: &self.title,
            model: &self.model,
            provider: self.provider.as_deref(),
            prompt: &self.prompt,
            when,
            made,
        }
    }
}

/// The registry's entry for a film.
pub fn print_of_film(
    task: &Task,
    film: &Asset,
    is_embedded: bool,
    watermark: Option<u64>,
    likeness: Likeness,
) -> Print {
    Print {
        id: film.id,
        account: task.account,
        kind: PrintKind::Video,
        is_embedded,
        task: Some(task.id),
        clip: None,
        sha256: film.sha256.clone(),
        watermark,
        likeness,
        created_at: film.created_at,
    }
}

/// The registry's entry for a clip, whose recording is `audio`.
pub fn print_of_clip(
    clip: ClipId,
    audio: &Asset,
    kind: PrintKind,
    is_embedded: bool,
    watermark: Option<u64>,
    likeness: Likeness,
) -> Print {
    Print {
        id: audio.id,
        account: audio.account,
        kind,
        is_embedded,
        task: None,
        clip: Some(clip),
        sha256: audio.sha256.clone(),
        watermark,
        likeness,
        created_at: audio.created_at,
    }
}
