//! What an answer means by a recipe: errors, where a job stands, results.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use serde_json::{Map, Value, json};

use super::calls::Verb;
use super::placeholder::{Datum, Values};
use super::pointer::Places;
use super::schema::{ClassName, Pacing, Recipe, ResultSection, State};
use crate::answer::{Answer, percent_at};
use crate::error::{Basis, Class, Described, ProviderError};
use crate::port::jobs::status::{Status, meaning};
use crate::port::{Call, Handle, Output, RESULT, Source, Step, Target, What};
use crate::shape;

/// Which answer is read, for what only one of them can prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The submission's.
    Submission,
    /// A later one.
    Later,
}

/// Where a job stands.
pub(super) enum Standing {
    /// It is not done.
    Running(Step),
    /// It is, and this is the answer that says so.
    Done(Value),
}

impl Recipe {
    /// The body of an answer that is no error, neither by its status nor by its
    /// envelope.
    pub(super) fn accepted(&self, answer: &Answer, stage: Stage) -> Result<Value, ProviderError> {
        if !answer.status.is_success() {
            return Err(self.failure(answer));
        }
        let body = self.opened(answer.json()?);
        let is_error = self.errors.when.as_ref();
        if is_error.is_some_and(|when| when.holds(&body)) {
            return Err(self.turned_down(answer, &body, stage));
        }
        match &self.ok {
            Some(ok) if !ok.is_told(&body) => Err(ProviderError::unreadable(
                "the provider's answer does not say whether all is well",
            )),
            Some(ok) if !ok.holds(&body) => Err(self.turned_down(answer, &body, stage)),
            _ => Ok(body),
        }
    }

    /// The error of an envelope.
    fn turned_down(&self, answer: &Answer, body: &Value, stage: Stage) -> ProviderError {
        let said = self.describe(body);
        // That of a submission says that it was turned down; one of a poll says
        // nothing about the job.
        let class = self.class_of(&said).unwrap_or(match stage {
            Stage::Submission => Class::Rejected,
            Stage::Later => Class::Unclear,
        });
        let error = ProviderError {
            retry_after: answer.retry_after(),
            ..error_of(class, said, "the provider says no")
        };
        match stage {
            Stage::Submission => error,
            Stage::Later => error.on(Basis::Answer),
        }
    }

    /// Where a job stands by the answer to a poll.
    pub(super) fn standing(&self, answer: &Answer) -> Result<Standing, ProviderError> {
        let state = &self.state;
        let body = self.opened(answer.json().unwrap_or(Value::Null));
        let word = state.word.as_ref().and_then(|at| at.get_ref().text(&body));
        let meaning = word.as_deref().and_then(|word| state.meaning(word));
        // Some providers tell of a failed job with a status that is not 2xx, so
        // these words go before the status.
        if let Some(Status::Ended(class)) = meaning {
            return Err(self.ended(&body, class));
        }
        if matches!(answer.status.as_u16(), 404 | 410) {
            return Err(self.failure(answer).of_class(Class::Missing));
        }
        let body = self.accepted(answer, Stage::Later)?;
        for (condition, class) in [
            (&state.refused_when, Class::Refused),
            (&state.failed_when, Class::Failed),
        ] {
            if condition.as_ref().is_some_and(|one| one.holds(&body)) {
                return Err(self.ended(&body, class));
            }
        }
        if meaning.is_some_and(Status::goes_on) {
            return Ok(Standing::Running(self.running(answer, &body)));
        }
        let is_done = state.done_when.as_ref().is_some_and(|one| one.holds(&body));
        if is_done || meaning == Some(Status::Done) {
            return Ok(Standing::Done(body));
        }
        match word {
            Some(word) => Ok(Standing::Running(Step::unknown(word))),
            // Without words, what is not done is running.
            None if state.done_when.is_some() => Ok(Standing::Running(self.running(answer, &body))),
            None => Err(ProviderError::unreadable(
                "the provider's answer has no status",
            )),
        }
    }

    fn running(&self, answer: &Answer, body: &Value) -> Step {
        let state = &self.state;
        let told = state.progress.as_ref().and_then(|at| at.first(body));
        let progress = told.and_then(|told| {
            let full = state.progress_full.unwrap_or(100.0);
            percent_at(&json!([told]), "/0", full)
        });
        Step::Running {
            progress,
            poll_after: self.pace.after(answer),
            unknown_word: None,
        }
    }

    /// The error of a job that ended. Its code may say that it was refused; a
    /// code that speaks of a moment does not bring it back.
    fn ended(&self, body: &Value, class: Class) -> ProviderError {
        let said = self.describe(body);
        let class = match self.class_of(&said) {
            Some(Class::Rejected) if class == Class::Failed => Class::Unfit,
            Some(by_code) if class == Class::Failed && by_code.ends_job() => by_code,
            _ => class,
        };
        let otherwise = match class {
            Class::Lost => "the provider no longer works on it",
            Class::Refused => "the provider's rules forbid this content",
            _ => "the provider failed at it",
        };
        error_of(class, said, otherwise)
    }

    fn failure(&self, answer: &Answer) -> ProviderError {
        let error = answer.failure(|body| self.describe(body));
        // Under other statuses words say nothing of the order.
        let forbidden = answer.status == 403;
        let of_order = forbidden || error.class == Class::Rejected;
        let said = Described {
            code: error.code.clone(),
            message: of_order.then(|| error.message.clone()),
        };
        let by_code = self.class_of(&said);
        let by_code = by_code.filter(|class| !forbidden || *class != Class::Rejected);
        // A status of 5xx does not prove that nothing was taken, whatever is
        // said beside it: the order must not go elsewhere.
        let doubtful = error.class == Class::Unclear;
        let class = by_code
            .filter(|class| !(doubtful && class.allows_fail_over()))
            .unwrap_or(error.class);
        error.of_class(class)
    }

    /// An answer with the JSON in its texts in their place.
    pub(super) fn opened(&self, mut body: Value) -> Value {
        for places in &self.json_texts {
            places.read_texts(&mut body);
        }
        body
    }

    fn describe(&self, body: &Value) -> Described {
        Described {
            code: self.errors.code.text(body),
            message: self.errors.message.text(body),
        }
    }

    /// The class that the recipe gives to a code, by the longest line that fits;
    /// else to words. Words tell a refusal where a code says only that the order
    /// is wrong.
    fn class_of(&self, said: &Described) -> Option<Class> {
        let by_code = said.code.as_ref().and_then(|code| {
            let lines = self.errors.codes.iter();
            let fitting = lines.filter(|(line, _)| shape::fits(line, code));
            fitting.max_by_key(|(line, _)| line.len())
        });
        let message = said.message.as_deref().unwrap_or_default().to_lowercase();
        let mut words = self.errors.words.iter();
        let by_words = words.find(|(words, _)| message.contains(words.as_str()));
        let class = |found: (&String, &ClassName)| Class::from(*found.1);
        match (by_code.map(class), by_words.map(class)) {
            (None | Some(Class::Rejected), Some(Class::Refused)) => Some(Class::Refused),
            (by_code, by_words) => by_code.or(by_words),
        }
    }
}

impl State {
    /// What a status word means.
    fn meaning(&self, word: &str) -> Option<Status> {
        let lists = [
            (&self.failed, Status::FAILED),
            (&self.refused, Status::Ended(Class::Refused)),
            (&self.lost, Status::LOST),
            (&self.queued, Status::Queued),
            (&self.running, Status::Running),
            (&self.done, Status::Done),
        ];
        let words = lists.iter().flat_map(|(words, status)| {
            words.iter().map(|word| (word.get_ref().as_str(), *status))
        });
        meaning(words, word)
    }
}

fn error_of(class: Class, said: Described, otherwise: &str) -> ProviderError {
    ProviderError {
        code: said.code,
        ..ProviderError::new(class, said.message.unwrap_or_else(|| otherwise.into()))
    }
}

impl Pacing {
    /// When the provider wants to be asked next.
    pub(super) fn after(&self, answer: &Answer) -> Option<Duration> {
        let text = answer.header(self.after_ms_header.as_ref()?)?;
        text.trim().parse().ok().map(Duration::from_millis)
    }
}

/// What is kept of an answer; each of it must be there.
pub(super) fn keep(
    wanted: &BTreeMap<String, Places>,
    body: &Value,
) -> Result<Map<String, Value>, ProviderError> {
    let mut kept = Map::new();
    for (name, places) in wanted {
        let value = places.scalars(body).into_iter().next().ok_or_else(|| {
            ProviderError::unreadable(format!("the provider's answer has no {name}"))
        })?;
        kept.insert(name.clone(), value.clone());
    }
    Ok(kept)
}

/// What was kept of a job, by the names that templates use.
pub(super) fn kept(handle: &Handle) -> Values<'_> {
    let kept = handle.0.get("kept").and_then(Value::as_object);
    let all = kept.into_iter().flatten();
    all.map(|(name, value)| (name.as_str(), Datum::Plain(value.clone())))
        .collect()
}

/// A result whose bytes answer a call.
pub(super) fn result_by(mut call: Call, what: What) -> Output {
    call.limit_bytes = RESULT;
    Output {
        what,
        source: Source::Call(Box::new(call)),
    }
}

impl ResultSection {
    /// The addresses that an answer tells of.
    pub(super) fn addresses_in(&self, body: &Value) -> Vec<Source> {
        let places = self.address.as_ref();
        let texts = places.map(|places| places.texts(body)).unwrap_or_default();
        let addresses = texts.into_iter().filter(|text| is_address(text));
        addresses.map(|address| self.source(address)).collect()
    }

    fn source(&self, address: String) -> Source {
        let is_relative = address.starts_with('/');
        if !self.with_credential && !is_relative {
            return Source::Address(address);
        }
        let target = if is_relative {
            Target::Root(address)
        } else {
            Target::Address(address)
        };
        let mut call = Call::get("content", "").to(target);
        call.with_credential = self.with_credential;
        call.limit_bytes = RESULT;
        Source::Call(Box::new(call))
    }
}

fn is_address(text: &str) -> bool {
    ["https://", "http://", "/"]
        .iter()
        .any(|head| text.starts_with(head))
}

impl From<Verb> for Method {
    fn from(verb: Verb) -> Self {
        match verb {
            Verb::Get => Self::GET,
            Verb::Post => Self::POST,
            Verb::Put => Self::PUT,
            Verb::Patch => Self::PATCH,
            Verb::Delete => Self::DELETE,
        }
    }
}
