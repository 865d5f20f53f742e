//! `POST /{brand}/uploads/audio`: source clips, by form or by address.

use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequest as _, Multipart, Request, State};

use crate::app::App;
use crate::domain::music::{self, AudioSource, LIMIT_BYTES};
use crate::error::{Error, ErrorCode};
use crate::http::auth::{Allowed, MediaUpload};
use crate::http::base::Base;
use crate::http::body::{JsonBody, is_multipart, too_large};
use crate::http::wire::music::{ClipRecord, UploadRequest, read_title, read_upload};

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
        let (bytes, title) = in_time?;
        (AudioSource::Bytes(bytes.into()), title, "file")
    } else {
        let (address, title) = read_upload(&JsonBody::from_request(request, &app).await?.0)?;
        (AudioSource::Address(address), title, "url")
    };
    let clip = music::upload(&app, &allowed.caller, source, title, param).await?;
    Ok(Json(ClipRecord::new(
        &clip,
        "",
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

async fn read_form(request: Request, app: &App) -> Result<(Vec<u8>, Option<String>), Error> {
    let malformed = |error: &dyn std::fmt::Display| {
        Error::plain(
            ErrorCode::InvalidValue,
            format!("The form cannot be read: {error}."),
        )
    };
    let mut form = Multipart::from_request(request, app)
        .await
        .map_err(|error| malformed(&error.body_text()))?;
    let mut file = None;
    let mut title = None;
    while let Some(mut part) = form
        .next_field()
        .await
        .map_err(|error| malformed(&error.body_text()))?
    {
        let name = part.name().unwrap_or_default().to_owned();
        let named = part.file_name().map(stem_of);
        let limit = if name == "file" {
            usize::try_from(LIMIT_BYTES).unwrap_or(usize::MAX)
        } else {
            FIELD_LIMIT
        };
        let mut bytes = Vec::new();
        while let Some(chunk) = part
            .chunk()
            .await
            .map_err(|error| malformed(&error.body_text()))?
        {
            if bytes.len() + chunk.len() > limit {
                return Err(too_large(&format!("The form's field {name:?}"), limit));
            }
            bytes.extend_from_slice(&chunk);
        }
        match name.as_str() {
            "file" => {
                title = title.or_else(|| named.and_then(|name| read_title(&name).ok().flatten()));
                file = Some(bytes);
            }
            "title" => {
                let text = String::from_utf8(bytes).map_err(|_| {
                    Error::at(ErrorCode::InvalidValue, "title", "Must be UTF-8 text.")
                })?;
                title = read_title(&text)?.or(title);
            }
            _ => {}
        }
    }
    let file = file.ok_or_else(|| {
        Error::at(
            ErrorCode::MissingField,
            "file",
            "The form must have the recording in its field \"file\".",
        )
    })?;
    Ok((file, title))
}

/// A file's name without folders and ending.
fn stem_of(file_name: &str) -> String {
    let name = file_name.rsplit(['/', '\\']).next().unwrap_or_default();
    name.rsplit_once('.')
        .map_or(name, |(stem, _)| stem)
        .to_owned()
}
