//! The time limits of children. A decoder may take some minutes; an engine may take any time, as
//! long as it makes progress. A child that deadlocks, or was stopped, uses no processor time, so
//! the limit of its processor time would never end it.

use std::time::{Duration, Instant};

use super::ChildJob;

/// The work of a child, as operators see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildWork {
    /// It makes a film or stems.
    Engine,
    /// It reads or signs a file.
    Media,
}

impl ChildWork {
    pub const ALL: [Self; 2] = [Self::Engine, Self::Media];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Media => "media",
        }
    }
}

/// After which time a child counts as hung.
#[derive(Debug, Clone, Copy)]
pub struct ChildClocks {
    /// Total time of a job for which a caller waits: a picture, a recording, a signature.
    pub media: Duration,
    /// Total time of a job that yields to all others: a check, the scan of stored films.
    pub background: Duration,
    /// Time in which a built-in engine makes no progress.
    pub engine: Duration,
    /// The same for an operator's model, whose graphs may take long to load.
    pub own_model: Duration,
}

impl Default for ChildClocks {
    fn default() -> Self {
        Self {
            media: Duration::from_mins(5),
            background: Duration::from_mins(15),
            engine: Duration::from_mins(10),
            own_model: Duration::from_mins(30),
        }
    }
}

/// Measures one job.
#[derive(Debug)]
pub(super) struct JobClock {
    limit: Duration,
    /// Whether progress starts the time anew.
    counts_progress: bool,
    percent: u8,
    started: Instant,
}

impl JobClock {
    pub(super) fn start(clocks: &ChildClocks, job: &ChildJob) -> Self {
        let work = job.work();
        let limit = match job {
            ChildJob::Stems { model: Some(_), .. } => clocks.own_model,
            _ if work == ChildWork::Engine => clocks.engine,
            _ if job.can_wait() => clocks.background,
            _ => clocks.media,
        };
        Self {
            limit,
            counts_progress: work == ChildWork::Engine,
            percent: 0,
            started: Instant::now(),
        }
    }

    /// Notes a report of progress. One that repeats the last percentage is no progress: a child
    /// whose engine hangs still sends them.
    pub(super) fn note_progress(&mut self, percent: u8) {
        if self.counts_progress && percent > self.percent {
            self.percent = percent;
            self.started = Instant::now();
        }
    }

    /// Runs the parent's part of the job, such as waiting for memory, which is not the child's
    /// fault.
    pub(super) fn paused<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let before = Instant::now();
        let result = work();
        self.started += before.elapsed();
        result
    }

    /// Why the child counts as hung, if it does.
    pub(super) fn overdue(&self) -> Option<String> {
        let (seconds, percent) = (self.limit.as_secs_f32(), self.percent);
        (self.started.elapsed() >= self.limit).then(|| {
            if self.counts_progress {
                format!("it was at {percent} % for {seconds} s, so it was killed")
            } else {
                format!("it took more than {seconds} s, so it was killed")
            }
        })
    }
}
