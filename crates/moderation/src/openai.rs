//! The moderation API of `OpenAI`: `POST /v1/moderations`. Each request has one input, so that the
//! response is about that input.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{PolicyFinding, UnreadableResponse};

/// The model that reads texts and pictures.
pub const DEFAULT_MODEL: &str = "omni-moderation-latest";

/// The request for a text.
pub fn text_request(model: &str, text: &str) -> Value {
    json!({"model": model, "input": text})
}

/// The request for a picture, as a `data:` URL.
pub fn picture_request(model: &str, data_url: &str) -> Value {
    let part = json!({"type": "image_url", "image_url": {"url": data_url}});
    json!({"model": model, "input": [part]})
}

#[derive(Deserialize)]
struct ModerationResponse {
    results: Vec<InputResult>,
}

#[derive(Deserialize)]
struct InputResult {
    flagged: bool,
    /// Categories that the service does not judge are null.
    #[serde(default)]
    categories: BTreeMap<String, Option<bool>>,
    #[serde(default)]
    category_scores: BTreeMap<String, Option<f64>>,
}

impl InputResult {
    /// The category with the highest score among those that apply.
    fn finding(&self) -> Option<PolicyFinding> {
        if !self.flagged {
            return None;
        }
        let applying = self.categories.iter();
        let applying = applying.filter(|(_, applies)| **applies == Some(true));
        let score = |name: &str| {
            let score = self.category_scores.get(name).copied().flatten();
            score.unwrap_or(0.0)
        };
        let strongest =
            applying.max_by(|(a, _), (b, _)| score(a.as_str()).total_cmp(&score(b.as_str())));
        Some(PolicyFinding::new(
            strongest.map_or("flagged", |(name, _)| name.as_str()),
        ))
    }
}

/// What the service objects to; `None` if it objects to nothing.
pub fn read(body: &[u8]) -> Result<Option<PolicyFinding>, UnreadableResponse> {
    let response: ModerationResponse =
        serde_json::from_slice(body).map_err(|error| UnreadableResponse(error.to_string()))?;
    if response.results.is_empty() {
        return Err(UnreadableResponse("it has no results".to_owned()));
    }
    Ok(response.results.iter().find_map(InputResult::finding))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn category(body: &Value) -> Option<String> {
        let finding = read(body.to_string().as_bytes()).unwrap();
        finding.map(|finding| finding.category)
    }

    #[test]
    fn the_strongest_category_is_named() {
        let result = json!({
            "flagged": true,
            "categories": {"violence": true, "sexual/minors": true, "illicit": null, "new": false},
            "category_scores": {"violence": 0.4, "sexual/minors": 0.9, "illicit": null, "new": 1.0},
        });
        let body = json!({"id": "m", "model": "m", "results": [result]});
        assert_eq!(category(&body).as_deref(), Some("sexual/minors"));
    }

    #[test]
    fn what_is_not_flagged_is_allowed() {
        let allowed = json!({"flagged": false, "categories": {"violence": true}});
        assert_eq!(category(&json!({"results": [allowed]})), None);
        let bare = json!({"results": [{"flagged": true}]});
        assert_eq!(category(&bare).as_deref(), Some("flagged"));
    }

    #[test]
    fn a_response_without_a_verdict_is_no_verdict() {
        for body in ["", "{}", "[]", "{\"results\": []}", "{\"results\": [{}]}"] {
            assert!(read(body.as_bytes()).is_err(), "{body}");
        }
    }
}
