//! Poll schedule: when a job is polled next.
//!
//! The durations of a model's earlier jobs, including those still open, predict when one is likely
//! to end: between their 10th and 90th percentile. Within that span, the wait is a sixteenth of the
//! span. Before and after, it is a quarter of the job's age, or of the distance to the span,
//! whichever is less:
//!
//! ```text
//! wait   ceiling ┤       ╱‾‾╲                  ╱‾‾‾‾
//!                │     ╱      ╲              ╱
//!          floor ┤___╱          ╲__________╱
//!                └────────────────┼────┼────┼─────── time since the submission
//!                             early median late
//! ```
//!
//! So a job is polled rarely while its end is not expected, and less and less often when it is
//! overdue. The delay in noticing the end is about a sixteenth of the span, outside of it a quarter
//! of the error of the prediction, and never more than about a quarter of the job's own duration
//! (or the floor). A job with a typical duration is polled about `median / ceiling + 8 × ln(ceiling
//! / floor) + 8` times. Without data, the wait just grows.
//!
//! The provider's own request takes precedence, within the floor and twice the ceiling. After
//! failures the wait doubles with each, up to the ceiling. Jitter of ±10 % spreads jobs that began
//! together.

use std::time::Duration;

use orders::DurationSample;

use crate::error::ProviderError;
use crate::port::PollPace;

/// Answers that are not the job's record may say that a job does not exist or has failed. They are
/// accepted only after this many polls over at least this time.
const MIN_DOUBTFUL_POLLS: u32 = 4;
const MIN_DOUBT_DURATION: Duration = Duration::from_mins(1);

/// The number of answers that are not a job's record but say that the job does not exist or has
/// failed, and the time of the first one.
#[derive(Debug, Default)]
pub struct EndDoubt {
    since: Option<Duration>,
    polls: u32,
}

impl EndDoubt {
    /// Notes the result of a poll, `elapsed` after this process began to follow the job. Returns
    /// whether the answers are accepted now.
    pub fn note(&mut self, elapsed: Duration, error: Option<&ProviderError>) -> bool {
        match error {
            // Any successful answer resets the doubt: only uncontradicted answers are accepted.
            None => *self = Self::default(),
            Some(error) if error.may_end_job() => {
                let since = *self.since.get_or_insert(elapsed);
                self.polls += 1;
                // Both are needed: quick polls may all fall into one short outage, and a few slow
                // ones may each meet a different one.
                return self.polls >= MIN_DOUBTFUL_POLLS
                    && elapsed.saturating_sub(since) >= MIN_DOUBT_DURATION;
            }
            // A failed call proves nothing about the job, neither for nor against the doubt.
            Some(_) => {}
        }
        false
    }
}

/// How long the jobs of a model take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurationQuantiles {
    /// A tenth of them were quicker.
    pub early: Duration,
    pub median: Duration,
    /// A tenth of them were slower.
    pub late: Duration,
}

impl DurationQuantiles {
    /// Computed from jobs in any order; `None` if none has ended.
    ///
    /// Open jobs count with their present age. Otherwise, when many jobs begin together, the short
    /// ones end first and would make all look short. This is the estimator of Nelson (1969) and
    /// Aalen (1978): of those that were seen at an age, the share that ended at it. A percentile
    /// that no job has reached yet is replaced by the longest age seen.
    pub fn from_samples(mut jobs: Vec<DurationSample>) -> Option<Self> {
        let mut start_ages: Vec<Duration> = jobs.iter().map(|job| job.from).collect();
        start_ages.sort_unstable();
        // At equal ages, ended jobs come first: a job that is still open at that age counts among
        // those that could have ended at it.
        jobs.sort_unstable_by_key(|job| (job.until, !job.has_ended));
        let longest = jobs.last()?.until;
        let mut start_ages = start_ages.into_iter().peekable();
        let (mut at_risk, mut hazard) = (0_u32, 0.0);
        // The share that is still open is exp(-hazard), so a share has ended once the hazard is
        // -ln(1 - share).
        let mut ages = [0.1_f64, 0.5, 0.9].map(|share| (-(1.0 - share).ln(), None));
        for job in &jobs {
            while start_ages.next_if(|from| *from <= job.until).is_some() {
                at_risk += 1;
            }
            if job.has_ended {
                hazard += 1.0 / f64::from(at_risk.max(1));
            }
            for (threshold, age) in &mut ages {
                if age.is_none() && hazard >= *threshold {
                    *age = Some(job.until);
                }
            }
            at_risk = at_risk.saturating_sub(1);
        }
        let [early, median, late] = ages.map(|(_, age)| age.unwrap_or(longest));
        let has_ended = jobs.iter().any(|job| job.has_ended);
        has_ended.then_some(Self {
            early,
            median,
            late,
        })
    }

    /// The distance from this age to the span in which jobs are likely to end.
    fn distance(&self, elapsed: Duration) -> Duration {
        let before = self.early.saturating_sub(elapsed);
        before.max(elapsed.saturating_sub(self.late))
    }

    fn span(&self) -> Duration {
        self.late.saturating_sub(self.early)
    }
}

/// The wait before the next poll.
///
/// * `elapsed`: since the provider accepted the order, until now.
/// * `durations`: how long the model's jobs take, if known.
/// * `requested_wait`: the wait that the provider asked for.
/// * `failures`: polls in a row without an answer.
/// * `jitter`: a random number from 0 to 1.
pub fn next_poll(
    pace: &PollPace,
    elapsed: Duration,
    durations: Option<DurationQuantiles>,
    requested_wait: Option<Duration>,
    failures: u32,
    jitter: f64,
) -> Duration {
    let floor = pace.floor;
    let ceiling = pace.ceiling.max(floor);
    let jitter = jitter.clamp(0.0, 1.0);
    let backoff = match failures {
        0 => Duration::ZERO,
        _ => floor
            .saturating_mul(2_u32.saturating_pow(failures))
            .min(ceiling),
    };
    if let Some(requested_wait) = requested_wait {
        // A requested wait is exceeded rather than undercut.
        let longest = ceiling.saturating_mul(2);
        let wait = requested_wait
            .min(longest)
            .max(backoff)
            .mul_f64(1.0 + jitter / 10.0);
        return wait.clamp(floor, longest);
    }
    // Without other jobs, only this one's age is known.
    let wait = durations.map_or(elapsed / 4, |durations| {
        // At most a quarter of the job's own age, however long others took, because this may be a
        // short one.
        let by_distance = durations.distance(elapsed) / 4;
        by_distance.max(durations.span() / 16).min(elapsed / 4)
    });
    let wait = wait.clamp(floor, ceiling).max(backoff);
    // Clamped once more, because jitter must not break the provider's bounds.
    wait.mul_f64(0.9 + jitter / 5.0).clamp(floor, ceiling)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pace(floor_ms: u64, times: u64) -> PollPace {
        PollPace::new(
            Duration::from_millis(floor_ms),
            Duration::from_millis(floor_ms * times),
        )
    }

    /// Quantiles if all jobs took this long.
    fn constant(length: Duration) -> DurationQuantiles {
        DurationQuantiles {
            early: length,
            median: length,
            late: length,
        }
    }

    /// Polls until the job has ended; returns the number of polls and the delay in noticing the
    /// end.
    fn simulate_polls(
        pace: &PollPace,
        lengths: DurationQuantiles,
        length: Duration,
        jitter: f64,
    ) -> (u32, Duration) {
        let (mut now, mut polls) = (Duration::ZERO, 0);
        loop {
            now += next_poll(pace, now, Some(lengths), None, 0, jitter);
            polls += 1;
            if now >= length {
                return (polls, now.saturating_sub(length));
            }
        }
    }

    proptest! {
        #[test]
        fn waits_stay_within_their_bounds(
            floor in 1_u64..60_000,
            times in 1_u64..100,
            elapsed in 0_u64..100_000_000,
            median in proptest::option::of(0_u64..10_000_000),
            requested_wait in proptest::option::of(0_u64..u64::MAX / 2),
            failures in 0_u32..100,
            jitter in 0.0..1.0,
        ) {
            let pace = pace(floor, times);
            let wait = next_poll(
                &pace,
                Duration::from_millis(elapsed),
                median.map(|median| constant(Duration::from_millis(median))),
                requested_wait.map(Duration::from_millis),
                failures,
                jitter,
            );
            let longest = if requested_wait.is_some() { pace.ceiling * 2 } else { pace.ceiling };
            prop_assert!(wait >= pace.floor && wait <= longest, "{wait:?} of {pace:?}");
        }

        #[test]
        fn an_end_near_the_median_is_seen_at_once_and_with_few_polls(
            floor in 500_u64..10_000,
            times in 2_u64..30,
            median in 1_u64..3_600,
            offset in -3.0_f64..3.0,
            jitter in 0.0..1.0,
        ) {
            let pace = pace(floor, times);
            let median = Duration::from_secs(median);
            let floors = median.div_duration_f64(pace.floor);
            let length = pace.floor.mul_f64((floors + offset).max(0.0));
            let (polls, late) = simulate_polls(&pace, constant(median), length, jitter);
            prop_assert!(late <= pace.floor.mul_f64(1.2), "{late:?} late of {pace:?}");
            let ratio = f64::from(u32::try_from(times).unwrap());
            let max_polls = median.div_duration_f64(pace.ceiling.mul_f64(0.9)) + 9.0 * ratio.ln() + 14.0;
            prop_assert!(f64::from(polls) <= max_polls, "{polls} polls > {max_polls}");
        }

        #[test]
        fn a_wrong_guess_costs_a_share_of_the_error(
            median in 10_u64..600,
            length in 10_u64..600,
            jitter in 0.0..1.0,
        ) {
            let pace = pace(1000, 60);
            let (median, length) = (Duration::from_secs(median), Duration::from_secs(length));
            let (_, late) = simulate_polls(&pace, constant(median), length, jitter);
            // The last wait was at most a quarter of the distance at its start, which was at most
            // four thirds of the distance at the end.
            let tolerance = median.abs_diff(length).mul_f64(0.4);
            let tolerance = tolerance.min(length.mul_f64(0.3));
            prop_assert!(late <= tolerance.max(pace.floor.mul_f64(1.2)), "{late:?}");
        }
    }

    proptest! {
        #[test]
        fn an_end_where_jobs_usually_end_is_seen_within_a_share_of_the_span(
            early in 10_u64..600,
            span in 0_u64..600,
            end_within_span in 0.0_f64..1.0,
            jitter in 0.0..1.0,
        ) {
            let pace = pace(1000, 60);
            let (early, span) = (Duration::from_secs(early), Duration::from_secs(span));
            let (median, late) = (early + span / 2, early + span);
            let lengths = DurationQuantiles { early, median, late };
            let (polls, late) = simulate_polls(&pace, lengths, early + span.mul_f64(end_within_span), jitter);
            // A wait that began before the span was at most a quarter of the way to it, and lasts
            // into the span by no more than its jitter.
            let tolerance = (span / 16).mul_f64(1.1).max(pace.floor.mul_f64(1.2)) + early.mul_f64(0.025);
            prop_assert!(late <= tolerance, "{late:?} late of {lengths:?}");
            let max_polls = early.div_duration_f64(pace.ceiling.mul_f64(0.9)) + 9.0 * 60_f64.ln() + 14.0 + 15.0;
            prop_assert!(f64::from(polls) <= max_polls, "{polls} polls > {max_polls}");
        }
    }

    fn ended(seconds: u64) -> DurationSample {
        DurationSample {
            from: Duration::ZERO,
            until: Duration::from_secs(seconds),
            has_ended: true,
        }
    }

    fn open(seconds: u64) -> DurationSample {
        DurationSample {
            has_ended: false,
            ..ended(seconds)
        }
    }

    fn quantiles(jobs: impl IntoIterator<Item = DurationSample>) -> Option<[u64; 3]> {
        let quantiles = DurationQuantiles::from_samples(jobs.into_iter().collect())?;
        Some([quantiles.early, quantiles.median, quantiles.late].map(|age| age.as_secs()))
    }

    #[test]
    fn quantiles_are_the_tenth_fiftieth_and_ninetieth_percentile() {
        assert_eq!(quantiles((0..=1000).map(ended)), Some([100, 500, 901]));
        assert_eq!(quantiles([ended(7)]), Some([7, 7, 7]));
        assert_eq!(quantiles([ended(1), ended(2)]), Some([1, 2, 2]));
        assert_eq!(quantiles([]), None);
        assert_eq!(quantiles([open(5)]), None);
    }

    #[test]
    fn open_jobs_count_for_as_long_as_they_have_been() {
        // A thousand jobs of 40 to 80 s began together 50 s ago. Those that have ended make a job
        // look like 41 to 49 s.
        let earlier_jobs = (40..80).map(ended);
        let durations = (0..1000_u64).map(|number| 40 + number * 40 / 1000);
        let concurrent_jobs = durations.map(|end| if end <= 50 { ended(end) } else { open(50) });
        let jobs: Vec<DurationSample> = earlier_jobs.chain(concurrent_jobs).collect();
        let [early, median, late] = quantiles(jobs).unwrap();
        assert!((43..=45).contains(&early), "{early}");
        assert!((58..=62).contains(&median), "{median}");
        assert!((74..=78).contains(&late), "{late}");
    }

    #[test]
    fn an_age_that_no_job_has_reached_is_the_longest_seen() {
        let jobs = (0..20).map(|_| ended(40)).chain((0..80).map(|_| open(45)));
        assert_eq!(quantiles(jobs), Some([40, 45, 45]));
    }

    proptest! {
        /// Ten jobs of 40 to 80 s begin per second; those that ended in the last seconds and those
        /// still open are known.
        #[test]
        fn a_short_window_over_many_jobs_estimates_their_length(
            window_seconds in 5_u64..200,
            durations in proptest::collection::vec(40_000_u64..80_000, 2000),
        ) {
            let now = 200_000_u64;
            let window_start = now - window_seconds * 1000;
            let jobs = durations.iter().enumerate().filter_map(|(number, length)| {
                let start = number as u64 * 100;
                let end = start + length;
                (end >= window_start).then(|| DurationSample {
                    from: Duration::from_millis(window_start.saturating_sub(start)),
                    until: Duration::from_millis(end.min(now) - start),
                    has_ended: end <= now,
                })
            });
            let lengths = DurationQuantiles::from_samples(jobs.collect()).unwrap();
            for (estimate, expected) in [(lengths.early, 44), (lengths.median, 60), (lengths.late, 76)] {
                prop_assert!(estimate.abs_diff(Duration::from_secs(expected)) < Duration::from_secs(9), "{lengths:?}");
            }
        }
    }

    #[test]
    fn the_requested_wait_takes_precedence_and_failures_double_it() {
        let pace = pace(1000, 15);
        let wait = |requested_seconds: Option<u64>, failures| {
            let requested_seconds = requested_seconds.map(Duration::from_secs);
            let wait = next_poll(
                &pace,
                Duration::from_mins(1),
                Some(constant(Duration::from_mins(1))),
                requested_seconds,
                failures,
                0.5,
            );
            wait.as_secs_f64().round()
        };
        assert!((wait(None, 0) - 1.0).abs() < 0.1);
        assert!((wait(Some(20), 0) - 21.0).abs() < 0.1);
        assert!((wait(Some(3600), 0) - 30.0).abs() < 0.1);
        assert!((wait(None, 1) - 2.0).abs() < 0.1);
        assert!((wait(None, 2) - 4.0).abs() < 0.1);
        assert!((wait(None, 9) - 15.0).abs() < 0.1);
    }
}
