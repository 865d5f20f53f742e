//! The parent's side: gives a child its order, follows it, collects its files. Blocks, like an engine.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, ExitStatus};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use tempfile::{NamedTempFile, TempDir};

use super::{
    ChildJob, ChildLauncher, ChildLimits, ChildMessage, ChildOrder, ClipFiles, OwnModel, POSTER,
    SHEET, STILLS, VIDEO, cover, cover_large, flac,
};
use crate::engines::animatic_engine::MadeVideo;
use crate::engines::clip::{MadeClip, engine_failure};
use crate::engines::film_scan::{self, FilmScan};
use crate::engines::retouch::RetouchOptions;
use crate::engines::{EngineControl, EngineError};
use crate::origin::WatermarkPayload;
use mediagate_model::task::{StemsJob, VideoJob};

/// How soon a cancellation is noticed.
const POLL_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// Longest line accepted from a child, and most of its standard error that is logged.
const LONGEST: usize = 4 * 1024 * 1024;
const MAX_LOGGED_STDERR: u64 = 1024;
/// Largest poster, in bytes, that is accepted from one.
const LARGEST: u64 = 32 << 20;

/// Like [`make`](crate::engines::animatic_engine::make), in a child.
pub fn make_video(
    launcher: &ChildLauncher,
    job: &VideoJob,
    picture: Option<&Path>,
    touch: RetouchOptions,
    watch: &EngineControl,
) -> Result<MadeVideo, EngineError> {
    let job = ChildJob::Video {
        job: job.clone(),
        picture: picture.map(Path::to_owned),
        touch,
    };
    let (folder, word) = run_job(launcher, job, launcher.limits(), watch)?;
    let ChildMessage::Video {
        width,
        height,
        milliseconds,
        direction,
        likeness,
        is_marked,
    } = word
    else {
        return Err(EngineError::Broken(format!("a child said {word:?}")));
    };
    let read = |name| std::fs::read(folder.path().join(name)).map_err(engine_failure);
    Ok(MadeVideo {
        mp4: read(VIDEO)?,
        poster: read(POSTER)?,
        sheet: read(SHEET)?,
        width,
        height,
        milliseconds,
        direction,
        fingerprint: likeness,
        is_marked,
    })
}

/// The findings about a film, and a poster, JPEG, if its first frame can be decoded.
pub type ScannedFilm = (FilmScan, Option<Vec<u8>>);

/// Examines the beginnings of stored films in a child; returns the findings about each, in order. A
/// film that crashes the child has no findings.
pub fn scan_films(
    launcher: &ChildLauncher,
    films: &[&Path],
    watch: &EngineControl,
) -> Result<Vec<ScannedFilm>, EngineError> {
    let nothing = |why: String| (FilmScan::nothing(why), None);
    let tried = films
        .iter()
        .map(|film| film_scan::can_be_scanned(film).err());
    let mut all: Vec<Option<ScannedFilm>> = tried.map(|why| why.map(nothing)).collect();
    loop {
        let left = (0..films.len()).filter(|number| all[*number].is_none());
        let left: Vec<usize> = left.collect();
        let Some(first) = left.first() else {
            return Ok(all.into_iter().flatten().collect());
        };
        let job = ChildJob::Look {
            films: left.iter().map(|number| films[*number].into()).collect(),
        };
        let (mut heard, mut stills) = (0, None);
        let mut hear = |folder: &Path, word| {
            let (ChildMessage::Looked(looked, length), Some(number)) = (word, left.get(heard))
            else {
                return Err(EngineError::Broken("a child looked at too much".into()));
            };
            let poster = length.map(|length| next_poster(folder, &mut stills, length));
            all[*number] = Some((looked, poster.transpose().map_err(engine_failure)?));
            heard += 1;
            Ok(None)
        };
        match run_job_with(launcher, job, ChildLimits::FILM_SCANS, watch, &mut hear) {
            Ok((_, ChildMessage::Seen)) if heard == left.len() => {}
            Ok((_, word)) => return Err(EngineError::Broken(format!("a child said {word:?}"))),
            // If it crashed at a later film, that film is the first of the next child and has all
            // of that child's time and memory.
            Err(EngineError::Died(why)) => {
                // At the first film it had all its time and memory, so it is the film that cannot
                // be decoded.
                if heard == 0 {
                    tracing::warn!(%why, "video analysis crashed its process");
                    all[*first] = Some(nothing("its frames cannot be decoded".into()));
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// The next poster of a child.
fn next_poster(folder: &Path, stills: &mut Option<File>, length: u64) -> io::Result<Vec<u8>> {
    let file = match stills {
        Some(file) => file,
        None => stills.insert(File::open(folder.join(STILLS))?),
    };
    let mut poster = Vec::new();
    file.take(length.min(LARGEST)).read_to_end(&mut poster)?;
    Ok(poster)
}

/// Like [`separate`](crate::engines::stems_engine::separate), in a child.
pub fn separate(
    launcher: &ChildLauncher,
    job: &StemsJob,
    model: Option<OwnModel>,
    source: &Path,
    mark: Option<WatermarkPayload>,
    watch: &EngineControl,
) -> Result<Vec<MadeClip>, EngineError> {
    let limits = match model {
        Some(_) => ChildLimits::OWN_MODELS,
        None => launcher.limits(),
    };
    let job = ChildJob::Stems {
        job: job.clone(),
        source: source.to_owned(),
        model,
        mark,
    };
    let (folder, word) = run_job(launcher, job, limits, watch)?;
    let ChildMessage::Clips(clips) = word else {
        return Err(EngineError::Broken(format!("a child said {word:?}")));
    };
    let clips = clips.into_iter().enumerate();
    let take = |(number, clip)| take(launcher, folder.path(), number, clip).map_err(engine_failure);
    clips.map(take).collect()
}

pub(super) fn take(
    launcher: &ChildLauncher,
    folder: &Path,
    number: usize,
    clip: ClipFiles,
) -> io::Result<MadeClip> {
    // Moved out of the child's folder, which is removed afterwards.
    let kept = NamedTempFile::new_in(launcher.spool())?.into_temp_path();
    std::fs::rename(folder.join(flac(number)), &kept)?;
    Ok(MadeClip {
        flac: kept,
        size_bytes: clip.size_bytes,
        sha256: clip.sha256,
        cover: std::fs::read(folder.join(cover(number)))?.into(),
        cover_large: std::fs::read(folder.join(cover_large(number)))?.into(),
        milliseconds: clip.milliseconds,
        fingerprint: clip.likeness,
        is_marked: clip.is_marked,
    })
}

/// Runs a job in a child; returns its last message and its folder.
pub(super) fn run_job(
    launcher: &ChildLauncher,
    job: ChildJob,
    limits: ChildLimits,
    watch: &EngineControl,
) -> Result<(TempDir, ChildMessage), EngineError> {
    let hear = &mut |_: &Path, word| Err(EngineError::Broken(format!("a child said {word:?}")));
    run_job_with(launcher, job, limits, watch, hear)
}

/// Handles an interim message of a child, given its folder; the answer is a line for its input.
type MessageHandler<'a> =
    &'a mut dyn FnMut(&Path, ChildMessage) -> Result<Option<String>, EngineError>;

/// Like [`run_job`], with a handler for the child's interim messages.
pub(super) fn run_job_with(
    launcher: &ChildLauncher,
    job: ChildJob,
    limits: ChildLimits,
    watch: &EngineControl,
    hear: MessageHandler<'_>,
) -> Result<(TempDir, ChildMessage), EngineError> {
    let folder = tempfile::tempdir_in(launcher.spool()).map_err(engine_failure)?;
    let order = ChildOrder {
        job,
        folder: folder.path().to_owned(),
        limits,
        parent: std::process::id(),
    };
    let mut child = launcher.take().map_err(engine_failure)?;
    let mut stdin = child.process.stdin.take();
    let order_line = serde_json::to_string(&order).map_err(engine_failure)?;
    write_line(stdin.as_mut(), order_line);
    if !order.job.asks() {
        stdin = None;
    }
    let Some(stdout) = child.process.stdout.take() else {
        return Err(EngineError::Broken("a child has no output".into()));
    };
    let mut hear = |word| {
        if let Some(answer) = hear(folder.path(), word)? {
            write_line(stdin.as_mut(), answer);
        }
        Ok(())
    };
    match listen(stdout, watch, &mut hear)? {
        Some(ChildMessage::Source(why)) => Err(EngineError::Source(why)),
        Some(ChildMessage::Broken(why)) => Err(EngineError::Broken(why)),
        Some(word) => {
            // The last report of progress may have come long before the end.
            watch.report(1.0);
            Ok((folder, word))
        }
        None => {
            let status = child.process.wait().map_err(engine_failure)?;
            Err(exit_error(status, &child.stderr_file))
        }
    }
}

/// If the child is already dead, its exit says so.
fn write_line(stdin: Option<&mut ChildStdin>, mut line: String) {
    line.push('\n');
    if let Some(stdin) = stdin {
        let _ = stdin.write_all(line.as_bytes());
    }
}

/// Reads a child's messages until it exits; returns the last one, if it was an end.
fn listen(
    mut stdout: ChildStdout,
    watch: &EngineControl,
    hear: &mut dyn FnMut(ChildMessage) -> Result<(), EngineError>,
) -> Result<Option<ChildMessage>, EngineError> {
    let mut heard = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if watch.is_stopped() {
            // The caller drops the child, which kills it.
            return Err(EngineError::Stopped);
        }
        // A read that blocks would not notice a cancellation.
        match poll(
            &mut [PollFd::new(&stdout, PollFlags::IN)],
            Some(&POLL_INTERVAL),
        ) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(engine_failure(error)),
        }
        let read = stdout.read(&mut piece).map_err(engine_failure)?;
        if read == 0 {
            return Ok(None);
        }
        heard.extend_from_slice(&piece[..read]);
        while let Some(end) = heard.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = heard.drain(..=end).collect();
            match serde_json::from_slice(&line).map_err(engine_failure)? {
                ChildMessage::Progress(percent) => watch.report(f32::from(percent) / 100.0),
                word if word.is_interim() => hear(word)?,
                last => return Ok(Some(last)),
            }
        }
        // A child that was compromised by an untrusted file could send endless output.
        if heard.len() > LONGEST {
            return Err(EngineError::Broken("a child talks nonsense".into()));
        }
    }
}

/// Why a child exited without reporting an end. SIGTERM, SIGINT and SIGHUP do not count as deaths:
/// the whole service is being stopped.
fn exit_error(status: ExitStatus, mut complaints: &File) -> EngineError {
    let polite = [Signal::TERM, Signal::INT, Signal::HUP];
    if polite
        .iter()
        .any(|signal| status.signal() == Some(signal.as_raw()))
    {
        return EngineError::Stopped;
    }
    let mut said = Vec::new();
    let read = complaints.rewind();
    let read = read.and_then(|()| complaints.take(MAX_LOGGED_STDERR).read_to_end(&mut said));
    if read.is_err() {
        said.clear();
    }
    let said = String::from_utf8_lossy(&said);
    EngineError::Died(format!("{status}; it said: {}", said.trim()))
}
