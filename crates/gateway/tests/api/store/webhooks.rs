//! Endpoints, events and deliveries in the database.

use std::time::Duration;

use mediagate_model::ids::{AccountId, DeliveryId, EndpointId, EventId};
use mediagate_model::webhook::{
    AttemptError, DeliveryAttempt, DeliveryState, DeliveryTarget, DisableReason, DueDelivery,
    EventType, SignatureScheme, WebhookEndpoint, WebhookEvent,
};
use mediagate_store::tasks::PageQuery;
use mediagate_store::webhooks::deliveries::{self, LanesWithRoom, NewDelivery, SendCapacity};
use mediagate_store::webhooks::{delivery_log, endpoints, plain_callbacks};
use mediagate_store::{Conn, StoreError, tasks, workers};

use super::{Fixture, at, owner, postgres, sqlite, task};

on_both! {
    an_endpoint_is_read_as_written
    a_due_delivery_is_found_by_the_work_poll
    a_delivery_is_claimed_by_one_worker_and_attempted
    a_delivery_of_a_dead_process_can_be_claimed_again
    deliveries_follow_their_endpoints_state
    old_deliveries_are_deleted
    a_delivery_due_absurdly_late_is_due_now
    callbacks_of_earlier_versions_are_found_and_replaced
}

async fn callbacks_of_earlier_versions_are_found_and_replaced(db: Fixture) {
    db.write(|conn| -> Result<(), StoreError> {
        let (account, key) = owner(conn)?;
        let url = "https://caller.test/hook?a=1";
        let mut ordered = task((account, key), at(0));
        ordered.callback = Some(url.into());
        tasks::insert(conn, &ordered)?;
        let event = WebhookEvent {
            id: EventId::new(),
            account,
            task: Some(ordered.id),
            kind: EventType::TaskSucceeded,
            body: "{\"number\":1}".into(),
            created_at: at(1),
        };
        assert!(deliveries::insert_event(conn, &event)?);
        let new = NewDelivery {
            id: DeliveryId::new(),
            event: &event,
            to: &DeliveryTarget::Callback(url.into()),
            lane: "caller.test",
            body: Some("{\"job\":1}"),
            state: DeliveryState::Waiting,
        };
        deliveries::insert(conn, &new)?;

        let found = plain_callbacks::tasks(conn, 1_000)?;
        let found = found.iter().find(|row| row.id == ordered.id).unwrap();
        assert_eq!((found.account, found.url.as_str()), (account, url));
        plain_callbacks::set_of_task(conn, ordered.id, "AAAA")?;
        let found = plain_callbacks::deliveries(conn, 1_000)?;
        let found = found.iter().find(|row| row.id == new.id).unwrap();
        assert_eq!((found.account, found.url.as_str()), (account, url));
        assert_eq!(found.body.as_deref(), new.body);
        assert_eq!((found.event, &found.event_body), (event.id, &event.body));
        plain_callbacks::set_of_delivery(conn, new.id, "BBBB", Some("CCCC"))?;
        plain_callbacks::set_event_body(conn, event.id, "DDDD")?;

        let is_left = plain_callbacks::tasks(conn, 1_000)?;
        assert!(is_left.iter().all(|row| row.id != ordered.id));
        let is_left = plain_callbacks::deliveries(conn, 1_000)?;
        assert!(is_left.iter().all(|row| row.id != new.id));
        let claimed = deliveries::claim(conn, "w1", &[new.id], at(0))?;
        assert_eq!(
            (claimed[0].url.as_str(), claimed[0].body.as_str()),
            ("BBBB", "CCCC")
        );
        Ok(())
    })
    .await;
}

fn endpoint(account: AccountId) -> WebhookEndpoint {
    WebhookEndpoint {
        id: EndpointId::new(),
        account,
        key: None,
        url: "https://example.com/hook".into(),
        description: String::new(),
        events: None,
        scheme: SignatureScheme::Hmac,
        secrets: "sealed".into(),
        enabled: true,
        disabled_why: None,
        failures: 0,
        failing_since: None,
        created_at: at(0),
    }
}

/// An endpoint with deliveries that are due at 1, 2, ….
fn due_deliveries(
    conn: &mut Conn<'_>,
    count: i64,
) -> Result<(WebhookEndpoint, Vec<DeliveryId>), StoreError> {
    let (account, _) = owner(conn)?;
    let endpoint = endpoint(account);
    endpoints::insert(conn, &endpoint)?;
    let mut ids = Vec::new();
    for number in 1..=count {
        let event = WebhookEvent {
            id: EventId::new(),
            account,
            task: None,
            kind: EventType::Test,
            body: format!("{{\"number\":{number}}}"),
            created_at: at(number),
        };
        assert!(deliveries::insert_event(conn, &event)?);
        let id = DeliveryId::new();
        let new = NewDelivery {
            id,
            event: &event,
            to: &DeliveryTarget::Endpoint(endpoint.id),
            lane: &endpoint.id.to_string(),
            body: None,
            state: DeliveryState::Waiting,
        };
        deliveries::insert(conn, &new)?;
        ids.push(id);
    }
    Ok((endpoint, ids))
}

fn attempt(number: u32, error: Option<AttemptError>) -> DeliveryAttempt {
    DeliveryAttempt {
        number,
        at: at(10),
        took_ms: 5,
        status: Some(500),
        error,
        response: Some("no".into()),
    }
}

fn page<Id>(limit: u32, ascending: bool) -> PageQuery<Id> {
    PageQuery {
        after: None,
        limit,
        ascending,
    }
}

async fn an_endpoint_is_read_as_written(db: Fixture) {
    db.write(|conn| {
        let (account, _) = owner(conn)?;
        let mut first_endpoint = endpoint(account);
        endpoints::insert(conn, &first_endpoint)?;
        let second_endpoint = endpoint(account);
        endpoints::insert(conn, &second_endpoint)?;
        assert_eq!(endpoints::count(conn, account)?, 2);
        assert_eq!(endpoints::of_account(conn, account)?.len(), 2);
        assert!(endpoints::all(conn)?.len() >= 2);
        let newest = endpoints::page(conn, account, page(1, false))?;
        let oldest = endpoints::page(conn, account, page(1, true))?;
        assert_eq!(
            (newest[0].id, oldest[0].id),
            (second_endpoint.id, first_endpoint.id)
        );
        first_endpoint.events = Some(vec![EventType::TaskFailed, EventType::Test]);
        first_endpoint.description = "mine".into();
        endpoints::update(conn, &first_endpoint)?;
        endpoints::set_secrets(conn, first_endpoint.id, "others")?;
        first_endpoint.secrets = "others".into();
        assert_eq!(
            endpoints::by_id(conn, first_endpoint.id, account)?,
            Some(first_endpoint.clone())
        );
        assert_eq!(
            endpoints::by_id(conn, first_endpoint.id, AccountId::new())?,
            None
        );
        for number in 1..=3 {
            let failed = endpoints::note_failure(conn, first_endpoint.id, at(number))?.unwrap();
            assert_eq!(
                (i64::from(failed.failures), failed.failing_since),
                (number, Some(at(1)))
            );
        }
        assert!(endpoints::disable(
            conn,
            first_endpoint.id,
            DisableReason::Gone
        )?);
        assert!(!endpoints::disable(
            conn,
            first_endpoint.id,
            DisableReason::Failing
        )?);
        let disabled = endpoints::by_id(conn, first_endpoint.id, account)?.unwrap();
        assert_eq!(
            (disabled.enabled, disabled.disabled_why),
            (false, Some(DisableReason::Gone))
        );
        // Enabled again, it starts without failures.
        endpoints::update(conn, &first_endpoint)?;
        assert_eq!(
            endpoints::by_id(conn, first_endpoint.id, account)?,
            Some(first_endpoint.clone())
        );
        endpoints::note_failure(conn, first_endpoint.id, at(9))?;
        endpoints::note_success(conn, first_endpoint.id)?;
        assert_eq!(
            endpoints::by_id(conn, first_endpoint.id, account)?,
            Some(first_endpoint.clone())
        );
        endpoints::delete(conn, first_endpoint.id)?;
        assert_eq!(
            endpoints::note_failure(conn, first_endpoint.id, at(9))?,
            None
        );
        assert_eq!(endpoints::account_secrets(conn, account)?, None);
        let first_secrets = endpoints::first_account_secrets(conn, account, "a")?;
        let second_secrets = endpoints::first_account_secrets(conn, account, "b")?;
        assert_eq!(
            (first_secrets.as_deref(), second_secrets.as_deref()),
            (Some("a"), Some("a"))
        );
        endpoints::set_account_secrets(conn, account, "c")?;
        assert_eq!(
            endpoints::account_secrets(conn, account)?.as_deref(),
            Some("c")
        );
        Ok::<_, StoreError>(())
    })
    .await;
}

async fn a_due_delivery_is_found_by_the_work_poll(db: Fixture) {
    db.write(|conn| due_deliveries(conn, 1).map(drop)).await;
    let is_found = async |now| {
        let due = db.read(move |conn| tasks::due_work(conn, "[]", at(now)));
        due.await.deliveries
    };
    assert!(!is_found(0).await);
    assert!(is_found(1).await);
}

async fn a_delivery_is_claimed_by_one_worker_and_attempted(db: Fixture) {
    db.write(|conn| {
        let (endpoint, ids) = due_deliveries(conn, 3)?;
        let lane = endpoint.id.to_string();
        let candidates =
            |conn: &mut Conn<'_>, lanes: LanesWithRoom, full_accounts: &[AccountId]| {
                let full_accounts = full_accounts.to_vec();
                let capacity = SendCapacity {
                    lanes,
                    full_accounts,
                };
                let due_deliveries = deliveries::candidates(conn, &capacity, 1000, at(2))?;
                let own = due_deliveries
                    .into_iter()
                    .filter(|delivery| delivery.lane == lane);
                Ok::<_, StoreError>(own.map(|delivery| delivery.id).collect::<Vec<_>>())
            };
        let all_but =
            |lanes: &[&String]| LanesWithRoom::AllBut(lanes.iter().copied().cloned().collect());
        assert_eq!(candidates(conn, all_but(&[]), &[])?, ids[..2]);
        assert!(candidates(conn, all_but(&[&lane]), &[])?.is_empty());
        assert!(candidates(conn, all_but(&[]), &[endpoint.account])?.is_empty());
        assert_eq!(
            candidates(conn, LanesWithRoom::Only(vec![lane.clone()]), &[])?,
            ids[..2]
        );
        assert!(candidates(conn, LanesWithRoom::Only(Vec::new()), &[])?.is_empty());
        assert!(deliveries::count_due(conn, at(2))? >= 2);
        let claimed: Vec<DueDelivery> = deliveries::claim(conn, "w1", &ids[..2], at(0))?;
        assert_eq!(
            claimed.iter().map(|due| due.id).collect::<Vec<_>>(),
            ids[..2]
        );
        assert_eq!(claimed[0].url, endpoint.url);
        assert_eq!(claimed[0].body, "{\"number\":1}");
        assert_eq!(claimed[0].secrets.as_deref(), Some("sealed"));
        let remaining = deliveries::claim(conn, "w2", &ids, at(0))?;
        assert_eq!(
            remaining.iter().map(|due| due.id).collect::<Vec<_>>(),
            ids[2..]
        );
        // The answer to the second claim was lost.
        assert_eq!(deliveries::free_others(conn, "w2", &[])?, 1);
        // Only the holder records an attempt.
        let failed = attempt(1, Some(AttemptError::Status));
        let waiting = DeliveryState::Waiting;
        assert!(!deliveries::record_attempt(
            conn,
            ids[0],
            "w2",
            &failed,
            waiting,
            at(20)
        )?);
        assert!(deliveries::record_attempt(
            conn,
            ids[0],
            "w1",
            &failed,
            waiting,
            at(20)
        )?);
        let succeeded = attempt(2, None);
        deliveries::claim(conn, "w1", &ids[..1], at(0))?;
        assert!(deliveries::record_attempt(
            conn,
            ids[0],
            "w1",
            &succeeded,
            DeliveryState::Delivered,
            at(10)
        )?);
        let logged = delivery_log::by_id(conn, ids[0], endpoint.account)?.unwrap();
        assert_eq!(
            (logged.state, logged.attempts),
            (DeliveryState::Delivered, 2)
        );
        assert_eq!(delivery_log::attempts(conn, ids[0])?, [failed, succeeded]);
        assert_eq!(
            delivery_log::account_of(conn, ids[0])?,
            Some(endpoint.account)
        );
        for state in [None, Some(DeliveryState::Delivered)] {
            for ascending in [true, false] {
                let list = delivery_log::of_endpoint(conn, endpoint.id, state, page(9, ascending))?;
                assert_eq!(list.len(), if state.is_some() { 1 } else { 3 });
            }
        }
        assert!(deliveries::redeliver(conn, ids[0], at(30))?);
        let reclaimed = deliveries::claim(conn, "w1", &ids[..1], at(0))?;
        assert_eq!(
            (reclaimed[0].attempts, reclaimed[0].earlier_attempts),
            (2, 2)
        );
        assert!(!deliveries::redeliver(conn, ids[0], at(31))?);
        deliveries::pause(conn, &lane, at(99))?;
        let paused = delivery_log::by_id(conn, ids[2], endpoint.account)?.unwrap();
        assert_eq!(paused.due_at, at(99));
        Ok::<_, StoreError>(())
    })
    .await;
}

async fn a_delivery_of_a_dead_process_can_be_claimed_again(db: Fixture) {
    db.write(|conn| {
        let (_, ids) = due_deliveries(conn, 3)?;
        for (name, id) in ["dead", "gone", "unknown"].iter().zip(&ids) {
            if *name != "unknown" {
                workers::register(conn, name, at(5))?;
            }
            deliveries::claim(conn, name, &[*id], at(0))?;
        }
        assert!(workers::any_lapsed(conn, at(6))?);
        workers::deregister(conn, "gone")?;
        workers::free_lapsed(conn, at(6))?;
        workers::free_unknown(conn)?;
        let free = deliveries::claim(conn, "w1", &ids, at(0))?;
        assert_eq!(free.len(), 3);
        Ok::<_, StoreError>(())
    })
    .await;
}

async fn deliveries_follow_their_endpoints_state(db: Fixture) {
    db.write(|conn| {
        let (endpoint, ids) = due_deliveries(conn, 3)?;
        deliveries::claim(conn, "w1", &ids[..1], at(0))?;
        deliveries::hold(conn, endpoint.id, at(10))?;
        let state = |conn: &mut Conn<'_>, id| {
            let delivery = delivery_log::by_id(conn, id, endpoint.account);
            delivery.map(|delivery| delivery.unwrap().state)
        };
        // A delivery under way is settled by its attempt.
        assert_eq!(state(conn, ids[0])?, DeliveryState::Waiting);
        assert_eq!(state(conn, ids[1])?, DeliveryState::Held);
        assert_eq!(deliveries::recover(conn, endpoint.id, at(3), at(9))?, 1);
        assert_eq!(state(conn, ids[2])?, DeliveryState::Waiting);
        deliveries::fail_all_of_endpoint(conn, endpoint.id, &endpoint.url, at(9))?;
        endpoints::delete(conn, endpoint.id)?;
        for id in ids {
            let logged = delivery_log::by_id(conn, id, endpoint.account)?.unwrap();
            assert_eq!(
                (logged.state, &logged.url),
                (DeliveryState::Failed, &endpoint.url)
            );
        }
        Ok::<_, StoreError>(())
    })
    .await;
}

async fn a_delivery_due_absurdly_late_is_due_now(db: Fixture) {
    db.write(|conn| {
        let (_, ids) = due_deliveries(conn, 3)?;
        // The second was tried and the third was created while the clock was ahead. The first
        // waits correctly.
        for (id, tried_at) in [(ids[0], at(1)), (ids[1], at(2000))] {
            deliveries::claim(conn, "w1", &[id], at(0))?;
            let failed = DeliveryAttempt {
                at: tried_at,
                ..attempt(1, Some(AttemptError::Timeout))
            };
            let next = at(3000);
            deliveries::record_attempt(conn, id, "w1", &failed, DeliveryState::Waiting, next)?;
        }
        assert_eq!(deliveries::pull_forward(conn, at(2), at(1))?, 2);
        assert_eq!(deliveries::pull_forward(conn, at(2), at(1))?, 0);
        let claimed = deliveries::claim(conn, "w2", &ids, at(1))?;
        let claimed: Vec<DeliveryId> = claimed.iter().map(|due| due.id).collect();
        assert!(claimed.contains(&ids[1]) && claimed.contains(&ids[2]));
        Ok::<_, StoreError>(())
    })
    .await;
}

async fn old_deliveries_are_deleted(db: Fixture) {
    db.write(|conn| {
        let (endpoint, ids) = due_deliveries(conn, 3)?;
        deliveries::claim(conn, "w1", &ids[..2], at(0))?;
        deliveries::record_attempt(
            conn,
            ids[0],
            "w1",
            &attempt(1, None),
            DeliveryState::Delivered,
            at(10),
        )?;
        let failed = attempt(1, Some(AttemptError::Timeout));
        deliveries::record_attempt(conn, ids[1], "w1", &failed, DeliveryState::Failed, at(10))?;
        deliveries::hold(conn, endpoint.id, at(10))?;
        let remaining = |conn: &mut Conn<'_>| {
            let list = delivery_log::of_endpoint(conn, endpoint.id, None, page(9, true));
            list.map(|list| list.len())
        };
        let day = Duration::from_hours(24);
        delivery_log::forget(conn, at(10), at(3), 1000)?;
        assert_eq!(remaining(conn)?, 3);
        delivery_log::forget(conn, at(11), at(3), 1000)?;
        assert_eq!(remaining(conn)?, 2);
        assert_eq!(
            delivery_log::forget(conn, at(11), at(10).plus(day), 1000)?,
            2
        );
        assert_eq!(remaining(conn)?, 0);
        Ok::<_, StoreError>(())
    })
    .await;
}
