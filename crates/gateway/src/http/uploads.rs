//! `POST /{brand}/uploads/audio`: source clips, by form or by address.

use std::time::Duration;

use axum::Json;
use axum::extract::multipart::Field;
use axum::extract::{FromRequest as _, Multipart, Request, State};
use tempfile::TempPath;
use tokio::io::AsyncWriteExt as _;

use crate::app::App;
use crate::domain::music::{self, AudioSource, LIMIT_BYTES};
use crate::error::{Error, ErrorCode};
use crate::http::auth::{Allowed, MediaUpload};
use crate::http::base::Base;
use crate::http::body::{JsonBody, is_multipart, malformed_form, too_large};
use crate::http::wire::music::{ClipRecord, MadeBy};
use crate::http::wire::music_orders::{UploadRequest, read_title, read_upload};

/// How long an upload may take to arrive.
const TIME: Duration = Duration::from_mins(10);
/// Longest text field of the form.
const FIELD_LIMIT: usize = 10_000;

/// Upload a recording: WAV, FLAC, MP3, AAC/M4A or OGG/Vorbis.
#[utoipa::path(post, path = "/uploads/audio", tag = "music",
    request_body(content((UploadRequest = "application/json"), (UploadForm = "multipart/form-data"))),
    responses((status = 200, description = "The complete clip", body = ClipRecord)))]
pub(super) async fn audio(
    allowed: Allowed<MediaUpload>,
    base: Base,
    State(app): State<App>,
    request: Request,
) -> Result<Json<ClipRecord>, Error> {
    let (source, title, param) = if is_multipart(request.headers()) {
        let read = tokio::time::timeout(TIME, read_form(request, &app)).await;
        let in_time = read.map_err(|_| {
            Error::plain(ErrorCode::InvalidValue, "The form did not arrive in time.")
        })?;
        let (file, title) = in_time?;
        (AudioSource::Spooled(file), title, "file")
    } else {
        let (address, title) = read_upload(&JsonBody::from_request(request, &app).await?.0)?;
        (AudioSource::Address(address), title, "url")
    };
    let clip = music::upload(&app, &allowed.caller, source, title, param).await?;
    Ok(Json(ClipRecord::new(
        &clip,
        MadeBy::default(),
        &allowed.caller.account,
        &base,
    )))
}

/// The form of an upload, for the documentation.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "documents what the reader below takes")]
pub(super) struct UploadForm {
    /// The recording.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
    /// Name for people; the file's name by default.
    title: Option<String>,
}

async fn read_form(request: Request, app: &App) -> Result<(TempPath, Option<String>), Error> {
    let mut form = Multipart::from_request(request, app)
        .await
        .map_err(|error| malformed_form(&error.body_text()))?;
    let mut file = None;
    let mut title = None;
    while let Some(part) = form
        .next_field()
        .await
        .map_err(|error| malformed_form(&error.body_text()))?
    {
        match part.name() {
            Some("file") => {
                let named = part.file_name().map(stem_of);
                title = title.or_else(|| named.and_then(|name| read_title(&name).ok().flatten()));
                file = Some(spool(part, app).await?);
            }
            Some("title") => title = read_title(&text(part).await?)?.or(title),
            _ => {}
        }
    }
    let missing = || {
        let message = "The form must have the recording in its field \"file\".";
        Error::at(ErrorCode::MissingField, "file", message)
    };
    Ok((file.ok_or_else(missing)?, title))
}

/// Writes a form's file to the disk as it arrives, so that a slow or large
/// upload takes no memory.
async fn spool(mut part: Field<'_>, app: &App) -> Result<TempPath, Error> {
    let limit = usize::try_from(LIMIT_BYTES).unwrap_or(usize::MAX);
    let file = tempfile::NamedTempFile::new_in(app.config.spool_path()).map_err(Error::internal)?;
    let (file, path) = file.into_parts();
    let mut file = tokio::fs::File::from_std(file);
    let mut length = 0;
    while let Some(chunk) = part
        .chunk()
        .await
        .map_err(|error| malformed_form(&error.body_text()))?
    {
        length += chunk.len();
        if length > limit {
            return Err(too_large("The form's field \"file\"", limit));
        }
        file.write_all(&chunk).await.map_err(Error::internal)?;
    }
    file.flush().await.map_err(Error::internal)?;
    Ok(path)
}

async fn text(mut part: Field<'_>) -> Result<String, Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = part
        .chunk()
        .await
        .map_err(|error| malformed_form(&error.body_text()))?
    {
        if bytes.len() + chunk.len() > FIELD_LIMIT {
            return Err(Error::at(ErrorCode::InvalidValue, "title", "Is too long."));
        }
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8(bytes)
        .map_err(|_| Error::at(ErrorCode::InvalidValue, "title", "Must be UTF-8 text."))
}

/// A file's name without folders and ending.
fn stem_of(file_name: &str) -> String {
    let name = file_name.rsplit(['/', '\\']).next().unwrap_or_default();
    name.rsplit_once('.')
        .map_or(name, |(stem, _)| stem)
        .to_owned()
}
