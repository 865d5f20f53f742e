//! Jobs: their plans and their states.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fault::milliseconds;

/// The plan of a job. In JSON times are milliseconds, and omitted values have their defaults:
/// `{"running": 2000, "end": "failure"}`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobPlan {
    /// Time in the queue.
    #[serde(with = "milliseconds")]
    pub queued: Duration,
    /// The time for which the job runs.
    #[serde(with = "milliseconds")]
    pub running: Duration,
    /// How many polls find it unfinished, even if the time is over, so that a test sees it running
    /// even on a slow machine.
    pub polls: u32,
    /// The outcome of the job.
    pub end: PlannedEnd,
    /// Whether a result of several pieces lacks its drums (only `fal`).
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
    /// With the ordered result.
    Success,
    /// The job fails.
    Failure,
    /// The job fails because of the order's content, such as an unknown field: the same order would
    /// fail again. `providers::ErrorClass::Unfit` is the class of such an error.
    Unfit,
    /// The content is against the rules.
    Refusal,
    /// The job is reported as done but has no result.
    Empty,
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum JobPhase {
    /// The job waits.
    Queued,
    /// It is running; the finished fraction, 0–1.
    Running(f64),
    /// The job ended.
    Ended(PlannedEnd),
    /// It was cancelled.
    Cancelled,
}

/// A job that a provider accepted.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its id, unique over all providers, in the format of its provider.
    pub id: String,
    /// The provider, by its protocol's name.
    pub provider: &'static str,
    /// The request's parsed body (multipart fields as a JSON object); shared, because it may
    /// contain pictures and is read by every poll.
    pub input: Arc<Value>,
    /// Other data that the simulated provider keeps: the operation, the path, ….
    pub provider_data: Value,
    /// The planned course of the job.
    pub plan: JobPlan,
    /// When it was accepted.
    pub accepted_at: Instant,
    /// When it was cancelled.
    pub cancelled_at: Option<Instant>,
    /// How often it was polled.
    pub polls: u32,
}

impl Job {
    /// Its current state.
    pub fn phase(&self) -> JobPhase {
        if self.cancelled_at.is_some() {
            return JobPhase::Cancelled;
        }
        // The phase is computed from the age on demand. No timer runs, so thousands of open jobs
        // cost nothing.
        let age = self.accepted_at.elapsed();
        match age.checked_sub(self.plan.queued) {
            None => JobPhase::Queued,
            Some(run_time) if run_time < self.plan.running => {
                JobPhase::Running(run_time.as_secs_f64() / self.plan.running.as_secs_f64())
            }
            // `polls` already counts the present poll, hence `<=`.
            Some(_) if self.polls <= self.plan.polls && self.plan.polls > 0 => {
                JobPhase::Running(f64::from(self.polls) / f64::from(self.plan.polls + 1))
            }
            Some(_) => JobPhase::Ended(self.plan.end),
        }
    }

    /// The job as JSON.
    pub fn to_json(&self) -> Value {
        let phase = match self.phase() {
            JobPhase::Queued => json!("queued"),
            JobPhase::Running(share) => json!({"running": share}),
            JobPhase::Ended(end) => json!({"ended": end}),
            JobPhase::Cancelled => json!("cancelled"),
        };
        json!({
            "id": self.id, "provider": self.provider, "input": self.input,
            "memo": self.provider_data, "phase": phase, "polls": self.polls,
        })
    }
}
