//! Faults of a simulated provider, and the orders for them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a request is for, as its model declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestRole {
    /// It orders something that is paid for.
    Submit,
    /// It asks how a job stands.
    Poll,
    /// It lists jobs.
    Find,
    /// It fetches a finished file.
    Download,
    /// It hands a file over.
    Upload,
    /// It calls a job off.
    Cancel,
    /// Anything else.
    Other,
}

/// Something that goes wrong on order. In JSON times are milliseconds:
/// `{"latency": 500}`, `"drop_after"`, `{"status": {"status": 429, "retry_after": 2}}`.
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
    /// Nothing is done; the answer is this, as of anything that stands before the
    /// provider.
    Says {
        /// The status.
        status: u16,
        /// `Retry-After`, in seconds.
        #[serde(default)]
        retry_after: Option<u32>,
        /// The body, as it is.
        body: String,
    },
    /// Everything is done; the answer is this status all the same.
    StatusAfter(u16),
    /// Everything is done; the answer is the provider's own under this status.
    UnderStatus(u16),
    /// The request is read and the connection closed; nothing is done.
    DropBefore,
    /// Everything is done, and the connection closed without an answer.
    DropAfter,
    /// The connection is reset in the middle of the answer's body.
    DropInBody,
    /// The connection is closed in the middle of the answer's body, politely:
    /// only the length that was announced tells that something is missing.
    Truncated,
    /// A submission is answered with the answer to the one before it at the
    /// same address of the same provider, so that two submissions have one job between them, and
    /// nothing is done for the second. Before there was one, nothing goes wrong.
    Duplicate,
    /// A poll says a status word that no document has.
    UnknownWord,
    /// A result's address is past its time.
    Expired,
    /// An answer comes in eight pieces, this long before each.
    Slow(#[serde(with = "milliseconds")] Duration),
    /// A result is an HTML page that calls itself a video.
    Lying,
    /// A result is this film and not the simulator's own, which nothing is marked in.
    Another(Vec<u8>),
}

impl Fault {
    /// Whether it means anything for a request of this kind. One that does not
    /// waits for the next that it does mean something for.
    pub const fn concerns(&self, role: RequestRole) -> bool {
        // A fault that cannot show in this answer would be used up without effect, and the test
        // that ordered it would pass without having tested anything.
        match self {
            Self::Duplicate => matches!(role, RequestRole::Submit),
            Self::UnknownWord => matches!(role, RequestRole::Poll),
            Self::Expired | Self::Lying | Self::Another(_) => matches!(role, RequestRole::Download),
            _ => true,
        }
    }
}

/// A fault, and the requests that it strikes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultOrder {
    /// What goes wrong.
    pub fault: Fault,
    /// The provider, by its protocol's name; any when left out.
    #[serde(default)]
    pub provider: Option<String>,
    /// What the request is for; anything when left out.
    #[serde(default)]
    pub role: Option<RequestRole>,
    /// How many such requests pass unharmed before.
    #[serde(default)]
    pub after: u32,
    /// How many it strikes.
    #[serde(default = "once")]
    pub times: u32,
}

const fn once() -> u32 {
    1
}

impl FaultOrder {
    /// Strikes the next request, whatever it is.
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
            && self.role.is_none_or(|wanted| wanted == role)
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
