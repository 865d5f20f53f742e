//! Surplus of a delivery over its order, which the caller does not pay for.

use super::quantity::{DeliveredWork, ReservedQuantity, is_larger, is_longer};
use mediagate_model::task::Task;

/// In what respects a provider delivered more than was ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeliverySurplus {
    /// The ordered parts are longer than what was reserved.
    pub is_longer: bool,
    /// The frames are larger.
    pub is_larger: bool,
    /// There are more clips.
    pub has_more_clips: bool,
}

impl DeliverySurplus {
    pub fn of(task: &Task, delivered: &DeliveredWork) -> Self {
        let reserved = ReservedQuantity::of(task);
        let ordered = reserved.work();
        let longer =
            |made: Option<u64>| made.is_some_and(|made| is_longer(made, ordered.milliseconds));
        match delivered {
            DeliveredWork::Film {
                milliseconds,
                pixels,
            } => Self {
                is_longer: longer(*milliseconds),
                is_larger: pixels.is_some_and(|made| is_larger(made, ordered.pixels)),
                has_more_clips: false,
            },
            DeliveredWork::Song { clips, .. } => Self {
                is_longer: longer(clips.total_ms(reserved.parts())),
                is_larger: false,
                has_more_clips: clips.count() > reserved.parts(),
            },
            DeliveredWork::Stems(_) => Self::default(),
        }
    }

    /// Whether there is any.
    pub const fn is_some(self) -> bool {
        self.is_longer || self.is_larger || self.has_more_clips
    }
}
