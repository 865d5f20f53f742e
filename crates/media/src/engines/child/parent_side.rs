//! The parent's side: gives a child its order, follows it, collects its files. Blocks, like an
//! engine.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use tempfile::TempPath;

use super::job_clock::JobClock;
use super::result_checks::{BadResult, check_flac, check_jpeg, check_mp4, check_png};
use super::result_files::ResultFiles;
use super::{
    ChildJob, ChildLauncher, ChildLimits, ChildMessage, ChildOrder, ChildWork, ClipFacts,
    ConfinementError, OwnModel, PIXELS, POSTER, RawPicture, SHEET, STILLS, VIDEO, cover,
    cover_large, flac,
};
use crate::engines::animatic_engine::MadeVideo;
use crate::engines::animatic_engine::PromptReading;
use crate::engines::clip::{self, COVER_SIDES, MadeClip, engine_failure};
use crate::engines::film_scan::{self, FilmScan};
use crate::engines::retouch::RetouchOptions;
use crate::engines::{EngineControl, EngineError};
use crate::origin::WatermarkPayload;
use mediagate_model::task::{StemsJob, VideoJob};

/// How soon a cancellation, or a child that hangs, is noticed.
const POLL_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// How often a child that has closed its output is checked for its exit, which follows at once.
const EXIT_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum length of a line from a child, and of its standard error in the log.
const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;
const MAX_LOGGED_STDERR: u64 = 1024;
/// Maximum sizes of files from a child that are read into memory, in bytes.
const MAX_VIDEO_BYTES: u64 = 512 << 20;
const MAX_PICTURE_BYTES: u64 = 16 << 20;
/// Maximum size of all posters from one child.
const MAX_POSTERS_BYTES: u64 = 64 << 20;

/// Like [`make`](crate::engines::animatic_engine::make), in a child.
pub fn make_video(
    launcher: &ChildLauncher,
    job: &VideoJob,
    picture: Option<&Path>,
    retouch: RetouchOptions,
    engine_control: &EngineControl,
) -> Result<MadeVideo, EngineError> {
    // Another child decodes the picture, which is untrusted: the one that makes the film has the
    // key of the watermark.
    let decoded = picture.map(|file| decode_picture(launcher, file, engine_control));
    let (_pixels, picture) = decoded.transpose()?.unzip();
    let job = ChildJob::Video {
        job: job.clone(),
        picture,
        retouch,
    };
    let (files, message) = run_job(launcher, job, launcher.limits(), engine_control)?;
    let ChildMessage::Video {
        width,
        height,
        milliseconds,
        direction,
        not_understood,
        fingerprint,
        is_marked,
    } = message
    else {
        return Err(EngineError::Broken(format!("a child sent {message:?}")));
    };
    let mp4 = files.read(VIDEO, MAX_VIDEO_BYTES).and_then(check_mp4);
    let picture = |name| files.read(name, MAX_PICTURE_BYTES).and_then(check_jpeg);
    Ok(MadeVideo {
        mp4: mp4.map_err(engine_failure)?,
        poster: picture(POSTER).map_err(engine_failure)?,
        sheet: picture(SHEET).map_err(engine_failure)?,
        width,
        height,
        milliseconds,
        reading: PromptReading {
            direction,
            not_understood,
        },
        fingerprint,
        is_marked,
    })
}

/// Decodes a picture in a child. The file is removed when the path is dropped.
fn decode_picture(
    launcher: &ChildLauncher,
    file: &Path,
    engine_control: &EngineControl,
) -> Result<(TempPath, RawPicture), EngineError> {
    let job = ChildJob::Pixels {
        file: file.to_owned(),
    };
    let (files, message) = run_job(launcher, job, ChildLimits::MEDIA, engine_control)?;
    let ChildMessage::Pixels { width, height } = message else {
        return Err(EngineError::Broken(format!("a child sent {message:?}")));
    };
    let taken = files.take(PIXELS, launcher.spool());
    let (path, _) = taken.map_err(engine_failure)?;
    let picture = RawPicture {
        file: path.to_path_buf(),
        width,
        height,
    };
    Ok((path, picture))
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
        let (mut scanned, mut posters_bytes) = (0, 0);
        let mut handler = |files: &ResultFiles, message| {
            let (ChildMessage::FilmScanned(scan, length), Some(index)) =
                (message, remaining.get(scanned))
            else {
                return Err(EngineError::Broken(
                    "a child reported too many films".into(),
                ));
            };
            let poster = length.map(|length| next_poster(files, &mut posters_bytes, length));
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

/// Reads the next poster from the child's file of posters, and adds its size to the total.
fn next_poster(files: &ResultFiles, total: &mut u64, length: u64) -> Result<Vec<u8>, BadResult> {
    *total = total.saturating_add(length);
    for (size, limit) in [(length, MAX_PICTURE_BYTES), (*total, MAX_POSTERS_BYTES)] {
        if size > limit {
            let name = STILLS.to_owned();
            return Err(BadResult::TooLarge { name, size, limit });
        }
    }
    files.read_next(STILLS, length).and_then(check_jpeg)
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
    let count = job.outputs.len();
    let job = ChildJob::Stems {
        job: job.clone(),
        source: source.to_owned(),
        model,
        mark,
    };
    let (files, message) = run_job(launcher, job, limits, engine_control)?;
    match message {
        ChildMessage::Clips(clips) if clips.len() == count => {
            let clips = clips.into_iter().enumerate();
            let collect = |(index, clip)| collect_clip(launcher, &files, index, clip);
            let clips: Result<_, BadResult> = clips.map(collect).collect();
            clips.map_err(engine_failure)
        }
        message => Err(EngineError::Broken(format!("a child sent {message:?}"))),
    }
}

/// Collects a clip from the child's files.
pub(super) fn collect_clip(
    launcher: &ChildLauncher,
    files: &ResultFiles,
    index: usize,
    facts: ClipFacts,
) -> Result<MadeClip, BadResult> {
    let picture = |name: String, side| {
        let picture = files.read(&name, MAX_PICTURE_BYTES);
        picture.and_then(|picture| check_png(picture, side))
    };
    let (path, file) = files.take(&flac(index), launcher.spool())?;
    check_flac(file)?;
    // The child could say anything about the file.
    let (size_bytes, sha256) = clip::digest_file(file)?;
    Ok(MadeClip {
        flac: path,
        size_bytes,
        sha256,
        cover: picture(cover(index), COVER_SIDES.0)?.into(),
        cover_large: picture(cover_large(index), COVER_SIDES.1)?.into(),
        milliseconds: facts.milliseconds,
        fingerprint: facts.fingerprint,
        is_marked: facts.is_marked,
        notes: facts.notes,
    })
}

/// Runs a job in a child; returns its last message and its files.
pub(super) fn run_job(
    launcher: &ChildLauncher,
    job: ChildJob,
    limits: ChildLimits,
    engine_control: &EngineControl,
) -> Result<(ResultFiles, ChildMessage), EngineError> {
    let handler = &mut |_: &ResultFiles, message| {
        Err(EngineError::Broken(format!("a child sent {message:?}")))
    };
    run_job_with(launcher, job, limits, engine_control, handler)
}

/// Handles an interim message of a child, given its files; the answer is a line for its input.
type MessageHandler<'a> =
    &'a mut dyn FnMut(&ResultFiles, ChildMessage) -> Result<Option<String>, EngineError>;

/// Like [`run_job`], with a handler for the child's interim messages.
pub(super) fn run_job_with(
    launcher: &ChildLauncher,
    job: ChildJob,
    limits: ChildLimits,
    engine_control: &EngineControl,
    handler: MessageHandler<'_>,
) -> Result<(ResultFiles, ChildMessage), EngineError> {
    let unstarted = |error: io::Error| start_failure(EngineError::Unstarted(error.to_string()));
    let files = ResultFiles::create(launcher.spool(), &job).map_err(unstarted)?;
    let order = ChildOrder {
        job,
        folder: files.folder().to_owned(),
        limits,
        parent: std::process::id(),
        is_strict: launcher.is_strict(),
    };
    let work = order.job.work();
    let _running = launcher.note_running(work);
    // Dropped at every end of this function, which kills it.
    let mut child = launcher.take().map_err(unstarted)?;
    let Some(stdout) = child.process.stdout.take() else {
        return Err(EngineError::Broken("a child has no output".into()));
    };
    let mut conversation = ChildConversation {
        stdin: child.process.stdin.take(),
        stdout,
        launcher,
        clock: JobClock::start(&order.job),
        engine_control,
        has_started: false,
    };
    let order_line = serde_json::to_string(&order).map_err(engine_failure)?;
    let follow = || {
        conversation.send_line(order_line)?;
        if !order.job.asks_parent() {
            conversation.stdin = None;
        }
        if let Some(message) = conversation.listen(&files, handler)? {
            return Ok(message);
        }
        let status = conversation.wait_for_exit(&mut child.process)?;
        let error = exit_error(status, &child.stderr_file);
        Err(conversation.death(status, error).into())
    };
    match follow() {
        Ok(ChildMessage::Source(reason)) => Err(EngineError::Source(reason)),
        Ok(ChildMessage::Broken(reason)) => Err(EngineError::Broken(reason)),
        Ok(ChildMessage::Unconfined(error)) => Err(start_failure(EngineError::Unconfined(error))),
        Ok(message) => {
            // The last report of progress may have come long before the end.
            if work == ChildWork::Engine {
                engine_control.report(1.0);
            }
            Ok((files, message))
        }
        Err(FollowError::Ended(error)) => Err(error),
        Err(FollowError::Hung(reason)) => {
            tracing::error!(work = work.name(), why = %reason, "a child process hung");
            metrics::counter!("mediagate_children_hung_total", "work" => work.name()).increment(1);
            if conversation.has_started {
                Err(EngineError::Died(reason))
            } else {
                Err(start_failure(EngineError::Unstarted(reason)))
            }
        }
    }
}

/// Counts and logs that a child could not start its job.
fn start_failure(error: EngineError) -> EngineError {
    let reason = match error {
        EngineError::Unconfined(_) => "confinement",
        _ => "start",
    };
    metrics::counter!("mediagate_child_failures_total", "reason" => reason).increment(1);
    tracing::error!(why = %error, "a child process cannot work");
    error
}

/// Why a child has no outcome.
enum FollowError {
    Ended(EngineError),
    /// It took too long.
    Hung(String),
}

impl From<EngineError> for FollowError {
    fn from(error: EngineError) -> Self {
        Self::Ended(error)
    }
}

/// The exchange with a child. It waits for the child only while the clock allows it and the caller
/// still waits.
struct ChildConversation<'a> {
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    launcher: &'a ChildLauncher,
    clock: JobClock,
    engine_control: &'a EngineControl,
    /// Whether the child is confined and has begun to read its input.
    has_started: bool,
}

impl ChildConversation<'_> {
    /// Fails if nothing more should be expected of the child.
    fn check(&self) -> Result<(), FollowError> {
        if self.engine_control.is_stopped() {
            return Err(EngineError::Stopped.into());
        }
        self.clock
            .overdue(&self.launcher.clocks())
            .map_or(Ok(()), |reason| Err(FollowError::Hung(reason)))
    }

    /// Sends a line, which a child that hangs does not read. Ignores other errors: if the child is
    /// dead already, its exit status is reported.
    fn send_line(&mut self, mut line: String) -> Result<(), FollowError> {
        line.push('\n');
        let Some(mut stdin) = self.stdin.as_ref() else {
            return Ok(());
        };
        rustix::io::ioctl_fionbio(stdin, true).map_err(engine_failure)?;
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            self.check()?;
            match stdin.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Whatever it returns, the next attempt to write shows the state.
                    let _ = poll(
                        &mut [PollFd::new(stdin, PollFlags::OUT)],
                        Some(&POLL_INTERVAL),
                    );
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Reads messages until the outcome, which is returned; `None` if the child exits without one.
    fn listen(
        &mut self,
        files: &ResultFiles,
        handler: MessageHandler<'_>,
    ) -> Result<Option<ChildMessage>, FollowError> {
        let mut received = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            self.check()?;
            // A read that blocks would not notice a cancellation.
            match poll(
                &mut [PollFd::new(&self.stdout, PollFlags::IN)],
                Some(&POLL_INTERVAL),
            ) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(engine_failure(error).into()),
            }
            let read = self.stdout.read(&mut chunk).map_err(engine_failure)?;
            if read == 0 {
                return Ok(None);
            }
            received.extend_from_slice(&chunk[..read]);
            while let Some(end) = received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = received.drain(..=end).collect();
                match serde_json::from_slice(&line).map_err(engine_failure)? {
                    ChildMessage::Progress(percent) => {
                        self.clock.note_progress(percent);
                        self.engine_control.report(f32::from(percent) / 100.0);
                    }
                    ChildMessage::Started => self.has_started = true,
                    message if message.is_interim() => {
                        if let Some(answer) = self.clock.paused(|| handler(files, message))? {
                            self.send_line(answer)?;
                        }
                    }
                    last => return Ok(Some(last)),
                }
            }
            // A child that was compromised by an untrusted file could send endless output.
            if received.len() > MAX_LINE_BYTES {
                return Err(EngineError::Broken("a child sent an endless line".into()).into());
            }
        }
    }

    /// The error for a child that exited without an outcome. One that has read nothing of its input
    /// did not die of it.
    fn death(&self, status: ExitStatus, error: EngineError) -> EngineError {
        match error {
            EngineError::Died(_)
                if !self.has_started && status.signal() == Some(Signal::SYS.as_raw()) =>
            {
                start_failure(EngineError::Unconfined(ConfinementError::Killed))
            }
            EngineError::Died(reason) if !self.has_started => {
                start_failure(EngineError::Unstarted(reason))
            }
            error => error,
        }
    }

    /// Waits for the exit of a child that has closed its output.
    fn wait_for_exit(&self, process: &mut Child) -> Result<ExitStatus, FollowError> {
        loop {
            if let Some(status) = process.try_wait().map_err(engine_failure)? {
                return Ok(status);
            }
            self.check()?;
            std::thread::sleep(EXIT_INTERVAL);
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
