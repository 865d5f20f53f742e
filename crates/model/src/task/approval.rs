//! The approval of a dear order: its state, and until when it can be given.

use crate::clock::Timestamp;

/// Whether a task that needs approval has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::EnumString, strum::IntoStaticStr)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub enum ApprovalState {
    /// Nobody has decided. Nothing is sent.
    Pending,
    Approved,
    /// The task ended because somebody rejected it.
    Rejected,
    /// The task ended because nobody decided in time.
    Expired,
    /// The task ended before anybody decided: its owner cancelled it, or its key ended.
    Cancelled,
}

impl ApprovalState {
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// The approval that a task needs, or needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskApproval {
    pub state: ApprovalState,
    /// When it expires if nobody decides.
    pub expires_at: Timestamp,
    /// When it was decided, expired or was cancelled.
    pub decided_at: Option<Timestamp>,
}

impl TaskApproval {
    /// An approval that nobody has decided about.
    pub const fn pending_until(expires_at: Timestamp) -> Self {
        Self {
            state: ApprovalState::Pending,
            expires_at,
            decided_at: None,
        }
    }
}
