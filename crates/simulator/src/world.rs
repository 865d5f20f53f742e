//! What the simulated providers share: jobs, the journal and the faults.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::{HeaderMap, Method};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a job goes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Time in the queue.
    pub queued: Duration,
    /// Time at work.
    pub running: Duration,
    /// How it ends.
    pub end: End,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            queued: Duration::from_millis(30),
            running: Duration::from_millis(60),
            end: End::Success,
        }
    }
}

/// How a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// With what was ordered.
    Success,
    /// It could not be made.
    Failure,
    /// The content is against the rules.
    Refusal,
    /// It says that it is done and delivers nothing.
    Empty,
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Phase {
    /// It waits.
    Queued,
    /// It is at work; the share that is done, 0–1.
    Running(f64),
    /// It ended.
    Ended(End),
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
    /// The request's parsed body (multipart fields as a JSON object).
    pub input: Value,
    /// What else the model wants to remember: the operation, the path, ….
    pub memo: Value,
    /// How it goes.
    pub plan: Plan,
    /// When it was taken.
    pub accepted_at: Instant,
    /// When it was called off.
    pub cancelled_at: Option<Instant>,
    /// How often it was asked for.
    pub polls: u32,
}

impl Job {
    /// Where it stands now.
    pub fn phase(&self) -> Phase {
        if self.cancelled_at.is_some() {
            return Phase::Cancelled;
        }
        let age = self.accepted_at.elapsed();
        match age.checked_sub(self.plan.queued) {
            None => Phase::Queued,
            Some(at_work) if at_work < self.plan.running => {
                Phase::Running(at_work.as_secs_f64() / self.plan.running.as_secs_f64())
            }
            Some(_) => Phase::Ended(self.plan.end),
        }
    }
}

/// What a request is for, as its model declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It orders something that is paid for.
    Submit,
    /// It asks how a job stands.
    Poll,
    /// It fetches a finished file.
    Download,
    /// It hands a file over.
    Upload,
    /// It calls a job off.
    Cancel,
    /// Anything else.
    Other,
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Received {
    /// The provider, by its protocol's name.
    pub provider: &'static str,
    /// What it was for.
    pub role: Role,
    /// The method.
    pub method: Method,
    /// The path below the provider's base, and the query.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body parsed: JSON as it is, multipart and forms as an object whose
    /// files are `{"file_name", "mime", "bytes": length}`, anything else as
    /// `{"bytes": length}`, nothing as null.
    pub body: Value,
}

/// Something that goes wrong on order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The answer takes this much longer.
    Latency(Duration),
    /// Nothing is done; the answer has this status, and the provider's own
    /// error body unless `bare`.
    Status {
        /// The status.
        status: u16,
        /// `Retry-After`, in seconds.
        retry_after: Option<u32>,
        /// Whether the body is empty.
        bare: bool,
    },
    /// Everything is done; the answer is this status all the same.
    StatusAfter(u16),
    /// The connection is closed before anything is done.
    DropBefore,
    /// Everything is done, and the connection closed without an answer.
    DropAfter,
    /// The answer breaks off in the middle of its body.
    DropInBody,
    /// A poll says a status word that no document has.
    UnknownWord,
    /// A result's address is past its time.
    Expired,
    /// A result comes in small pieces, this long apart.
    Slow(Duration),
    /// A result ends early although its length says otherwise.
    Truncated,
    /// A result is an HTML page that calls itself a video or a recording.
    Lying,
}

/// To which requests a fault applies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Applies {
    /// The provider, by its protocol's name; any when left out.
    pub provider: Option<String>,
    /// What the request is for; anything when left out.
    pub role: Option<Role>,
    /// How many requests it strikes.
    pub times: u32,
}

/// A fault with its targets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// What goes wrong.
    pub fault: Fault,
    /// For whom.
    pub applies: Applies,
}

/// Jobs, journal and faults. Shared by all models.
#[derive(Debug, Default)]
pub struct World {
    jobs: Mutex<BTreeMap<String, Job>>,
    files: Mutex<BTreeMap<String, Value>>,
    journal: Mutex<Vec<Received>>,
    faults: Mutex<Vec<Order>>,
    plan: Mutex<Plan>,
    next: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// A number that was not given before.
    pub fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// An id in the form of a UUID that was not given before.
    pub fn uuid(&self) -> String {
        format!("00000000-0000-4000-8000-{:012x}", self.number())
    }

    /// How jobs go from now on.
    pub fn set_plan(&self, plan: Plan) {
        *lock(&self.plan) = plan;
    }

    /// A provider takes an order: from here on it is paid for.
    pub fn accept(
        &self,
        provider: &'static str,
        id: impl Into<String>,
        input: Value,
        memo: Value,
    ) -> Job {
        let job = Job {
            id: id.into(),
            provider,
            input,
            memo,
            plan: *lock(&self.plan),
            accepted_at: Instant::now(),
            cancelled_at: None,
            polls: 0,
        };
        lock(&self.jobs).insert(job.id.clone(), job.clone());
        job
    }

    /// The job, counting that it was asked for.
    pub fn ask(&self, id: &str) -> Option<Job> {
        let mut jobs = lock(&self.jobs);
        let job = jobs.get_mut(id)?;
        job.polls += 1;
        Some(job.clone())
    }

    /// The job.
    pub fn job(&self, id: &str) -> Option<Job> {
        lock(&self.jobs).get(id).cloned()
    }

    /// Every job of a provider, in the order of their ids.
    pub fn jobs(&self, provider: &str) -> Vec<Job> {
        let jobs = lock(&self.jobs);
        jobs.values()
            .filter(|job| job.provider == provider)
            .cloned()
            .collect()
    }

    /// How many orders a provider took.
    pub fn accepted(&self, provider: &str) -> usize {
        lock(&self.jobs)
            .values()
            .filter(|job| job.provider == provider)
            .count()
    }

    /// Calls a job off that has not ended; whether it was.
    pub fn cancel(&self, id: &str) -> bool {
        let mut jobs = lock(&self.jobs);
        match jobs.get_mut(id) {
            Some(job) if !matches!(job.phase(), Phase::Ended(_) | Phase::Cancelled) => {
                job.cancelled_at = Some(Instant::now());
                true
            }
            _ => false,
        }
    }

    /// Forgets a job, as providers do after a day.
    pub fn forget(&self, id: &str) {
        lock(&self.jobs).remove(id);
    }

    /// Keeps facts of something that was handed over, by its id.
    pub fn keep_file(&self, id: impl Into<String>, facts: Value) {
        lock(&self.files).insert(id.into(), facts);
    }

    /// What was kept of a file.
    pub fn file(&self, id: &str) -> Option<Value> {
        lock(&self.files).get(id).cloned()
    }

    /// Everything that was received, in order.
    pub fn journal(&self) -> Vec<Received> {
        lock(&self.journal).clone()
    }

    /// Empties the journal.
    pub fn clear_journal(&self) {
        lock(&self.journal).clear();
    }

    /// Writes a request down.
    pub fn record(&self, received: Received) {
        lock(&self.journal).push(received);
    }

    /// Orders a fault.
    pub fn order(&self, fault: Fault, provider: Option<&str>, role: Option<Role>, times: u32) {
        let applies = Applies {
            provider: provider.map(str::to_owned),
            role,
            times,
        };
        lock(&self.faults).push(Order { fault, applies });
    }

    /// The first ordered fault that strikes this request, used up once.
    pub fn fault(&self, provider: &str, role: Role) -> Option<Fault> {
        let mut faults = lock(&self.faults);
        let at = faults.iter().position(|order| {
            order.applies.times > 0
                && order
                    .applies
                    .provider
                    .as_deref()
                    .is_none_or(|name| name == provider)
                && order.applies.role.is_none_or(|wanted| wanted == role)
        })?;
        faults[at].applies.times -= 1;
        let fault = faults[at].fault.clone();
        faults.retain(|order| order.applies.times > 0);
        Some(fault)
    }
}
