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
        const LONGEST: (usize, usize) = (12, 200);
        let asked: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        if asked.is_empty() || asked.len() > LONGEST.0 || path.len() > LONGEST.1 {
            return None;
        }
        self.prefixed(&asked).or_else(|| self.misspelt(&asked))
    }

    /// With another prefix: none, `/api/v1`, `/v1/v1`.
    fn prefixed(&self, asked: &[&str]) -> Option<String> {
        let ends = (0..asked.len()).filter_map(|skipped| asked.get(skipped..));
        let found = ends.flat_map(|end| {
            self.0.iter().filter_map(move |template| {
                let parts: Vec<&str> = segments(template).collect();
                let prefix = parts.len().checked_sub(end.len())?;
                let (before, rest) = parts.split_at_checked(prefix)?;
                // One segment may be missing, such as `v1`. With more, almost any path would fit.
                let is_same = before.len() <= 1
                    && rest.first().is_some_and(|first| !is_parameter(first))
                    && before.iter().all(|part| !is_parameter(part))
                    && rest.iter().zip(end).all(|(part, word)| fits(part, word));
                is_same.then(|| fill_template(&parts, before.iter().chain(end)))
            })
        });
        found.take(1).next()
    }

    fn misspelt(&self, asked: &[&str]) -> Option<String> {
        /// Letters that may be wrong.
        const WRONG: usize = 3;
        let near = self.0.iter().filter_map(|template| {
            let parts: Vec<&str> = segments(template).collect();
            if parts.len() != asked.len() {
                return None;
            }
            let pairs = parts.iter().zip(asked);
            let words = pairs.filter(|(part, _)| !is_parameter(part));
            let wrong: usize = words
                .map(|(part, word)| strsim::levenshtein(part, &word.to_ascii_lowercase()))
                .sum();
            (wrong <= WRONG).then(|| (wrong, fill_template(&parts, asked.iter())))
        });
        near.min().map(|(_, path)| path)
    }
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

fn is_parameter(part: &str) -> bool {
    part.starts_with('{')
}

fn fits(part: &str, word: &str) -> bool {
    is_parameter(part) || part.eq_ignore_ascii_case(word)
}

/// The template with the words of a path in place of its parameters.
fn fill_template<'a>(parts: &[&str], words: impl Iterator<Item = &'a &'a str>) -> String {
    let filled = parts.iter().zip(words).map(|(part, word)| {
        if is_parameter(part) {
            format!("/{word}")
        } else {
            format!("/{part}")
        }
    });
    filled.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_that_was_meant_is_named() {
        let paths = [
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
        let all = EndpointPaths::new(paths.into_iter().map(ToOwned::to_owned));
        let meant = |path: &str| all.nearest(path);
        for (path, expected) in [
            ("/chat/completions", "/v1/chat/completions"),
            ("/videos", "/v1/videos"),
            ("/videos/video_7/content", "/v1/videos/video_7/content"),
            ("/models", "/v1/models"),
            ("/v1/v1/chat/completions", "/v1/chat/completions"),
            ("/api/v1/models/", "/v1/models"),
            ("/openai/v1/chat/completions", "/v1/chat/completions"),
            ("/submit/music", "/musicgen/submit/music"),
            ("/v1/chat/completion", "/v1/chat/completions"),
            ("/V1/Models", "/v1/models"),
            ("/v1/task/7", "/v1/tasks/7"),
            ("/v1/prices/../pricing", "/pricing"),
        ] {
            assert_eq!(meant(path).as_deref(), Some(expected), "{path}");
        }
        for path in ["/", "/favicon.png", "/v1/embeddings", "/wp-login.php", "//"] {
            assert_eq!(meant(path), None, "{path}");
        }
        assert_eq!(meant(&"/v1".repeat(100)), None);
    }
}
