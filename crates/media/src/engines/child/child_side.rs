//! The child's side: runs one job and exits.

use std::fs::File;
use std::io::{self, BufRead as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use animatic::{Picture, PictureError, PictureLimits};
use provenance::marks::FileKind;
use rustix::process::{Resource, Rlimit, getppid, getrlimit, setrlimit};

use super::confinement::{AppliedConfinement, ChildRights, confine};
use super::result_files::{open_result, write_result};
use super::{
    BadPicture, ChildJob, ChildLimits, ChildMessage, ChildOrder, ChildWork, ClipFacts, ClipSources,
    FRAMES, FileCheck, OwnModel, PIXELS, POSTER, PictureFacts, RawPicture, SHEET, SOUND, STILLS,
    VIDEO, cover, cover_large, flac,
};
use crate::engines::clip::{self, ClipError, EncodedClip, engine_failure};
use crate::engines::film_scan::{FilmScan, ScanPurpose};
use crate::engines::own_models::{InstalledModels, ModelGraphs};
use crate::engines::recording_scan;
use crate::engines::{EngineControl, EngineError, animatic_engine, film_scan, stems_engine};
use crate::origin::{self, FileExamination};
use stems::DecodeLimits;

/// How often the child reports progress.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of open files.
const MAX_OPEN_FILES: u64 = 256;

/// Runs the job on standard input and reports on standard output. If the child exits without
/// reporting an outcome, the job counts as failed.
pub fn serve() -> io::Result<()> {
    let mut order = String::new();
    io::stdin().lock().read_line(&mut order)?;
    let order: ChildOrder = serde_json::from_str(&order)?;
    die_with_parent(order.parent)?;
    set_limits(order.limits)?;
    if order.job.can_wait() {
        rustix::process::nice(19)?;
    }
    // Other processes of the same user cannot read this one's memory. The kernel resets this when
    // a program starts, and it has to follow the limits, which are set by a file of /proc.
    mediagate_model::private_memory::protect()?;
    // The proof makes calls that are not listed.
    let is_strict = order.is_strict && !matches!(order.job, ChildJob::Confinement(_));
    // Called after everything that confinement forbids, and before there is a second thread: only
    // this thread and those that it starts are confined.
    let confinement = match confine(&order.job.rights(&order.folder), is_strict) {
        Ok(confinement) => confinement,
        Err(error) => return send(&ChildMessage::Unconfined(error)),
    };
    send(&ChildMessage::Started)?;
    let engine_control = Arc::new(EngineControl::default());
    let (sender, results) = mpsc::channel();
    let (job, folder, job_engine_control) = (order.job, order.folder, engine_control.clone());
    // The job runs on a separate thread, so that this one can report its progress.
    std::thread::Builder::new().spawn(move || {
        // Fails only if the loop below has ended.
        let _ = sender.send(job.run(&folder, confinement, &job_engine_control));
    })?;
    loop {
        match results.recv_timeout(REPORT_INTERVAL) {
            Ok(Ok(message)) => return send(&message),
            Ok(Err(EngineError::Source(reason))) => return send(&ChildMessage::Source(reason)),
            Ok(Err(error)) => return send(&ChildMessage::Broken(error.to_string())),
            Err(RecvTimeoutError::Timeout) => {
                send(&ChildMessage::Progress(engine_control.progress()))?;
            }
            Err(RecvTimeoutError::Disconnected) => {
                return send(&ChildMessage::Broken("the engine panicked".into()));
            }
        }
    }
}

/// Makes the kernel kill this process when its parent dies.
fn die_with_parent(parent: u32) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // If the parent died before this call, the kernel sends no signal.
    let is_alive = getppid().is_some_and(|id| id.as_raw_pid().cast_unsigned() == parent);
    if is_alive {
        Ok(())
    } else {
        Err(io::Error::other("the parent is gone"))
    }
}

fn set_limits(limits: ChildLimits) -> io::Result<()> {
    for (resource, limit) in [
        (Resource::As, limits.memory),
        (Resource::Cpu, limits.cpu),
        (Resource::Fsize, limits.file),
        (Resource::Nofile, Some(MAX_OPEN_FILES)),
        // A core dump would leave the media of callers on the disk.
        (Resource::Core, Some(0)),
    ] {
        let Some(limit) = limit else { continue };
        // A limit cannot be raised above the hard limit of this process.
        let maximum = getrlimit(resource).maximum.unwrap_or(u64::MAX).min(limit);
        let limit = Rlimit {
            current: Some(maximum),
            maximum: Some(maximum),
        };
        setrlimit(resource, limit)?;
    }
    // If the machine runs out of memory, the kernel kills this process first. Only Linux has the
    // file.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    Ok(())
}

pub(super) fn send(message: &ChildMessage) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

impl ChildJob {
    /// Whether all other work comes first: no caller waits for the job, or the wait does not
    /// matter.
    pub(super) const fn can_wait(&self) -> bool {
        matches!(self, Self::ScanFilms { .. } | Self::Check { .. })
    }

    pub(super) const fn work(&self) -> ChildWork {
        match self {
            Self::Video { .. } | Self::Stems { .. } => ChildWork::Engine,
            _ => ChildWork::Media,
        }
    }

    /// Whether it asks its parent for something while it runs.
    pub(super) const fn asks_parent(&self) -> bool {
        match self {
            Self::Picture { decodes, .. } => *decodes,
            #[cfg(feature = "c2pa")]
            Self::Sign(..) => true,
            _ => false,
        }
    }

    /// What it may do.
    fn rights(&self, folder: &Path) -> ChildRights {
        let mut loads_code = false;
        let read = match self {
            Self::Video { picture, .. } => {
                let pictures = picture.iter();
                pictures.map(|picture| picture.file.clone()).collect()
            }
            Self::ScanFilms { films, .. } => films.clone(),
            Self::Stems { source, model, .. } => {
                loads_code = model.is_some();
                let library = model.as_ref().map(OwnModel::files).unwrap_or_default();
                [vec![source.clone()], library].concat()
            }
            Self::Clip(recordings) => recordings.sources.clone(),
            Self::Pixels { file }
            | Self::Picture { file, .. }
            | Self::Check { file, .. }
            | Self::Verify { file, .. } => vec![file.clone()],
            #[cfg(feature = "c2pa")]
            Self::Sign(order, _) => vec![order.file.clone(), order.source.clone()],
            // One rule, so that the call that adds rules is proven too.
            Self::Confinement(_) => vec![folder.to_owned()],
        };
        let results = self.results().into_iter();
        ChildRights {
            read,
            write: results.map(|name| folder.join(name)).collect(),
            loads_code,
        }
    }

    fn run(
        self,
        folder: &Path,
        confinement: AppliedConfinement,
        engine_control: &EngineControl,
    ) -> Result<ChildMessage, EngineError> {
        match self {
            Self::Pixels { file } => {
                let bytes = std::fs::read(&file).map_err(engine_failure)?;
                let picture = animatic_engine::decode(&bytes)?;
                write_result(folder, PIXELS, picture.rgb()).map_err(engine_failure)?;
                Ok(ChildMessage::Pixels {
                    width: picture.width(),
                    height: picture.height(),
                })
            }
            Self::Confinement(attempts) => Ok(ChildMessage::Attempted(attempts.make(confinement))),
            Self::Video {
                job,
                picture,
                retouch,
            } => {
                let picture = picture.as_ref().map(read_pixels).transpose()?;
                let video = animatic_engine::make(&job, picture.as_ref(), retouch, engine_control)?;
                write_video(folder, video)
            }
            Self::ScanFilms { films } => {
                let mut stills = open_result(folder, STILLS).map_err(engine_failure)?;
                for film in &films {
                    let scanned = film_scan::scan_film(film, ScanPurpose::Keep, engine_control);
                    let poster = scanned.poster.unwrap_or_default();
                    stills.write_all(&poster).map_err(engine_failure)?;
                    let length = (!poster.is_empty()).then_some(poster.len() as u64);
                    // Sent one by one, so that findings are not lost if a later film kills this
                    // process.
                    send(&ChildMessage::FilmScanned(scanned.scan, length))
                        .map_err(engine_failure)?;
                }
                Ok(ChildMessage::AllScanned)
            }
            Self::Stems {
                job,
                source,
                model,
                mark,
            } => {
                let graphs = model.as_ref().map(open).transpose()?;
                let graphs = graphs.as_ref();
                let files = (0..job.outputs.len()).map(|index| open_result(folder, &flac(index)));
                let files: io::Result<Vec<File>> = files.collect();
                let files = files.map_err(engine_failure)?;
                let clips =
                    stems_engine::separate(&job, graphs, &source, mark, files, engine_control)?;
                let clips = clips.into_iter().enumerate();
                let clips = clips.map(|(index, clip)| write_covers(folder, index, clip));
                Ok(ChildMessage::Clips(clips.collect::<Result<_, _>>()?))
            }
            Self::Picture { file, decodes } => probe_picture(&file, decodes),
            Self::Clip(recordings) => clip_of(&recordings, folder, engine_control),
            Self::Check { file, certificates } => {
                check(&file, &certificates, folder, engine_control)
            }
            #[cfg(feature = "c2pa")]
            Self::Sign(order, signer) => super::signing::serve(&order, &signer, folder),
            Self::Verify { file, certificates } => {
                let bytes = std::fs::read(&file).map_err(engine_failure)?;
                Ok(ChildMessage::Verified(origin::verify(
                    &bytes,
                    &certificates,
                )))
            }
        }
    }
}

fn open(model: &OwnModel) -> Result<ModelGraphs, EngineError> {
    InstalledModels::load_one(&model.folder, model.library.clone(), &model.name)
        .ok_or_else(|| EngineError::Broken(format!("{} cannot be loaded", model.name)))
}

/// Reads the facts about a picture from its header. If `decodes`, also requests the memory from the
/// parent and then decodes the picture.
fn probe_picture(file: &Path, decodes: bool) -> Result<ChildMessage, EngineError> {
    let limits = PictureLimits::default();
    let bytes = std::fs::read(file).map_err(engine_failure)?;
    let rejected = |error: PictureError| {
        Ok(ChildMessage::BadPicture(BadPicture {
            is_too_large: matches!(
                error,
                PictureError::TooLarge { .. }
                    | PictureError::TooLong { .. }
                    | PictureError::TooManyScans { .. }
                    | PictureError::TooMuchMemory { .. }
            ),
            message: error.to_string(),
        }))
    };
    let info = match animatic::picture::probe(&bytes, &limits) {
        Ok(info) => info,
        Err(error) => return rejected(error),
    };
    if decodes {
        // The parent answers when this much memory is free in the budget of all decoders.
        send(&ChildMessage::Needs(
            info.decoding_bytes + bytes.len() as u64,
        ))
        .map_err(engine_failure)?;
        let read = io::stdin().lock().read_line(&mut String::new());
        // The parent has closed the input: it no longer waits.
        if read.map_err(engine_failure)? == 0 {
            return Err(EngineError::Stopped);
        }
        if let Err(error) = animatic::picture::decode(&bytes, &limits) {
            return rejected(error);
        }
    }
    Ok(ChildMessage::Picture(PictureFacts {
        extension: info.format.extension().to_owned(),
        width: info.width,
        height: info.height,
    }))
}

fn clip_of(
    recordings: &ClipSources,
    folder: &Path,
    engine_control: &EngineControl,
) -> Result<ChildMessage, EngineError> {
    let limits = DecodeLimits {
        max_seconds: recordings.most_seconds,
        ..DecodeLimits::default()
    };
    let (name, is_running) = (recordings.clip.to_string(), || !engine_control.is_stopped());
    let flac = open_result(folder, &flac(0)).map_err(engine_failure)?;
    let result = match &recordings.sources[..] {
        [file] => {
            clip::convert_recording(&name, file, &limits, recordings.picture, flac, &is_running)
                .map(Some)
        }
        files => clip::sum(&name, files, &limits, recordings.picture, flac, &is_running),
    };
    match result {
        Ok(clip) => {
            let clips = clip.into_iter().map(|clip| write_covers(folder, 0, clip));
            Ok(ChildMessage::Clips(clips.collect::<Result<_, _>>()?))
        }
        Err(ClipError::Decode(reason)) => Ok(ChildMessage::Unreadable(reason)),
        Err(ClipError::Engine(error)) => Err(error),
    }
}

fn check(
    file: &Path,
    certificates: &str,
    folder: &Path,
    engine_control: &EngineControl,
) -> Result<ChildMessage, EngineError> {
    let examined = FileExamination::claims(file);
    let verified = if examined.can_be_verified() {
        let bytes = std::fs::read(file).map_err(engine_failure)?;
        Some(origin::verify(&bytes, certificates))
    } else {
        None
    };
    let film = match examined.kind {
        Some(FileKind::Mp4) => match film_scan::can_be_scanned(file) {
            Ok(()) => {
                let scanned = film_scan::scan_film(file, ScanPurpose::Check, engine_control);
                let frames = scanned.detector.map(|detector| detector.to_bytes());
                write_result(folder, FRAMES, &frames.unwrap_or_default())
                    .map_err(engine_failure)?;
                scanned.scan
            }
            Err(reason) => FilmScan::nothing(reason),
        },
        _ => FilmScan::default(),
    };
    let is_picture =
        film.asked.video.is_some() || matches!(examined.kind, Some(FileKind::Png | FileKind::Jpeg));
    let recording = if is_picture {
        None
    } else {
        recording_scan::scan_recording(file, &|| !engine_control.is_stopped())
    };
    let recording = match recording {
        Some((scan, detector)) => {
            let sound = detector.map(|detector| detector.to_bytes());
            write_result(folder, SOUND, &sound.unwrap_or_default()).map_err(engine_failure)?;
            Some(scan)
        }
        None => None,
    };
    Ok(ChildMessage::Checked(Box::new(FileCheck {
        verified,
        looked: film,
        heard: recording,
    })))
}

fn read_pixels(raw: &RawPicture) -> Result<Picture, EngineError> {
    let rgb = std::fs::read(&raw.file).map_err(engine_failure)?;
    let picture = Picture::from_rgb(raw.width, raw.height, rgb);
    picture.ok_or_else(|| EngineError::Source("its pixels are incomplete".into()))
}

fn write_video(
    folder: &Path,
    video: animatic_engine::MadeVideo,
) -> Result<ChildMessage, EngineError> {
    for (name, bytes) in [
        (VIDEO, video.mp4),
        (POSTER, video.poster),
        (SHEET, video.sheet),
    ] {
        write_result(folder, name, &bytes).map_err(engine_failure)?;
    }
    Ok(ChildMessage::Video {
        width: video.width,
        height: video.height,
        milliseconds: video.milliseconds,
        direction: video.reading.direction,
        not_understood: video.reading.not_understood,
        fingerprint: video.fingerprint,
        is_marked: video.is_marked,
    })
}

fn write_covers(folder: &Path, index: usize, clip: EncodedClip) -> Result<ClipFacts, EngineError> {
    for (name, bytes) in [
        (cover(index), clip.cover),
        (cover_large(index), clip.cover_large),
    ] {
        write_result(folder, &name, &bytes).map_err(engine_failure)?;
    }
    Ok(ClipFacts {
        milliseconds: clip.milliseconds,
        fingerprint: clip.fingerprint,
        is_marked: clip.is_marked,
        notes: clip.notes,
    })
}
