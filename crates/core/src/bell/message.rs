//! Messages from one process to the others.

use std::fmt;
use std::str::FromStr;

use mediagate_model::ids::TaskId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum BellMessage {
    /// The task changed.
    Task(TaskId),
    /// The task was cancelled.
    Cancelled(TaskId),
    /// There is work, and the sender has no free worker for it.
    Work,
    /// Like `Work`, for hosted providers.
    Upstream,
    /// Like `Work`, for webhooks.
    Deliveries,
}

impl fmt::Display for BellMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(task) => write!(f, "task.{task}"),
            Self::Cancelled(task) => write!(f, "off.{task}"),
            Self::Work => f.write_str("work"),
            Self::Upstream => f.write_str("upstream"),
            Self::Deliveries => f.write_str("deliveries"),
        }
    }
}

/// The text is not a ring that this version knows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnknownMessage;

impl FromStr for BellMessage {
    type Err = UnknownMessage;

    fn from_str(text: &str) -> Result<Self, UnknownMessage> {
        let task_id = |id: &str| id.parse().map_err(|_| UnknownMessage);
        match text.split_once('.') {
            Some(("task", task)) => task_id(task).map(Self::Task),
            Some(("off", task)) => task_id(task).map(Self::Cancelled),
            _ => match text {
                "work" => Ok(Self::Work),
                "upstream" => Ok(Self::Upstream),
                "deliveries" => Ok(Self::Deliveries),
                _ => Err(UnknownMessage),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rings_are_read_as_they_are_written() {
        let task = TaskId::new();
        for ring in [
            BellMessage::Task(task),
            BellMessage::Cancelled(task),
            BellMessage::Work,
            BellMessage::Upstream,
            BellMessage::Deliveries,
        ] {
            assert_eq!(ring.to_string().parse(), Ok(ring));
        }
        for text in ["", "task.", "task.1", "work.", "off", "something"] {
            assert_eq!(text.parse::<BellMessage>(), Err(UnknownMessage), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_parsing_panic(text in ".*") {
            let _ = text.parse::<BellMessage>();
            let _ = format!("task.{text}").parse::<BellMessage>();
        }
    }
}
