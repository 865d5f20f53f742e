//! The query of a request, as an extractor, and the refusal of parameters that are not declared.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Map, Value};
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::{OpenApi, RefOr, SecurityRequirement};

use crate::error::ErrorResponse;
use crate::fields::parameters::{QueryParameters, is_parameter};
use crate::fields::{self, BodyFields};
use mediagate_model::error::{Error, ErrorCode, FieldError};

/// Most unknown parameters that a response names.
const MAX_UNKNOWN: usize = 10;
/// Longest part of an unknown name that a response shows, in characters.
const MAX_NAME_CHARS: usize = 100;

/// The parameters of a request's query. Any that is not declared is a fault: a misspelt filter
/// would otherwise be ignored, and the whole list would look like its result.
pub(crate) struct Query<Q>(pub(crate) Q);

impl<S: Sync, Q: QueryParameters> FromRequestParts<S> for Query<Q> {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ErrorResponse> {
        let sent = Value::Object(members(parts.uri.query().unwrap_or_default()));
        let read = |query: &BodyFields<'_>| {
            for fault in unknown(query.members(), &Q::names()) {
                query.fault(&fault.param, fault.code, fault.message);
            }
            Some(Q::read(query))
        };
        Ok(Self(fields::read_form(&sent, read)?))
    }
}

fn members(query: &str) -> Map<String, Value> {
    let pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs
        .map(|(name, value)| (name.into_owned(), value.into_owned().into()))
        .collect()
}

/// The faults of the parameters that are not among the `known` ones.
fn unknown(sent: &Map<String, Value>, known: &[&str]) -> Vec<FieldError> {
    let is_known = |name: &str| known.iter().any(|known| is_parameter(name, known));
    let names = sent.keys().filter(|name| !is_known(name));
    let faults = names.take(MAX_UNKNOWN).map(|name| {
        // The response contains the name, which can be as long as the caller likes.
        let param: String = name.chars().take(MAX_NAME_CHARS).collect();
        let message = if known.is_empty() {
            "Unknown parameter. This endpoint has no query parameters.".to_owned()
        } else {
            let nearest = nearest_first(&param, known).join(", ");
            format!("Unknown parameter. The known parameters are: {nearest}.")
        };
        FieldError {
            code: ErrorCode::UnsupportedValue,
            param,
            message,
        }
    });
    faults.collect()
}

/// The known names; those that resemble `name` come first.
fn nearest_first<'a>(name: &str, known: &[&'a str]) -> Vec<&'a str> {
    let name = name.to_ascii_lowercase();
    let mut names = known.to_vec();
    names.sort_by_key(|known| {
        let begins_alike = known.starts_with(&name) || name.starts_with(known);
        (Reverse(begins_alike), strsim::osa_distance(known, &name))
    });
    names
}

/// The operations without query parameters. Their handlers read no query, so a layer looks at it.
#[derive(Default)]
pub(crate) struct ParameterlessOperations {
    /// The paths, each with its methods.
    paths: HashMap<String, HashMap<Method, OperationAccess>>,
}

/// Who may use an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OperationAccess {
    /// Anyone.
    Open,
    /// A caller with a key.
    WithKey,
}

/// The faults of a query. The key check reports them, so that a request without a valid key is
/// refused for that reason.
#[derive(Clone)]
struct UnknownParameters(Vec<FieldError>);

impl ParameterlessOperations {
    pub(crate) fn new(document: &OpenApi) -> Self {
        let mut paths: HashMap<String, HashMap<Method, OperationAccess>> = HashMap::new();
        for (path, item) in &document.paths.paths {
            let operations = [
                (Method::GET, &item.get),
                (Method::POST, &item.post),
                (Method::PUT, &item.put),
                (Method::PATCH, &item.patch),
                (Method::DELETE, &item.delete),
            ];
            for (method, operation) in operations {
                if let Some(operation) = operation.as_ref().filter(|it| !has_parameters(it)) {
                    let methods = paths.entry(path.clone()).or_default();
                    methods.insert(method, access(operation));
                }
            }
        }
        Self { paths }
    }

    /// Adds a path that the document does not describe. Anyone may read it.
    pub(crate) fn with_open(mut self, path: &str) -> Self {
        let methods = self.paths.entry(path.to_owned()).or_default();
        methods.insert(Method::GET, OperationAccess::Open);
        self
    }

    fn access(&self, path: &str, method: &Method) -> Option<OperationAccess> {
        let method = if method == Method::HEAD {
            &Method::GET
        } else {
            method
        };
        self.paths.get(path)?.get(method).copied()
    }
}

fn has_parameters(operation: &Operation) -> bool {
    let mut parameters = operation.parameters.iter().flatten();
    parameters.any(|parameter| {
        matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query)
    })
}

fn access(operation: &Operation) -> OperationAccess {
    let mut requirements = operation.security.iter().flatten();
    if requirements.any(|requirement| *requirement == SecurityRequirement::default()) {
        OperationAccess::Open
    } else {
        OperationAccess::WithKey
    }
}

/// Refuses a query at an operation that has no parameters.
pub(crate) async fn refuse_any(
    State(operations): State<Arc<ParameterlessOperations>>,
    mut request: Request,
    next: Next,
) -> Response {
    let found = request.uri().query().and_then(|query| {
        let path = request.extensions().get::<MatchedPath>()?;
        let access = operations.access(path.as_str(), request.method())?;
        Some((access, unknown(&members(query), &[])))
    });
    match found.filter(|(_, faults)| !faults.is_empty()) {
        // Other sites add parameters to the links that people share, such as `utm_source`.
        Some((OperationAccess::Open, faults)) if !is_page_view(request.headers()) => {
            ErrorResponse::from(Error::Invalid(faults)).into_response()
        }
        Some((OperationAccess::WithKey, faults)) => {
            request.extensions_mut().insert(UnknownParameters(faults));
            next.run(request).await
        }
        Some((OperationAccess::Open, _)) | None => next.run(request).await,
    }
}

/// Whether a browser opens the URL as a page.
pub(crate) fn is_page_view(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT);
    accept.is_some_and(|value| value.to_str().is_ok_and(|text| text.contains("text/html")))
}

/// The error for a query that [`refuse_any`] found, once the caller may use the operation.
pub(crate) fn refuse_found(parts: &mut Parts) -> Result<(), Error> {
    match parts.extensions.remove() {
        Some(UnknownParameters(faults)) => Err(Error::Invalid(faults)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_nearest_name_comes_first() {
        let known = ["limit", "after", "order", "status", "since", "until", "q"];
        for (sent, nearest) in [
            ("stauts", "status"),
            ("Limit", "limit"),
            ("after_id", "after"),
            ("lim", "limit"),
            ("until2", "until"),
        ] {
            let names = nearest_first(sent, &known);
            assert_eq!(names[0], nearest, "{sent}");
            assert_eq!(
                names.iter().collect::<BTreeSet<_>>(),
                known.iter().collect::<BTreeSet<_>>()
            );
        }
    }

    #[test]
    fn long_names_are_cut_and_many_are_not_all_named() {
        let sent = members(&format!("{}=1", "ä".repeat(300)));
        assert_eq!(unknown(&sent, &["limit"])[0].param.chars().count(), 100);
        let many: Vec<String> = (0..50).map(|number| format!("x{number}=1")).collect();
        assert_eq!(unknown(&members(&many.join("&")), &[]).len(), MAX_UNKNOWN);
    }
}
