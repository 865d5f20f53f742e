//! The request that resolves an unconfirmed submission.

use serde_json::Value;

use super::fields::LineText;
use crate::fields::types::RequiredField;
use crate::fields::{self, request};
use mediagate_model::error::Error;

/// Longest note in characters.
const MAX_NOTE: usize = 500;
/// Longest id of a job in characters.
const MAX_JOB: usize = 200;

request! {
    /// How an operator resolves an unconfirmed submission.
    pub struct ResolutionRequest {
        /// Reason for the audit log and the list, at most 500 characters.
        note: RequiredField<LineText<MAX_NOTE>>,
        /// The provider's id of the job, if there was one, at most 200 characters.
        job: LineText<MAX_JOB>,
    }
}

/// Reads the note, and the job if there is one.
pub fn read(body: &Value) -> Result<(String, Option<String>), Error> {
    fields::read_strict(body, &ResolutionRequest::object(), &[], |body| {
        let request = ResolutionRequest::read(body);
        Some((request.note?, request.job))
    })
}
