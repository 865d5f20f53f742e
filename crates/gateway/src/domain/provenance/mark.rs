//! Marks what is made here before it is hashed and kept, and tells what came in.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::app::{App, Parts};
use crate::engines::clip::{self, MadeClip};
use crate::engines::{Watch, child};
use crate::error::{Error, ErrorCode};
use crate::ids::{AccountId, ClipId};
use crate::limits::{Work, Workplace};
use crate::model::media::Asset;
use crate::model::provenance::{Likeness, Mark, Print, PrintKind, Provenance, ProvenanceStatus};
use crate::model::task::Task;
use crate::origin::{Examined, Format, Made, NotSigned, Origin, Statement};

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
    let sign = move |_: &Workplace| {
        let source = std::fs::read(&*film).map_err(Error::internal)?;
        let made = Made::Edited {
            title: &facts.title,
            source: &source,
        };
        let stated = facts.stated(&when, made);
        Ok(parts.secrets.origin.sign(poster, Format::Jpeg, &stated)?)
    };
    let (room, memory) = (&app.limits.room, size.len() * 2);
    room.work(account, Work::Result, memory, sign).await?
}

/// Signs a portrait that was drawn here.
pub async fn portrait(
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
        model: "portrait".to_owned(),
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
    let sign = move |place: &Workplace| {
        let came_in = told(&parts, &source, place.watch());
        sign_clip(&parts, &facts, &when, clip, &made, came_in)
    };
    let room = &app.limits.room;
    room.work(account, Work::Result, memory, sign).await?
}

fn sign_clip(
    app: &Parts,
    facts: &Facts,
    when: &str,
    mut clip: MadeClip,
    made: &ClipMade,
    came_in: Provenance,
) -> Result<(MadeClip, Provenance), MarkError> {
    let (ClipMade::Edited(source) | ClipMade::Generated(source) | ClipMade::Uploaded(source)) =
        made;
    let marked = clip.is_marked.then_some(Mark::Watermark);
    if !Origin::signs() {
        return Ok((clip, came_in.and(marked)));
    }
    let inside = |error: std::io::Error| MarkError::Inside(Error::internal(error));
    let bytes = std::fs::read(&**source).map_err(inside)?;
    let edited = Made::Edited {
        title: &facts.title,
        source: &bytes,
    };
    let has_credentials = came_in.marks.contains(&Mark::C2pa);
    // The kinds that can be an ingredient are those whose marks can be read.
    let is_known = came_in.status != ProvenanceStatus::Unreadable;
    let how = match made {
        ClipMade::Edited(_) => is_known.then_some(edited),
        ClipMade::Uploaded(_) => has_credentials.then_some(edited),
        ClipMade::Generated(_) if has_credentials => Some(edited),
        ClipMade::Generated(_) => Some(Made::Generated),
    };
    if let Some(how) = how {
        let flac = std::fs::read(&clip.flac).map_err(inside)?;
        let flac = app
            .secrets
            .origin
            .sign(flac, Format::Flac, &facts.stated(when, how))?;
        std::fs::write(&clip.flac, flac).map_err(inside)?;
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
    let told = match made {
        ClipMade::Edited(_) if how.is_some() => {
            let signed = std::fs::read(&clip.flac).map_err(inside)?;
            app.secrets.origin.tell_of_own(&signed)
        }
        ClipMade::Edited(_) | ClipMade::Generated(_) | ClipMade::Uploaded(_) => came_in,
    };
    Ok((clip, told.and(marked)))
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
