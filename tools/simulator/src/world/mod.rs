//! State that the simulated providers share: jobs, the journal and the faults.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use http::{HeaderMap, Method};
use locks::lock;
use serde_json::{Value, json};

use crate::fault::{Fault, FaultOrder, RequestRole};

mod job;

pub use job::{Job, JobPhase, JobPlan, PlannedEnd};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    /// The provider, by its protocol's name.
    pub provider: &'static str,
    /// Its role.
    pub role: RequestRole,
    /// The method.
    pub method: Method,
    /// The path below the provider's base, and the query.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The parsed body: JSON unchanged, multipart and forms as an object whose files are
    /// `{"file_name", "mime", "bytes": length}` and in which a repeated name has a list, anything
    /// else as `{"bytes": length}`, nothing as null.
    pub body: Value,
}

impl ReceivedRequest {
    /// The request as JSON; its headers are an object with names in lower case.
    pub fn to_json(&self) -> Value {
        let mut headers = BTreeMap::<&str, String>::new();
        for (name, value) in &self.headers {
            // Fields of one name may be joined by commas without a change of meaning (RFC 9110,
            // 5.3).
            let value = String::from_utf8_lossy(value.as_bytes());
            let values = headers.entry(name.as_str()).or_default();
            if !values.is_empty() {
                values.push_str(", ");
            }
            values.push_str(&value);
        }
        json!({
            "provider": self.provider, "role": self.role, "method": self.method.as_str(),
            "path": self.path, "headers": headers, "body": self.body,
        })
    }
}

/// Jobs, journal and faults. Shared by all simulated providers.
#[derive(Debug)]
pub struct World {
    jobs: [Mutex<HashMap<String, Job>>; SHARDS],
    accepted_counts: Mutex<BTreeMap<&'static str, usize>>,
    files: Mutex<HashMap<String, Value>>,
    journal: Mutex<Vec<ReceivedRequest>>,
    keeps_journal: AtomicBool,
    faults: Mutex<Vec<FaultOrder>>,
    /// Shows without a lock that there are no faults.
    has_faults: AtomicBool,
    plans: Mutex<JobPlans>,
    next: AtomicU64,
}

/// Jobs are stored in this many parts, so that polls do not wait for each other.
const SHARDS: usize = 16;

#[derive(Debug, Default)]
struct JobPlans {
    common: JobPlan,
    by_provider: BTreeMap<String, JobPlan>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            jobs: std::array::from_fn(|_| Mutex::default()),
            accepted_counts: Mutex::default(),
            files: Mutex::default(),
            journal: Mutex::default(),
            keeps_journal: AtomicBool::new(true),
            faults: Mutex::default(),
            has_faults: AtomicBool::new(false),
            plans: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }
}

impl World {
    fn shard(&self, id: &str) -> MutexGuard<'_, HashMap<String, Job>> {
        // Ids end in a counter, so even this hash spreads them over the shards.
        let hash = id.bytes().fold(0_usize, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(usize::from(byte))
        });
        lock(&self.jobs[hash % SHARDS])
    }

    /// A number that was not returned before.
    pub fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// An id in the form of a UUID that was not returned before.
    pub fn uuid(&self) -> String {
        format!("00000000-0000-4000-8000-{:012x}", self.number())
    }

    /// Sets the plan of new jobs at every provider.
    pub fn set_plan(&self, plan: JobPlan) {
        *lock(&self.plans) = JobPlans {
            common: plan,
            by_provider: BTreeMap::new(),
        };
    }

    /// Sets the plan of new jobs at one provider.
    pub fn set_plan_of(&self, provider: &str, plan: JobPlan) {
        lock(&self.plans)
            .by_provider
            .insert(provider.to_owned(), plan);
    }

    /// The plan of new jobs at a provider.
    pub fn plan(&self, provider: &str) -> JobPlan {
        let plans = lock(&self.plans);
        plans
            .by_provider
            .get(provider)
            .copied()
            .unwrap_or(plans.common)
    }

    /// A provider accepts an order: from here on it is paid for.
    pub fn accept(
        &self,
        provider: &'static str,
        id: impl Into<String>,
        input: impl Into<Arc<Value>>,
        provider_data: Value,
    ) -> Job {
        let job = Job {
            id: id.into(),
            provider,
            input: input.into(),
            provider_data,
            plan: self.plan(provider),
            accepted_at: Instant::now(),
            cancelled_at: None,
            polls: 0,
        };
        // Counted separately from the jobs, because a job that is deleted later was paid for, too,
        // and tests of double payment check this number.
        *lock(&self.accepted_counts).entry(provider).or_default() += 1;
        self.shard(&job.id).insert(job.id.clone(), job.clone());
        job
    }

    /// The job; counts the poll.
    pub fn poll_job(&self, id: &str) -> Option<Job> {
        let mut jobs = self.shard(id);
        let job = jobs.get_mut(id)?;
        job.polls += 1;
        Some(job.clone())
    }

    /// The job.
    pub fn job(&self, id: &str) -> Option<Job> {
        self.shard(id).get(id).cloned()
    }

    /// Every job of a provider, in the order of acceptance.
    pub fn jobs(&self, provider: &str) -> Vec<Job> {
        self.jobs_that(|job| job.provider == provider)
    }

    /// Every job, in the order of acceptance.
    pub fn all_jobs(&self) -> Vec<Job> {
        self.jobs_that(|_| true)
    }

    fn jobs_that(&self, matches: impl Fn(&Job) -> bool) -> Vec<Job> {
        let mut matching = Vec::new();
        for shard in &self.jobs {
            let jobs = lock(shard);
            matching.extend(jobs.values().filter(|job| matches(job)).cloned());
        }
        // Hash maps have no order, but a provider's list has. The id decides between jobs of the
        // same instant.
        matching.sort_by(|a, b| (a.accepted_at, &a.id).cmp(&(b.accepted_at, &b.id)));
        matching
    }

    /// How many orders a provider accepted, including forgotten ones.
    pub fn accepted_count(&self, provider: &str) -> usize {
        lock(&self.accepted_counts)
            .get(provider)
            .copied()
            .unwrap_or_default()
    }

    /// Cancels a job that has not ended; returns whether it did.
    pub fn cancel(&self, id: &str) -> bool {
        match self.shard(id).get_mut(id) {
            Some(job) if !matches!(job.phase(), JobPhase::Ended(_) | JobPhase::Cancelled) => {
                job.cancelled_at = Some(Instant::now());
                true
            }
            _ => false,
        }
    }

    /// Forgets a job, as providers do after a day.
    pub fn forget(&self, id: &str) {
        self.shard(id).remove(id);
    }

    /// Stores facts about an uploaded file, by its id.
    pub fn keep_file(&self, id: impl Into<String>, facts: Value) {
        lock(&self.files).insert(id.into(), facts);
    }

    /// The stored facts about a file.
    pub fn file(&self, id: &str) -> Option<Value> {
        lock(&self.files).get(id).cloned()
    }

    /// Everything that was received, in order.
    pub fn journal(&self) -> Vec<ReceivedRequest> {
        lock(&self.journal).clone()
    }

    /// Empties the journal.
    pub fn clear_journal(&self) {
        lock(&self.journal).clear();
    }

    /// Switches the journal on or off; it is on by default. Under load the journal would only grow.
    pub fn set_journal(&self, on: bool) {
        self.keeps_journal.store(on, Ordering::Relaxed);
    }

    /// Journals a request, if the journal is on.
    pub fn record(&self, received: impl FnOnce() -> ReceivedRequest) {
        if self.keeps_journal.load(Ordering::Relaxed) {
            // Built only if it is kept: copies of headers and bodies would slow down benchmarks.
            let received = received();
            lock(&self.journal).push(received);
        }
    }

    /// Adds a fault for the next `times` matching requests.
    pub fn order_fault(
        &self,
        fault: Fault,
        provider: Option<&str>,
        role: Option<RequestRole>,
        times: u32,
    ) {
        self.place(FaultOrder {
            provider: provider.map(str::to_owned),
            role,
            times,
            ..FaultOrder::new(fault)
        });
    }

    /// Adds a fault to inject.
    pub fn place(&self, order: FaultOrder) {
        let mut faults = lock(&self.faults);
        faults.push(order);
        // Set under the lock. `fault` clears it under the same lock, and so cannot hide this order.
        self.has_faults.store(true, Ordering::Release);
    }

    /// The faults that are still pending.
    pub fn fault_orders(&self) -> Vec<FaultOrder> {
        lock(&self.faults).clone()
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        lock(&self.faults).clear();
    }

    /// The first pending fault that applies to this request, used once. Faults that wait for a
    /// later request count this one.
    pub fn fault(&self, provider: &str, role: RequestRole) -> Option<Fault> {
        if !self.has_faults.load(Ordering::Acquire) {
            return None;
        }
        let mut faults = lock(&self.faults);
        let mut applied = None;
        for order in faults.iter_mut() {
            if !order.concerns(provider, role) {
                continue;
            }
            // Every matching fault counts this request, whichever applies. Otherwise "after two
            // polls" would mean something else while another fault is around.
            if order.after > 0 {
                order.after -= 1;
            } else if applied.is_none() && order.times > 0 {
                order.times -= 1;
                applied = Some(order.fault.clone());
            }
        }
        faults.retain(|order| order.times > 0);
        self.has_faults.store(!faults.is_empty(), Ordering::Release);
        applied
    }

    /// Resets everything: no jobs, files, journal, faults or plans, and numbers from 1 again, so
    /// that the same requests get the same ids.
    pub fn reset(&self) {
        for shard in &self.jobs {
            lock(shard).clear();
        }
        lock(&self.accepted_counts).clear();
        lock(&self.files).clear();
        self.clear_journal();
        self.clear_faults();
        *lock(&self.plans) = JobPlans::default();
        self.next.store(0, Ordering::Relaxed);
    }
}
