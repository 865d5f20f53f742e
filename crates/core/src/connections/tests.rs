//! Tests of the client registry, from a client's arrival to what the database is told.

use super::*;
use mediagate_model::ids::{AccountId, KeyId};

fn body(key: KeyId, text: &str) -> RequestFingerprint {
    RequestFingerprint {
        key,
        fingerprint: text.to_owned(),
    }
}

fn attendance() -> ClientRegistry {
    ClientRegistry::new(Clock::system())
}

fn begin(attendance: &ClientRegistry, id: IntentId, key: KeyId) -> Arc<ClientGuard> {
    let body = body(key, "body");
    attendance
        .begin(id, body, PeerSocket::default(), None)
        .unwrap()
}

fn enter(attendance: &ClientRegistry, id: IntentId, key: KeyId) -> Arc<ClientGuard> {
    attendance.enter(id, 1, body(key, "body"), PeerSocket::default())
}

#[test]
fn who_made_nothing_leaves_no_trace() {
    let (all, id, key) = (attendance(), IntentId::new(), KeyId::new());
    let presence = begin(&all, id, key);
    assert!(matches!(all.caller_of(id), Some(ClientState::Waiting)));
    drop(presence);
    assert_eq!((all.caller_of(id), all.leavers().len()), (None, 0));
    // Refused by the database's own transaction.
    let presence = begin(&all, id, key);
    presence.accepting().undone();
    drop(presence);
    assert_eq!(
        (all.caller_of(id), all.with_body(&body(key, "body")).len()),
        (None, 0)
    );
}

#[tokio::test]
async fn who_left_while_something_was_written_is_waited_for() {
    let (all, id, key) = (attendance(), IntentId::new(), KeyId::new());
    let presence = begin(&all, id, key);
    let accepting = presence.accepting();
    drop(presence);
    assert!(all.leavers().is_empty(), "not before it is written");
    let body = body(key, "body");
    let settled = all.settled(&body);
    tokio::pin!(settled);
    let waits = tokio::time::timeout(Duration::from_millis(20), &mut settled).await;
    assert!(waits.is_err());
    drop(accepting);
    settled.await;
    assert_eq!(all.caller_of(id), Some(ClientState::Gone));
    assert_eq!(all.leavers().len(), 1);
    all.noted(id, 1, true);
    assert_eq!(all.caller_of(id), None);
}

#[tokio::test]
async fn no_retry_begins_while_another_one_asks_whether_it_is_new() {
    let (all, key) = (attendance(), KeyId::new());
    let body = body(key, "body");
    let retry = || {
        all.begin(
            IntentId::new(),
            body.clone(),
            PeerSocket::default(),
            Some(&[]),
        )
    };
    let asking = all.asking(&body);
    let also_asking = all.asking(&body);
    drop(also_asking);
    assert!(retry().is_none());
    let nobody = all.nobody_asks(&body);
    tokio::pin!(nobody);
    let waits = tokio::time::timeout(Duration::from_millis(20), &mut nobody).await;
    assert!(waits.is_err());
    // The one that asked is new, and first.
    let first = begin(&all, IntentId::new(), key);
    drop(asking);
    nobody.await;
    assert!(retry().is_none(), "it is to join the first");
    drop(first);
    assert!(retry().is_some());
}

#[tokio::test]
async fn a_retry_waits_for_what_its_first_try_is_about_to_make() {
    let (all, id, key) = (attendance(), IntentId::new(), KeyId::new());
    let presence = begin(&all, id, key);
    let body = body(key, "body");
    let written = all.written(&body);
    tokio::pin!(written);
    for accepting in [None, Some(presence.accepting())] {
        let waits = tokio::time::timeout(Duration::from_millis(20), &mut written).await;
        assert!(waits.is_err());
        drop(accepting);
    }
    written.await;
    let other = begin(&all, IntentId::new(), key);
    let written = all.written(&body);
    drop(other);
    written.await;
}

#[tokio::test]
async fn a_closed_connection_is_waited_for_until_it_is_noticed_or_answered() {
    let (all, key) = (attendance(), KeyId::new());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let caller = tokio::net::TcpStream::connect(listener.local_addr().unwrap());
    let caller = caller.await.unwrap();
    let stream = Arc::new(listener.accept().await.unwrap().0);
    let begin = || {
        let (body, line) = (body(key, "body"), PeerSocket::of(&stream));
        all.begin(IntentId::new(), body, line, None).unwrap()
    };
    let (first, second) = (begin(), begin());
    all.noticed(&body(key, "body")).await;
    drop(caller);
    stream.readable().await.unwrap();
    let same = body(key, "body");
    let noticed = all.noticed(&same);
    tokio::pin!(noticed);
    for presence in [Some(first), None] {
        let waits = tokio::time::timeout(Duration::from_millis(20), &mut noticed).await;
        assert!(waits.is_err());
        drop(presence);
    }
    // Whoever has its answer may go.
    second.written();
    all.changed();
    noticed.await;
}

#[test]
fn a_retry_begins_only_where_nobody_else_came_since_it_looked() {
    let (all, id, key) = (attendance(), IntentId::new(), KeyId::new());
    let retry = |known: &[IntentId]| {
        let body = body(key, "body");
        all.begin(IntentId::new(), body, PeerSocket::default(), Some(known))
            .is_some()
    };
    assert!(retry(&[]));
    let first = begin(&all, id, key);
    assert_eq!((retry(&[]), retry(&[id])), (false, true));
    drop(first.accepting());
    drop(first);
    assert!(!retry(&[]), "it was written in between");
    all.noted(id, 1, true);
    assert!(retry(&[]));
}

#[test]
fn what_was_reserved_stays_known_when_its_caller_leaves() {
    let (all, id) = (attendance(), IntentId::new());
    let presence = begin(&all, id, KeyId::new());
    presence.accepting().reserved();
    drop(presence);
    let left = all.leavers();
    assert!(left.len() == 1 && left[0].reserved);
}

#[test]
fn a_key_is_claimed_until_the_database_has_its_intent() {
    let (all, key) = (attendance(), KeyId::new());
    let name = (AccountId::new(), "k".to_owned());
    let claim = |text: &str| {
        let body = body(key, text);
        all.claim(IntentId::new(), body, PeerSocket::default(), name.clone())
    };
    let claimed = |is_here| KeyConflict {
        fingerprint: "a".into(),
        is_here,
    };
    let first = claim("a").ok().unwrap();
    assert_eq!(claim("b").err(), Some(claimed(true)));
    // It made nothing.
    drop(first);
    let first = claim("a").ok().unwrap();
    let accepting = first.accepting();
    drop(first);
    assert_eq!(claim("b").err(), Some(claimed(false)));
    drop(accepting);
    // Whoever claims it now is told by the database.
    let second = claim("b").ok().unwrap();
    for (id, _) in all.with_body(&body(key, "a")) {
        all.noted(id, 1, true);
    }
    assert!(claim("c").is_err(), "the first one's end frees nothing");
    drop(second);
    assert!(all.book().by_key.is_empty() && all.with_body(&body(key, "b")).is_empty());
}

#[test]
fn an_answer_closes_its_intent_only_when_it_was_written_to_the_end() {
    for (is_complete, is_written) in [(true, true), (true, false), (false, true)] {
        let (all, id) = (attendance(), IntentId::new());
        let presence = enter(&all, id, KeyId::new());
        if is_complete {
            presence.complete(IntentCloseTime::Now);
        }
        if is_written {
            presence.written();
        }
        drop(presence);
        let left = all.caller_of(id);
        let is_closed = matches!(left, Some(ClientState::Answered(_)));
        assert_eq!(is_closed, is_complete && is_written, "{left:?}");
    }
}

#[test]
fn a_later_visit_leaves_an_earlier_one_without_effect() {
    let (all, id, key) = (attendance(), IntentId::new(), KeyId::new());
    let first = enter(&all, id, key);
    let second = all.enter(id, 2, body(key, "body"), PeerSocket::default());
    drop(first);
    assert!(matches!(all.caller_of(id), Some(ClientState::Waiting)));
    drop(second);
    assert_eq!(all.caller_of(id), Some(ClientState::Gone));
    all.noted(id, 1, true);
    assert_eq!(all.caller_of(id), Some(ClientState::Gone), "of the first");
    assert_eq!(all.with_body(&body(key, "body")).len(), 1);
}
