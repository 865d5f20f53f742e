//! `POST /{brand}/uploads/audio`: source clips, by form or by URL.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequest as _, Request, State};
use axum::response::Response;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tempfile::TempPath;
use tokio::io::AsyncWriteExt as _;

use crate::auth::NewOrder;
use crate::body::form::{FormPart, MultipartForm};
use crate::body::{JsonBody, is_multipart, too_large};
use crate::context::RequestContext;
use crate::error::ErrorResponse;
use crate::idempotency::{Creation, CreationOutcome, Fingerprint, IdempotentRequest, IntentAnswer};
use crate::orders::upload::{
    UploadForm, UploadOrder, UploadRequest, check_other_fields, read_title,
};
use crate::tasks::cost;
use mediagate_core::app::App;
use mediagate_core::domain::music::{self, AudioSource, LIMIT_BYTES};
use mediagate_core::domain::storage_room;
use mediagate_core::intents::{ClientGuard, IntentAttempt, IntentCloseTime};
use mediagate_core::records::clip::ClipRecord;
use mediagate_core::records::music::ClipOperation;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::ClipId;
use mediagate_model::money::MicroDollars;
use mediagate_model::music::Clip;

/// Time for an upload to arrive.
pub(super) const UPLOAD_TIMEOUT: Duration = Duration::from_mins(10);
/// Bytes received between two checks of the free disk space.
const DISK_CHECK_INTERVAL: usize = 8_000_000;
/// Longest text field of the form, in bytes.
const FIELD_LIMIT: usize = 10_000;
/// Bytes of an undeclared field that are read: enough to see whether it is a URL.
const OTHER_FIELD_BYTES: usize = 100;

/// Upload an audio file: WAV, AIFF, CAF, FLAC, MP3, AAC, M4A, Ogg or WebM.
#[utoipa::path(post, path = "/uploads/audio", tag = "music",
    request_body(content((UploadRequest = "application/json"), (UploadForm = "multipart/form-data"))),
    responses((status = 200, description = "The complete clip", body = ClipRecord)))]
pub(super) async fn audio(
    new_order: NewOrder<UploadOrder>,
    State(app): State<App>,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let NewOrder {
        context, too_many, ..
    } = new_order;
    let account = context.caller.account.id;
    // An upload to a full account or disk is refused before the bytes arrive. Slots are per
    // account, so slow uploads delay only other uploads of the same account.
    storage_room::check(&app, account, 0).await?;
    let _slot = app.limits.uploads.wait(account).await;
    let (upload, fingerprint) = if is_multipart(&context.headers) {
        let arrival_result = tokio::time::timeout(UPLOAD_TIMEOUT, read_form(request, &app)).await;
        let form = arrival_result.map_err(|_| {
            Error::plain(ErrorCode::InvalidValue, "The form did not arrive in time.")
        })?;
        let (file, digest, title) = form?;
        let fingerprint = Fingerprint::for_order::<UploadOrder>();
        let fingerprint = fingerprint
            .with_json(&title.clone().into())
            .with_file(&digest);
        let source = AudioSource::Spooled(file);
        let param = "file";
        (
            NewRecording {
                source,
                title,
                param,
            },
            fingerprint,
        )
    } else {
        let body = JsonBody::from_request(request, &app).await?;
        let (order, fingerprint, _) = Fingerprint::read(&app, body).await?;
        let UploadOrder { url, title } = order;
        let source = AudioSource::Address(url);
        let param = "url";
        (
            NewRecording {
                source,
                title,
                param,
            },
            fingerprint,
        )
    };
    let idempotent_request = IdempotentRequest::new(&app, &context, too_many, fingerprint)?;
    let creation = ClipUpload {
        app: &app,
        context: &context,
    };
    Ok(idempotent_request.answer(creation, upload).await?)
}

/// A recording to upload.
struct NewRecording {
    source: AudioSource,
    title: Option<String>,
    /// The field of the request with the recording.
    param: &'static str,
}

/// The upload of a clip.
struct ClipUpload<'a> {
    app: &'a App,
    context: &'a RequestContext,
}

impl Creation for ClipUpload<'_> {
    type Order = NewRecording;
    type Output = Clip;
    type Id = ClipId;

    async fn make(
        &self,
        recording: NewRecording,
        attempt: &IntentAttempt,
    ) -> Result<CreationOutcome<Clip>, Error> {
        let NewRecording {
            source,
            title,
            param,
        } = recording;
        let caller = &self.context.caller;
        let clip = music::upload(self.app, caller, attempt, source, title, param).await?;
        Ok(CreationOutcome::Unanswered(clip))
    }

    async fn load(&self, id: ClipId) -> Result<Clip, Error> {
        music::clip(self.app, self.context.caller.account.id, id).await
    }

    async fn respond(
        self,
        clip: Clip,
        _: &Arc<ClientGuard>,
        _: bool,
    ) -> Result<IntentAnswer, Error> {
        let (account, links) = (&self.context.caller.account, self.context.links_to_made());
        let record = ClipRecord::new(&clip, ClipOperation::default(), account, &links);
        Ok(IntentAnswer::of(
            (cost(MicroDollars::ZERO), Json(record)),
            IntentCloseTime::Now,
        ))
    }
}

/// A form's file with its digest, and the title.
async fn read_form(
    request: Request,
    app: &App,
) -> Result<(TempPath, Vec<u8>, Option<String>), Error> {
    let mut form = MultipartForm::open(request, app, LIMIT_BYTES).await?;
    let mut file = None;
    let mut title = None;
    let mut others = Map::new();
    while let Some(part) = form.next().await? {
        match part.name() {
            Some("file") if file.is_some() => return Err(second_file()),
            Some("file") => {
                let stem = part.file_name().map(file_stem);
                // The caller did not choose the file's name as a title, so an unfit one is not an
                // error.
                title = title.or_else(|| stem.and_then(|name| read_title(&name).ok().flatten()));
                file = spool(part, app).await?;
            }
            Some("title") => title = read_title(&part.text(FIELD_LIMIT).await?)?.or(title),
            _ => {
                let (name, beginning) = other_field(part).await?;
                others.insert(name, beginning);
            }
        }
    }
    check_other_fields(others)?;
    let missing = || {
        let message = "The form must contain the audio file in the field \"file\".";
        Error::at_field(ErrorCode::MissingField, "file", message)
    };
    let (file, digest) = file.ok_or_else(missing)?;
    Ok((file, digest, title))
}

/// The name of an undeclared field, and the beginning of its value.
async fn other_field(mut part: FormPart<'_>) -> Result<(String, Value), Error> {
    let name = part.name().unwrap_or_default().to_owned();
    let mut beginning: Vec<u8> = Vec::new();
    while let Some(chunk) = part.chunk().await? {
        let remaining = OTHER_FIELD_BYTES.saturating_sub(beginning.len());
        beginning.extend(chunk.iter().take(remaining));
    }
    let beginning = String::from_utf8_lossy(&beginning).into_owned();
    Ok((name, Value::String(beginning)))
}

/// The error for a form with more than one file: only one of them could be used.
pub(super) fn second_file() -> Error {
    let message = "The form must contain only one file.";
    Error::at_field(ErrorCode::InvalidValue, "file", message)
}

/// Writes a form's file to disk as it arrives, so that uploads take no memory. `None` if it is empty
/// and has no name: so a browser sends a file that was not chosen.
pub(super) async fn spool(
    mut part: FormPart<'_>,
    app: &App,
) -> Result<Option<(TempPath, Vec<u8>)>, Error> {
    let has_name = part.file_name().is_some_and(|name| !name.is_empty());
    let limit = usize::try_from(LIMIT_BYTES).unwrap_or(usize::MAX);
    let file = tempfile::NamedTempFile::new_in(app.config.spool_path()).map_err(Error::internal)?;
    let (file, path) = file.into_parts();
    let mut file = tokio::fs::File::from_std(file);
    let (mut length, mut digest) = (0, Sha256::new());
    while let Some(chunk) = part.chunk().await? {
        // A check of the disk for each small piece would be a system call every few kilobytes.
        if length / DISK_CHECK_INTERVAL != (length + chunk.len()) / DISK_CHECK_INTERVAL {
            storage_room::check_disk(app)?;
        }
        length += chunk.len();
        if length > limit {
            return Err(too_large("The form's field \"file\"", limit));
        }
        // Hashed on the way: the digest identifies a repeated upload.
        digest.update(&chunk);
        file.write_all(&chunk).await.map_err(Error::internal)?;
    }
    // tokio writes in the background, so an error of the last write is returned only here.
    file.flush().await.map_err(Error::internal)?;
    let is_present = length > 0 || has_name;
    Ok(is_present.then(|| (path, digest.finalize().to_vec())))
}

/// A file's name without folders and extension.
fn file_stem(file_name: &str) -> String {
    let name = file_name.rsplit(['/', '\\']).next().unwrap_or_default();
    name.rsplit_once('.')
        .map_or(name, |(stem, _)| stem)
        .to_owned()
}
