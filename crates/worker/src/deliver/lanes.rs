//! Concurrency limits of webhook delivery, by receiver, account and process; and pauses for
//! receivers whose deliveries fail.
//!
//! A lane is one receiver: an endpoint, or the callbacks of an account to one host. Five failures
//! in a row pause it, so that a dead receiver costs an occasional attempt and not one for each
//! delivery in its queue. A receiver that has not accepted anything yet, or whose requests
//! have had no outcome for a short time, gets fewer requests at once. All receivers that have not accepted anything yet
//! together get at most half of the requests of the process, so that a hundred dead ones leave
//! capacity for the others.

use std::collections::HashMap;
use std::time::Duration;

use mediagate_core::domain::webhooks::outcome::AttemptOutcome;
use mediagate_model::bounds;
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, DeliveryId};
use mediagate_store::webhooks::deliveries::{DeliveryCandidate, LanesWithRoom, SendCapacity};

/// Maximum number of requests at once by this process.
pub(super) const MAX_IN_FLIGHT: usize = bounds::WEBHOOKS.total.count();
/// Maximum number of requests at once for an account.
const MAX_PER_ACCOUNT: usize = bounds::WEBHOOKS.per_account.count();
/// Maximum number of requests at once to a receiver that has accepted one.
const MAX_PER_LANE: usize = 10;
/// Maximum number of requests at once to a receiver that has accepted none yet, or is silent.
const MAX_PER_UNPROVEN_LANE: usize = 2;
/// Maximum number of requests at once to all receivers that have not accepted anything yet.
const MAX_UNPROVEN: usize = MAX_IN_FLIGHT / 2;
/// A receiver whose requests have had no outcome for this long counts as silent.
const SILENT_AFTER: Duration = Duration::from_secs(2);
/// Failures in a row that pause a lane.
const FAILURES_TO_PAUSE: u32 = 5;
/// The shortest and the longest pause.
const PAUSE_RANGE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_mins(5));
/// Maximum number of lanes in memory; with more, idle lanes are dropped.
const MAX_REMEMBERED_LANES: usize = 20_000;

#[derive(Default)]
pub(super) struct ReceiverLanes {
    lanes: HashMap<String, ReceiverLane>,
    accounts: HashMap<AccountId, usize>,
    slots: HashMap<DeliveryId, LaneSlot>,
    /// The number of slots whose lanes were not proven when they were taken.
    unproven_in_flight: usize,
}

struct LaneSlot {
    lane: String,
    account: AccountId,
    /// Whether the lane was proven when the slot was taken.
    was_proven: bool,
}

struct ReceiverLane {
    in_flight: usize,
    /// Whether the receiver has accepted a request.
    is_proven: bool,
    /// The time of the latest outcome, or of the first attempt since the lane was idle.
    silent_since: Timestamp,
    /// The number of failures in a row.
    failures: u32,
    /// The number of pauses in a row.
    pauses: u32,
    paused_until: Option<Timestamp>,
}

impl ReceiverLane {
    fn new(now: Timestamp) -> Self {
        Self {
            in_flight: 0,
            is_proven: false,
            silent_since: now,
            failures: 0,
            pauses: 0,
            paused_until: None,
        }
    }

    fn has_room(&self, now: Timestamp) -> bool {
        let is_silent = self.in_flight > 0 && now.since(self.silent_since) > SILENT_AFTER;
        let limit = match self.failures {
            // One request is enough to find out whether a dead receiver is back.
            FAILURES_TO_PAUSE.. => 1,
            _ if self.is_proven && !is_silent => MAX_PER_LANE,
            _ => MAX_PER_UNPROVEN_LANE,
        };
        self.in_flight < limit && self.paused_until.is_none_or(|until| until <= now)
    }
}

impl ReceiverLanes {
    /// Which lanes have room and which accounts are full; `None` if the process is at its limit.
    pub(super) fn room(&self, now: Timestamp) -> Option<SendCapacity> {
        if self.slots.len() >= MAX_IN_FLIGHT {
            return None;
        }
        let names = |is_wanted: fn(&ReceiverLane, Timestamp) -> bool| {
            let names = self.lanes.iter().filter(|(_, lane)| is_wanted(lane, now));
            names.map(|(name, _)| name.clone()).collect()
        };
        let accounts = self
            .accounts
            .iter()
            .filter(|(_, count)| **count >= MAX_PER_ACCOUNT);
        let accounts = accounts.map(|(account, _)| *account).collect();
        let lanes = if self.unproven_in_flight < MAX_UNPROVEN {
            LanesWithRoom::AllBut(names(|lane, now| !lane.has_room(now)))
        } else {
            LanesWithRoom::Only(names(|lane, now| lane.is_proven && lane.has_room(now)))
        };
        Some(SendCapacity {
            lanes,
            full_accounts: accounts,
        })
    }

    /// The deliveries in flight, from their claim until their outcome is written.
    pub(super) fn in_flight(&self) -> Vec<DeliveryId> {
        self.slots.keys().copied().collect()
    }

    /// Takes a slot for the delivery, if one is free and it has none yet.
    pub(super) fn take(&mut self, candidate: &DeliveryCandidate, now: Timestamp) -> bool {
        let account = self.accounts.get(&candidate.account);
        let lane = self.lanes.get(&candidate.lane);
        let is_proven = lane.is_some_and(|lane| lane.is_proven);
        if self.slots.len() >= MAX_IN_FLIGHT
            || self.slots.contains_key(&candidate.id)
            || (!is_proven && self.unproven_in_flight >= MAX_UNPROVEN)
            || account.is_some_and(|count| *count >= MAX_PER_ACCOUNT)
            || lane.is_some_and(|lane| !lane.has_room(now))
        {
            return false;
        }
        *self.accounts.entry(candidate.account).or_default() += 1;
        let lane = self.lanes.entry(candidate.lane.clone());
        let lane = lane.or_insert_with(|| ReceiverLane::new(now));
        // An idle receiver does not count as silent. The time without an answer begins with this
        // request.
        if lane.in_flight == 0 {
            lane.silent_since = now;
        }
        lane.in_flight += 1;
        self.unproven_in_flight += usize::from(!is_proven);
        let slot = LaneSlot {
            lane: candidate.lane.clone(),
            account: candidate.account,
            was_proven: is_proven,
        };
        self.slots.insert(candidate.id, slot);
        true
    }

    /// Records the outcome of an attempt; its slot is freed once the outcome is written. Returns
    /// the length of the lane's pause, if one begins now.
    pub(super) fn record_outcome(
        &mut self,
        outcome: &AttemptOutcome,
        now: Timestamp,
    ) -> Option<Duration> {
        let lane = self.lanes.get_mut(&outcome.due.lane)?;
        lane.silent_since = now;
        if outcome.attempt.error.is_none() {
            (lane.failures, lane.pauses, lane.paused_until) = (0, 0, None);
            lane.is_proven = true;
            return None;
        }
        lane.failures = lane.failures.saturating_add(1);
        // Requests that were under way when the lane was paused must not lengthen the pause.
        if lane.failures < FAILURES_TO_PAUSE || lane.paused_until.is_some_and(|until| until > now) {
            return None;
        }
        let pause = PAUSE_RANGE
            .0
            .saturating_mul(1 << lane.pauses.min(8))
            .min(PAUSE_RANGE.1);
        lane.pauses += 1;
        lane.paused_until = Some(now.plus(pause));
        Some(pause)
    }

    pub(super) fn release(&mut self, id: DeliveryId) {
        let Some(slot) = self.slots.remove(&id) else {
            return;
        };
        // Uses the state at the time of counting: the receiver may have become proven since.
        self.unproven_in_flight -= usize::from(!slot.was_proven);
        if let Some(lane) = self.lanes.get_mut(&slot.lane) {
            lane.in_flight = lane.in_flight.saturating_sub(1);
        }
        if let Some(count) = self.accounts.get_mut(&slot.account) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.accounts.remove(&slot.account);
            }
        }
        if self.lanes.len() > MAX_REMEMBERED_LANES {
            self.lanes.retain(|_, lane| lane.in_flight > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mediagate_model::ids::EventId;
    use mediagate_model::webhook::{AttemptError, DeliveryAttempt, DueDelivery, SignatureScheme};

    fn candidate(account: AccountId, lane: &str) -> DeliveryCandidate {
        DeliveryCandidate {
            id: DeliveryId::new(),
            account,
            lane: lane.to_owned(),
        }
    }

    fn outcome(lane: &str, error: Option<AttemptError>) -> AttemptOutcome {
        let now = Timestamp::from_seconds(1);
        AttemptOutcome {
            due: DueDelivery {
                id: DeliveryId::new(),
                account: AccountId::new(),
                endpoint: None,
                event: EventId::new(),
                url: String::new(),
                body: String::new(),
                scheme: SignatureScheme::Hmac,
                secrets: None,
                lane: lane.to_owned(),
                attempts: 0,
                earlier_attempts: 0,
                due_at: now,
                trace: None,
            },
            attempt: DeliveryAttempt {
                number: 1,
                at: now,
                took_ms: 1,
                status: None,
                error,
                response: None,
            },
            retry_after: None,
            chance: 0.5,
        }
    }

    /// Takes up to 20 slots in a lane. Returns how many it got.
    fn take_many(
        lanes: &mut ReceiverLanes,
        account: AccountId,
        lane: &str,
        now: Timestamp,
    ) -> usize {
        (0..20)
            .filter(|_| lanes.take(&candidate(account, lane), now))
            .count()
    }

    fn accept_one(lanes: &mut ReceiverLanes, account: AccountId, lane: &str, now: Timestamp) {
        let delivery = candidate(account, lane);
        assert!(lanes.take(&delivery, now));
        lanes.record_outcome(&outcome(lane, None), now);
        lanes.release(delivery.id);
    }

    #[test]
    fn a_receiver_an_account_and_the_process_have_their_limits() {
        let (mut lanes, now) = (ReceiverLanes::default(), Timestamp::from_seconds(1_000));
        let account = AccountId::new();
        assert_eq!(
            take_many(&mut lanes, account, "new", now),
            MAX_PER_UNPROVEN_LANE
        );
        for lane in ["a", "b", "c", "d", "e"] {
            accept_one(&mut lanes, account, lane, now);
        }
        assert_eq!(take_many(&mut lanes, account, "a", now), MAX_PER_LANE);
        for lane in ["b", "c", "d", "e"] {
            take_many(&mut lanes, account, lane, now);
        }
        assert_eq!(lanes.slots.len(), MAX_PER_ACCOUNT);
        let room = lanes.room(now).unwrap();
        assert!(
            matches!(room.lanes, LanesWithRoom::AllBut(full) if full.contains(&"a".to_owned()))
        );
        assert_eq!(room.full_accounts, [account]);
        let mut in_flight = lanes.slots.len();
        for number in 0..100 {
            let (account, lane) = (AccountId::new(), format!("x{number}"));
            accept_one(&mut lanes, account, &lane, now);
            in_flight += take_many(&mut lanes, account, &lane, now);
            if in_flight == MAX_IN_FLIGHT {
                break;
            }
        }
        assert_eq!(lanes.slots.len(), MAX_IN_FLIGHT);
        assert!(lanes.room(now).is_none());
        for id in lanes.slots.keys().copied().collect::<Vec<_>>() {
            lanes.release(id);
        }
        assert!(lanes.accounts.is_empty() && lanes.unproven_in_flight == 0);
    }

    #[test]
    fn receivers_that_answer_nothing_leave_room_for_those_that_do() {
        let (mut lanes, now) = (ReceiverLanes::default(), Timestamp::from_seconds(1_000));
        let account = AccountId::new();
        accept_one(&mut lanes, account, "alive", now);
        let dead: usize = (0..1000)
            .map(|number| take_many(&mut lanes, AccountId::new(), &format!("dead{number}"), now))
            .sum();
        assert_eq!(dead, MAX_UNPROVEN);
        let room = lanes.room(now).unwrap();
        assert!(matches!(room.lanes, LanesWithRoom::Only(names) if names == ["alive"]));
        assert_eq!(take_many(&mut lanes, account, "alive", now), MAX_PER_LANE);
        // A receiver that becomes silent gets no more requests than an unknown one.
        let (silent_account, later) = (AccountId::new(), now.plus(SILENT_AFTER * 2));
        let mut lanes = ReceiverLanes::default();
        accept_one(&mut lanes, silent_account, "silent", now);
        for _ in 0..3 {
            assert!(lanes.take(&candidate(silent_account, "silent"), now));
        }
        assert!(!lanes.take(&candidate(silent_account, "silent"), later));
    }

    #[test]
    fn a_dead_receiver_costs_a_try_for_each_pause() {
        let (mut lanes, now, account) = (
            ReceiverLanes::default(),
            Timestamp::from_seconds(1_000),
            AccountId::new(),
        );
        let failure = outcome("a", Some(AttemptError::Timeout));
        assert!(lanes.take(&candidate(account, "a"), now));
        let pauses: Vec<_> = (0..7)
            .map(|_| lanes.record_outcome(&failure, now))
            .collect();
        assert_eq!(pauses[..4], [None; 4]);
        assert_eq!(pauses[4], Some(PAUSE_RANGE.0));
        assert_eq!(pauses[5..], [None; 2]);
        for id in lanes.slots.keys().copied().collect::<Vec<_>>() {
            lanes.release(id);
        }
        assert!(!lanes.take(&candidate(account, "a"), now));
        let later = now.plus(PAUSE_RANGE.0);
        assert!(lanes.take(&candidate(account, "a"), later));
        assert!(!lanes.take(&candidate(account, "a"), later));
        assert_eq!(
            lanes.record_outcome(&failure, later),
            Some(PAUSE_RANGE.0 * 2)
        );
        assert_eq!(lanes.record_outcome(&outcome("a", None), later), None);
        assert!(lanes.take(&candidate(account, "a"), later));
    }
}
