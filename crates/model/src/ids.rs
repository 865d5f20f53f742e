//! Identifiers, and their public forms.
//!
//! Everything stored has a UUID version 7, so that ids sort by creation. Each kind has its own
//! type, so a clip's id cannot be used as a task's.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use uuid::Uuid;

use crate::clock::Timestamp;

/// Not an identifier of the expected kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an identifier")]
pub struct NotAnId;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Later ids sort after earlier ones.
            #[expect(clippy::new_without_default, reason = "every id is different")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }

            /// The id without dashes, for names like `video_…`.
            pub fn simple(self) -> String {
                self.0.simple().to_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                Uuid::try_parse(text).map(Self).map_err(|_| NotAnId)
            }
        }
    };
}

id!(AccountId);
impl AccountId {
    /// Stands for all callers without an account where accounts take turns. No account has this id.
    pub const fn nobody() -> Self {
        Self(Uuid::nil())
    }

    /// Stands for the callers without an account at this IP address where such callers take turns
    /// among each other. A whole /64 of IPv6 is one address: that is the usual size of a
    /// subscriber's network.
    pub fn of_address(address: IpAddr) -> Self {
        Self(Uuid::from_u128(match address {
            IpAddr::V6(ip) => ip.to_bits() >> 64 << 64,
            // As IPv6 writes an IPv4 address, which is in no subscriber's network.
            IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        }))
    }
}

id!(
    /// Not the secret itself.
    KeyId
);
id!(TaskId);
id!(ClipId);
id!(PersonaId);
id!(AssetId);
id!(
    /// A submission to a provider.
    SubmissionId
);
id!(
    /// A ledger entry.
    EntryId
);
id!(
    /// An intent: what a caller wants made once.
    IntentId
);

id!(
    /// A URL that receives events.
    EndpointId
);
id!(
    /// A webhook event.
    EventId
);
id!(
    /// A delivery of an event to one receiver.
    DeliveryId
);

id!(
    /// An entry of the audit log.
    AuditId
);
id!(
    /// The limits of an end user.
    UserLimitsId
);
id!(
    /// An alert about a budget.
    AlertId
);

id!(
    /// An entry of the log of requests.
    RequestEntryId
);

impl RequestEntryId {
    /// A new id for an entry of this time. Entries are listed by their ids, so these follow the
    /// gateway's clock.
    pub fn at(time: Timestamp) -> Self {
        let micros = u64::try_from(time.micros()).unwrap_or(0);
        let nanos = u32::try_from(micros % 1_000_000).unwrap_or(0) * 1000;
        // The microseconds after the millisecond: requests that follow each other at once are
        // listed in their order, too.
        let rest = u128::from(micros % 1000);
        let time = uuid::Timestamp::from_unix_time(micros / 1_000_000, nanos, rest, 12);
        Self(Uuid::new_v7(time))
    }
}

impl AssetId {
    /// Sorts before all ids that are created at this time or later, and after earlier ones.
    pub fn first_of(instant: Timestamp) -> Self {
        // A UUID of version 7 begins with 48 bits of Unix time in milliseconds (RFC 9562).
        let millis = u128::try_from(instant.micros() / 1000).unwrap_or(0);
        Self(Uuid::from_u128(millis << 80))
    }
}

impl EventId {
    /// The form in `webhook-id`, which receivers see.
    pub fn message(self) -> String {
        format!("msg_{}", self.simple())
    }
}

impl TaskId {
    /// The id of the chat completion that waits for this task.
    pub fn chat_completion(self) -> String {
        format!("chatcmpl-{self}")
    }

    /// The id of this task's video in the `OpenAI` Videos API.
    pub fn video(self) -> String {
        format!("video_{}", self.simple())
    }

    /// Parses the form of [`TaskId::video`].
    pub fn from_video(text: &str) -> Result<Self, NotAnId> {
        let digits = text.strip_prefix("video_").ok_or(NotAnId)?;
        // The parser would also accept dashes, braces and a URN, but a video's id has one form.
        if digits.len() != 32 {
            return Err(NotAnId);
        }
        digits.parse()
    }
}

/// The id of an HTTP request: in its response, in its log lines and in the task it created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(String);

impl RequestId {
    pub fn generate() -> Self {
        Self(format!("req_{}", Uuid::now_v7().simple()))
    }

    /// A caller's own id, if it is 1–128 characters of `[A-Za-z0-9._-]`.
    pub fn from_caller(text: &str) -> Option<Self> {
        let fits = (1..=128).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        fits.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn video_ids_round_trip_and_refuse_other_forms() {
        let task = TaskId::new();
        assert_eq!(TaskId::from_video(&task.video()), Ok(task));
        assert_eq!(TaskId::from_video(&format!("video_{task}")), Err(NotAnId));
        assert_eq!(TaskId::from_video(&task.simple()), Err(NotAnId));
    }

    #[test]
    fn an_address_is_one_caller_and_a_network_of_ipv6_too() {
        let id = |address: &str| AccountId::of_address(address.parse().unwrap());
        assert_ne!(id("192.0.2.1"), id("192.0.2.2"));
        assert_eq!(id("2001:db8:0:1::1"), id("2001:db8:0:1:ffff::2"));
        assert_ne!(id("2001:db8:0:1::1"), id("2001:db8:0:2::1"));
        assert_ne!(id("::ffff:192.0.2.1"), id("192.0.2.1"));
    }

    #[test]
    fn a_callers_request_id_is_kept_only_when_well_formed() {
        assert!(RequestId::from_caller("abc-1._Z").is_some());
        for bad in ["", "a b", "a\nb", "é", &"x".repeat(129)] {
            assert!(RequestId::from_caller(bad).is_none(), "{bad:?}");
        }
    }
}
