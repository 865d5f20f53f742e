//! Jobs: how one goes, and where it stands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fault::milliseconds;

/// How a job goes. In JSON times are milliseconds, and what is left out is as
/// by default: `{"running": 2000, "end": "failure"}`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobPlan {
    /// Time in the queue.
    #[serde(with = "milliseconds")]
    pub queued: Duration,
    /// Time at work.
    #[serde(with = "milliseconds")]
    pub running: Duration,
    /// How many polls find it unfinished, even if the time is over: so a test sees
    /// it at work however slow the machine is.
    pub polls: u32,
    /// How it ends.
    pub end: PlannedEnd,
    /// Whether a result of several pieces comes without its drums (`fal` alone).
    pub incomplete: bool,
}

impl Default for JobPlan {
    fn default() -> Self {
        Self {
            queued: Duration::from_millis(30),
            running: Duration::from_millis(60),
            polls: 0,
            end: PlannedEnd::Success,
            incomplete: false,
        }
    }
}

/// How a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedEnd {
    /// With what was ordered.
    Success,
    /// It could not be made.
    Failure,
    /// The order is at fault: ordered again it would end so again.
    Unfit,
    /// The content is against the rules.
    Refusal,
    /// It says that it is done and delivers nothing.
    Empty,
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum JobPhase {
    /// It waits.
    Queued,
    /// It is at work; the share that is done, 0–1.
    Running(f64),
    /// It ended.
    Ended(PlannedEnd),
    /// It was called off.
    Cancelled,
}

/// A job that a provider took.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its id, unique over all providers, as the model that made it formed it.
    pub id: String,
    /// The provider, by its protocol's name.
    pub provider: &'static str,
    /// The request's parsed body (multipart fields as a JSON object); shared, as
    /// it may hold pictures and is looked at by every poll.
    pub input: Arc<Value>,
    /// What else the model wants to remember: the operation, the path, ….
    pub memo: Value,
    /// How it goes.
    pub plan: JobPlan,
    /// When it was taken.
    pub accepted_at: Instant,
    /// When it was called off.
    pub cancelled_at: Option<Instant>,
    /// How often it was asked for.
    pub polls: u32,
}

impl Job {
    /// Where it stands now.
    pub fn phase(&self) -> JobPhase {
        if self.cancelled_at.is_some() {
            return JobPhase::Cancelled;
        }
        // The phase follows from the age whenever somebody asks. No timer runs, so thousands of
        // open jobs cost nothing.
        let age = self.accepted_at.elapsed();
        match age.checked_sub(self.plan.queued) {
            None => JobPhase::Queued,
            Some(at_work) if at_work < self.plan.running => {
                JobPhase::Running(at_work.as_secs_f64() / self.plan.running.as_secs_f64())
            }
            // `polls` counts the present question already, hence `<=`.
            Some(_) if self.polls <= self.plan.polls && self.plan.polls > 0 => {
                JobPhase::Running(f64::from(self.polls) / f64::from(self.plan.polls + 1))
            }
            Some(_) => JobPhase::Ended(self.plan.end),
        }
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let phase = match self.phase() {
            JobPhase::Queued => json!("queued"),
            JobPhase::Running(share) => json!({"running": share}),
            JobPhase::Ended(end) => json!({"ended": end}),
            JobPhase::Cancelled => json!("cancelled"),
        };
        json!({
            "id": self.id, "provider": self.provider, "input": self.input, "memo": self.memo,
            "phase": phase, "polls": self.polls,
        })
    }
}
