//! The request to check a file, by its URL or in a form.

use serde_json::Value;

use crate::fields::types::{FileField, NonEmptyText, RequiredField};
use crate::fields::{self, request};
use mediagate_model::error::Error;

request! {
    /// A file given by its URL.
    pub struct CheckRequest {
        /// HTTP or HTTPS URL of the file.
        url: RequiredField<NonEmptyText<8000>>,
    }
}

request! {
    /// A file uploaded in a form.
    pub struct CheckForm {
        /// The file.
        file: RequiredField<FileField>,
    }
}

/// Reads the URL.
pub fn read(body: &Value) -> Result<String, Error> {
    fields::read(body, |body| CheckRequest::read(body).url)
}
