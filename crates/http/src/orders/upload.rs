//! The request to upload a recording, by its address or in a form.

use serde_json::Value;

use super::music::TITLE;
use super::{Endpoint, Order, Quoted};
use crate::fields::types::{File, Filled, NotEmpty, Required};
use crate::fields::{self, request};
use mediagate_core::domain::quotes::Wish;
use mediagate_model::account::Scope;
use mediagate_model::error::{Error, ErrorCode};

request! {
    /// A recording by its address.
    pub struct UploadRequest {
        /// An http or https address of WAV, FLAC, MP3, AAC/M4A or OGG/Vorbis.
        url: Required<NotEmpty<8000>>,
        /// Name for people.
        title: Filled<TITLE>,
    }
}

request! {
    /// A recording in a form.
    pub struct UploadForm {
        /// The recording.
        file: Required<File>,
        /// Name for people; the file's name by default.
        title: Filled<TITLE>,
    }
}

/// An upload by address that was read.
#[derive(Debug)]
pub struct UploadOrder {
    /// Where the recording is.
    pub url: String,
    /// Name for people.
    pub title: Option<String>,
}

impl Order for UploadOrder {
    const ENDPOINT: Endpoint = Endpoint {
        path: "/uploads/audio",
        is_branded: true,
        scope: Scope::MediaUpload,
    };
    type Request = UploadRequest;

    fn read(body: &Value) -> Result<Self, Error> {
        fields::read(body, |body| {
            let UploadRequest { url, title } = UploadRequest::read(body);
            url.map(|url| Self { url, title })
        })
    }
}

impl Quoted for UploadOrder {
    fn wish(self) -> Wish {
        Wish::Upload
    }
}

/// Reads the title of an upload by form.
pub fn read_title(title: &str) -> Result<Option<String>, Error> {
    fields::check_text(title, TITLE)
        .map_err(|why| Error::at(ErrorCode::InvalidValue, "title", why))?;
    Ok(Some(title.to_owned()).filter(|title| !title.is_empty()))
}
