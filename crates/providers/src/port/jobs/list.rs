//! Search for an order's job in a provider's list, by the parts of the request that the list
//! contains.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use crate::error::ProviderError;
use crate::order::Order;
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

    /// A job with the content of `order`, unless it is older than the submission.
    pub fn likely(&self, order: &Order, job: &Value, since: SystemTime) -> Option<FoundJob> {
        let created_at = time_at(job, self.created_at);
        FoundJob::likely(order, self.handle(job)?, created_at, since)
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

/// Whether a job's record contains every field of a request, with the same value. A field that the
/// record lacks may have another value in the job, which is another order's then.
///
/// Only strings, numbers and booleans can be compared: lists and objects are returned with
/// additional fields. A number equals its text.
pub fn agrees(request: &Map<String, Value>, record: &Value) -> bool {
    let is_equal = |(name, sent): (&String, &Value)| {
        scalar(sent).is_some_and(|sent| scalar(&record[name.as_str()]) == Some(sent))
    };
    !request.is_empty() && request.iter().all(is_equal)
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
    fn every_field_that_was_sent_must_be_in_the_record() {
        let request = json!({"prompt": "rain", "seconds": "4", "loop": true});
        let request = request.as_object().unwrap();
        let matches = |record: Value| agrees(request, &record);
        assert!(matches(
            json!({"prompt": "rain", "seconds": 4, "loop": true, "id": "x"})
        ));
        for record in [
            json!({}),
            json!({"prompt": "rain"}),
            json!({"prompt": "rain", "seconds": null, "loop": true}),
            json!({"prompt": "rain", "seconds": 5, "loop": true}),
            json!({"prompt": "rain", "seconds": 4, "loop": false}),
            json!({"prompt": "snow", "seconds": 4, "loop": true}),
        ] {
            assert!(!matches(record.clone()), "{record}");
        }
        let list = json!({"frames": [1]});
        let frames = list.as_object().unwrap();
        assert!(!agrees(frames, &list), "a list is not compared");
        assert!(!agrees(&Map::new(), &list), "nothing identifies it");
    }

    #[test]
    fn a_key_is_put_into_a_path_unchanged_or_not_at_all() {
        assert!(fits_path("0197-a_B") && !fits_path("a/b") && !fits_path(""));
    }
}
