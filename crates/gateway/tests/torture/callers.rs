//! How callers behave: they time out, count, repeat themselves, hang up, come
//! back, and ask for something else under the same name.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::multipart::{Form, Part};
use serde_json::json;
use tokio::time::Instant;

use crate::dice::Dice;
use crate::intent::{Intent, Way, turned};
use crate::stage::{Door, Key};
use crate::tries::{Answer, Got, Try, send};

/// Longest that a caller waits because it was told to.
const LONGEST_PAUSE: Duration = Duration::from_millis(700);
/// A hang-up is noticed within a second; this long a caller stays away.
const AWAY: Duration = Duration::from_millis(1500);

/// What a caller was told.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) intent: Intent,
    pub(crate) tries: Vec<Try>,
}

/// Tasks that callers heard of, with the key that knows them.
pub(crate) type Seen = Arc<Mutex<Vec<(usize, String)>>>;

/// A caller at work.
pub(crate) struct Caller {
    pub(crate) http: reqwest::Client,
    pub(crate) door: Door,
    pub(crate) key: Key,
    pub(crate) dice: Dice,
    pub(crate) seen: Seen,
    pub(crate) until: Instant,
    /// Whether some retries are sent twice, as by a network that repeats what it carries.
    pub(crate) twins: bool,
    pub(crate) told: Told,
}

/// What a caller does after a try.
enum Next {
    /// It has what it wants.
    Done,
    /// It gives up.
    Stop,
    /// It comes again.
    Again(Duration),
}

impl Caller {
    /// Asks until it has it, gives up, or its time is over.
    pub(crate) async fn ask(mut self) -> Told {
        match self.told.intent.way {
            Way::Counting => self.count().await,
            Way::Keyed => self.with_a_key().await,
            Way::Plain => self.come_back().await,
            Way::Sdk => {}
        }
        self.told
    }

    /// Asks once more for what it has, by its key.
    pub(crate) async fn ask_once(mut self) -> Told {
        let headers = self.key_headers();
        let patience = self.patience(0);
        let one = self.send_one(&headers, patience).await;
        self.note(one);
        self.told
    }

    /// As the SDKs do: every repetition carries its number. Now and then one that
    /// was held up on its way arrives together with the next.
    async fn count(&mut self) {
        for count in 0..=self.dice.between(2, 8) {
            let patience = self.patience(20);
            let headers = [("x-stainless-retry-count", count.to_string())];
            let next = if count > 0 && self.twins && self.dice.chance(25) {
                self.send_two(&headers, patience).await
            } else {
                let one = self.send_one(&headers, patience).await;
                self.note(one)
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

    /// Every request carries the same key; now and then two at once.
    async fn with_a_key(&mut self) {
        let headers = self.key_headers();
        for _ in 0..self.dice.between(3, 8) {
            let patience = self.patience(30);
            let next = if self.dice.chance(25) {
                self.send_two(&headers, patience).await
            } else {
                let one = self.send_one(&headers, patience).await;
                self.note(one)
            };
            match next {
                Next::Stop => return,
                Next::Done => {
                    if self.dice.chance(40) {
                        self.ask_otherwise(&headers).await;
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
        [("idempotency-key", format!("key-{}", self.told.intent.tag))]
    }

    /// The same key for another thing.
    async fn ask_otherwise(&mut self, headers: &[(&'static str, String)]) {
        let other = self.told.intent.otherwise();
        let intent = std::mem::replace(&mut self.told.intent, other);
        let patience = self.patience(0);
        let mut one = self.send_one(headers, patience).await;
        self.told.intent = intent;
        one.otherwise = true;
        self.told.tries.push(one);
    }

    /// Nothing but the identical body tells that it is the same caller.
    async fn come_back(&mut self) {
        for _ in 0..self.dice.between(3, 8) {
            // An answer that comes at once may be on its way when the caller
            // leaves, and then nobody can tell.
            let waits = self.told.intent.waits();
            let patience = self.patience(if waits { 50 } else { 0 });
            let one = self.send_one(&[], patience).await;
            let left = matches!(one.got, Got::HungUp);
            let unconfirmed = one
                .answer()
                .is_some_and(|answer| answer.is("submission_unconfirmed"));
            let pause = match self.note(one) {
                Next::Again(_) if left => AWAY,
                Next::Again(pause) => pause,
                Next::Stop if unconfirmed && self.dice.chance(50) => Duration::ZERO,
                Next::Done | Next::Stop => return,
            };
            if !self.pause(pause).await {
                return;
            }
        }
    }

    /// How long it stays now; at most until its time is over.
    fn patience(&mut self, percent: u64) -> Duration {
        let leaves = self.dice.chance(percent);
        let soon = self.dice.millis(500, 1500);
        let left = self.until.saturating_duration_since(Instant::now());
        if leaves { soon.min(left) } else { left }
    }

    /// Waits, and until somebody is there; false when the caller's time is over.
    async fn pause(&self, pause: Duration) -> bool {
        let come = async {
            tokio::time::sleep(pause).await;
            self.door.opened().await
        };
        tokio::time::timeout_at(self.until, come).await.is_ok()
    }

    async fn send_one(&mut self, headers: &[(&'static str, String)], patience: Duration) -> Try {
        let request = self.request(headers);
        send(request, &self.told.intent, patience).await
    }

    /// Two at once, of which the first may leave early; what to do after the other.
    async fn send_two(&mut self, headers: &[(&'static str, String)], patience: Duration) -> Next {
        let (one, other) = (self.request(headers), self.request(headers));
        let left = self.patience(0);
        let intent = &self.told.intent;
        let (one, other) = tokio::join!(send(one, intent, patience), send(other, intent, left));
        self.note(one);
        self.note(other)
    }

    fn request(&mut self, headers: &[(&'static str, String)]) -> reqwest::RequestBuilder {
        let intent = &self.told.intent;
        // Nobody listens there while the gateway is down.
        let base = self
            .door
            .address()
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
        let text = if intent.way == Way::Keyed && self.dice.chance(30) {
            turned(&intent.body)
        } else {
            intent.body.to_string()
        };
        request
            .header("content-type", "application/json")
            .body(text)
    }

    fn note(&mut self, one: Try) -> Next {
        if let Some(task) = &one.task {
            let mut seen = self.seen.lock().unwrap();
            seen.push((self.told.intent.key, task.clone()));
        }
        // The SDKs wait for 0.4 s at least, and processes rest on it.
        let pause = if self.told.intent.way == Way::Counting {
            self.dice.millis(400, 700)
        } else {
            self.dice.millis(100, 400)
        };
        let next = match &one.got {
            Got::Whole(answer) if answer.is_good() => Next::Done,
            Got::Whole(answer) if answer.should_retry => Next::Again(told_pause(answer, pause)),
            Got::Whole(_) => Next::Stop,
            Got::Unreached | Got::Lost | Got::HungUp => Next::Again(pause),
        };
        self.told.tries.push(one);
        next
    }
}

fn told_pause(answer: &Answer, otherwise: Duration) -> Duration {
    let told = answer.retry_after.map(Duration::from_secs);
    told.unwrap_or(otherwise).min(LONGEST_PAUSE)
}

/// Calls tasks off at random moments; what it was told, by task.
pub(crate) async fn call_off(
    http: reqwest::Client,
    door: Door,
    keys: Vec<Key>,
    seen: Seen,
    mut dice: Dice,
    times: u64,
) -> Vec<(String, String)> {
    let mut ended = Vec::new();
    for _ in 0..times {
        tokio::time::sleep(dice.millis(50, 800)).await;
        let known = seen.lock().unwrap().clone();
        let (Some(base), false) = (door.address(), known.is_empty()) else {
            continue;
        };
        let recent = &known[known.len().saturating_sub(20)..];
        let (key, task) = dice.pick(recent);
        let request = http
            .post(format!("{base}/v1/tasks/{task}/cancel"))
            .bearer_auth(&keys[*key].secret)
            .json(&json!({}));
        let Ok(answer) = request.send().await else {
            continue;
        };
        let called_off = answer.status().is_success();
        let Ok(view) = answer.json::<serde_json::Value>().await else {
            continue;
        };
        if called_off {
            let state = view["status"].as_str().unwrap().to_owned();
            ended.push((task.clone(), state));
        }
    }
    ended
}
