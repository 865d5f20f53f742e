//! Network faults of a proxy: the state of the network, and the bytes at
//! which connections are cut.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fault::milliseconds;

/// The longest pattern of a cut.
pub(super) const LONGEST_PATTERN: usize = 256;

/// A direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProxyDirection {
    /// From the client to the server.
    #[default]
    Up,
    /// From the server to the client.
    Down,
}

/// One direction of every connection. In JSON: `{"delay": 5}`, milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkState {
    /// Each message, that is the data of one read, arrives this much later.
    #[serde(with = "milliseconds")]
    pub delay: Duration,
    /// Maximum throughput.
    pub bytes_per_second: Option<NonZeroU32>,
    /// Nothing is passed on, not even a close, until this is reset: as in a network that lost its
    /// route. Data sent meanwhile arrives afterwards, as with TCP.
    pub held: bool,
}

impl LinkState {
    /// A link that only adds delay.
    pub const fn with_delay(delay: Duration) -> Self {
        Self {
            delay,
            bytes_per_second: None,
            held: false,
        }
    }

    /// A link that holds everything back.
    pub const fn held() -> Self {
        Self {
            delay: Duration::ZERO,
            bytes_per_second: None,
            held: true,
        }
    }
}

/// Both directions. If only one of them is held, one side can receive but not send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkState {
    /// From client to server.
    pub up: LinkState,
    /// From server to client.
    pub down: LinkState,
    /// New connections are reset.
    pub refuses: bool,
}

impl NetworkState {
    /// Sets both directions to the same state.
    pub const fn both(link: LinkState) -> Self {
        Self {
            up: link,
            down: link,
            refuses: false,
        }
    }

    pub(super) const fn link(&self, side: ProxyDirection) -> LinkState {
        match side {
            ProxyDirection::Up => self.up,
            ProxyDirection::Down => self.down,
        }
    }
}

/// A fault of a connection when these bytes pass. In JSON: `{"bytes": "COMMIT", "passes": true}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionCut {
    /// The pattern, which may span messages; if empty, any message matches.
    pub bytes: String,
    /// The direction.
    #[serde(default)]
    pub side: ProxyDirection,
    /// How many matching messages pass first.
    #[serde(default)]
    pub after: u32,
    /// How many messages it affects.
    #[serde(default = "once")]
    pub times: u32,
    /// Whether the message itself still arrives. The other direction is blocked from then on.
    #[serde(default)]
    pub passes: bool,
    /// What happens to the connection.
    #[serde(default)]
    pub then: CutAction,
}

const fn once() -> u32 {
    1
}

impl ConnectionCut {
    /// Resets the next connection on which the client sends this.
    pub fn new(bytes: impl Into<String>) -> Self {
        Self {
            bytes: bytes.into(),
            side: ProxyDirection::Up,
            after: 0,
            times: 1,
            passes: false,
            then: CutAction::Reset,
        }
    }

    /// The message still arrives; its answer does not.
    #[must_use]
    pub fn passing(self) -> Self {
        Self {
            passes: true,
            ..self
        }
    }

    /// The connection is held rather than reset.
    #[must_use]
    pub fn holding(self) -> Self {
        Self {
            then: CutAction::Hold,
            ..self
        }
    }
}

/// What a cut does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutAction {
    /// The client's connection is reset, the server's closed.
    #[default]
    Reset,
    /// The connection is held in both directions until it is released.
    Hold,
}

/// What a proxy has carried so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyTraffic {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that are open.
    pub open: u64,
    /// Messages from clients that arrived.
    pub messages_up: u64,
    /// Messages from servers that arrived.
    pub messages_down: u64,
    /// The number of cuts that took effect.
    pub struck: u64,
}
