//! The common form of providers' job APIs.
//!
//! A provider accepts an order and returns a job's id, and the job is polled by that id until its
//! status word is final. A [`JobApi`] describes the field names and status words of one provider;
//! an adapter that provides one ([`Adapter::job`](crate::Adapter::job)) only implements the
//! request's body and its peculiarities.
//!
//! ```text
//! status   the meaning of a status word   errors   the meaning of error codes and words
//! list     searching a list for a job     upload   files before the order
//! ```

pub mod errors;
pub mod list;
pub mod status;
pub mod upload;

use http::Method;
use serde_json::{Value, json};

use self::status::JobStatus;
use crate::error::{ErrorBasis, ErrorClass, ProviderError};
use crate::port::{AdapterStep, Call, JobHandle, JobOutput};
use crate::response::{ProviderResponse, required_text, text_at};

/// The content of an answer, or the error that it reports.
pub type ParsedBody = Result<Value, ProviderError>;

/// Reads a job's results from the answer that says that it is done.
pub type OutputReader = fn(&JobHandle, &Value) -> Result<Vec<JobOutput>, ProviderError>;

/// The description of a provider's jobs. `{id}` in a path is replaced by that value of the handle.
#[derive(Debug, Clone)]
pub struct JobApi {
    /// The JSON pointer to the job's id in the answer to a submission.
    pub id: &'static str,
    /// The path for polling it.
    pub path: &'static str,
    /// The method and path for cancelling it.
    pub cancel: Option<(Method, &'static str)>,
    /// Headers sent with each of these calls.
    pub headers: &'static [(&'static str, &'static str)],
    /// Reads the answer to a submission.
    pub submission_body: fn(&ProviderResponse) -> ParsedBody,
    /// Reads an answer about a job. A 404 always means [`ErrorClass::Missing`].
    pub poll_body: fn(&ProviderResponse) -> ParsedBody,
    /// The JSON pointer to the status word.
    pub status: &'static str,
    /// The meanings of status words.
    pub words: &'static [(&'static str, JobStatus)],
    /// The progress of a running job, in percent.
    pub progress: fn(&Value) -> Option<u8>,
    /// The results of a completed job.
    pub outputs: OutputReader,
    /// The error of a failed job.
    pub failure: fn(&Value) -> ProviderError,
    /// The message for a job that the provider gave up.
    pub lost_message: &'static str,
}

impl JobApi {
    /// Reads the answer to a submission.
    pub fn read_submission(&self, answer: &ProviderResponse) -> Result<AdapterStep, ProviderError> {
        let body = (self.submission_body)(answer)?;
        let id = required_text(&body, self.id)?;
        Ok(AdapterStep::submitted(json!({"id": id})))
    }

    /// The call that polls a job.
    pub fn poll(&self, handle: &JobHandle) -> Call {
        self.call("poll", Method::GET, self.path, handle)
    }

    /// The call that cancels a job.
    pub fn cancel(&self, handle: &JobHandle) -> Option<Call> {
        let (method, path) = self.cancel.as_ref()?;
        Some(self.call("cancel", method.clone(), path, handle))
    }

    fn call(&self, stage: &'static str, method: Method, path: &str, handle: &JobHandle) -> Call {
        let call = Call::new(stage, method, fill_path(path, handle));
        let headers = self.headers.iter();
        headers.fold(call, |call, (name, value)| call.with_header(*name, *value))
    }

    /// Reads an answer about a job.
    pub fn read_poll(
        &self,
        handle: &JobHandle,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let body = (self.poll_body)(answer).map_err(|error| match answer.status.as_u16() {
            // One of several servers may not know the job yet.
            404 => error.with_class(ErrorClass::Missing),
            // The answer is not the job's record and may be a proxy's, so a single one does not end
            // a job.
            _ => error.with_basis(ErrorBasis::Answer),
        })?;
        let word = required_text(&body, self.status)?;
        match status::meaning(self.words.iter().copied(), &word) {
            Some(JobStatus::Queued) => Ok(AdapterStep::running(None)),
            Some(JobStatus::Running) => Ok(AdapterStep::running((self.progress)(&body))),
            Some(JobStatus::Done) => AdapterStep::done((self.outputs)(handle, &body)?),
            Some(JobStatus::Ended(ErrorClass::Failed)) => Err((self.failure)(&body)),
            Some(JobStatus::Ended(class @ ErrorClass::Missing)) => {
                let message = "the provider no longer knows the task";
                Err(ProviderError::new(class, message))
            }
            Some(JobStatus::Ended(class)) => Err(ProviderError::new(class, self.lost_message)),
            // An undocumented word does not end a job: it may be paid for and still succeed.
            None => Ok(AdapterStep::unknown(word)),
        }
    }
}

/// A path with the values of a handle inserted.
fn fill_path(path: &str, handle: &JobHandle) -> String {
    let mut parts = path.split(['{', '}']);
    let mut filled = parts.next().unwrap_or_default().to_owned();
    while let Some(name) = parts.next() {
        filled.push_str(handle.text(name));
        filled.push_str(parts.next().unwrap_or_default());
    }
    filled
}

/// The video whose URL is at this JSON pointer, if there is one.
pub fn video_at(body: &Value, pointer: &str) -> Result<Vec<JobOutput>, ProviderError> {
    let output = text_at(body, pointer).map(JobOutput::video_at);
    Ok(output.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorDescription;

    static JOB: JobApi = JobApi {
        id: "/data/id",
        path: "/jobs/{kind}/{id}",
        cancel: Some((Method::DELETE, "/jobs/{id}")),
        headers: &[("x-version", "2")],
        submission_body: |answer| answer.success(|_| ErrorDescription::default()),
        poll_body: |answer| answer.success(|_| ErrorDescription::default()),
        status: "/status",
        words: &[
            ("waits", JobStatus::Queued),
            ("works", JobStatus::Running),
            ("done", JobStatus::Done),
            ("failed", JobStatus::FAILED),
            ("gone", JobStatus::LOST),
        ],
        progress: |body| crate::response::percent_at(body, "/part", 1.0),
        outputs: |_, body| video_at(body, "/url"),
        failure: |_| ProviderError::new(ErrorClass::Unfit, "of the provider"),
        lost_message: "gave up",
    };

    #[test]
    fn a_job_is_polled_at_the_path_of_its_handle() {
        let handle = JobHandle(json!({"id": "7", "kind": "film"}));
        let call = JOB.poll(&handle);
        assert_eq!(call.target, crate::CallTarget::Path("/jobs/film/7".into()));
        assert_eq!(call.headers, [("x-version".to_owned(), "2".to_owned())]);
        let call = JOB.cancel(&handle).unwrap();
        assert_eq!(call.target, crate::CallTarget::Path("/jobs/7".into()));
        assert_eq!(call.method, Method::DELETE);
        let accepted = ProviderResponse::from_json(200, &json!({"data": {"id": "7"}}));
        let step = JOB.read_submission(&accepted).unwrap();
        assert!(matches!(step, AdapterStep::Submitted { handle, .. } if handle.text("id") == "7"));
        let without_id = ProviderResponse::from_json(200, &json!({"data": {}}));
        assert_eq!(
            JOB.read_submission(&without_id).unwrap_err().class,
            ErrorClass::Unclear
        );
    }

    #[test]
    fn the_status_word_decides() {
        let handle = JobHandle(json!({"id": "7"}));
        let polled = |status, body: Value| {
            JOB.read_poll(&handle, &ProviderResponse::from_json(status, &body))
        };
        let running = |word: &str| match polled(200, json!({"status": word, "part": 0.4})) {
            Ok(AdapterStep::Running {
                progress,
                unknown_status,
                ..
            }) => (progress, unknown_status),
            other => panic!("{other:?}"),
        };
        assert_eq!(running("waits"), (None, None));
        assert_eq!(running("works"), (Some(40), None));
        assert_eq!(running("sings"), (None, Some("sings".into())));
        let done = json!({"status": "done", "url": "https://x.example/v.mp4"});
        assert!(
            matches!(polled(200, done), Ok(AdapterStep::Done { outputs }) if outputs.len() == 1)
        );
        for (status, body, class) in [
            (200, json!({"status": "done"}), ErrorClass::Failed),
            (200, json!({"status": "failed"}), ErrorClass::Unfit),
            (200, json!({"status": "gone"}), ErrorClass::Lost),
            (200, json!({}), ErrorClass::Unclear),
            (404, json!({}), ErrorClass::Missing),
            (500, json!({}), ErrorClass::Unclear),
        ] {
            assert_eq!(
                polled(status, body.clone()).unwrap_err().class,
                class,
                "{body}"
            );
        }
    }
}
