//! Marks what is made here before it is hashed and kept, and tells what came in.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::app::{App, Parts};
use crate::engines::clip::{self, MadeClip};
use crate::error::{Error, ErrorCode};
use crate::ids::ClipId;
use crate::model::media::Asset;
use crate::model::provenance::{Likeness, Mark, Print, PrintKind, Provenance, ProvenanceStatus};
use crate::model::task::Task;
use crate::origin::{Format, Made, NotSigned, Origin, Statement};

/// What a file is signed with, beside how it was made.
#[derive(Debug, Clone)]
pub struct Facts {
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

/// Signs a film that was made here; `is_drawn` if it was made from words alone, and with `more`
/// marks than a signature.
pub async fn film(
    app: &App,
    facts: Facts,
    film: Vec<u8>,
    is_drawn: bool,
    more: &[Mark],
) -> Result<(Vec<u8>, Provenance), MarkError> {
    let (parts, when) = (app.clone(), app.clock.now().rfc3339());
    let memory = film.len() as u64 * 3;
    let more = more.to_vec();
    let sign = move |_: &_| {
        let made = if is_drawn {
            Made::Drawn
        } else {
            Made::DrawnFrom
        };
        let film = parts
            .secrets
            .origin
            .sign(film, Format::Mp4, &facts.stated(&when, made))?;
        let mut told = parts.secrets.origin.tell_bytes(&film);
        if told.status == ProvenanceStatus::None && !more.is_empty() {
            told.status = ProvenanceStatus::Unverified;
        }
        told.marks.extend(more);
        Ok((film, told))
    };
    app.limits.room.work(memory, sign).await?
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
    let sign = move |_: &_| sign_clip(&parts, &facts, &when, clip, &made, &source);
    app.limits.room.work(memory, sign).await?
}

fn sign_clip(
    app: &Parts,
    facts: &Facts,
    when: &str,
    mut clip: MadeClip,
    made: &ClipMade,
    source: &Path,
) -> Result<(MadeClip, Provenance), MarkError> {
    let came_in = app.secrets.origin.tell(source);
    let edited = Made::Edited {
        title: &facts.title,
        source,
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
    let Some(how) = how.filter(|_| Origin::signs()) else {
        return Ok((clip, came_in));
    };
    let inside = |error: std::io::Error| MarkError::Inside(Error::internal(error));
    let flac = std::fs::read(&clip.flac).map_err(inside)?;
    let flac = app
        .secrets
        .origin
        .sign(flac, Format::Flac, &facts.stated(when, how))?;
    std::fs::write(&clip.flac, flac).map_err(inside)?;
    (clip.size_bytes, clip.sha256) = clip::digest(&clip.flac).map_err(inside)?;
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
        ClipMade::Edited(_) => app.secrets.origin.tell(&clip.flac),
        ClipMade::Generated(_) | ClipMade::Uploaded(_) => came_in,
    };
    Ok((clip, told))
}

impl Facts {
    /// Of a task. `provider` is `None` if the operator hides it, or there is none.
    pub fn of(task: &Task, title: &str, provider: Option<String>, prompt: &str) -> Self {
        Self {
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
        watermark: None,
        likeness,
        created_at: audio.created_at,
    }
}
