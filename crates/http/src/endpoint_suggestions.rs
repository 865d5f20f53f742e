//! Endpoint suggestions for a request to a path that does not exist: most often the base URL lacks
//! `/v1`, or the path is one of another service that clients try first.

use axum::http::Method;
use utoipa::openapi::OpenApi;

/// What to use in place of an endpoint of another service. A `*` at the end stands for any rest.
const OTHER_SERVICES: &[(&str, &str)] = &[
    (
        "/v1/responses",
        "This gateway makes videos by POST /v1/chat/completions and POST /v1/videos.",
    ),
    (
        "/v1/completions",
        "This gateway makes videos by POST /v1/chat/completions and POST /v1/videos.",
    ),
    (
        "/v1/messages",
        "This gateway makes videos by POST /v1/chat/completions and POST /v1/videos.",
    ),
    (
        "/v1/embeddings",
        "This gateway makes videos and music, and has no embeddings.",
    ),
    (
        "/v1/images/*",
        "This gateway makes videos, and no images. Use POST /v1/videos; an image can be its first frame.",
    ),
    (
        "/v1/audio/*",
        "This gateway makes songs by POST /musicgen/submit/music, and has no speech or transcription.",
    ),
    (
        "/v1/files/*",
        "Files are part of an order here: an image as a URL or as data, a song by POST /musicgen/upload/audio.",
    ),
    (
        "/v1/uploads/*",
        "Files are part of an order here: an image as a URL or as data, a song by POST /musicgen/upload/audio.",
    ),
    (
        "/v1/moderations",
        "This gateway has no endpoint for moderation.",
    ),
    (
        "/v1/video/generations/*",
        "Use POST /v1/videos, then GET /v1/videos/{id}.",
    ),
    (
        "/v1/videos/generations/*",
        "Use POST /v1/videos, then GET /v1/videos/{id}.",
    ),
    (
        "/v1/videos/edits",
        "A video cannot be edited here. Use POST /v1/videos with a new prompt.",
    ),
    (
        "/v1/videos/extensions",
        "A video cannot be extended here. Use POST /v1/videos with its last frame as the image.",
    ),
    (
        "/v1/videos/{id}/remix",
        "A video cannot be remixed here. Use POST /v1/videos with a new prompt.",
    ),
    (
        "/v1/batches/*",
        "This gateway has no batches. Send each order by itself, and wait for events or webhooks.",
    ),
];

/// The paths of all endpoints, as templates: `/v1/tasks/{id}`, each with its methods.
pub(super) struct EndpointPaths(Vec<(String, Vec<Method>)>);

impl EndpointPaths {
    pub(super) fn new(paths: impl Iterator<Item = (String, Vec<Method>)>) -> Self {
        Self(paths.collect())
    }

    /// The endpoints of a document, so that suggestions only name what exists.
    pub(super) fn from_document(document: &OpenApi) -> Self {
        Self::new(document.paths.paths.iter().map(|(path, item)| {
            let operations = [
                (Method::GET, item.get.is_some()),
                (Method::POST, item.post.is_some()),
                (Method::PUT, item.put.is_some()),
                (Method::PATCH, item.patch.is_some()),
                (Method::DELETE, item.delete.is_some()),
            ];
            let methods = operations.into_iter().filter(|(_, exists)| *exists);
            (path.clone(), methods.map(|(method, _)| method).collect())
        }))
    }

    /// A sentence about what to use in place of a path that has no endpoint.
    pub(super) fn advice(&self, method: &Method, path: &str) -> Option<String> {
        /// Longest paths, in segments and characters, for which a suggestion is searched.
        const MAX_LENGTHS: (usize, usize) = (12, 200);
        let requested: Vec<&str> = segments(path).collect();
        if requested.is_empty() || requested.len() > MAX_LENGTHS.0 || path.len() > MAX_LENGTHS.1 {
            return None;
        }
        if let Some(advice) = other_service_advice(path) {
            return Some(advice.to_owned());
        }
        let (template, methods) = self
            .with_other_prefix(&requested)
            .or_else(|| self.misspelt(&requested))?;
        let is_read = *method == Method::HEAD && methods.contains(&Method::GET);
        if is_read || methods.contains(method) {
            return Some(format!("Did you mean {template}?"));
        }
        let method = methods.first()?;
        Some(format!("Did you mean {method} {template}?"))
    }

    /// The known path if only the prefix differs: a missing `/v1`, `/openai/v1` or `/v1/v1`. The
    /// nearest one, as `/v1` is to `/v1/v1`, and not `/api/v1`.
    fn with_other_prefix(&self, requested: &[&str]) -> Option<&(String, Vec<Method>)> {
        let mut suffixes = (0..requested.len()).filter_map(|skipped| requested.get(skipped..));
        let suggestion = suffixes.find_map(|suffix| {
            let candidates = self.0.iter().filter_map(|endpoint| {
                let parts: Vec<&str> = segments(&endpoint.0).collect();
                let prefix = parts.len().checked_sub(suffix.len())?;
                let (missing, rest) = parts.split_at_checked(prefix)?;
                // One segment may be missing, such as `v1`. With more, almost any path would fit.
                let is_same = missing.len() <= 1
                    && rest.first().is_some_and(|first| !is_parameter(first))
                    && missing.iter().all(|part| !is_parameter(part))
                    && rest
                        .iter()
                        .zip(suffix)
                        .all(|(part, segment)| fits(part, segment));
                is_same.then_some((missing.len(), endpoint))
            });
            candidates.min_by_key(|(missing, endpoint)| (*missing, &endpoint.0))
        });
        suggestion.map(|(_, endpoint)| endpoint)
    }

    fn misspelt(&self, requested: &[&str]) -> Option<&(String, Vec<Method>)> {
        /// Number of letters that may be wrong.
        const MAX_DISTANCE: usize = 3;
        let candidates = self.0.iter().filter_map(|endpoint| {
            let parts: Vec<&str> = segments(&endpoint.0).collect();
            if parts.len() != requested.len() {
                return None;
            }
            let pairs = parts.iter().zip(requested);
            let fixed_pairs = pairs.filter(|(part, _)| !is_parameter(part));
            let distance: usize = fixed_pairs
                .map(|(part, segment)| strsim::levenshtein(part, &segment.to_ascii_lowercase()))
                .sum();
            (distance <= MAX_DISTANCE).then_some((distance, endpoint))
        });
        let nearest = candidates.min_by_key(|(distance, endpoint)| (*distance, &endpoint.0));
        nearest.map(|(_, endpoint)| endpoint)
    }
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

fn is_parameter(part: &str) -> bool {
    part.starts_with('{')
}

fn fits(part: &str, segment: &str) -> bool {
    is_parameter(part) || part.eq_ignore_ascii_case(segment)
}

/// What to use in place of another service's endpoint, whatever stands before its `/v1`.
pub(super) fn other_service_advice(path: &str) -> Option<&'static str> {
    let requested: Vec<&str> = segments(path).collect();
    let version = requested.iter().rposition(|segment| *segment == "v1")?;
    let requested = requested.get(version..)?;
    let found = OTHER_SERVICES.iter().find(|(pattern, _)| {
        let parts: Vec<&str> = segments(pattern).filter(|part| *part != "*").collect();
        let is_length = if pattern.ends_with('*') {
            requested.len() >= parts.len()
        } else {
            requested.len() == parts.len()
        };
        is_length
            && parts
                .iter()
                .zip(requested)
                .all(|(part, segment)| fits(part, segment))
    });
    found.map(|(_, advice)| *advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_that_was_meant_is_named() {
        let paths = [
            "/api/v1/chat/completions",
            "/api/v1/videos",
            "/v1/chat/completions",
            "/v1/videos",
            "/v1/videos/{id}",
            "/v1/videos/{id}/content",
            "/v1/models",
            "/v1/models/{model}",
            "/v1/tasks/{id}",
            "/musicgen/submit/music",
            "/pricing",
        ];
        let endpoints = EndpointPaths::new(
            paths
                .into_iter()
                .map(|path| (path.to_owned(), vec![Method::GET])),
        );
        let suggestion = |path: &str| endpoints.advice(&Method::GET, path);
        for (path, expected) in [
            ("/chat/completions", "/v1/chat/completions"),
            ("/videos", "/v1/videos"),
            ("/videos/video_7/content", "/v1/videos/{id}/content"),
            ("/models", "/v1/models"),
            ("/v1/v1/chat/completions", "/v1/chat/completions"),
            ("/api/v1/models/", "/v1/models"),
            ("/v1/v1/videos", "/v1/videos"),
            ("/api/v1/video", "/api/v1/videos"),
            ("/api/v1/api/v1/videos", "/api/v1/videos"),
            ("/openai/v1/chat/completions", "/v1/chat/completions"),
            ("/submit/music", "/musicgen/submit/music"),
            ("/v1/chat/completion", "/v1/chat/completions"),
            ("/V1/Models", "/v1/models"),
            ("/v1/task/7", "/v1/tasks/{id}"),
            ("/v1/prices/../pricing", "/pricing"),
        ] {
            let expected = format!("Did you mean {expected}?");
            assert_eq!(suggestion(path), Some(expected), "{path}");
        }
        let posted = endpoints.advice(&Method::POST, "/models");
        assert_eq!(posted.as_deref(), Some("Did you mean GET /v1/models?"));
        for path in ["/", "/favicon.png", "/wp-login.php", "//"] {
            assert_eq!(suggestion(path), None, "{path}");
        }
        assert_eq!(suggestion(&"/v1".repeat(100)), None);
    }

    #[test]
    fn endpoints_of_other_services_are_answered_with_ours() {
        let endpoints =
            EndpointPaths::new([("/v1/videos/{id}".to_owned(), vec![Method::GET])].into_iter());
        for (path, part) in [
            ("/v1/responses", "/v1/chat/completions"),
            ("/openai/v1/images/generations", "first frame"),
            ("/v1/audio/speech", "/musicgen/submit/music"),
            ("/v1/files", "part of an order"),
            ("/v1/video/generations", "POST /v1/videos"),
            ("/v1/videos/generations", "POST /v1/videos"),
            ("/v1/videos/video_7/remix", "new prompt"),
        ] {
            let advice = endpoints.advice(&Method::POST, path).unwrap();
            assert!(
                advice.contains(part) && !advice.contains("video_7"),
                "{advice}"
            );
        }
    }
}
