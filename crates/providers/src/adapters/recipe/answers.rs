//! Reading answers by a recipe: errors, a job's progress, results.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use serde_json::{Map, Value, json};

use super::calls::HttpMethod;
use super::placeholder::{TemplateValue, TemplateValues};
use super::pointer::PointerList;
use super::schema::{ErrorClassName, PaceSection, Recipe, ResultSection, StateSection};
use crate::error::{ErrorBasis, ErrorClass, ErrorDescription, ProviderError};
use crate::frame_size;
use crate::port::jobs::status::{JobStatus, meaning};
use crate::port::{
    AdapterStep, Call, CallTarget, JobHandle, JobOutput, MAX_RESULT_BYTES, OutputKind, OutputSource,
};
use crate::response::{ProviderResponse, percent_at};

/// Which answer is being read: some conclusions are possible only for one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerStage {
    /// The submission's.
    Submission,
    /// A later one.
    Later,
}

/// The state of a job.
pub(super) enum JobProgress {
    /// The job is not done.
    Running(AdapterStep),
    /// The job is done, according to this answer.
    Done(Value),
}

impl Recipe {
    /// The body of an answer that is not an error, neither by its status nor by its envelope.
    pub(super) fn accepted_body(
        &self,
        answer: &ProviderResponse,
        stage: AnswerStage,
    ) -> Result<Value, ProviderError> {
        if !answer.status.is_success() {
            return Err(self.failure(answer));
        }
        let body = self.unwrap_json_texts(answer.json()?);
        let is_error = self.errors.when.as_ref();
        if is_error.is_some_and(|when| when.holds(&body)) {
            return Err(self.envelope_error(answer, &body, stage));
        }
        match &self.ok {
            // Without the field, the answer is not the provider's envelope. If it were read as a
            // rejection, the order could be sent elsewhere a second time.
            Some(ok) if !ok.is_present(&body) => Err(ProviderError::unreadable(
                "the provider's response does not state whether the call succeeded",
            )),
            Some(ok) if !ok.holds(&body) => Err(self.envelope_error(answer, &body, stage)),
            _ => Ok(body),
        }
    }

    /// The error of an envelope.
    fn envelope_error(
        &self,
        answer: &ProviderResponse,
        body: &Value,
        stage: AnswerStage,
    ) -> ProviderError {
        let description = self.describe(body);
        // An envelope's error after a submission rejects it. After a poll it proves nothing about
        // the job.
        let class = self.class_of(&description).unwrap_or(match stage {
            AnswerStage::Submission => ErrorClass::Rejected,
            AnswerStage::Later => ErrorClass::Unclear,
        });
        let error = ProviderError {
            retry_after: answer.retry_after(),
            ..error_of(class, description, "the provider reported an error")
        };
        match stage {
            AnswerStage::Submission => error,
            AnswerStage::Later => error.with_basis(ErrorBasis::Answer),
        }
    }

    /// The state of a job according to the answer to a poll.
    pub(super) fn job_progress(
        &self,
        answer: &ProviderResponse,
    ) -> Result<JobProgress, ProviderError> {
        let state = &self.state;
        // A body that is not JSON does not end the reading: the HTTP status may still be
        // meaningful.
        let body = self.unwrap_json_texts(answer.json().unwrap_or(Value::Null));
        let word = state.word.as_ref().and_then(|at| at.get_ref().text(&body));
        let meaning = word.as_deref().and_then(|word| state.meaning(word));
        // Some providers report a failed job with a status that is not 2xx, so status words take
        // precedence over the HTTP status.
        if let Some(JobStatus::Ended(class)) = meaning {
            return Err(self.end_error(&body, class));
        }
        if matches!(answer.status.as_u16(), 404 | 410) {
            return Err(self.failure(answer).with_class(ErrorClass::Missing));
        }
        let body = self.accepted_body(answer, AnswerStage::Later)?;
        for (condition, class) in [
            (&state.refused_when, ErrorClass::Refused),
            (&state.failed_when, ErrorClass::Failed),
        ] {
            if condition
                .as_ref()
                .is_some_and(|condition| condition.holds(&body))
            {
                return Err(self.end_error(&body, class));
            }
        }
        if meaning.is_some_and(JobStatus::is_open) {
            return Ok(JobProgress::Running(self.running_step(answer, &body)));
        }
        let is_done = state
            .done_when
            .as_ref()
            .is_some_and(|condition| condition.holds(&body));
        if is_done || meaning == Some(JobStatus::Done) {
            return Ok(JobProgress::Done(body));
        }
        match word {
            Some(word) => Ok(JobProgress::Running(AdapterStep::unknown(word))),
            // Without status words, a job that is not done is running.
            None if state.done_when.is_some() => {
                Ok(JobProgress::Running(self.running_step(answer, &body)))
            }
            None => Err(ProviderError::unreadable(
                "the provider's response has no status",
            )),
        }
    }

    fn running_step(&self, answer: &ProviderResponse, body: &Value) -> AdapterStep {
        let state = &self.state;
        let reported = state
            .progress
            .as_ref()
            .and_then(|pointers| pointers.first(body));
        let progress = reported.and_then(|reported| {
            let full = state.progress_full.unwrap_or(100.0);
            percent_at(&json!([reported]), "/0", full)
        });
        AdapterStep::Running {
            progress,
            poll_after: self.pace.poll_after(answer),
            unknown_status: None,
        }
    }

    /// The error of a job that ended. Its code may show that it was refused; a code for a temporary
    /// problem does not reopen it.
    fn end_error(&self, body: &Value, class: ErrorClass) -> ProviderError {
        let description = self.describe(body);
        let class = match self.class_of(&description) {
            Some(ErrorClass::Rejected) if class == ErrorClass::Failed => ErrorClass::Unfit,
            Some(class_by_code) if class == ErrorClass::Failed && class_by_code.ends_job() => {
                class_by_code
            }
            _ => class,
        };
        let default_message = match class {
            ErrorClass::Lost => "the provider stopped processing the job",
            ErrorClass::Refused => "the provider's content policy forbids this content",
            _ => "the provider failed to process the job",
        };
        error_of(class, description, default_message)
    }

    fn failure(&self, answer: &ProviderResponse) -> ProviderError {
        let error = answer.failure(|body| self.describe(body));
        // Words are read if the request may be at fault. With 401, 402, 408 and 429 the same words
        // would mean something else.
        let is_forbidden = answer.status == 403;
        let concerns_order = is_forbidden || error.class == ErrorClass::Rejected;
        let description = ErrorDescription {
            code: error.code.clone(),
            message: concerns_order.then(|| error.message.clone()),
        };
        let class_by_code = self.class_of(&description);
        // With 403, `rejected` would make a wrong key the caller's fault.
        let class_by_code =
            class_by_code.filter(|class| !is_forbidden || *class != ErrorClass::Rejected);
        // A 5xx or a 408 does not prove that nothing was accepted, whatever its code. So a class
        // that allows another route is ignored.
        let is_doubtful = error.class == ErrorClass::Unclear;
        let class = class_by_code
            .filter(|class| !(is_doubtful && class.allows_fail_over()))
            .unwrap_or(error.class);
        error.with_class(class)
    }

    /// Replaces strings that contain JSON by that JSON.
    pub(super) fn unwrap_json_texts(&self, mut body: Value) -> Value {
        for pointers in &self.json_texts {
            pointers.read_texts(&mut body);
        }
        body
    }

    fn describe(&self, body: &Value) -> ErrorDescription {
        ErrorDescription {
            code: self.errors.code.text(body),
            message: self.errors.message.text(body),
        }
    }

    /// The class that the recipe gives to a code, by the longest matching line; otherwise to words.
    /// Words that name a refusal are stronger than a code that only says that the order is wrong, or
    /// that something went wrong.
    fn class_of(&self, description: &ErrorDescription) -> Option<ErrorClass> {
        let by_code = description.code.as_ref().and_then(|code| {
            let patterns = self.errors.codes.iter();
            let matching = patterns.filter(|(pattern, _)| frame_size::fits(pattern, code));
            matching.max_by_key(|(pattern, _)| pattern.len())
        });
        let message = description
            .message
            .as_deref()
            .unwrap_or_default()
            .to_lowercase();
        let mut words = self.errors.words.iter();
        let by_words = words.find(|(words, _)| message.contains(words.as_str()));
        let class = |entry: (&String, &ErrorClassName)| ErrorClass::from(*entry.1);
        match (by_code.map(class), by_words.map(class)) {
            (
                None | Some(ErrorClass::Rejected | ErrorClass::Unclear | ErrorClass::Failed),
                Some(ErrorClass::Refused),
            ) => Some(ErrorClass::Refused),
            (by_code, by_words) => by_code.or(by_words),
        }
    }
}

impl StateSection {
    /// The meaning of a status word.
    fn meaning(&self, word: &str) -> Option<JobStatus> {
        let lists = [
            (&self.failed, JobStatus::FAILED),
            (&self.refused, JobStatus::Ended(ErrorClass::Refused)),
            (&self.lost, JobStatus::LOST),
            (&self.queued, JobStatus::Queued),
            (&self.running, JobStatus::Running),
            (&self.done, JobStatus::Done),
        ];
        let words = lists.iter().flat_map(|(words, status)| {
            words.iter().map(|word| (word.get_ref().as_str(), *status))
        });
        meaning(words, word)
    }
}

fn error_of(
    class: ErrorClass,
    description: ErrorDescription,
    default_message: &str,
) -> ProviderError {
    ProviderError {
        code: description.code,
        ..ProviderError::new(
            class,
            description
                .message
                .unwrap_or_else(|| default_message.into()),
        )
    }
}

impl PaceSection {
    /// When the provider asks to be polled next.
    pub(super) fn poll_after(&self, answer: &ProviderResponse) -> Option<Duration> {
        let text = answer.header(self.after_ms_header.as_ref()?)?;
        text.trim().parse().ok().map(Duration::from_millis)
    }
}

/// Reads the values to keep from an answer; all of them must be present.
pub(super) fn keep(
    pointers_by_name: &BTreeMap<String, PointerList>,
    body: &Value,
) -> Result<Map<String, Value>, ProviderError> {
    let mut kept = Map::new();
    for (name, pointers) in pointers_by_name {
        let value = pointers.scalars(body).into_iter().next().ok_or_else(|| {
            ProviderError::unreadable(format!("the provider's response has no {name}"))
        })?;
        kept.insert(name.clone(), value.clone());
    }
    Ok(kept)
}

/// The values kept for a job, by the names that templates use.
pub(super) fn kept_values(handle: &JobHandle) -> TemplateValues<'_> {
    let kept = handle.0.get("kept").and_then(Value::as_object);
    let all = kept.into_iter().flatten();
    all.map(|(name, value)| (name.as_str(), TemplateValue::Plain(value.clone())))
        .collect()
}

/// A result whose bytes are the answer to a call.
pub(super) fn output_from_call(mut call: Call, kind: OutputKind) -> JobOutput {
    call.limit_bytes = MAX_RESULT_BYTES;
    JobOutput {
        kind,
        source: OutputSource::Call(Box::new(call)),
    }
}

impl ResultSection {
    /// The URLs in an answer.
    pub(super) fn addresses_in(&self, body: &Value) -> Vec<OutputSource> {
        let pointers = self.address.as_ref();
        let texts = pointers
            .map(|pointers| pointers.texts(body))
            .unwrap_or_default();
        // A place with `*` may contain other strings too, such as ids.
        let addresses = texts.into_iter().filter(|text| is_address(text));
        addresses.map(|address| self.source(address)).collect()
    }

    fn source(&self, address: String) -> OutputSource {
        let is_relative = address.starts_with('/');
        // A path has no host, so it is always a call to the provider's own host.
        if !self.with_credential && !is_relative {
            return OutputSource::Address(address);
        }
        let target = if is_relative {
            CallTarget::Root(address)
        } else {
            CallTarget::Address(address)
        };
        let mut call = Call::get("content", "").with_target(target);
        call.with_credential = self.with_credential;
        call.limit_bytes = MAX_RESULT_BYTES;
        OutputSource::Call(Box::new(call))
    }
}

fn is_address(text: &str) -> bool {
    ["https://", "http://", "/"]
        .iter()
        .any(|prefix| text.starts_with(prefix))
}

impl From<HttpMethod> for Method {
    fn from(method: HttpMethod) -> Self {
        match method {
            HttpMethod::Get => Self::GET,
            HttpMethod::Post => Self::POST,
            HttpMethod::Put => Self::PUT,
            HttpMethod::Patch => Self::PATCH,
            HttpMethod::Delete => Self::DELETE,
        }
    }
}
