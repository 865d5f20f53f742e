//! Proofs that a provider did not accept an order: a table for each protocol.
//!
//! An order whose submission was refused is sent to another route, or to the same one again. So an
//! answer is a refusal only if a document lists its status, or its code, as one. Everything else
//! proves nothing: a 502, 503 or 504 may come from a proxy that lost the answer of an accepted
//! request, and a 408, 425 or 499 from one that gave up waiting for it.

use crate::error::ProviderError;
use crate::frame_size;
use crate::response::ProviderResponse;

/// A row of the table: answers that prove that nothing was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalRule<'a> {
    /// Any of these statuses.
    pub statuses: Vec<u16>,
    /// Any of these codes ([`ProviderError::code`]), which may have `*` at either end; if empty,
    /// the status alone proves it.
    pub codes: Vec<&'a str>,
    /// The document that says so.
    pub source: &'a str,
}

/// The statuses by which a server says that it did not process a request.
pub const UNPROCESSED: [u16; 10] = [400, 401, 402, 403, 404, 405, 413, 415, 422, 429];
const HTTP_SOURCE: &str = "RFC 9110, 15.5, and RFC 6585, 4: the request is not processed";

impl<'a> RefusalRule<'a> {
    /// The statuses of HTTP itself.
    pub fn http_statuses() -> Self {
        Self {
            statuses: UNPROCESSED.to_vec(),
            codes: Vec::new(),
            source: HTTP_SOURCE,
        }
    }

    /// Codes in the body of an answer with a success status.
    pub fn error_codes(codes: impl IntoIterator<Item = &'a str>, source: &'a str) -> Self {
        Self {
            statuses: vec![200, 201, 202],
            codes: codes.into_iter().collect(),
            source,
        }
    }

    /// Whether this answer, with the error read from it, matches this row.
    pub fn is_proved_by(&self, answer: &ProviderResponse, error: &ProviderError) -> bool {
        let code = error.code.as_deref();
        let is_listed = |code| {
            let mut patterns = self.codes.iter();
            patterns.any(|pattern| frame_size::fits(pattern, code))
        };
        self.statuses.contains(&answer.status.as_u16())
            && (self.codes.is_empty() || code.is_some_and(is_listed))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::error::ErrorClass;

    #[test]
    fn a_status_or_a_code_under_its_status_proves_it() {
        let is_proved = |rule: &RefusalRule<'_>, status, code: Option<&str>| {
            let error = ProviderError::new(ErrorClass::Rejected, "no");
            let error = match code {
                Some(code) => error.with_code(code),
                None => error,
            };
            rule.is_proved_by(&ProviderResponse::from_json(status, &Value::Null), &error)
        };
        let http = RefusalRule::http_statuses();
        for status in UNPROCESSED {
            assert!(is_proved(&http, status, None), "{status}");
        }
        for status in [200, 408, 409, 410, 425, 499, 500, 502, 503, 504] {
            assert!(!is_proved(&http, status, Some("any")), "{status}");
        }
        let codes = RefusalRule::error_codes(["1002", "limit*"], "a page");
        assert!(
            is_proved(&codes, 200, Some("1002")) && is_proved(&codes, 201, Some("limit_reached"))
        );
        for (status, code) in [(200, Some("1003")), (200, None), (503, Some("1002"))] {
            assert!(!is_proved(&codes, status, code), "{status} {code:?}");
        }
    }
}
