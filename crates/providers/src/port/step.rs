//! The next steps after an answer, and outputs of jobs.

use std::time::Duration;

use bytes::Bytes;
use orders::job::{ClipFacts, JobHandle, OutputKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call::Call;
use crate::cost::ProviderCost;
use crate::error::{ErrorBasis, ErrorClass, ProviderError};
use crate::order::{SongSpec, StemTarget};

/// The step that follows a response.
#[derive(Debug, Clone)]
pub enum AdapterStep {
    /// Another call, after its [`Call::delay`]. The same call again (stage,
    /// target and carried data) without a delay is sent after
    /// [`PollPace::floor`](super::PollPace::floor).
    Next(Box<Call>),
    /// The provider accepted the order.
    Submitted {
        /// Identifies the job from now on.
        handle: JobHandle,
        /// When the provider asks to be polled first.
        poll_after: Option<Duration>,
    },
    /// The job is not done. As the step after a free call before or after the submission, it means
    /// the same call again after a while.
    Running {
        /// Its progress, 0–100, if the provider reports it.
        progress: Option<u8>,
        /// When the provider asks to be polled next.
        poll_after: Option<Duration>,
        /// A status word that this adapter does not know.
        unknown_status: Option<String>,
    },
    /// The job is done.
    Done {
        /// Its outputs, at least one.
        outputs: Vec<JobOutput>,
    },
}

impl AdapterStep {
    /// Another call.
    pub fn next(call: Call) -> Self {
        Self::Next(Box::new(call))
    }

    /// The provider accepted the order.
    pub const fn submitted(handle: Value) -> Self {
        Self::Submitted {
            handle: JobHandle(handle),
            poll_after: None,
        }
    }

    /// The job is not done.
    pub const fn running(progress: Option<u8>) -> Self {
        Self::Running {
            progress,
            poll_after: None,
            unknown_status: None,
        }
    }

    /// The job is not known to be done: its status word is undocumented.
    pub fn unknown(word: impl Into<String>) -> Self {
        Self::Running {
            progress: None,
            poll_after: None,
            unknown_status: Some(word.into()),
        }
    }

    /// Done, with these outputs. No output is a failure, if that persists: the result may appear
    /// later than the status word.
    pub fn done(outputs: Vec<JobOutput>) -> Result<Self, ProviderError> {
        if outputs.is_empty() {
            let message = "the provider reports success but returned no result";
            return Err(
                ProviderError::new(ErrorClass::Failed, message).with_basis(ErrorBasis::Answer)
            );
        }
        Ok(Self::Done { outputs })
    }
}

/// What became of the money of a cancelled job, at a provider that records it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum JobSettlement {
    /// It is not decided: the job may still be completed.
    Open,
    /// The job costs nothing.
    Unpaid,
    /// The job was completed nevertheless, and costs this.
    Paid(ProviderCost),
}

/// An output of a job. A reference to a result can be serialised; the result itself cannot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobOutput {
    /// What it is.
    #[serde(rename = "what")]
    pub kind: OutputKind,
    /// Where to get it.
    pub source: OutputSource,
}

impl JobOutput {
    /// The output at a URL.
    pub fn at(kind: OutputKind, url: impl Into<String>) -> Self {
        let source = OutputSource::Address(url.into());
        Self { kind, source }
    }

    /// The video at a URL.
    pub fn video_at(url: impl Into<String>) -> Self {
        Self::at(OutputKind::Video, url)
    }

    /// A stem at a URL.
    pub fn stem_at(target: StemTarget, url: impl Into<String>) -> Self {
        Self::at(OutputKind::Stem(target), url)
    }

    /// A song without a record at its provider.
    pub fn song(song: &SongSpec, model: &str, source: OutputSource) -> Self {
        let kind = OutputKind::Clip(Box::new(ClipFacts::from_song(song, model)));
        Self { kind, source }
    }
}

/// Where to get a result.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputSource {
    /// At a URL that needs no credential. When it has expired, polling again returns a new one.
    Address(String),
    /// The content is fetched by this call.
    Call(Box<Call>),
    /// The content was part of the answer.
    #[serde(skip)]
    Bytes(Bytes),
    /// There is no content, only facts.
    Nothing,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_to_results_can_be_stored() {
        let call = Call::get("content", "/videos/1/content").with_query("a", "b");
        let outputs = vec![
            JobOutput::video_at("https://x.test/1.mp4"),
            JobOutput {
                kind: OutputKind::Clip(Box::new(ClipFacts {
                    id: "c-1".into(),
                    ..ClipFacts::default()
                })),
                source: OutputSource::Call(Box::new(call)),
            },
        ];
        let stored = serde_json::to_value(&outputs).unwrap();
        let read: Vec<JobOutput> = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(json!(read), stored);
        assert_eq!(format!("{read:?}"), format!("{outputs:?}"));
    }

    #[test]
    fn inline_results_cannot_be_stored() {
        let inline = JobOutput {
            kind: OutputKind::Video,
            source: OutputSource::Bytes(Bytes::from_static(b"film")),
        };
        assert!(serde_json::to_value(vec![inline]).is_err());
    }
}
