//! How much is sent at once: to a receiver, for an account, by this process; and the pauses of
//! receivers that answer nothing.
//!
//! A lane is one receiver: an endpoint, or the callbacks of an account to one host. Five failures
//! in a row pause it, so that a dead one costs a try now and then and not its queue.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::clock::Timestamp;
use crate::domain::webhooks::outcome::Tried;
use crate::ids::{AccountId, DeliveryId};
use crate::store::webhooks::deliveries::Candidate;

/// At once, by this process.
pub(super) const MOST: usize = 500;
/// At once, for an account.
const ACCOUNT: usize = 50;
/// At once, to a receiver that answers.
const LANE: usize = 10;
/// Failures in a row that pause a lane.
const FAILURES: u32 = 5;
/// The first and the longest pause.
const PAUSES: (Duration, Duration) = (Duration::from_secs(30), Duration::from_mins(5));
/// Failing lanes that are remembered; beyond that those that rest are forgotten.
const REMEMBERED: usize = 20_000;

#[derive(Default)]
pub(super) struct Lanes {
    known: HashMap<String, Lane>,
    accounts: HashMap<AccountId, usize>,
    places: HashMap<DeliveryId, (String, AccountId)>,
}

#[derive(Default)]
struct Lane {
    in_flight: usize,
    /// In a row.
    failures: u32,
    /// In a row.
    pauses: u32,
    paused_until: Option<Timestamp>,
}

/// What there is no room for.
pub(super) struct Full {
    pub(super) lanes: Vec<String>,
    pub(super) accounts: Vec<AccountId>,
}

impl Lane {
    fn has_room(&self, now: Timestamp) -> bool {
        let most = if self.failures < FAILURES { LANE } else { 1 };
        self.in_flight < most && self.paused_until.is_none_or(|until| until <= now)
    }

    fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.failures == 0
    }
}

impl Lanes {
    /// What has no room; `None` if nothing has.
    pub(super) fn full(&self, now: Timestamp) -> Option<Full> {
        if self.places.len() >= MOST {
            return None;
        }
        let lanes = self.known.iter().filter(|(_, lane)| !lane.has_room(now));
        let accounts = self.accounts.iter().filter(|(_, count)| **count >= ACCOUNT);
        Some(Full {
            lanes: lanes.map(|(name, _)| name.clone()).collect(),
            accounts: accounts.map(|(account, _)| *account).collect(),
        })
    }

    /// Takes a place, if there is one.
    pub(super) fn take(&mut self, candidate: &Candidate, now: Timestamp) -> bool {
        if self.places.len() >= MOST {
            return false;
        }
        let account = self.accounts.get(&candidate.account);
        let lane = self.known.get(&candidate.lane);
        if account.is_some_and(|count| *count >= ACCOUNT)
            || lane.is_some_and(|lane| !lane.has_room(now))
        {
            return false;
        }
        *self.accounts.entry(candidate.account).or_default() += 1;
        let lane = self.known.entry(candidate.lane.clone()).or_default();
        lane.in_flight += 1;
        let place = (candidate.lane.clone(), candidate.account);
        self.places.insert(candidate.id, place);
        true
    }

    /// Gives back the places of those that another process claimed.
    pub(super) fn settle(&mut self, chosen: &[DeliveryId], kept: &HashSet<DeliveryId>) {
        for id in chosen.iter().filter(|id| !kept.contains(*id)) {
            self.release(*id);
        }
    }

    /// A try is over; its place is given back once that is written. Returns how long its lane pauses,
    /// if it does from now on.
    pub(super) fn over(&mut self, tried: &Tried, now: Timestamp) -> Option<Duration> {
        let lane = self.known.get_mut(&tried.due.lane)?;
        if tried.attempt.error.is_none() {
            (lane.failures, lane.pauses, lane.paused_until) = (0, 0, None);
            return None;
        }
        lane.failures = lane.failures.saturating_add(1);
        // Those that were under way when it was paused change nothing.
        if lane.failures < FAILURES || lane.paused_until.is_some_and(|until| until > now) {
            return None;
        }
        let pause = PAUSES
            .0
            .saturating_mul(1 << lane.pauses.min(8))
            .min(PAUSES.1);
        lane.pauses += 1;
        lane.paused_until = Some(now.plus(pause));
        Some(pause)
    }

    pub(super) fn release(&mut self, id: DeliveryId) {
        let Some((name, account)) = self.places.remove(&id) else {
            return;
        };
        if let Some(lane) = self.known.get_mut(&name) {
            lane.in_flight = lane.in_flight.saturating_sub(1);
            if lane.is_idle() {
                self.known.remove(&name);
            }
        }
        if let Some(count) = self.accounts.get_mut(&account) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.accounts.remove(&account);
            }
        }
        if self.known.len() > REMEMBERED {
            self.known.retain(|_, lane| lane.in_flight > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::EventId;
    use crate::model::webhook::{Attempt, AttemptError, Due, Scheme};

    fn candidate(account: AccountId, lane: &str) -> Candidate {
        Candidate {
            id: DeliveryId::new(),
            account,
            lane: lane.to_owned(),
        }
    }

    fn tried(lane: &str, error: Option<AttemptError>) -> Tried {
        let now = Timestamp::from_seconds(1);
        Tried {
            due: Due {
                id: DeliveryId::new(),
                account: AccountId::new(),
                endpoint: None,
                event: EventId::new(),
                url: String::new(),
                body: String::new(),
                scheme: Scheme::Hmac,
                secrets: None,
                lane: lane.to_owned(),
                attempts: 0,
                before: 0,
                due_at: now,
            },
            attempt: Attempt {
                number: 1,
                at: now,
                took_ms: 1,
                status: None,
                error,
                response: None,
            },
            asked: None,
            chance: 0.5,
        }
    }

    #[test]
    fn a_receiver_an_account_and_the_process_have_their_limits() {
        let (mut lanes, now, account) = (
            Lanes::default(),
            Timestamp::from_seconds(1_000),
            AccountId::new(),
        );
        let taken = |lanes: &mut Lanes, account, lane: &str, times: usize| {
            let all = (0..times).filter(|_| lanes.take(&candidate(account, lane), now));
            all.count()
        };
        assert_eq!(taken(&mut lanes, account, "a", 20), LANE);
        assert_eq!(lanes.full(now).unwrap().lanes, ["a"]);
        for lane in ["b", "c", "d", "e", "f"] {
            taken(&mut lanes, account, lane, 20);
        }
        assert_eq!(lanes.places.len(), ACCOUNT);
        assert_eq!(lanes.full(now).unwrap().accounts, [account]);
        let others: usize = (0..100)
            .map(|n| taken(&mut lanes, AccountId::new(), &format!("x{n}"), 20))
            .sum();
        assert_eq!(others, MOST - ACCOUNT);
        assert!(lanes.full(now).is_none());
        for id in lanes.places.keys().copied().collect::<Vec<_>>() {
            lanes.release(id);
        }
        assert!(lanes.known.is_empty() && lanes.accounts.is_empty());
    }

    #[test]
    fn a_dead_receiver_costs_a_try_for_each_pause() {
        let (mut lanes, now, account) = (
            Lanes::default(),
            Timestamp::from_seconds(1_000),
            AccountId::new(),
        );
        let failed = tried("a", Some(AttemptError::Timeout));
        assert!(lanes.take(&candidate(account, "a"), now));
        let pauses: Vec<_> = (0..7).map(|_| lanes.over(&failed, now)).collect();
        assert_eq!(pauses[..4], [None; 4]);
        assert_eq!(pauses[4], Some(PAUSES.0));
        assert_eq!(pauses[5..], [None; 2]);
        for id in lanes.places.keys().copied().collect::<Vec<_>>() {
            lanes.release(id);
        }
        assert!(!lanes.take(&candidate(account, "a"), now));
        let later = now.plus(PAUSES.0);
        assert!(lanes.take(&candidate(account, "a"), later));
        assert!(!lanes.take(&candidate(account, "a"), later));
        assert_eq!(lanes.over(&failed, later), Some(PAUSES.0 * 2));
        assert_eq!(lanes.over(&tried("a", None), later), None);
        assert!(lanes.take(&candidate(account, "a"), later));
    }
}
