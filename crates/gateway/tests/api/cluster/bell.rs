//! The contract of every bell: rings arrive, a lost ring delays a result but never loses it, and a
//! forged ring costs one query.

use std::time::Duration;

use mediagate_model::ids::TaskId;
use reqwest::Method;
use serde_json::json;
use simulator::{FaultProxy, NetworkState};
use tokio_util::sync::CancellationToken;

use crate::process::free_port;
use crate::support::postgres::proxy_to;
use crate::support::sse::Events;
use crate::support::{TestGateway, videos_order};

/// Two gateways: the first rings, the second listens. Without a second one, the first does both.
struct Pair {
    ringing: TestGateway,
    listening: Option<TestGateway>,
    stop: CancellationToken,
}

impl Pair {
    async fn new(ringing: TestGateway, has_other: bool) -> Self {
        let stop = CancellationToken::new();
        let listening = if has_other {
            Some(ringing.replica_without_workers().await)
        } else {
            None
        };
        for gateway in std::iter::once(&ringing).chain(&listening) {
            let (bell, stop) = (gateway.app.bell.clone(), stop.clone());
            tokio::spawn(async move { bell.exchange(&stop).await });
        }
        Self {
            ringing,
            listening,
            stop,
        }
    }

    fn listening_gateway(&self) -> &TestGateway {
        self.listening.as_ref().unwrap_or(&self.ringing)
    }

    /// Creates a task, which stays queued.
    async fn task(&self) -> TaskId {
        let answer = self.ringing.post("/v1/videos", &videos_order()).await;
        answer.header("x-task-id").unwrap().parse().unwrap()
    }

    /// Rings until the other side hears it. The task does not change, so polling finds nothing.
    async fn assert_rings_arrive(&self, task: TaskId) {
        let mut listener = self.listening_gateway().app.bell.listen(task);
        let ring = async || self.ringing.app.bell.ring(task);
        ring_until("a ring", ring, listener.wait_for_change(u32::MAX)).await;
        let mut cancellations = self.listening_gateway().app.bell.cancellations();
        let ring_cancellation = async || self.ringing.app.bell.call_off(task);
        let heard_cancellation =
            ring_until("a cancellation", ring_cancellation, cancellations.recv());
        assert_eq!(heard_cancellation.await, Ok(task));
    }

    /// A stream at one gateway shows what was done at the other.
    async fn assert_changes_are_seen(&self) {
        let task = self.task().await;
        let path = format!("/v1/tasks/{task}/events");
        let request = self.listening_gateway().request(Method::GET, &path);
        let mut events = Events::open(request).await;
        assert_eq!(events.next().await.unwrap().json()["status"], "queued");
        let claimed = self.ringing.claim().await;
        assert_eq!(claimed.id, task);
        assert_eq!(events.next().await.unwrap().json()["status"], "running");
        for progress in [20, 40] {
            self.ringing.progress(task, progress).await;
            assert_eq!(
                events.next().await.unwrap().json()["progress"],
                json!(progress)
            );
        }
        let path = format!("/v1/tasks/{task}?wait=60");
        let waiting = self.listening_gateway().get(&path);
        let cancel = async {
            let path = format!("/v1/tasks/{task}/cancel");
            self.ringing.post(&path, &json!({})).await.ok()
        };
        let (view, _) = tokio::join!(waiting, cancel);
        assert_eq!(view.ok()["status"], "cancelled");
        assert_eq!(events.rest().await.len(), 1);
    }

    async fn end(self) {
        self.stop.cancel();
        if let Some(listening) = self.listening {
            listening.stop().await;
        }
        self.ringing.stop().await;
    }
}

/// Rings repeatedly until the event arrives.
async fn ring_until<T>(what: &str, ring: impl AsyncFn(), event: impl Future<Output = T>) -> T {
    let ringing = async {
        loop {
            ring().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        result = tokio::time::timeout(Duration::from_mins(1), event) => {
            result.unwrap_or_else(|_| panic!("never heard: {what}"))
        }
        () = ringing => unreachable!("it rings forever"),
    }
}

/// Changes arrive whatever happens to the network between the gateways.
async fn check_bell(pair: &Pair, proxy: &FaultProxy) {
    pair.assert_changes_are_seen().await;
    let task = pair.task().await;
    pair.assert_rings_arrive(task).await;
    let cancel = format!("/v1/tasks/{task}/cancel");
    pair.ringing.post(&cancel, &json!({})).await.ok();

    // Nothing gets through: rings are lost.
    let refuses = NetworkState {
        refuses: true,
        ..NetworkState::default()
    };
    proxy.set(refuses);
    proxy.reset();
    pair.assert_changes_are_seen().await;
    // Half open: nobody answers.
    proxy.heal();
    let held = NetworkState::both(simulator::LinkState::held());
    proxy.set(held);
    pair.assert_changes_are_seen().await;
    // Late: the ring arrives after the poll.
    proxy.heal();
    proxy.set(NetworkState::both(simulator::LinkState::with_delay(
        std::time::Duration::from_millis(300),
    )));
    pair.assert_changes_are_seen().await;
    proxy.reset();
    proxy.heal();
    let task = pair.task().await;
    pair.assert_rings_arrive(task).await;
    let cancel = format!("/v1/tasks/{task}/cancel");
    pair.ringing.post(&cancel, &json!({})).await.ok();
    pair.assert_changes_are_seen().await;
}

#[tokio::test]
async fn one_process_hears_itself() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let pair = Pair::new(gateway, false).await;
    pair.assert_changes_are_seen().await;
    let task = pair.task().await;
    pair.assert_rings_arrive(task).await;
    pair.end().await;
}

#[tokio::test]
async fn processes_ring_each_other_by_postgres() {
    let gateway = TestGateway::builder().on_postgres().without_workers();
    let database = crate::support::postgres::TestDatabase::create().await;
    let (proxy, address) = proxy_to(&database.url).await;
    // Only the rings go through the proxy.
    let direct = address.parse().unwrap();
    let gateway = gateway.set(|settings| settings.bell.database = Some(direct));
    let pair = Pair::new(gateway.start_on(database).await, true).await;
    check_bell(&pair, &proxy).await;

    // Anybody with access to the database may send any notification.
    let task = pair.task().await;
    let mut listener = pair.listening_gateway().app.bell.listen(task);
    let forger = pair.ringing.app.store.notify_channel(None).await.unwrap();
    let mut forger = forger.unwrap();
    for text in [
        "",
        "x",
        "x task.1 off. work work nonsense",
        &"x ".repeat(2000),
    ] {
        forger.notify(text).await.unwrap();
    }
    let forger = tokio::sync::Mutex::new(forger);
    let forge = async || {
        let text = format!("x task.{task}");
        forger.lock().await.notify(&text).await.unwrap();
    };
    ring_until("a forged ring", forge, listener.wait_for_change(u32::MAX)).await;
    let cancel = format!("/v1/tasks/{task}/cancel");
    pair.ringing.post(&cancel, &json!({})).await.ok();
    pair.assert_changes_are_seen().await;
    pair.end().await;
}

#[tokio::test]
async fn an_unreachable_bell_database_delays_nothing() {
    let address = format!("postgres://127.0.0.1:{}/none", free_port());
    let gateway = TestGateway::builder().on_postgres().without_workers();
    let address = address.parse().unwrap();
    let gateway = gateway.set(|settings| settings.bell.database = Some(address));
    let pair = Pair::new(gateway.start().await, true).await;
    pair.assert_changes_are_seen().await;
    pair.end().await;
}
