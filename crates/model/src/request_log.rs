//! Entries of the log of requests: what was asked, what the response was, and whose request it was.

use crate::clock::Timestamp;
use crate::ids::{AccountId, KeyId, RequestEntryId, RequestId, TaskId};

/// One logged request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestEntry {
    pub id: RequestEntryId,
    /// When the response began.
    pub at: Timestamp,
    pub request_id: RequestId,
    pub method: String,
    /// The path of the endpoint, with the names of its parameters; `None` if there is no such
    /// endpoint.
    pub route: Option<String>,
    pub status: u32,
    /// The code of the error. A newer version may have written one that this version does not know.
    pub code: Option<String>,
    pub message: Option<String>,
    /// `None` if the request had no valid key.
    pub account: Option<AccountId>,
    pub key: Option<KeyId>,
    /// The model of its task, or the one that the request names.
    pub model: Option<String>,
    pub task: Option<TaskId>,
    /// Time until the response began.
    pub took_ms: u64,
}

/// A range of HTTP statuses, both ends included: `402`, or `4xx` for 400 to 499.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusRange {
    pub lowest: u32,
    pub highest: u32,
}

impl StatusRange {
    /// Every status.
    pub const ALL: Self = Self {
        lowest: 0,
        highest: 999,
    };
}

/// The text is neither a status nor a class of statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an HTTP status such as 402, or a class of statuses such as 4xx")]
pub struct NotAStatus;

impl std::str::FromStr for StatusRange {
    type Err = NotAStatus;

    fn from_str(text: &str) -> Result<Self, NotAStatus> {
        let class = text.strip_suffix("xx").or_else(|| text.strip_suffix("XX"));
        let (digits, factor, width) = class.map_or((text, 1, 3), |class| (class, 100, 1));
        if digits.len() != width || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(NotAStatus);
        }
        let number: u32 = digits.parse().map_err(|_| NotAStatus)?;
        let lowest = number * factor;
        if !(100..600).contains(&lowest) {
            return Err(NotAStatus);
        }
        Ok(Self {
            lowest,
            highest: lowest + factor - 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_or_a_class_is_a_range() {
        let range = |text: &str| {
            text.parse::<StatusRange>()
                .map(|range| (range.lowest, range.highest))
        };
        assert_eq!(range("402"), Ok((402, 402)));
        assert_eq!(range("4xx"), Ok((400, 499)));
        assert_eq!(range("5XX"), Ok((500, 599)));
        for bad in [
            "", "40", "4020", "99", "600", "6xx", "0xx", "x", "xx", "+4xx", "-40", "4 2",
        ] {
            assert_eq!(range(bad), Err(NotAStatus), "{bad:?}");
        }
    }
}
