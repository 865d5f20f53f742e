//! Search for an order's job in a provider's list, by the parts of the request that the list
//! contains.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use crate::error::ProviderError;
use crate::port::find::is_older;
use crate::port::{Call, FoundJob, JobHandle};
use crate::response::{required_list, text_at, time_at};

/// Maximum size of a list, in bytes: each job in it may contain its prompt.
pub const MAX_LIST_BYTES: u64 = 32_000_000;

/// A provider's list of jobs, and the format of its items.
#[derive(Debug, Clone, Copy)]
pub struct JobList {
    /// The path of the list.
    pub path: &'static str,
    /// Query parameters of every page.
    pub query: &'static [(&'static str, &'static str)],
    /// The JSON pointer to the jobs in the answer.
    pub items: &'static str,
    /// The JSON pointer to a job's id.
    pub id: &'static str,
    /// The JSON pointer to its creation time.
    pub created_at: &'static str,
}

impl JobList {
    /// The call for a page; the adapter adds which page.
    pub fn page(&self) -> Call {
        let mut call = Call::get("find", self.path);
        call.limit_bytes = MAX_LIST_BYTES;
        let query = self.query.iter();
        query.fold(call, |call, (name, value)| call.with_query(*name, *value))
    }

    /// The jobs of a page.
    pub fn items<'v>(&self, body: &'v Value) -> Result<&'v [Value], ProviderError> {
        required_list(body, self.items)
    }

    /// A job with the order's key.
    pub fn certain(&self, job: &Value) -> Option<FoundJob> {
        Some(FoundJob::certain(
            self.handle(job)?,
            time_at(job, self.created_at),
        ))
    }

    /// A job of the same content, unless it is older than the submission.
    pub fn likely(&self, job: &Value, since: SystemTime) -> Option<FoundJob> {
        FoundJob::likely(self.handle(job)?, time_at(job, self.created_at), since)
    }

    /// Whether the next page may contain the job, in a list that begins with the newest.
    pub fn has_older_page(&self, items: &[Value], since: SystemTime) -> bool {
        let is_recent = |last| !is_older(time_at(last, self.created_at), since);
        items.last().is_some_and(is_recent)
    }

    fn handle(&self, job: &Value) -> Option<JobHandle> {
        Some(JobHandle(json!({"id": text_at(job, self.id)?})))
    }
}

/// Whether a job's record matches a request: each of the `needed` fields is present and equal, and
/// no other field that is present differs.
///
/// Only strings, numbers and booleans are compared: lists and objects are returned with additional
/// fields. A number equals its text.
pub fn agrees(request: &Map<String, Value>, record: &Value, needed: &[&str]) -> bool {
    let has_needed = needed
        .iter()
        .all(|name| request.contains_key(*name) && scalar(&record[*name]).is_some());
    has_needed
        && request.iter().all(|(name, sent)| {
            let values = scalar(sent).zip(scalar(&record[name.as_str()]));
            values.is_none_or(|(sent, recorded)| sent == recorded)
        })
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Bool(flag) => Some(flag.to_string()),
        value => text_at(value, ""),
    }
}

/// Whether a key can be used in a path unchanged.
pub fn fits_path(key: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !key.is_empty() && key.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn present_fields_must_agree_and_needed_ones_must_be_present() {
        let request = json!({"prompt": "rain", "seconds": "4", "loop": true, "frames": [1]});
        let request = request.as_object().unwrap();
        let matches = |record: Value| agrees(request, &record, &["prompt"]);
        assert!(matches(json!({"prompt": "rain"})));
        assert!(matches(
            json!({"prompt": "rain", "seconds": 4, "loop": true, "frames": [2], "id": "x"})
        ));
        assert!(matches(json!({"prompt": "rain", "seconds": null})));
        for record in [
            json!({"prompt": "snow"}),
            json!({"prompt": null, "seconds": "4"}),
            json!({"prompt": "rain", "seconds": "8"}),
            json!({"prompt": "rain", "loop": false}),
            json!("rain"),
        ] {
            assert!(!matches(record.clone()), "{record}");
        }
        assert!(!agrees(request, &json!({"prompt": "rain"}), &["model"]));
        assert!(fits_path("0197-a_B") && !fits_path("a/b") && !fits_path(""));
    }
}
