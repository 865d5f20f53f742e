//! Checks a file: its own provenance information, our watermark, and whether the registry has the
//! file or a similar one. Only the account that made a result learns that it did.

use std::collections::HashMap;

use provenance::marks::FileKind;
use tempfile::TempPath;

use crate::app::{App, AppParts};
use crate::limits::{WorkKind, WorkSlot};
use mediagate_media::engines::child::{self, FileCheck};
use mediagate_media::engines::film_scan::FilmScan;
use mediagate_media::engines::recording_scan::RecordingScan;
use mediagate_media::engines::{clip, fingerprints};
use mediagate_media::fetch::FetchError;
use mediagate_media::origin::{FileExamination, OriginMarker};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::AccountId;
use mediagate_model::provenance::{PerceptualFingerprint, ProvenanceMark, ResultFingerprint};
use mediagate_store as store;

/// Largest file that is checked.
pub const LIMIT_BYTES: u64 = 200_000_000;
/// Limits on registry entries: read for one part of a fingerprint, compared, and reported.
const MAX_WITH_PART: u32 = 500;
const MAX_COMPARED: usize = 32;
const MAX_REPORTED: usize = 8;

/// The result of a check.
#[derive(Debug)]
pub struct ProvenanceReport {
    pub sha256: String,
    pub size_bytes: u64,
    pub examined: FileExamination,
    /// Whether a watermark of this deployment was read.
    pub is_marked: bool,
    /// Matching registry entries, the most certain first.
    pub matches: Vec<RegistryMatch>,
    /// Notes for readers about checks that could not be made.
    pub notes: Vec<String>,
}

/// A matching entry of the registry.
#[derive(Debug)]
pub struct RegistryMatch {
    pub kind: MatchKind,
    pub print: ResultFingerprint,
    /// Whether the requesting account made it.
    pub is_own: bool,
}

/// How an entry matches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MatchKind {
    /// The file is the result, byte for byte.
    Exact,
    /// It has the result's watermark.
    Watermark,
    /// It looks or sounds like the result.
    Near {
        /// `video` or `sound`.
        medium: &'static str,
        /// Share of the fingerprints' bits that differ.
        distance: f32,
    },
}

/// Fetches a file to be checked, by the rules for callers' URLs.
pub async fn fetch(app: &AppParts, turn_of: AccountId, address: &str) -> Result<TempPath, Error> {
    let _slot = app.limits.fetches.wait(turn_of, 1).await;
    let spool = app.config.spool_path();
    let fetched = app.net.fetcher.fetch(address, LIMIT_BYTES, &spool).await;
    fetched.map_err(|error| match error {
        FetchError::Blocked(reason) => Error::at_field(
            ErrorCode::FileFetchBlocked,
            "url",
            format!("Fetching the file's URL is not allowed: {reason}."),
        ),
        FetchError::Failed(_) | FetchError::TooLarge { .. } => Error::at_field(
            ErrorCode::FileFetchFailed,
            "url",
            format!("The file could not be fetched: {error}."),
        ),
        FetchError::Local(error) => Error::internal(error),
    })
}

/// Checks a file for an account, or for a caller without one, when it is the turn of the account
/// `turn_of`.
pub async fn check(
    app: &App,
    requester: Option<AccountId>,
    turn_of: AccountId,
    file: TempPath,
) -> Result<ProvenanceReport, Error> {
    let findings = inspect_file(app, turn_of, file).await?;
    let (keys, mut mark) = (app.secrets.origin.keys(), findings.film.mark);
    let mut fingerprint = findings.film.asked;
    if let Some(recording) = findings.recording {
        mark = mark.or(recording.mark);
        fingerprint = recording.likeness;
    }
    let mark = mark.filter(|(id, _)| keys.iter().any(|key| key.id == *id));
    let digest = findings.sha256.clone();
    let find =
        move |conn: &mut store::Conn<'_>| find(conn, &digest, mark.map(|(_, id)| id), &fingerprint);
    let matches = app.store.read(find).await?;
    let reported = matches.into_iter().take(MAX_REPORTED);
    let mut examined = findings.examined;
    examined.provenance = examined
        .provenance
        .with_marks(mark.map(|_| ProvenanceMark::Watermark));
    Ok(ProvenanceReport {
        sha256: findings.sha256,
        size_bytes: findings.size_bytes,
        examined,
        is_marked: mark.is_some(),
        matches: reported
            .map(|(kind, print)| RegistryMatch {
                kind,
                is_own: requester == Some(print.account),
                print,
            })
            .collect(),
        notes: findings.notes,
    })
}

/// What a file itself shows.
struct FileFindings {
    sha256: String,
    size_bytes: u64,
    examined: FileExamination,
    film: FilmScan,
    recording: Option<RecordingScan>,
    notes: Vec<String>,
}

async fn inspect_file(
    app: &App,
    turn_of: AccountId,
    file: TempPath,
) -> Result<FileFindings, Error> {
    let size = tokio::fs::metadata(&file).await.map_err(Error::internal)?;
    // Signed files are read whole, and so are recordings whose tables are searched.
    let memory = clip::KEEPING_BYTES + size.len() * 2;
    let app_handle = app.clone();
    let work = move |slot: &WorkSlot| -> Result<FileFindings, Error> {
        let (size_bytes, sha256) = clip::digest(&file).map_err(Error::internal)?;
        let examined = FileExamination::claims(&file);
        let origin = &app_handle.secrets.origin;
        let (keys, certificates) = (origin.keys(), origin.certificates());
        let checked = child::check(
            &app_handle.engines,
            &file,
            &keys,
            certificates,
            slot.watch(),
        );
        let mut notes = Vec::new();
        let checked = match checked {
            Ok(checked) => checked,
            Err(error) if error.is_start_failure() => return Err(error.into()),
            // If a file crashes its child process, that is a finding about the file and not an
            // error of the gateway.
            Err(error) => {
                tracing::warn!(%error, "cannot check a file");
                let reason = "the check needed too many resources or crashed".to_owned();
                FileCheck {
                    verified: examined.can_be_verified().then(|| Err(reason.clone())),
                    looked: FilmScan::nothing(reason),
                    heard: None,
                }
            }
        };
        let FileCheck {
            verified,
            looked: film,
            heard: recording,
        } = checked;
        let examined = match verified {
            Some(verified) => examined.with_verification(verified),
            None => examined,
        };
        if examined.kind.is_none() {
            notes.push(
                "The file is not MP4, PNG, JPEG, WAV, FLAC or MP3, so its marks were not read."
                    .to_owned(),
            );
        }
        let is_signed = examined.provenance.marks.contains(&ProvenanceMark::C2pa);
        if is_signed && !OriginMarker::signs() {
            notes.push(
                "The file has Content Credentials, but this program cannot verify them: it was built without the feature `c2pa`."
                    .to_owned(),
            );
        }
        let is_film = film.asked.video.is_some();
        if !is_film && recording.is_none() && examined.kind == Some(FileKind::Mp4) {
            let reason = film.why.as_deref().unwrap_or("no frames were found");
            notes.push(format!("The video frames were not checked: {reason}."));
        }
        Ok(FileFindings {
            sha256,
            size_bytes,
            examined,
            film,
            recording,
            notes,
        })
    };
    let media_work = &app.limits.media_work;
    media_work
        .work(turn_of, WorkKind::Check, memory, work)
        .await?
}

/// The matches, the most certain first.
fn find(
    conn: &mut store::Conn<'_>,
    sha256: &str,
    mark: Option<u64>,
    fingerprint: &PerceptualFingerprint,
) -> Result<Vec<(MatchKind, ResultFingerprint)>, Error> {
    let limit = u32::try_from(MAX_REPORTED).unwrap_or(u32::MAX);
    let exact = store::fingerprints::by_digest(conn, sha256, limit)?;
    let mut matches: Vec<(MatchKind, ResultFingerprint)> = exact
        .into_iter()
        .map(|print| (MatchKind::Exact, print))
        .collect();
    if let Some(mark) = mark {
        let marked = store::fingerprints::by_watermark(conn, mark, limit)?;
        add(
            &mut matches,
            marked
                .into_iter()
                .map(|print| (MatchKind::Watermark, print)),
        );
    }
    let mut near = Vec::new();
    for id in candidates(conn, fingerprint)? {
        let Some(print) = store::fingerprints::by_id(conn, &id)? else {
            continue;
        };
        if let Some((medium, similarity)) = fingerprints::compare(&print.fingerprint, fingerprint) {
            let distance = similarity.distance;
            near.push((distance, (MatchKind::Near { medium, distance }, print)));
        }
    }
    near.sort_by(|a, b| a.0.total_cmp(&b.0));
    add(&mut matches, near.into_iter().map(|(_, near)| near));
    Ok(matches)
}

/// Adds the entries that are not among the matches yet.
fn add(
    matches: &mut Vec<(MatchKind, ResultFingerprint)>,
    more: impl Iterator<Item = (MatchKind, ResultFingerprint)>,
) {
    for (kind, print) in more {
        if !matches.iter().any(|(_, existing)| existing.id == print.id) {
            matches.push((kind, print));
        }
    }
}

/// Ids of the entries that share the most parts with the given fingerprint.
fn candidates(
    conn: &mut store::Conn<'_>,
    fingerprint: &PerceptualFingerprint,
) -> Result<Vec<String>, Error> {
    let mut shared: HashMap<String, u32> = HashMap::new();
    for part in &fingerprint.keys {
        for id in store::fingerprints::ids_with_key(conn, *part, MAX_WITH_PART)? {
            *shared.entry(id).or_default() += 1;
        }
    }
    let mut shared: Vec<(String, u32)> = shared.into_iter().collect();
    // Among equals the newest comes first, as ids sort by time.
    shared.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| b.0.cmp(&a.0)));
    let ids = shared.into_iter().take(MAX_COMPARED);
    Ok(ids.map(|(id, _)| id).collect())
}
