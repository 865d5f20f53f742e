//! Requests that were refused before anything was made for them, so that their
//! retries are not taken for those of orders alike.
//!
//! They are counted by body and by the number of the try. Here they stay until
//! the database has them, for a retry may come to another process.

use std::collections::{BTreeMap, HashMap};

use super::ClientRegistry;
use mediagate_model::clock::Timestamp;
use mediagate_model::intent::{RefusedAttempts, RequestFingerprint};

/// How many are remembered here at once; more are a flood, of which nobody can
/// say whose retry is whose.
const MOST: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct RefusalLog {
    /// By how many tries came before.
    bodies: HashMap<RequestFingerprint, BTreeMap<u32, RefusalEntry>>,
    /// How many retries with a body ask just now.
    asking: HashMap<RequestFingerprint, u32>,
}

/// A retry that asks whether a try was refused. As long as this is held, no other
/// retry with its body begins something new: it could be the same retry, handed over
/// twice by a connection that broke.
pub struct RefusalCheckGuard {
    attendance: ClientRegistry,
    body: RequestFingerprint,
}

impl Drop for RefusalCheckGuard {
    fn drop(&mut self) {
        let mut refusals = self.attendance.refusals();
        if let Some(count) = refusals.asking.get_mut(&self.body) {
            *count -= 1;
            if *count == 0 {
                refusals.asking.remove(&self.body);
            }
        }
        drop(refusals);
        self.attendance.changed();
    }
}

#[derive(Debug)]
struct RefusalEntry {
    count: u32,
    /// When the first of them was refused.
    since: Timestamp,
    until: Timestamp,
    /// It is being written to the database.
    is_moving: bool,
}

/// The database is about to have it.
struct PersistInProgress;

impl ClientRegistry {
    /// A retry is about to ask whether a try was refused.
    pub fn asking(&self, body: &RequestFingerprint) -> RefusalCheckGuard {
        *self.refusals().asking.entry(body.clone()).or_default() += 1;
        RefusalCheckGuard {
            attendance: self.clone(),
            body: body.clone(),
        }
    }

    pub(super) fn is_asked(&self, body: &RequestFingerprint) -> bool {
        self.refusals().asking.contains_key(body)
    }

    /// Waits until no retry with this body asks.
    pub async fn nobody_asks(&self, body: &RequestFingerprint) {
        self.until(|| (!self.is_asked(body)).then_some(())).await;
    }

    /// A try with this body was refused before anything was made.
    pub fn refused(&self, body: RequestFingerprint, tries: u32, until: Timestamp) {
        let now = self.0.clock.now();
        let mut refusals = self.refusals();
        if refusals.bodies.len() >= MOST && !refusals.bodies.contains_key(&body) {
            return;
        }
        let of_body = refusals.bodies.entry(body).or_default();
        let refused = of_body.entry(tries).or_insert(RefusalEntry {
            count: 0,
            since: now,
            until,
            is_moving: false,
        });
        refused.count += 1;
        refused.until = refused.until.max(until);
        drop(refusals);
        self.0.left.notify_one();
    }

    /// Takes a refused try of which the database does not know yet, for its retry,
    /// before which there were so many. Returns when it was refused.
    pub async fn take_refused(&self, body: &RequestFingerprint, tries: u32) -> Option<Timestamp> {
        let take = || self.refusals().take(body, tries, self.0.clock.now()).ok();
        self.until(take).await
    }

    /// What the database is to be told now, and whose [`ClientRegistry::told`] is to follow.
    pub fn untold(&self) -> Vec<RefusedAttempts> {
        let now = self.0.clock.now();
        let mut refusals = self.refusals();
        refusals.retain(|refused| refused.is_moving || refused.until > now);
        let mut moving = Vec::new();
        for (body, of_body) in &mut refusals.bodies {
            for (tries, refused) in of_body {
                refused.is_moving = true;
                moving.push(RefusedAttempts {
                    body: body.clone(),
                    tries: *tries,
                    count: refused.count,
                    since: refused.since,
                    until: refused.until,
                });
            }
        }
        moving
    }

    /// The database has these refusals now, or could not be told.
    pub fn told(&self, told: Vec<RefusedAttempts>, is_written: bool) {
        let mut refusals = self.refusals();
        for refusal in told {
            let of_body = refusals.bodies.get_mut(&refusal.body);
            let Some(refused) = of_body.and_then(|all| all.get_mut(&refusal.tries)) else {
                continue;
            };
            refused.is_moving = false;
            if is_written {
                refused.count = refused.count.saturating_sub(refusal.count);
            }
        }
        refusals.retain(|refused| refused.count > 0);
        drop(refusals);
        self.changed();
    }
}

impl RefusalLog {
    /// Takes the latest of the tries that came before, for some count from their second
    /// on. Returns when it was refused.
    fn take(
        &mut self,
        body: &RequestFingerprint,
        tries: u32,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, PersistInProgress> {
        let of_body = self.bodies.get_mut(body);
        let mut before = of_body
            .into_iter()
            .flat_map(|all| all.range_mut(..=tries).rev());
        let Some((_, refused)) = before.find(|(_, refused)| refused.until > now) else {
            return Ok(None);
        };
        if refused.is_moving {
            return Err(PersistInProgress);
        }
        let since = refused.since;
        refused.count -= 1;
        if refused.count == 0 {
            self.retain(|refused| refused.count > 0);
        }
        Ok(Some(since))
    }

    fn retain(&mut self, is_kept: impl Fn(&RefusalEntry) -> bool) {
        self.bodies.retain(|_, of_body| {
            of_body.retain(|_, refused| is_kept(refused));
            !of_body.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use mediagate_model::clock::Clock;
    use mediagate_model::ids::KeyId;

    #[tokio::test]
    async fn a_refusal_is_taken_once_and_leaves_for_the_database() {
        let all = ClientRegistry::new(Clock::system());
        let until = all.0.clock.now().plus(Duration::from_mins(1));
        let body = RequestFingerprint {
            key: KeyId::new(),
            fingerprint: "body".to_owned(),
        };
        all.refused(body.clone(), 1, until);
        assert!(all.take_refused(&body, 0).await.is_none(), "of a later try");
        assert!(all.take_refused(&body, 2).await.is_some());
        assert!(all.take_refused(&body, 2).await.is_none());

        all.refused(body.clone(), 0, until);
        let told = all.untold();
        let take = all.take_refused(&body, 1);
        tokio::pin!(take);
        let waits = tokio::time::timeout(Duration::from_millis(20), &mut take).await;
        assert!(waits.is_err(), "the database may have it in a moment");
        // Another one comes while the first is being written.
        all.refused(body.clone(), 0, until);
        all.told(told, true);
        assert!(take.await.is_some());

        all.refused(body.clone(), 0, until);
        let told = all.untold();
        all.told(told, false);
        assert!(
            all.take_refused(&body, 1).await.is_some(),
            "it is still here"
        );
        all.refused(body.clone(), 0, all.0.clock.now());
        assert!(all.take_refused(&body, 1).await.is_none(), "it is too late");
        assert_eq!((all.untold(), all.refusals().bodies.len()), (vec![], 0));
    }
}
