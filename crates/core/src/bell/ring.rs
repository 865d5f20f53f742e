//! What one process tells the others.

use std::fmt;
use std::str::FromStr;

use mediagate_model::ids::TaskId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Ring {
    /// The task changed.
    Task(TaskId),
    /// The task was cancelled.
    CalledOff(TaskId),
    /// There is work, and whoever says so has nobody free for it.
    Work,
    /// The same for hosted providers.
    Upstream,
    /// The same for webhooks.
    Deliveries,
}

impl fmt::Display for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(task) => write!(f, "task.{task}"),
            Self::CalledOff(task) => write!(f, "off.{task}"),
            Self::Work => f.write_str("work"),
            Self::Upstream => f.write_str("upstream"),
            Self::Deliveries => f.write_str("deliveries"),
        }
    }
}

/// Not a ring of this version.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unknown;

impl FromStr for Ring {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        let id = |id: &str| id.parse().map_err(|_| Unknown);
        match text.split_once('.') {
            Some(("task", task)) => id(task).map(Self::Task),
            Some(("off", task)) => id(task).map(Self::CalledOff),
            _ => match text {
                "work" => Ok(Self::Work),
                "upstream" => Ok(Self::Upstream),
                "deliveries" => Ok(Self::Deliveries),
                _ => Err(Unknown),
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
            Ring::Task(task),
            Ring::CalledOff(task),
            Ring::Work,
            Ring::Upstream,
            Ring::Deliveries,
        ] {
            assert_eq!(ring.to_string().parse(), Ok(ring));
        }
        for text in ["", "task.", "task.1", "work.", "off", "something"] {
            assert_eq!(text.parse::<Ring>(), Err(Unknown), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reading(text in ".*") {
            let _ = text.parse::<Ring>();
            let _ = format!("task.{text}").parse::<Ring>();
        }
    }
}
