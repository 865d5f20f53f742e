//! The parameters of a request's query, as an extractor.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde_json::{Map, Value};

use crate::error::ErrorResponse;
use crate::fields::{self, BodyFields};
use mediagate_model::error::{Error, ErrorCode};

/// The parameters of a request's query.
pub(super) struct Query(Value);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ErrorResponse> {
        let query = parts.uri.query().unwrap_or_default();
        let pairs = url::form_urlencoded::parse(query.as_bytes());
        let map: Map<String, Value> = pairs
            .map(|(name, value)| (name.into_owned(), value.into_owned().into()))
            .collect();
        Ok(Self(Value::Object(map)))
    }
}

impl Query {
    /// Reads the parameters with `parse`; any that is not in `allowed` is a fault.
    pub(super) fn read_only<T>(
        &self,
        allowed: &[&str],
        parse: impl FnOnce(&BodyFields<'_>) -> Option<T>,
    ) -> Result<T, Error> {
        self.read(|query| {
            // A misspelt filter would otherwise be ignored, and the whole list would look like its
            // result.
            let names = query.members().keys();
            for name in names.filter(|name| !allowed.contains(&name.as_str())) {
                // The response contains the name, which can be as long as the caller likes.
                let excerpt: String = name.chars().take(100).collect();
                let message = format!(
                    "Unknown parameter. The known parameters are: {}.",
                    allowed.join(", ")
                );
                query.fault(&excerpt, ErrorCode::UnsupportedValue, message);
            }
            parse(query)
        })
    }

    /// Reads the parameters with `parse`.
    pub(super) fn read<T>(
        &self,
        parse: impl FnOnce(&BodyFields<'_>) -> Option<T>,
    ) -> Result<T, Error> {
        fields::read_form(&self.0, parse)
    }
}
