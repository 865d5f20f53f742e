//! The parent's side: gives a child its order, follows it, collects its files. Blocks, like an
//! engine.

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
/// Maximum length of a line from a child, and of its standard error in the log.
const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;
const MAX_LOGGED_STDERR: u64 = 1024;
/// Maximum size of a poster from a child, in bytes.
const MAX_POSTER_BYTES: u64 = 32 << 20;

/// Like [`make`](crate::engines::animatic_engine::make), in a child.
pub fn make_video(
    launcher: &ChildLauncher,
    job: &VideoJob,
    picture: Option<&Path>,
    retouch: RetouchOptions,
    engine_control: &EngineControl,
) -> Result<MadeVideo, EngineError> {
    let job = ChildJob::Video {
        job: job.clone(),
        picture: picture.map(Path::to_owned),
        retouch,
    };
    let (folder, message) = run_job(launcher, job, launcher.limits(), engine_control)?;
    let ChildMessage::Video {
        width,
        height,
        milliseconds,
        direction,
        fingerprint,
        is_marked,
    } = message
    else {
        return Err(EngineError::Broken(format!("a child sent {message:?}")));
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
        fingerprint,
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
    engine_control: &EngineControl,
) -> Result<Vec<ScannedFilm>, EngineError> {
    let failed_scan = |reason: String| (FilmScan::nothing(reason), None);
    let checks = films
        .iter()
        .map(|film| film_scan::can_be_scanned(film).err());
    let mut scans: Vec<Option<ScannedFilm>> =
        checks.map(|reason| reason.map(failed_scan)).collect();
    loop {
        let remaining = (0..films.len()).filter(|index| scans[*index].is_none());
        let remaining: Vec<usize> = remaining.collect();
        let Some(first) = remaining.first() else {
            return Ok(scans.into_iter().flatten().collect());
        };
        let job = ChildJob::ScanFilms {
            films: remaining.iter().map(|index| films[*index].into()).collect(),
        };
        let (mut scanned, mut stills) = (0, None);
        let mut handler = |folder: &Path, message| {
            let (ChildMessage::FilmScanned(scan, length), Some(index)) =
                (message, remaining.get(scanned))
            else {
                return Err(EngineError::Broken(
                    "a child reported too many films".into(),
                ));
            };
            let poster = length.map(|length| next_poster(folder, &mut stills, length));
            scans[*index] = Some((scan, poster.transpose().map_err(engine_failure)?));
            scanned += 1;
            Ok(None)
        };
        match run_job_with(
            launcher,
            job,
            ChildLimits::FILM_SCANS,
            engine_control,
            &mut handler,
        ) {
            Ok((_, ChildMessage::AllScanned)) if scanned == remaining.len() => {}
            Ok((_, message)) => {
                return Err(EngineError::Broken(format!("a child sent {message:?}")));
            }
            // The film at which a child died is the first film of the next child, and then has all
            // of that child's time and memory.
            Err(EngineError::Died(reason)) => {
                // The first film had all of the child's time and memory, so the fault is the
                // film's.
                if scanned == 0 {
                    tracing::warn!(why = %reason, "video analysis crashed its process");
                    scans[*first] = Some(failed_scan("its frames cannot be decoded".into()));
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Reads the next poster from the child's file of posters.
fn next_poster(folder: &Path, stills: &mut Option<File>, length: u64) -> io::Result<Vec<u8>> {
    let file = match stills {
        Some(file) => file,
        None => stills.insert(File::open(folder.join(STILLS))?),
    };
    let mut poster = Vec::new();
    file.take(length.min(MAX_POSTER_BYTES))
        .read_to_end(&mut poster)?;
    Ok(poster)
}

/// Like [`separate`](crate::engines::stems_engine::separate), in a child.
pub fn separate(
    launcher: &ChildLauncher,
    job: &StemsJob,
    model: Option<OwnModel>,
    source: &Path,
    mark: Option<WatermarkPayload>,
    engine_control: &EngineControl,
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
    let (folder, message) = run_job(launcher, job, limits, engine_control)?;
    let ChildMessage::Clips(clips) = message else {
        return Err(EngineError::Broken(format!("a child sent {message:?}")));
    };
    let clips = clips.into_iter().enumerate();
    let collect =
        |(index, clip)| collect_clip(launcher, folder.path(), index, clip).map_err(engine_failure);
    clips.map(collect).collect()
}

/// Collects a clip from the child's folder.
pub(super) fn collect_clip(
    launcher: &ChildLauncher,
    folder: &Path,
    index: usize,
    clip: ClipFiles,
) -> io::Result<MadeClip> {
    // Moved out of the child's folder, which is removed afterwards.
    let path = NamedTempFile::new_in(launcher.spool())?.into_temp_path();
    std::fs::rename(folder.join(flac(index)), &path)?;
    Ok(MadeClip {
        flac: path,
        size_bytes: clip.size_bytes,
        sha256: clip.sha256,
        cover: std::fs::read(folder.join(cover(index)))?.into(),
        cover_large: std::fs::read(folder.join(cover_large(index)))?.into(),
        milliseconds: clip.milliseconds,
        fingerprint: clip.fingerprint,
        is_marked: clip.is_marked,
    })
}

/// Runs a job in a child; returns its last message and its folder.
pub(super) fn run_job(
    launcher: &ChildLauncher,
    job: ChildJob,
    limits: ChildLimits,
    engine_control: &EngineControl,
) -> Result<(TempDir, ChildMessage), EngineError> {
    let handler =
        &mut |_: &Path, message| Err(EngineError::Broken(format!("a child sent {message:?}")));
    run_job_with(launcher, job, limits, engine_control, handler)
}

/// Handles an interim message of a child, given its folder; the answer is a line for its input.
type MessageHandler<'a> =
    &'a mut dyn FnMut(&Path, ChildMessage) -> Result<Option<String>, EngineError>;

/// Like [`run_job`], with a handler for the child's interim messages.
pub(super) fn run_job_with(
    launcher: &ChildLauncher,
    job: ChildJob,
    limits: ChildLimits,
    engine_control: &EngineControl,
    handler: MessageHandler<'_>,
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
    if !order.job.asks_parent() {
        stdin = None;
    }
    let Some(stdout) = child.process.stdout.take() else {
        return Err(EngineError::Broken("a child has no output".into()));
    };
    let mut handle = |message| {
        if let Some(answer) = handler(folder.path(), message)? {
            write_line(stdin.as_mut(), answer);
        }
        Ok(())
    };
    match listen(stdout, engine_control, &mut handle)? {
        Some(ChildMessage::Source(reason)) => Err(EngineError::Source(reason)),
        Some(ChildMessage::Broken(reason)) => Err(EngineError::Broken(reason)),
        Some(message) => {
            // The last report of progress may have come long before the end.
            engine_control.report(1.0);
            Ok((folder, message))
        }
        None => {
            let status = child.process.wait().map_err(engine_failure)?;
            Err(exit_error(status, &child.stderr_file))
        }
    }
}

/// Ignores errors: if the child is dead already, its exit status is reported.
fn write_line(stdin: Option<&mut ChildStdin>, mut line: String) {
    line.push('\n');
    if let Some(stdin) = stdin {
        let _ = stdin.write_all(line.as_bytes());
    }
}

/// Reads a child's messages until its outcome, which is returned; `None` if it exits without one.
fn listen(
    mut stdout: ChildStdout,
    engine_control: &EngineControl,
    handle: &mut dyn FnMut(ChildMessage) -> Result<(), EngineError>,
) -> Result<Option<ChildMessage>, EngineError> {
    let mut received = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        if engine_control.is_stopped() {
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
        let read = stdout.read(&mut chunk).map_err(engine_failure)?;
        if read == 0 {
            return Ok(None);
        }
        received.extend_from_slice(&chunk[..read]);
        while let Some(end) = received.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = received.drain(..=end).collect();
            match serde_json::from_slice(&line).map_err(engine_failure)? {
                ChildMessage::Progress(percent) => {
                    engine_control.report(f32::from(percent) / 100.0);
                }
                message if message.is_interim() => handle(message)?,
                last => return Ok(Some(last)),
            }
        }
        // A child that was compromised by an untrusted file could send endless output.
        if received.len() > MAX_LINE_BYTES {
            return Err(EngineError::Broken("a child sent an endless line".into()));
        }
    }
}

/// Why a child exited without reporting an outcome. SIGTERM, SIGINT and SIGHUP do not count as
/// deaths: the whole service is being stopped.
fn exit_error(status: ExitStatus, mut stderr_file: &File) -> EngineError {
    let shutdown_signals = [Signal::TERM, Signal::INT, Signal::HUP];
    if shutdown_signals
        .iter()
        .any(|signal| status.signal() == Some(signal.as_raw()))
    {
        return EngineError::Stopped;
    }
    let mut stderr = Vec::new();
    let read = stderr_file.rewind();
    let read = read.and_then(|()| stderr_file.take(MAX_LOGGED_STDERR).read_to_end(&mut stderr));
    if read.is_err() {
        stderr.clear();
    }
    let stderr = String::from_utf8_lossy(&stderr);
    EngineError::Died(format!("{status}; its standard error: {}", stderr.trim()))
}
