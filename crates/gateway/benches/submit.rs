//! Durable submits a second with 64 callers: grouped commits against what a
//! plain gateway does on the same disk, one commit for each request.
//!
//! Both run the same checks and statements with `synchronous=FULL`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark may fail loudly"
)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mediagate::domain::submit::{self, NewTask};
use mediagate::ids::RequestId;
use mediagate::model::money::Quantity;
use mediagate::model::task::{Payload, VideoJob};
use mediagate::store::{self, Conn};

const CALLERS: usize = 64;
/// Enough that none has many more open tasks than keys usually may.
const KEYS: usize = 256;
const TIME: Duration = Duration::from_secs(3);

fn main() {
    support::runtime().block_on(async {
        // One round warms up; the other two alternate, and the middle shows.
        let mut grouped = Vec::new();
        let mut single = Vec::new();
        for _ in 0..3 {
            grouped.push(with_groups().await);
            single.push(one_commit_each().await);
        }
        let (grouped, single) = (middle(grouped), middle(single));
        println!("durable submits a second, {CALLERS} callers, SQLite synchronous=FULL");
        println!("  grouped commits (this gateway)  {grouped:9.0}");
        println!("  one commit for each request     {single:9.0}");
        println!("  ratio                           {:9.2}", grouped / single);
    });
}

fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

async fn with_groups() -> f64 {
    let gateway = Arc::new(support::Gateway::open().await);
    let callers = Arc::new(gateway.callers(KEYS).await);
    count(move |number| {
        let (gateway, callers) = (gateway.clone(), callers.clone());
        async move {
            let (new, request) = (vec![order(&gateway)], RequestId::generate());
            let caller = &callers[number % KEYS];
            submit::accept(&gateway.app, caller, &request, new, |_, _| Ok(()))
                .await
                .unwrap();
        }
    })
    .await
}

/// The same work on one connection behind a lock, committed each time.
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
                submit::check_limits(&mut tx, &caller.key, std::slice::from_ref(&task)).unwrap();
                store::tasks::insert(&mut tx, &task).unwrap();
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
            stems: 0,
        },
    }
}
