//! Tests of the table of clients, from arrival to the written record.

use super::*;
use crate::intents::IntentCloseTime;
use mediagate_model::ids::KeyId;

fn body(key: KeyId, text: &str) -> RequestFingerprint {
    RequestFingerprint {
        key,
        fingerprint: text.to_owned(),
    }
}

fn clients() -> Arc<ClientRegistry> {
    ClientRegistry::new(Clock::system())
}

fn begin(all: &Arc<ClientRegistry>, id: IntentId, key: KeyId) -> Arc<ClientGuard> {
    all.enter(id, 1, body(key, "body"), PeerSocket::default(), false)
}

fn enter(all: &Arc<ClientRegistry>, id: IntentId, key: KeyId) -> Arc<ClientGuard> {
    all.enter(id, 1, body(key, "body"), PeerSocket::default(), true)
}

#[test]
fn who_made_nothing_leaves_no_trace() {
    let (all, id, key) = (clients(), IntentId::new(), KeyId::new());
    let client = begin(&all, id, key);
    assert!(matches!(all.state_of(id), Some(ClientState::Waiting)));
    drop(client);
    assert_eq!((all.state_of(id), all.departures().len()), (None, 0));
    // Refused by the database's own transaction.
    let client = begin(&all, id, key);
    client.accepting().undone();
    drop(client);
    assert_eq!((all.state_of(id), all.table().entries.len()), (None, 0));
}

#[tokio::test]
async fn who_left_while_something_was_written_is_waited_for() {
    let (all, id, key) = (clients(), IntentId::new(), KeyId::new());
    let client = begin(&all, id, key);
    let accepting = client.accepting();
    drop(client);
    assert!(all.departures().is_empty(), "not before it is written");
    let body = body(key, "body");
    let settled = all.settled(&body);
    tokio::pin!(settled);
    let waits = tokio::time::timeout(Duration::from_millis(20), &mut settled).await;
    assert!(waits.is_err());
    drop(accepting);
    settled.await;
    assert_eq!(all.state_of(id), Some(ClientState::Gone));
    assert_eq!(all.departures().len(), 1);
    all.written_down(id, 1, true);
    assert_eq!(all.state_of(id), None);
}

#[tokio::test]
async fn a_retry_waits_for_what_its_first_try_is_about_to_make() {
    let (all, id, key) = (clients(), IntentId::new(), KeyId::new());
    let client = begin(&all, id, key);
    let body = body(key, "body");
    let written = all.all_written(&body);
    tokio::pin!(written);
    for accepting in [None, Some(client.accepting())] {
        let waits = tokio::time::timeout(Duration::from_millis(20), &mut written).await;
        assert!(waits.is_err());
        drop(accepting);
    }
    written.await;
    let other = begin(&all, IntentId::new(), key);
    let written = all.all_written(&body);
    drop(other);
    written.await;
}

#[tokio::test]
async fn a_closed_connection_is_waited_for_until_it_is_noticed_or_answered() {
    let (all, key) = (clients(), KeyId::new());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = tokio::net::TcpStream::connect(listener.local_addr().unwrap());
    let client = client.await.unwrap();
    let stream = Arc::new(listener.accept().await.unwrap().0);
    let begin = || {
        let (body, socket) = (body(key, "body"), PeerSocket::of(&stream));
        all.enter(IntentId::new(), 1, body, socket, false)
    };
    let (first, second) = (begin(), begin());
    all.departures_noticed(&body(key, "body")).await;
    drop(client);
    stream.readable().await.unwrap();
    let same = body(key, "body");
    let noticed = all.departures_noticed(&same);
    tokio::pin!(noticed);
    for client in [Some(first), None] {
        let waits = tokio::time::timeout(Duration::from_millis(20), &mut noticed).await;
        assert!(waits.is_err());
        drop(client);
    }
    // A client that has its answer may disconnect.
    second.written();
    all.changed();
    noticed.await;
}

#[test]
fn a_retry_begins_only_while_nothing_alike_is_under_way() {
    let (all, id, key) = (clients(), IntentId::new(), KeyId::new());
    let alone = |text: &str| {
        let body = body(key, text);
        all.enter_alone(IntentId::new(), body, PeerSocket::default())
    };
    let first = begin(&all, id, key);
    assert!(alone("body").is_none() && alone("other").is_some());
    let accepting = first.accepting();
    drop(first);
    assert!(alone("body").is_none(), "it is still being written");
    drop(accepting);
    assert!(alone("body").is_some(), "the database has it");
}

#[test]
fn what_was_reserved_stays_known_when_its_client_leaves() {
    let (all, id) = (clients(), IntentId::new());
    let client = begin(&all, id, KeyId::new());
    client.accepting().reserved();
    drop(client);
    let left = all.departures();
    assert!(left.len() == 1 && left[0].reserved);
}

#[test]
fn an_answer_closes_its_intent_only_when_it_was_written_to_the_end() {
    for (is_complete, is_written) in [(true, true), (true, false), (false, true)] {
        let (all, id) = (clients(), IntentId::new());
        let client = enter(&all, id, KeyId::new());
        if is_complete {
            client.complete(IntentCloseTime::Now);
        }
        if is_written {
            client.written();
        }
        drop(client);
        let left = all.state_of(id);
        let is_closed = matches!(left, Some(ClientState::Answered(_)));
        assert_eq!(is_closed, is_complete && is_written, "{left:?}");
    }
}

#[test]
fn a_later_visit_leaves_an_earlier_one_without_effect() {
    let (all, id, key) = (clients(), IntentId::new(), KeyId::new());
    let first = enter(&all, id, key);
    let second = all.enter(id, 2, body(key, "body"), PeerSocket::default(), true);
    drop(first);
    assert!(matches!(all.state_of(id), Some(ClientState::Waiting)));
    drop(second);
    assert_eq!(all.state_of(id), Some(ClientState::Gone));
    all.written_down(id, 1, true);
    assert_eq!(all.state_of(id), Some(ClientState::Gone), "of the first");
    assert_eq!(all.table().entries.len(), 1);
}
