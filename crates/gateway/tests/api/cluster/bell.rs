//! What every bell must do: rings are heard, a lost one costs a moment and never a result, and a
//! forged one a look.

use std::time::Duration;

use mediagate_model::ids::TaskId;
use reqwest::Method;
use serde_json::json;
use simulator::{FaultProxy, NetworkState};
use tokio_util::sync::CancellationToken;

use crate::support::postgres::proxy_to;
use crate::support::sse::Events;
use crate::support::{TestGateway, videos_order};

/// Two gateways: the first rings, the second listens. One, twice, where there is no other.
struct Pair {
    here: TestGateway,
    there: Option<TestGateway>,
    stop: CancellationToken,
}

impl Pair {
    async fn new(here: TestGateway, has_other: bool) -> Self {
        let stop = CancellationToken::new();
        let there = if has_other {
            Some(here.idle_replica().await)
        } else {
            None
        };
        for gateway in std::iter::once(&here).chain(&there) {
            let (bell, stop) = (gateway.app.bell.clone(), stop.clone());
            tokio::spawn(async move { bell.exchange(&stop).await });
        }
        Self { here, there, stop }
    }

    fn there(&self) -> &TestGateway {
        self.there.as_ref().unwrap_or(&self.here)
    }

    /// A task that waits.
    async fn task(&self) -> TaskId {
        let answer = self.here.post("/v1/videos", &videos_order()).await;
        answer.header("x-task-id").unwrap().parse().unwrap()
    }

    /// Rings until the other side hears it. The task stays as it is: looking finds nothing.
    async fn is_heard(&self, task: TaskId) {
        let mut listener = self.there().app.bell.listen(task);
        let ring = async || self.here.app.bell.ring(task);
        heard("a ring", ring, listener.changed(u32::MAX)).await;
        let mut called_off = self.there().app.bell.cancellations();
        let call_off = async || self.here.app.bell.call_off(task);
        let hears = heard("a cancellation", call_off, called_off.recv());
        assert_eq!(hears.await, Ok(task));
    }

    /// A stream at one gateway shows what was done at the other.
    async fn is_seen(&self) {
        let task = self.task().await;
        let path = format!("/v1/tasks/{task}/events");
        let request = self.there().request(Method::GET, &path);
        let mut events = Events::open(request).await;
        assert_eq!(events.next().await.unwrap().json()["status"], "queued");
        let claimed = self.here.claim().await;
        assert_eq!(claimed.id, task);
        assert_eq!(events.next().await.unwrap().json()["status"], "running");
        for progress in [20, 40] {
            self.here.progress(task, progress).await;
            assert_eq!(
                events.next().await.unwrap().json()["progress"],
                json!(progress)
            );
        }
        let path = format!("/v1/tasks/{task}?wait=60");
        let waiting = self.there().get(&path);
        let cancel = async {
            let path = format!("/v1/tasks/{task}/cancel");
            self.here.post(&path, &json!({})).await.ok()
        };
        let (waited, _) = tokio::join!(waiting, cancel);
        assert_eq!(waited.ok()["status"], "cancelled");
        assert_eq!(events.rest().await.len(), 1);
    }

    async fn end(self) {
        self.stop.cancel();
        if let Some(there) = self.there {
            there.stop().await;
        }
        self.here.stop().await;
    }
}

/// Does this again and again until it is heard.
async fn heard<T>(what: &str, act: impl AsyncFn(), hears: impl Future<Output = T>) -> T {
    let again = async {
        loop {
            act().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        heard = tokio::time::timeout(Duration::from_mins(1), hears) => {
            heard.unwrap_or_else(|_| panic!("never heard: {what}"))
        }
        () = again => unreachable!("it goes on for ever"),
    }
}

/// Rings in spite of what happens to the way between the gateways.
async fn contract(pair: &Pair, way: &FaultProxy) {
    pair.is_seen().await;
    let task = pair.task().await;
    pair.is_heard(task).await;
    let cancel = format!("/v1/tasks/{task}/cancel");
    pair.here.post(&cancel, &json!({})).await.ok();

    // Nothing gets through: what is rung is lost.
    let refuses = NetworkState {
        refuses: true,
        ..NetworkState::default()
    };
    way.set(refuses);
    way.reset();
    pair.is_seen().await;
    // Half open: nobody answers.
    way.heal();
    let held = NetworkState::both(simulator::LinkState::held());
    way.set(held);
    pair.is_seen().await;
    // Late: it comes after the look.
    way.heal();
    way.set(NetworkState::both(simulator::LinkState::with_delay(
        std::time::Duration::from_millis(300),
    )));
    pair.is_seen().await;
    way.reset();
    way.heal();
    let task = pair.task().await;
    pair.is_heard(task).await;
    let cancel = format!("/v1/tasks/{task}/cancel");
    pair.here.post(&cancel, &json!({})).await.ok();
    pair.is_seen().await;
}

#[tokio::test]
async fn one_process_hears_itself() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let pair = Pair::new(gateway, false).await;
    pair.is_seen().await;
    let task = pair.task().await;
    pair.is_heard(task).await;
    pair.end().await;
}

#[tokio::test]
async fn processes_ring_each_other_by_postgres() {
    let gateway = TestGateway::builder().on_postgres().without_workers();
    let database = crate::support::postgres::TestDatabase::create().await;
    let (way, address) = proxy_to(&database.url).await;
    // Only the rings go this way.
    let direct = address.parse().unwrap();
    let gateway = gateway.set(|settings| settings.bell.database = Some(direct));
    let pair = Pair::new(gateway.start_on(database).await, true).await;
    contract(&pair, &way).await;

    // Anybody with access to the database may say anything.
    let task = pair.task().await;
    let mut listener = pair.there().app.bell.listen(task);
    let forger = pair.here.app.store.notify_channel(None).await.unwrap();
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
    heard("a forged ring", forge, listener.changed(u32::MAX)).await;
    let cancel = format!("/v1/tasks/{task}/cancel");
    pair.here.post(&cancel, &json!({})).await.ok();
    pair.is_seen().await;
    pair.end().await;
}

#[tokio::test]
async fn an_unreachable_bell_database_is_not_missed() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("postgres://{}/none", free.local_addr().unwrap());
    drop(free);
    let gateway = TestGateway::builder().on_postgres().without_workers();
    let address = address.parse().unwrap();
    let gateway = gateway.set(|settings| settings.bell.database = Some(address));
    let pair = Pair::new(gateway.start().await, true).await;
    pair.is_seen().await;
    pair.end().await;
}
