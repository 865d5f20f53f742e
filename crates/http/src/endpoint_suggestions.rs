//! Endpoint suggestions for a request to a path that does not exist: most often the base URL lacks
//! `/v1`.

/// The paths of all endpoints, as templates: `/v1/tasks/{id}`.
pub(super) struct EndpointPaths(Vec<String>);

impl EndpointPaths {
    pub(super) fn new(paths: impl Iterator<Item = String>) -> Self {
        Self(paths.collect())
    }

    /// The endpoint nearest to a path that has none, filled in from the path.
    pub(super) fn nearest(&self, path: &str) -> Option<String> {
        /// Longest paths, in segments and characters, for which a suggestion is searched.
        const MAX_LENGTHS: (usize, usize) = (12, 200);
        let requested: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        if requested.is_empty() || requested.len() > MAX_LENGTHS.0 || path.len() > MAX_LENGTHS.1 {
            return None;
        }
        self.with_other_prefix(&requested)
            .or_else(|| self.misspelt(&requested))
    }

    /// The known path if only the prefix differs: a missing `/v1`, `/openai/v1` or `/v1/v1`. The
    /// nearest one, as `/v1` is to `/v1/v1`, and not `/api/v1`.
    fn with_other_prefix(&self, requested: &[&str]) -> Option<String> {
        let mut suffixes = (0..requested.len()).filter_map(|skipped| requested.get(skipped..));
        let suggestion = suffixes.find_map(|suffix| {
            let candidates = self.0.iter().filter_map(|template| {
                let parts: Vec<&str> = segments(template).collect();
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
                is_same.then(|| {
                    let path = fill_template(&parts, missing.iter().chain(suffix));
                    (missing.len(), path)
                })
            });
            candidates.min()
        });
        suggestion.map(|(_, path)| path)
    }

    fn misspelt(&self, requested: &[&str]) -> Option<String> {
        /// Number of letters that may be wrong.
        const MAX_DISTANCE: usize = 3;
        let candidates = self.0.iter().filter_map(|template| {
            let parts: Vec<&str> = segments(template).collect();
            if parts.len() != requested.len() {
                return None;
            }
            let pairs = parts.iter().zip(requested);
            let fixed_pairs = pairs.filter(|(part, _)| !is_parameter(part));
            let distance: usize = fixed_pairs
                .map(|(part, segment)| strsim::levenshtein(part, &segment.to_ascii_lowercase()))
                .sum();
            (distance <= MAX_DISTANCE).then(|| (distance, fill_template(&parts, requested.iter())))
        });
        candidates.min().map(|(_, path)| path)
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

/// The template with the segments of a path in place of its parameters.
fn fill_template<'a>(parts: &[&str], segments: impl Iterator<Item = &'a &'a str>) -> String {
    let path = parts.iter().zip(segments).map(|(part, segment)| {
        if is_parameter(part) {
            format!("/{segment}")
        } else {
            format!("/{part}")
        }
    });
    path.collect()
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
        let endpoints = EndpointPaths::new(paths.into_iter().map(ToOwned::to_owned));
        let suggestion = |path: &str| endpoints.nearest(path);
        for (path, expected) in [
            ("/chat/completions", "/v1/chat/completions"),
            ("/videos", "/v1/videos"),
            ("/videos/video_7/content", "/v1/videos/video_7/content"),
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
            ("/v1/task/7", "/v1/tasks/7"),
            ("/v1/prices/../pricing", "/pricing"),
        ] {
            assert_eq!(suggestion(path).as_deref(), Some(expected), "{path}");
        }
        for path in ["/", "/favicon.png", "/v1/embeddings", "/wp-login.php", "//"] {
            assert_eq!(suggestion(path), None, "{path}");
        }
        assert_eq!(suggestion(&"/v1".repeat(100)), None);
    }
}
