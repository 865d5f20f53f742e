//! Faults of a simulated provider, and requests for them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The role of a request, as the simulated provider declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestRole {
    /// It submits a paid order.
    Submit,
    /// It polls a job.
    Poll,
    /// It lists jobs.
    Find,
    /// It fetches a finished file.
    Download,
    /// It uploads a file.
    Upload,
    /// It cancels a job.
    Cancel,
    /// Any other call.
    Other,
}

/// A fault that occurs on request. In JSON, where times are milliseconds, for example
/// `{"latency": 500}`, `"drop_after"` or `{"status": {"status": 429, "retry_after": 2}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// The answer takes this much longer.
    Latency(#[serde(with = "milliseconds")] Duration),
    /// Nothing is done; the answer has this status, and the provider's own
    /// error body unless `bare`.
    Status {
        /// The status.
        status: u16,
        /// `Retry-After`, in seconds.
        #[serde(default)]
        retry_after: Option<u32>,
        /// Whether the body is empty.
        #[serde(default)]
        bare: bool,
    },
    /// Nothing is done; this is the answer, as from a proxy in front of the provider.
    Says {
        /// The status.
        status: u16,
        /// `Retry-After`, in seconds.
        #[serde(default)]
        retry_after: Option<u32>,
        /// The body, as it is.
        body: String,
    },
    /// Everything is done, but the answer has this status and no body.
    StatusAfter(u16),
    /// Everything is done, and the answer is the provider's own, but with this status.
    UnderStatus(u16),
    /// The request is read and the connection closed; nothing is done.
    DropBefore,
    /// Everything is done, and the connection closed without an answer.
    DropAfter,
    /// The connection is reset in the middle of the answer's body.
    DropInBody,
    /// The connection is closed in the middle of the answer's body, without a reset: only the
    /// announced length shows that something is missing.
    Truncated,
    /// A submission is answered with the answer to the one before it at the same URL of the
    /// same provider, so that two submissions share one job, and nothing is done for the second.
    /// The first submission is not affected.
    Duplicate,
    /// A poll returns an undocumented status word.
    UnknownWord,
    /// A result's URL has expired.
    Expired,
    /// An answer comes in eight pieces, this long before each.
    Slow(#[serde(with = "milliseconds")] Duration),
    /// A result is an HTML page that claims to be a video.
    Lying,
    /// A result is this film instead of the simulator's own, which bears no mark.
    Another(Vec<u8>),
}

impl Fault {
    /// Whether it has an effect on a request of this role. If not, it waits for the next request on
    /// which it has one.
    pub const fn concerns(&self, role: RequestRole) -> bool {
        // A fault that cannot appear in this answer would be used up without effect, and the test
        // that ordered it would pass without having tested anything.
        match self {
            Self::Duplicate => matches!(role, RequestRole::Submit),
            Self::UnknownWord => matches!(role, RequestRole::Poll),
            Self::Expired | Self::Lying | Self::Another(_) => matches!(role, RequestRole::Download),
            _ => true,
        }
    }
}

/// A fault, and the requests that it affects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultOrder {
    /// The fault that occurs.
    pub fault: Fault,
    /// The provider, by its protocol's name; any if omitted.
    #[serde(default)]
    pub provider: Option<String>,
    /// The role of the request; any if omitted.
    #[serde(default)]
    pub role: Option<RequestRole>,
    /// How many such requests pass first.
    #[serde(default)]
    pub after: u32,
    /// How many requests it affects.
    #[serde(default = "once")]
    pub times: u32,
}

const fn once() -> u32 {
    1
}

impl FaultOrder {
    /// Affects the next request of any kind.
    pub const fn new(fault: Fault) -> Self {
        Self {
            fault,
            provider: None,
            role: None,
            after: 0,
            times: 1,
        }
    }

    pub(crate) fn concerns(&self, provider: &str, role: RequestRole) -> bool {
        self.provider.as_deref().is_none_or(|name| name == provider)
            && self.role.is_none_or(|expected| expected == role)
            && self.fault.concerns(role)
    }
}

/// Times in JSON.
pub(crate) mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        time: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}
