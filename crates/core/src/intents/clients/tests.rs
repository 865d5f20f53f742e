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

fn new_registry() -> Arc<ClientRegistry> {
    ClientRegistry::new(Clock::system())
}

fn begin(registry: &Arc<ClientRegistry>, id: IntentId, key: KeyId) -> Arc<ClientGuard> {
    registry.enter(id, 1, body(key, "body"), PeerSocket::default(), false)
}

fn enter(registry: &Arc<ClientRegistry>, id: IntentId, key: KeyId) -> Arc<ClientGuard> {
    registry.enter(id, 1, body(key, "body"), PeerSocket::default(), true)
}

#[test]
fn a_client_for_whom_nothing_was_made_leaves_no_entry() {
    let (registry, id, key) = (new_registry(), IntentId::new(), KeyId::new());
    let client = begin(&registry, id, key);
    assert!(matches!(registry.state_of(id), Some(ClientState::Waiting)));
    drop(client);
    assert_eq!(
        (registry.state_of(id), registry.disconnects().len()),
        (None, 0)
    );
    // The order is refused in the transaction.
    let client = begin(&registry, id, key);
    client.begin_acceptance().record_nothing_made();
    drop(client);
    assert_eq!(
        (registry.state_of(id), registry.table().entries.len()),
        (None, 0)
    );
}

#[tokio::test]
async fn a_client_that_left_during_a_write_is_waited_for() {
    let (registry, id, key) = (new_registry(), IntentId::new(), KeyId::new());
    let client = begin(&registry, id, key);
    let accepting = client.begin_acceptance();
    drop(client);
    assert!(
        registry.disconnects().is_empty(),
        "not before the order is written"
    );
    let body = body(key, "body");
    let waiting = registry.wait_until_settled(&body);
    tokio::pin!(waiting);
    let early = tokio::time::timeout(Duration::from_millis(20), &mut waiting).await;
    assert!(early.is_err());
    drop(accepting);
    waiting.await;
    assert_eq!(registry.state_of(id), Some(ClientState::Gone));
    assert_eq!(registry.disconnects().len(), 1);
    registry.mark_written(id, 1, true);
    assert_eq!(registry.state_of(id), None);
}

#[tokio::test]
async fn a_retry_waits_for_what_its_first_try_is_about_to_make() {
    let (registry, id, key) = (new_registry(), IntentId::new(), KeyId::new());
    let client = begin(&registry, id, key);
    let body = body(key, "body");
    let waiting = registry.wait_until_written(&body);
    tokio::pin!(waiting);
    for accepting in [None, Some(client.begin_acceptance())] {
        let early = tokio::time::timeout(Duration::from_millis(20), &mut waiting).await;
        assert!(early.is_err());
        drop(accepting);
    }
    waiting.await;
    let other = begin(&registry, IntentId::new(), key);
    let waiting = registry.wait_until_written(&body);
    drop(other);
    waiting.await;
}

#[tokio::test]
async fn a_closed_connection_is_waited_for_until_it_is_noticed_or_answered() {
    let (registry, key) = (new_registry(), KeyId::new());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = tokio::net::TcpStream::connect(listener.local_addr().unwrap());
    let client = client.await.unwrap();
    let stream = Arc::new(listener.accept().await.unwrap().0);
    let begin = || {
        let (body, socket) = (body(key, "body"), PeerSocket::of(&stream));
        registry.enter(IntentId::new(), 1, body, socket, false)
    };
    let (first, second) = (begin(), begin());
    registry
        .wait_until_disconnects_noticed(&body(key, "body"))
        .await;
    drop(client);
    stream.readable().await.unwrap();
    let same = body(key, "body");
    let waiting = registry.wait_until_disconnects_noticed(&same);
    tokio::pin!(waiting);
    for client in [Some(first), None] {
        let early = tokio::time::timeout(Duration::from_millis(20), &mut waiting).await;
        assert!(early.is_err());
        drop(client);
    }
    // The second client counts as disconnected before its handler knows.
    assert_eq!(registry.state_of(second.id()), Some(ClientState::Gone));
    assert_eq!(registry.gone_intents(&same), [second.id()]);
    let accepting = second.begin_acceptance();
    let settling = registry.wait_until_settled(&same);
    tokio::pin!(settling);
    let early = tokio::time::timeout(Duration::from_millis(20), &mut settling).await;
    assert!(early.is_err(), "it may be made at this moment");
    drop(accepting);
    settling.await;
    // A client that has its answer may disconnect.
    second.mark_written();
    assert_eq!(registry.state_of(second.id()), Some(ClientState::Waiting));
    registry.notify_change();
    waiting.await;
}

#[test]
fn a_retry_begins_only_while_no_equal_request_is_under_way() {
    let (registry, id, key) = (new_registry(), IntentId::new(), KeyId::new());
    let enter_alone = |text: &str| {
        let body = body(key, text);
        registry.enter_alone(IntentId::new(), body, PeerSocket::default())
    };
    let first = begin(&registry, id, key);
    assert!(enter_alone("body").is_none() && enter_alone("other").is_some());
    let accepting = first.begin_acceptance();
    drop(first);
    assert!(enter_alone("body").is_none(), "it is still being written");
    drop(accepting);
    assert!(enter_alone("body").is_some(), "the database has it");
}

#[test]
fn a_reserved_intent_stays_known_when_its_client_leaves() {
    let (registry, id) = (new_registry(), IntentId::new());
    let client = begin(&registry, id, KeyId::new());
    client.begin_acceptance().record_reservation();
    drop(client);
    let disconnects = registry.disconnects();
    assert!(disconnects.len() == 1 && disconnects[0].reserved);
}

#[test]
fn an_answer_closes_its_intent_only_when_it_was_written_to_the_end() {
    for (is_complete, is_written) in [(true, true), (true, false), (false, true)] {
        let (registry, id) = (new_registry(), IntentId::new());
        let client = enter(&registry, id, KeyId::new());
        if is_complete {
            client.complete(IntentCloseTime::Now);
        }
        if is_written {
            client.mark_written();
        }
        drop(client);
        let state = registry.state_of(id);
        let is_closed = matches!(state, Some(ClientState::Answered(_)));
        assert_eq!(is_closed, is_complete && is_written, "{state:?}");
    }
}

#[test]
fn a_later_attempt_leaves_an_earlier_one_without_effect() {
    let (registry, id, key) = (new_registry(), IntentId::new(), KeyId::new());
    let first = enter(&registry, id, key);
    let second = registry.enter(id, 2, body(key, "body"), PeerSocket::default(), true);
    drop(first);
    assert!(matches!(registry.state_of(id), Some(ClientState::Waiting)));
    drop(second);
    assert_eq!(registry.state_of(id), Some(ClientState::Gone));
    registry.mark_written(id, 1, true);
    assert_eq!(
        registry.state_of(id),
        Some(ClientState::Gone),
        "the disconnect of the first attempt was written"
    );
    assert_eq!(registry.table().entries.len(), 1);
}
