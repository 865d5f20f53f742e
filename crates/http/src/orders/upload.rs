//! The request to upload a recording, by its URL or in a form.

use std::sync::LazyLock;

use serde_json::{Map, Value};
use utoipa::openapi::schema::Object;

use super::music::MAX_TITLE;
use super::{ApiOrder, OrderEndpoint, QuotableOrder};
use crate::fields::types::{FileField, NonEmptyText, OptionalText, RequiredField};
use crate::fields::{self, refuse_unknown, request};
use mediagate_core::domain::quotes::QuotedOrder;
use mediagate_model::account::Scope;
use mediagate_model::error::{Error, ErrorCode};

request! {
    /// An audio file given by its URL.
    pub struct UploadRequest {
        /// HTTP or HTTPS URL of a recording: WAV, AIFF, CAF, FLAC, MP3, AAC, M4A, Ogg or WebM.
        url: RequiredField<NonEmptyText<8000>>,
        /// Title.
        title: OptionalText<MAX_TITLE>,
    }
}

request! {
    /// An audio file uploaded in a form.
    pub struct UploadForm {
        /// The audio file.
        file: RequiredField<FileField>,
        /// Title. Default: the file name.
        title: OptionalText<MAX_TITLE>,
    }
}

/// The declared fields of an upload by URL.
static KNOWN_FIELDS: LazyLock<Object> = LazyLock::new(UploadRequest::object);
/// The declared fields of an upload by form.
static KNOWN_FORM_FIELDS: LazyLock<Object> = LazyLock::new(UploadForm::object);

/// A parsed upload by URL.
#[derive(Debug)]
pub struct UploadOrder {
    /// Where the recording is.
    pub url: String,
    /// Title.
    pub title: Option<String>,
}

impl ApiOrder for UploadOrder {
    const ENDPOINT: OrderEndpoint = OrderEndpoint {
        path: "/uploads/audio",
        is_branded: true,
        scope: Scope::MediaUpload,
    };
    type RequestBody = UploadRequest;

    fn read(body: &Value) -> Result<Self, Error> {
        fields::read(body, |body| {
            refuse_unknown(body, &KNOWN_FIELDS);
            let UploadRequest { url, title } = UploadRequest::read(body);
            url.map(|url| Self { url, title })
        })
    }
}

impl QuotableOrder for UploadOrder {
    fn quote_subject(self) -> QuotedOrder {
        QuotedOrder::Upload
    }
}

/// Refuses the other fields of a form that say what is uploaded, as in a body.
pub fn check_other_fields(fields: Map<String, Value>) -> Result<(), Error> {
    fields::read(&Value::Object(fields), |body| {
        refuse_unknown(body, &KNOWN_FORM_FIELDS);
        Some(())
    })
}

/// Reads the title of an upload by form.
pub fn read_title(title: &str) -> Result<Option<String>, Error> {
    fields::check_text(title, MAX_TITLE)
        .map_err(|message| Error::at_field(ErrorCode::InvalidValue, "title", message))?;
    Ok(Some(title.to_owned()).filter(|title| !title.is_empty()))
}
