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
    pub const ALL: &[Self] = &[Self::Engine, Self::Media];

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
    limit: fn(&ChildClocks) -> Duration,
    /// Whether progress starts the time anew.
    counts_progress: bool,
    percent: u8,
    started: Instant,
}

impl JobClock {
    pub(super) fn start(job: &ChildJob) -> Self {
        let work = job.work();
        let limit: fn(&ChildClocks) -> Duration = match job {
            ChildJob::Stems { model: Some(_), .. } => |clocks| clocks.own_model,
            _ if work == ChildWork::Engine => |clocks| clocks.engine,
            _ if job.can_wait() => |clocks| clocks.background,
            _ => |clocks| clocks.media,
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
    pub(super) fn overdue(&self, clocks: &ChildClocks) -> Option<String> {
        let limit = (self.limit)(clocks);
        let (seconds, percent) = (limit.as_secs_f32(), self.percent);
        (self.started.elapsed() >= limit).then(|| {
            if self.counts_progress {
                format!("it was at {percent} % for {seconds} s, so it was killed")
            } else {
                format!("it took more than {seconds} s, so it was killed")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::retouch::RetouchOptions;
    use mediagate_model::task::VideoJob;

    const NO_TIME: ChildClocks = ChildClocks {
        media: Duration::ZERO,
        background: Duration::ZERO,
        engine: Duration::ZERO,
        own_model: Duration::ZERO,
    };

    #[test]
    fn only_a_higher_percentage_is_progress_and_only_for_an_engine() {
        let film = ChildJob::Video {
            job: VideoJob::default(),
            picture: None,
            retouch: RetouchOptions::default(),
        };
        let pixels = ChildJob::Pixels {
            file: "file".into(),
        };
        for (job, counts) in [(film, true), (pixels, false)] {
            let mut clock = JobClock::start(&job);
            assert_eq!(clock.overdue(&ChildClocks::default()), None);
            assert!(clock.overdue(&NO_TIME).is_some());
            let long_ago = clock.started.checked_sub(Duration::from_mins(1)).unwrap();
            clock.started = long_ago;
            clock.note_progress(0);
            assert_eq!(clock.started, long_ago);
            clock.note_progress(3);
            assert_eq!(clock.started > long_ago, counts);
            clock.started = long_ago;
            clock.note_progress(3);
            assert_eq!(clock.started, long_ago);
        }
    }

    #[test]
    fn the_parents_own_waiting_does_not_count() {
        let mut clock = JobClock::start(&ChildJob::Pixels {
            file: "file".into(),
        });
        let (before, wait) = (clock.started, Duration::from_millis(5));
        assert_eq!(
            clock.paused(|| {
                std::thread::sleep(wait);
                7
            }),
            7
        );
        assert!(clock.started >= before + wait);
    }
}
