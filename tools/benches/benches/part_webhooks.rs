//! What sending webhooks costs, on `SQLite` with `synchronous=FULL`: deliveries a second and their
//! CPU time, against a plain loop that posts each and notes it; how soon the
//! first try follows its event; and what a hundred dead receivers with ten thousand waiting
//! deliveries do to the others.
//!
//! The receivers are a process of their own (this program, started again).

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark may fail loudly"
)]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use benches::BenchGateway;
use futures_util::StreamExt as _;
use mediagate_core::domain::accounts;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::webhooks::{self, NewEndpoint};
use mediagate_model::ids::{DeliveryId, EventId};
use mediagate_model::webhook::{
    DeliveryAttempt, DeliveryState, DeliveryTarget as To, EventType, SignatureScheme,
    WebhookEndpoint, WebhookEvent,
};
use mediagate_store::webhooks::deliveries::{self, LanesWithRoom, NewDelivery, SendCapacity};
use mediagate_store::{Conn, StoreError};
use mediagate_worker::WorkerPool;
use simulator::{Reaction, WebhookReceiver};

const RECEIVER: &str = "MEDIAGATE_BENCH_RECEIVER";
const SETTINGS: &str = "[fetch]\nallow_networks = [\"127.0.0.0/8\"]\n";
/// Endpoints, five for each account.
const ENDPOINTS: usize = 100;
const WAITING_DELIVERIES: usize = 10_000;
/// Events a second.
const RATE: u32 = 100;
const SECONDS: u32 = 10;
/// About the length of a finished video's event.
const BODY: usize = 1_200;

fn main() {
    if std::env::var(RECEIVER).is_ok() {
        return receive();
    }
    benches::runtime().block_on(async {
        let (ours, plain) = (throughput().await, plain_loop().await);
        println!("webhooks                 a second   ms CPU each");
        println!(
            "the gateway              {:>8.0}   {:>11.3}",
            ours.0, ours.1
        );
        println!(
            "a plain loop             {:>8.0}   {:>11.3}",
            plain.0, plain.1
        );
        println!(
            "ratio                    {:>8.2}   {:>11.2}",
            ours.0 / plain.0,
            ours.1 / plain.1
        );
        println!("from event to first try, {RATE} a second    p50 ms   p99 ms");
        let calm = delays(false).await;
        println!(
            "                                         {:>6}   {:>6}",
            calm.0, calm.1
        );
        let busy = delays(true).await;
        println!(
            "beside 100 dead, 10,000 waiting          {:>6}   {:>6}",
            busy.0, busy.1
        );
    });
}

/// Runs two receivers in their process: one that answers and one that never does.
fn receive() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let alive = WebhookReceiver::start().await.unwrap();
        let dead = WebhookReceiver::start_with_script(|_, _| Reaction::Hang)
            .await
            .unwrap();
        println!("{} {}", alive.url("/"), dead.url("/"));
        std::future::pending::<()>().await;
    });
}

/// The receivers' process, and its two addresses.
struct Receivers(Child, String, String);

impl Receivers {
    fn start() -> Self {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program)
            .env(RECEIVER, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let (alive, dead) = line.trim().split_once(' ').unwrap();
        Self(child, alive.to_owned(), dead.to_owned())
    }
}

impl Drop for Receivers {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn endpoints(gateway: &BenchGateway, url: &str, name: &str) -> Vec<WebhookEndpoint> {
    let mut all = Vec::new();
    for number in 0..ENDPOINTS {
        let handle = format!("{name}-{}", number / 5);
        let account = accounts::ensure(&gateway.app, &handle).await.unwrap();
        let new = NewEndpoint {
            url: url.to_owned(),
            description: String::new(),
            events: None,
            scheme: SignatureScheme::Hmac,
        };
        let created = webhooks::create_for(
            &gateway.app,
            account.id,
            ChangeAuthor::command("webhooks create"),
            new,
        )
        .await;
        all.push(created.unwrap().0);
    }
    all
}

/// Writes an event for an endpoint, due now.
fn happen(
    conn: &mut Conn<'_>,
    gateway: &mediagate_core::app::App,
    to: &WebhookEndpoint,
) -> Result<(), StoreError> {
    let event = WebhookEvent {
        id: EventId::new(),
        account: to.account,
        task: None,
        kind: EventType::Test,
        body: format!("{{\"data\":\"{}\"}}", "x".repeat(BODY)),
        created_at: gateway.clock.now(),
    };
    deliveries::insert_event(conn, &event)?;
    deliveries::insert(
        conn,
        &NewDelivery {
            id: DeliveryId::new(),
            event: &event,
            to: &To::Endpoint(to.id),
            lane: &to.id.to_string(),
            body: None,
            state: DeliveryState::Waiting,
        },
    )
}

async fn fill(gateway: &BenchGateway, to: &[WebhookEndpoint], count: usize) {
    let (app, to) = (gateway.app.clone(), to.to_vec());
    let written = gateway.app.store.write(move |conn| {
        for number in 0..count {
            happen(conn, &app, &to[number % to.len()])?;
        }
        Ok::<_, StoreError>(())
    });
    written.await.unwrap();
}

async fn count(gateway: &BenchGateway, state: &'static str) -> i64 {
    let count = gateway.app.store.read(move |conn| {
        conn.one(
            "SELECT COUNT(*) FROM webhook_deliveries WHERE state = ?1",
            &[state.into()],
            |row| row.int(0),
        )
    });
    count
        .await
        .unwrap_or_else(|error: StoreError| panic_with(&error))
        .unwrap()
}

#[expect(clippy::panic, reason = "a benchmark may fail loudly")]
fn panic_with(error: &StoreError) -> Option<i64> {
    panic!("{error}")
}

/// Deliveries a second, and milliseconds of CPU time for each.
async fn throughput() -> (f64, f64) {
    let (gateway, receivers) = (
        BenchGateway::with_settings(SETTINGS).await,
        Receivers::start(),
    );
    let to = endpoints(&gateway, &receivers.1, "alive").await;
    // All deliveries wait before the workers start, so that only sending is measured.
    fill(&gateway, &to, WAITING_DELIVERIES).await;
    let (begun, cpu) = (Instant::now(), benches::cpu_time());
    let workers = WorkerPool::start(&gateway.app).await;
    while count(&gateway, "waiting").await > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let rate = WAITING_DELIVERIES as f64 / begun.elapsed().as_secs_f64();
    let cpu = benches::cpu_time().checked_sub(cpu).unwrap();
    workers.stop().await;
    (rate, cpu.as_secs_f64() * 1000.0 / WAITING_DELIVERIES as f64)
}

/// The loop that one would write first: read what is due, post it, record it; 64 at a time.
async fn plain_loop() -> (f64, f64) {
    const DUE: usize = 2_000;
    let (gateway, receivers) = (
        BenchGateway::with_settings(SETTINGS).await,
        Receivers::start(),
    );
    let to = endpoints(&gateway, &receivers.1, "alive").await;
    fill(&gateway, &to, DUE).await;
    let app = &gateway.app;
    let (begun, cpu) = (Instant::now(), benches::cpu_time());
    let now = app.clock.now();
    let all = app
        .store
        .write(move |conn| {
            let everywhere = SendCapacity {
                lanes: LanesWithRoom::AllBut(Vec::new()),
                full_accounts: Vec::new(),
            };
            let found = deliveries::candidates(conn, &everywhere, u32::MAX, now)?;
            let ids: Vec<DeliveryId> = found.iter().map(|it| it.id).collect();
            deliveries::claim(conn, "plain", &ids, now)
        })
        .await
        .unwrap();
    assert_eq!(all.len(), DUE);
    let sends = all.into_iter().map(|due| async move {
        let owner = webhooks::owner_of(due.account, due.endpoint);
        let keys =
            webhooks::signing_keys::SigningKeys::unseal(app, &owner, due.secrets.as_ref().unwrap())
                .unwrap();
        let (id, at) = (due.event.message(), app.clock.now());
        let signature = keys
            .sign(due.scheme, &id, at.seconds(), &due.body, at)
            .unwrap();
        let headers = [
            ("webhook-id", id),
            ("webhook-timestamp", at.seconds().to_string()),
            ("webhook-signature", signature),
        ];
        let answer = app
            .net
            .hooks
            .post(&due.url, headers, due.body.into(), at)
            .await
            .unwrap();
        let attempt = DeliveryAttempt {
            number: 1,
            at,
            took_ms: 1,
            status: Some(answer.status),
            error: None,
            response: None,
        };
        let written = app.store.write(move |conn| {
            deliveries::record_attempt(
                conn,
                due.id,
                "plain",
                &attempt,
                DeliveryState::Delivered,
                at,
            )
        });
        assert!(written.await.unwrap());
    });
    let () = futures_util::stream::iter(sends)
        .buffer_unordered(64)
        .collect()
        .await;
    let rate = DUE as f64 / begun.elapsed().as_secs_f64();
    let cpu = benches::cpu_time().checked_sub(cpu).unwrap();
    (rate, cpu.as_secs_f64() * 1000.0 / DUE as f64)
}

/// The milliseconds from an event to its first try: the median and the 99th percentile.
async fn delays(beside_dead: bool) -> (i64, i64) {
    let (gateway, receivers) = (
        BenchGateway::with_settings(SETTINGS).await,
        Receivers::start(),
    );
    let to = endpoints(&gateway, &receivers.1, "alive").await;
    if beside_dead {
        let dead = endpoints(&gateway, &receivers.2, "dead").await;
        fill(&gateway, &dead, WAITING_DELIVERIES).await;
    }
    let workers = WorkerPool::start(&gateway.app).await;
    // Events come at a fixed rate, whether or not earlier ones are delivered. A gateway that falls
    // behind shows it in the delays.
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / RATE);
    for number in 0..(RATE * SECONDS) as usize {
        ticks.tick().await;
        let (app, to) = (gateway.app.clone(), to[number % to.len()].clone());
        let written = gateway.app.store.write(move |conn| happen(conn, &app, &to));
        written.await.unwrap();
        gateway.app.bell.ring_for_deliveries();
    }
    while count(&gateway, "delivered").await < i64::from(RATE * SECONDS) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let delays = gateway.app.store.read(|conn| {
        conn.all(
            "SELECT a.at - e.created_at FROM webhook_attempts a JOIN webhook_deliveries d ON d.id = a.delivery_id
             JOIN webhook_events e ON e.id = d.event_id WHERE d.state = 'delivered' AND a.number = 1",
            &[],
            |row| row.int(0),
        )
    });
    let mut delays: Vec<i64> = delays.await.map_err(|error: StoreError| error).unwrap();
    delays.sort_unstable();
    let percentile = |share: usize| delays[(delays.len() - 1) * share / 100] / 1000;
    drop(receivers);
    // Posts to dead receivers hang until their own timeout. The figures are complete, so nobody
    // waits for that.
    let _ = tokio::time::timeout(Duration::from_secs(1), workers.stop()).await;
    (percentile(50), percentile(99))
}
