//! Durable submits a second with 64 callers: grouped commits against what a
//! plain gateway does on the same disk, one commit for each request; and what it
//! costs to know requests again and to hold their price.
//!
//! Both run the same checks and statements with `synchronous=FULL`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark may fail loudly"
)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mediagate::attendance::Close;
use mediagate::domain::intents::{self, Begun, Wanted};
use mediagate::domain::submit::{self, NewTask};
use mediagate::ids::RequestId;
use mediagate::model::account::Caller;
use mediagate::model::intent::StoredAnswer;
use mediagate::model::money::Quantity;
use mediagate::model::task::{Payload, VideoJob};
use mediagate::store::Conn;

const CALLERS: usize = 64;
/// Enough that none has many more open tasks than keys usually may.
const KEYS: usize = 256;
const TIME: Duration = Duration::from_secs(3);
const ROUNDS: usize = 3;
const PRICED: &str = "[models.animatic-1]\nprice = { unit = \"second\", usd = \"0.10\" }\n";

/// What is measured beside the rest.
#[derive(Clone, Copy)]
enum Way {
    /// The task alone: no intent is known, no money moves.
    TaskAlone,
    /// As a caller without an `Idempotency-Key` has it, for nothing.
    Free,
    /// The same, at a price.
    Priced,
    /// The same, with an `Idempotency-Key`.
    Keyed,
}

const WAYS: [Way; 4] = [Way::TaskAlone, Way::Free, Way::Priced, Way::Keyed];

fn main() {
    support::runtime().block_on(async {
        // One round warms up; the others alternate, and the middle shows.
        let mut grouped = [const { Vec::new() }; 4];
        let mut single = Vec::new();
        for _ in 0..ROUNDS {
            for (way, rates) in WAYS.into_iter().zip(&mut grouped) {
                rates.push(with_groups(way).await);
            }
            single.push(one_commit_each().await);
        }
        let [alone, free, priced, keyed] = grouped.map(middle);
        let single = middle(single);
        println!("durable submits a second, {CALLERS} callers, SQLite synchronous=FULL");
        println!("  grouped commits, the task alone                {alone:9.0}");
        println!(
            "  and its intent                                 {free:9.0}  {}",
            less(free, alone)
        );
        println!(
            "  and its reservation                            {priced:9.0}  {}",
            less(priced, alone)
        );
        println!(
            "  and an Idempotency-Key                         {keyed:9.0}  {}",
            less(keyed, alone)
        );
        println!("  one commit for each request, the task alone    {single:9.0}");
        println!(
            "  ratio, all but the key                         {:9.2}",
            priced / single
        );
    });
}

fn less(rate: f64, than: f64) -> String {
    format!("{:+.1} %", (rate / than - 1.0) * 100.0)
}

fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

async fn with_groups(way: Way) -> f64 {
    let settings = match way {
        Way::TaskAlone | Way::Free => "",
        Way::Priced | Way::Keyed => PRICED,
    };
    let gateway = Arc::new(support::Gateway::with_settings(settings).await);
    let callers = Arc::new(gateway.callers(KEYS).await);
    let leavers = gateway.app.clone();
    #[expect(clippy::disallowed_methods, reason = "ends with the round")]
    let noting = tokio::spawn(async move {
        loop {
            leavers.attendance.somebody_left().await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            intents::note_leavers(&leavers).await.unwrap();
        }
    });
    let rate = count(move |number| {
        let (gateway, callers) = (gateway.clone(), callers.clone());
        async move {
            let caller = &callers[number % KEYS];
            match way {
                Way::TaskAlone => task_alone(&gateway, caller).await,
                _ => whole(&gateway, caller, number, matches!(way, Way::Keyed)).await,
            }
        }
    })
    .await;
    noting.abort();
    rate
}

async fn task_alone(gateway: &support::Gateway, caller: &Caller) {
    let request = RequestId::generate();
    let task = submit::draft(&gateway.app, caller, &request, order(gateway));
    let key = caller.key.clone();
    let written = gateway
        .app
        .store
        .write(move |conn| submit::write(conn, &key, std::slice::from_ref(&task)));
    written.await.unwrap();
}

/// Everything that a request goes through but HTTP, up to the moment at which
/// its answer has arrived.
async fn whole(gateway: &support::Gateway, caller: &Caller, number: usize, is_keyed: bool) {
    let wanted = Wanted {
        fingerprint: format!("{number:064x}"),
        idempotency_key: is_keyed.then(|| RequestId::generate().as_str().to_owned()),
        is_retry: false,
    };
    let begun = intents::begin(&gateway.app, caller, &wanted, false)
        .await
        .unwrap();
    let Begun::New(visit) = begun else {
        panic!("an intent that nobody had");
    };
    let (new, request) = (vec![order(gateway)], RequestId::generate());
    let accept = submit::accept(&gateway.app, caller, &request, &visit, new, |_, _| Ok(()));
    accept.await.unwrap();
    if is_keyed {
        let answer = StoredAnswer {
            status: 200,
            headers: Vec::new(),
            body: "x".repeat(600),
        };
        intents::keep_answer(&gateway.app, visit.id(), answer)
            .await
            .unwrap();
    }
    let presence = visit.presence();
    presence.complete(Close::Now);
    presence.written();
}

/// The same work as for the task alone, on one connection behind a lock,
/// committed each time.
async fn one_commit_each() -> f64 {
    let gateway = Arc::new(support::Gateway::open().await);
    let callers = Arc::new(gateway.callers(KEYS).await);
    let conn = rusqlite::Connection::open(gateway.app.config.sqlite_path()).unwrap();
    conn.pragma_update(None, "synchronous", "FULL").unwrap();
    conn.set_prepared_statement_cache_capacity(256);
    let conn = Arc::new(Mutex::new(conn));
    count(move |number| {
        let (gateway, callers, conn) = (gateway.clone(), callers.clone(), conn.clone());
        async move {
            let caller = callers[number % KEYS].clone();
            let request = RequestId::generate();
            let task = submit::draft(&gateway.app, &caller, &request, order(&gateway));
            tokio::task::spawn_blocking(move || {
                let conn = conn.lock().unwrap();
                conn.execute_batch("BEGIN IMMEDIATE").unwrap();
                let mut tx = Conn::Sqlite(&conn);
                submit::write(&mut tx, &caller.key, std::slice::from_ref(&task)).unwrap();
                conn.execute_batch("COMMIT").unwrap();
            })
            .await
            .unwrap();
        }
    })
    .await
}

async fn count<F: Future<Output = ()> + Send>(
    submit: impl Fn(usize) -> F + Clone + Send + 'static,
) -> f64 {
    let started = Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let submit = submit.clone();
        callers.spawn(async move {
            let mut done = 0_u32;
            while started.elapsed() < TIME {
                submit(caller + CALLERS * done as usize).await;
                done += 1;
            }
            done
        });
    }
    let done: u32 = callers.join_all().await.into_iter().sum();
    f64::from(done) / started.elapsed().as_secs_f64()
}

fn order(gateway: &support::Gateway) -> NewTask {
    NewTask {
        model: gateway
            .app
            .catalog
            .load()
            .named("animatic-1")
            .unwrap()
            .clone(),
        asked_model: "animatic-1".into(),
        payload: Payload::VideoV1(VideoJob {
            prompt: "a lake under the mountains at first light, slow dolly in".repeat(5),
            picture: None,
            width: 1280,
            height: 720,
            milliseconds: 5000,
            fps: 30,
            seed: 0,
            user: None,
            ..VideoJob::default()
        }),
        quantity: Quantity {
            milliseconds: 5000,
            pixels: 1280 * 720,
            parts: 1,
            parts_asked: 1,
        },
    }
}
