//! How callers behave: they time out, count their tries, repeat themselves, hang up, come
//! back, and ask for something else under the same key.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::multipart::{Form, Part};
use serde_json::json;
use tokio::time::Instant;

use crate::dice::Dice;
use crate::intent::{Intent, RetryStyle, with_reversed_members};
use crate::stage::{Key, PublishedAddress};
use crate::tries::{Answer, Try, TryOutcome, send};

/// The longest pause that a caller makes because an answer asks for it.
const LONGEST_PAUSE: Duration = Duration::from_millis(700);
/// A disconnect is noticed within a second; a caller stays away for this long.
const AWAY_TIME: Duration = Duration::from_millis(1500);

/// What a caller wanted, and its tries.
#[derive(Debug)]
pub(crate) struct CallerHistory {
    pub(crate) intent: Intent,
    pub(crate) tries: Vec<Try>,
}

/// Tasks that callers have learned of, each with the number of its key.
pub(crate) type SeenTasks = Arc<Mutex<Vec<(usize, String)>>>;

/// A running caller.
pub(crate) struct Caller {
    pub(crate) http: reqwest::Client,
    pub(crate) address: PublishedAddress,
    pub(crate) key: Key,
    pub(crate) dice: Dice,
    pub(crate) seen_tasks: SeenTasks,
    pub(crate) until: Instant,
    /// Whether some retries are sent twice, as by a network that repeats what it carries.
    pub(crate) sends_duplicates: bool,
    pub(crate) history: CallerHistory,
}

/// What a caller does after a try.
enum Next {
    /// It has its result.
    Done,
    /// It gives up.
    Stop,
    /// It tries again after this pause.
    Again(Duration),
}

impl Caller {
    /// Sends requests until it has its result, gives up, or its time is over.
    pub(crate) async fn run(mut self) -> CallerHistory {
        match self.history.intent.style {
            RetryStyle::Counting => self.repeat_counting().await,
            RetryStyle::Keyed => self.repeat_with_key().await,
            RetryStyle::Plain => self.repeat_same_body().await,
            RetryStyle::Sdk => {}
        }
        self.history
    }

    /// Asks once more for the result it has, by its key.
    pub(crate) async fn repeat_once(mut self) -> CallerHistory {
        let headers = self.key_headers();
        let timeout = self.timeout(0);
        let attempt = self.send_once(&headers, timeout).await;
        self.record(attempt);
        self.history
    }

    /// Repeats its request as the SDKs do, with the number of the try. Now and then one that
    /// was held up on its way arrives together with the next.
    async fn repeat_counting(&mut self) {
        for count in 0..=self.dice.between(2, 8) {
            let timeout = self.timeout(20);
            let headers = [("x-stainless-retry-count", count.to_string())];
            let next = if count > 0 && self.sends_duplicates && self.dice.chance(25) {
                self.send_twice(&headers, timeout).await
            } else {
                let attempt = self.send_once(&headers, timeout).await;
                self.record(attempt)
            };
            match next {
                Next::Done | Next::Stop => return,
                Next::Again(pause) => {
                    if !self.pause(pause).await {
                        return;
                    }
                }
            }
        }
    }

    /// Every request carries the same key. Now and then two are sent at once.
    async fn repeat_with_key(&mut self) {
        let headers = self.key_headers();
        for _ in 0..self.dice.between(3, 8) {
            let timeout = self.timeout(30);
            let next = if self.dice.chance(25) {
                self.send_twice(&headers, timeout).await
            } else {
                let attempt = self.send_once(&headers, timeout).await;
                self.record(attempt)
            };
            match next {
                Next::Stop => return,
                Next::Done => {
                    if self.dice.chance(40) {
                        self.send_other_body(&headers).await;
                    }
                    if !self.dice.chance(50) {
                        return;
                    }
                }
                Next::Again(pause) => {
                    if !self.pause(pause).await {
                        return;
                    }
                }
            }
        }
    }

    fn key_headers(&self) -> [(&'static str, String); 1] {
        [(
            "idempotency-key",
            format!("key-{}", self.history.intent.tag),
        )]
    }

    /// Sends another body with the same key.
    async fn send_other_body(&mut self, headers: &[(&'static str, String)]) {
        let other = self.history.intent.with_other_tag();
        let intent = std::mem::replace(&mut self.history.intent, other);
        let timeout = self.timeout(0);
        let mut attempt = self.send_once(headers, timeout).await;
        self.history.intent = intent;
        attempt.has_other_body = true;
        self.history.tries.push(attempt);
    }

    /// Only the identical body shows that it is the same caller.
    async fn repeat_same_body(&mut self) {
        for _ in 0..self.dice.between(3, 8) {
            // An immediate answer may be on its way when the caller
            // leaves, and then nobody can tell whether it arrived.
            let waits_for_result = self.history.intent.waits_for_result();
            let timeout = self.timeout(if waits_for_result { 50 } else { 0 });
            let attempt = self.send_once(&[], timeout).await;
            let hung_up = matches!(attempt.outcome, TryOutcome::HungUp);
            let unconfirmed = attempt
                .answer()
                .is_some_and(|answer| answer.is("submission_unconfirmed"));
            let pause = match self.record(attempt) {
                Next::Again(_) if hung_up => AWAY_TIME,
                Next::Again(pause) => pause,
                Next::Stop if unconfirmed && self.dice.chance(50) => Duration::ZERO,
                Next::Done | Next::Stop => return,
            };
            if !self.pause(pause).await {
                return;
            }
        }
    }

    /// How long it waits this time; at most until its time is over.
    fn timeout(&mut self, percent: u64) -> Duration {
        let leaves_early = self.dice.chance(percent);
        let short = self.dice.millis(500, 1500);
        let remaining = self.until.saturating_duration_since(Instant::now());
        if leaves_early {
            short.min(remaining)
        } else {
            remaining
        }
    }

    /// Waits for the pause and until a gateway answers; returns false when the caller's time is over.
    async fn pause(&self, pause: Duration) -> bool {
        let back_online = async {
            tokio::time::sleep(pause).await;
            self.address.wait_until_published().await
        };
        tokio::time::timeout_at(self.until, back_online)
            .await
            .is_ok()
    }

    async fn send_once(&mut self, headers: &[(&'static str, String)], timeout: Duration) -> Try {
        let request = self.request(headers);
        send(request, &self.history.intent, timeout).await
    }

    /// Sends two requests at once, of which the first may time out early. Returns what to do after
    /// the second.
    async fn send_twice(
        &mut self,
        headers: &[(&'static str, String)],
        first_timeout: Duration,
    ) -> Next {
        let (first, second) = (self.request(headers), self.request(headers));
        let second_timeout = self.timeout(0);
        let intent = &self.history.intent;
        let (first, second) = tokio::join!(
            send(first, intent, first_timeout),
            send(second, intent, second_timeout)
        );
        self.record(first);
        self.record(second)
    }

    fn request(&mut self, headers: &[(&'static str, String)]) -> reqwest::RequestBuilder {
        let intent = &self.history.intent;
        // Nobody listens there while the gateway is down.
        let base = self
            .address
            .current()
            .unwrap_or_else(|| "http://127.0.0.1:9".into());
        let mut request = self.http.post(format!("{base}{}", intent.path()));
        request = request.bearer_auth(&self.key.secret);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        if let Some(recording) = &intent.recording {
            let title = intent.body["title"].as_str().unwrap().to_owned();
            let part = Part::bytes(recording.clone()).file_name("song.wav");
            return request.multipart(Form::new().part("file", part).text("title", title));
        }
        let text = if intent.style == RetryStyle::Keyed && self.dice.chance(30) {
            with_reversed_members(&intent.body)
        } else {
            intent.body.to_string()
        };
        request
            .header("content-type", "application/json")
            .body(text)
    }

    fn record(&mut self, attempt: Try) -> Next {
        if let Some(task) = &attempt.task {
            let mut seen = self.seen_tasks.lock().unwrap();
            seen.push((self.history.intent.key, task.clone()));
        }
        // The SDKs wait for at least 0.4 s, and the gateway relies on it.
        let pause = if self.history.intent.style == RetryStyle::Counting {
            self.dice.millis(400, 700)
        } else {
            self.dice.millis(100, 400)
        };
        let next = match &attempt.outcome {
            TryOutcome::Answered(answer) if answer.is_good() => Next::Done,
            TryOutcome::Answered(answer) if answer.should_retry => {
                Next::Again(pause_before_retry(answer, pause))
            }
            TryOutcome::Answered(_) => Next::Stop,
            TryOutcome::Unreached | TryOutcome::Lost | TryOutcome::HungUp => Next::Again(pause),
        };
        self.history.tries.push(attempt);
        next
    }
}

fn pause_before_retry(answer: &Answer, default: Duration) -> Duration {
    let announced = answer.retry_after.map(Duration::from_secs);
    announced.unwrap_or(default).min(LONGEST_PAUSE)
}

/// Cancels tasks at random moments; returns the state in each answer, by task.
pub(crate) async fn cancel_randomly(
    http: reqwest::Client,
    address: PublishedAddress,
    keys: Vec<Key>,
    seen: SeenTasks,
    mut dice: Dice,
    times: u64,
) -> Vec<(String, String)> {
    let mut cancelled = Vec::new();
    for _ in 0..times {
        tokio::time::sleep(dice.millis(50, 800)).await;
        let tasks = seen.lock().unwrap().clone();
        let (Some(base), false) = (address.current(), tasks.is_empty()) else {
            continue;
        };
        let recent = &tasks[tasks.len().saturating_sub(20)..];
        let (key, task) = dice.pick(recent);
        let request = http
            .post(format!("{base}/v1/tasks/{task}/cancel"))
            .bearer_auth(&keys[*key].secret)
            .json(&json!({}));
        let Ok(answer) = request.send().await else {
            continue;
        };
        let is_cancelled = answer.status().is_success();
        let Ok(view) = answer.json::<serde_json::Value>().await else {
            continue;
        };
        if is_cancelled {
            let state = view["status"].as_str().unwrap().to_owned();
            cancelled.push((task.clone(), state));
        }
    }
    cancelled
}
