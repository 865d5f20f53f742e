//! Polls a job until it ends, as often as its provider wants and its model's
//! usual time suggests.

use std::time::Duration;

use providers::driver::Polled;
use providers::driver::schedule::{Absence, next_poll};
use providers::{Class, Handle, Output, ProviderError};
use tokio::time::Instant;

use super::submit::failure;
use super::{Ended, Job, Taken, results};
use crate::domain::tasks;
use crate::error::ErrorCode;
use crate::model::submission::SubmissionState;
use crate::worker::embedded::write_progress;
use crate::worker::finish::{Closing, Outcome};

/// The progress that is guessed for providers that tell none ends here.
const GUESS: f64 = 90.0;
/// Most polls a second that this process sends to one provider; with more jobs
/// each is asked for less often.
const MOST_POLLS: u32 = 1000;
/// How often results are fetched anew before the task fails.
const FETCHES: u32 = 5;

impl Job<'_> {
    /// Follows a job to its end and stores what it made.
    pub(super) async fn follow(&self, mut taken: Taken) -> Ended {
        let ended = match taken.result.clone() {
            Err(outputs) => Box::pin(self.store_results(&taken, outputs, None)).await,
            Ok(handle) => {
                tokio::select! {
                    ended = self.poll(&mut taken, &handle) => ended,
                    // Cancelled, the job is a stray one from now on; taken over by
                    // another process, it is that one's.
                    () = self.hold.called_off.cancelled() => return (Outcome::Stopped, None),
                    () = self.crew.stop.cancelled() => return (Outcome::Stopped, None),
                }
            }
        };
        match ended {
            Ok(made) => (Outcome::Made(Box::new(made)), Some(closed(&taken, None))),
            Err(Stopped::Failed(outcome, error)) => (outcome, Some(closed(&taken, Some(error)))),
            Err(Stopped::Again(pause)) => (Outcome::Later(pause), None),
        }
    }

    async fn poll(
        &self,
        taken: &mut Taken,
        handle: &Handle,
    ) -> Result<crate::worker::finish::Made, Stopped> {
        let app = &self.crew.app;
        let pace = taken.site.provider.adapter().pace();
        let (mut failures, mut fetches) = (0, 0);
        let mut asked = taken.poll_after;
        let mut shown = self.task.progress;
        let mut absence = Absence::default();
        loop {
            let elapsed = app.clock.now().since(taken.accepted_at);
            if elapsed > taken.site.config.job_limit {
                let message = "The provider did not end the task within the time that the operator allows. Nothing was charged.";
                let error = ProviderError::new(Class::Lost, "time limit");
                return Err(Stopped::Failed(
                    Outcome::failed(ErrorCode::GenerationFailed, message),
                    error,
                ));
            }
            let median = tasks::usual_time(app, &self.task.model).await;
            let median = median.ok().flatten();
            let pace = pace.for_many(taken.site.open_jobs(), MOST_POLLS);
            let pause = next_poll(&pace, elapsed, median, asked.take(), failures, random());
            let due = Instant::now() + pause;
            tokio::time::sleep_until(due).await;
            taken.refresh(&app.upstream);
            let (site, secret) = (&taken.site, &taken.credential.secret);
            let driver = &app.upstream.driver;
            // In boxes, as what follows: thousands of jobs sleep, few do this.
            let polled = Box::pin(driver.poll_due(&site.provider, secret, handle, due)).await;
            let class = polled.as_ref().err().map(|error| error.class);
            let is_lost = absence.note(elapsed + pause, class);
            match polled {
                Ok(Polled::Running {
                    progress,
                    poll_after,
                    unknown_word,
                }) => {
                    (failures, asked) = (0, poll_after);
                    if let Some(word) = unknown_word {
                        tracing::warn!(
                            provider = site.provider.name(),
                            word,
                            "a status word that nobody knows"
                        );
                    }
                    let progress =
                        progress.unwrap_or_else(|| guess(elapsed, median.unwrap_or(pace.usual)));
                    let progress = progress.min(99);
                    if progress > shown {
                        shown = progress;
                        write_progress(app, self.task, self.hold, progress).await;
                    }
                }
                Ok(Polled::Done(outputs)) => {
                    self.shown.get_or_init(Instant::now);
                    fetches += 1;
                    match Box::pin(self.store_results(taken, outputs, Some(handle))).await {
                        // The address expired, or the file came broken: the
                        // provider is asked for it again.
                        Err(Stopped::Again(_)) if fetches < FETCHES => failures += 1,
                        Err(Stopped::Again(_)) => {
                            let message = "The provider's result could not be fetched whole. Nothing was charged.";
                            let error =
                                ProviderError::new(Class::Failed, "the result cannot be fetched");
                            return Err(Stopped::Failed(
                                Outcome::failed(ErrorCode::GenerationFailed, message),
                                error,
                            ));
                        }
                        ended => return ended,
                    }
                }
                Err(error) if is_lost || error.class.ends_job() => {
                    self.shown.get_or_init(Instant::now);
                    return Err(Stopped::Failed(failure(&error), error));
                }
                Err(error) => {
                    failures += 1;
                    asked = error.retry_after;
                    tracing::warn!(provider = site.provider.name(), class = error.class.name(), message = %error.message, failures, "poll failed");
                }
            }
        }
    }

    async fn store_results(
        &self,
        taken: &Taken,
        outputs: Vec<Output>,
        handle: Option<&Handle>,
    ) -> Result<crate::worker::finish::Made, Stopped> {
        let kept = results::keep(&self.crew.app, self.task, taken, outputs).await;
        kept.map_err(|error| match error {
            results::Bad::Again(why) if handle.is_some() => {
                tracing::warn!(why, "a result could not be fetched");
                Stopped::Again(Duration::ZERO)
            }
            results::Bad::Again(why) | results::Bad::Useless(why) => {
                let message = format!(
                    "What the provider delivered cannot be used: {why}. Nothing was charged."
                );
                let error = ProviderError::new(Class::Failed, why);
                Stopped::Failed(Outcome::failed(ErrorCode::GenerationFailed, message), error)
            }
            results::Bad::Inside(error) => {
                tracing::error!(inside = ?error.inside(), "a result cannot be stored");
                Stopped::Again(Duration::from_secs(2))
            }
        })
    }
}

/// Why following ended without a result.
enum Stopped {
    /// The task failed.
    Failed(Outcome, ProviderError),
    /// The result is there and could not be had yet.
    Again(Duration),
}

fn closed(taken: &Taken, error: Option<ProviderError>) -> Closing {
    Closing {
        id: taken.submission,
        state: SubmissionState::Ended,
        error: error.map(|error| (error.class.name(), error.message)),
        look_again: None,
    }
}

/// What share of the usual time is over, as a percentage.
fn guess(elapsed: Duration, usual: Duration) -> u8 {
    let share = elapsed.as_secs_f64() / usual.as_secs_f64().max(0.001);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within 0..=90"
    )]
    let percent = (share * GUESS).min(GUESS) as u8;
    percent
}

pub(super) fn random() -> f64 {
    let mut bytes = [0_u8; 4];
    // Without randomness all jobs are polled in step, no worse.
    let _ = getrandom::fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
}
