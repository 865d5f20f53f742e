//! What submitting costs, over HTTP on `SQLite` with `synchronous=FULL`: `POST /v1/videos` with
//! everything that prevents paying twice, against the same endpoint without it, which only writes
//! the task. One caller shows what an answer waits for, many show what the machine can do. Also
//! compares grouped commits with what a plain gateway does on the same disk: one commit for each
//! request.
//!
//! With `MEDIAGATE_TEST_POSTGRES`, measures the same on that server, in a new database that is not
//! deleted. Name a server that waits for its disk (`fsync = on`).

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark may fail loudly"
)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use benches::{ClientLoad, NUMBER};
use mediagate_core::app::App;
use mediagate_core::domain;
use mediagate_core::domain::task_acceptance::{self, OrderPurpose};
use mediagate_core::domain::video::{self, VideoOrder};
use mediagate_http as http;
use mediagate_http::auth::NewOrder;
use mediagate_http::body::JsonBody;
use mediagate_http::orders::ApiOrder as _;
use mediagate_http::wire::videos::VideoObject;
use mediagate_model::error::Error;
use mediagate_model::ids::RequestId;
use mediagate_store::Conn;
use tokio_util::sync::CancellationToken;

const CALLERS: usize = 64;
/// Enough keys that none has many more open tasks than a key usually may have.
const KEYS: usize = 256;
const CALLERS_OVER_HTTP: [usize; 3] = [1, 16, 64];
const TIME: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;
const PRICES: &str = "[models.animatic-1]\nprice = { unit = \"second\", usd = \"0.10\" }\n";

/// What is measured over HTTP.
#[derive(Clone, Copy)]
enum Way {
    /// The endpoint without intents and without money.
    TaskAlone,
    /// The endpoint that callers use, with a price.
    Whole,
    /// Like `Whole`, with an `Idempotency-Key`.
    Keyed,
}

const WAYS: [Way; 3] = [Way::TaskAlone, Way::Whole, Way::Keyed];

fn main() {
    benches::client_or_continue();
    benches::runtime().block_on(async {
        if let Ok(server) = std::env::var("MEDIAGATE_TEST_POSTGRES") {
            let database = new_database(server);
            println!("on Postgres");
            measure(Some(database)).await;
            return;
        }
        measure(None).await;
    });
}

async fn measure(database: Option<String>) {
    let database = database.as_deref();
    println!("durable submits over HTTP               a second         ms CPU each");
    for callers in CALLERS_OVER_HTTP {
        over_http(database, callers).await;
    }
    let (mut grouped, mut single) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        grouped.push(with_groups(database, true).await);
        single.push(match database {
            Some(_) => with_groups(database, false).await,
            None => one_commit_each().await,
        });
    }
    let (grouped, single) = (middle(grouped), middle(single));
    println!("the task alone, {CALLERS} callers of one account, without HTTP");
    println!("  grouped commits                    {grouped:8.0}");
    println!("  one commit for each                {single:8.0}");
    println!(
        "  ratio                              {:8.2}",
        grouped / single
    );
}

/// The address of a new database at this server.
fn new_database(server: String) -> String {
    // The driver runs a runtime of its own, which may not start on a thread of ours.
    let thread = std::thread::spawn(move || {
        let name = format!("bench_{}", uuid::Uuid::now_v7().simple());
        let mut client = postgres::Client::connect(&server, postgres::NoTls).unwrap();
        client
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .unwrap();
        let mut url = url::Url::parse(&server).unwrap();
        url.set_path(&name);
        url.to_string()
    });
    thread.join().unwrap()
}

async fn over_http(database: Option<&str>, callers: usize) {
    // The three ways take turns, so that a machine that gets slower is unfair to none. The median
    // ignores single hiccups of the disk.
    let mut runs = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (way, runs) in WAYS.into_iter().zip(&mut runs) {
            runs.push(submits(database, way, callers).await);
        }
    }
    let [alone, whole, keyed] = runs.map(|runs| {
        let (rates, cpu): (Vec<f64>, Vec<f64>) = runs.into_iter().unzip();
        (middle(rates), middle(cpu))
    });
    let callers = if callers == 1 {
        "1 caller".to_owned()
    } else {
        format!("{callers} callers")
    };
    println!("{callers}");
    show("the task alone", alone, alone);
    show("with intent and reservation", whole, alone);
    show("and an Idempotency-Key", keyed, alone);
}

fn show(what: &str, (rate, cpu): (f64, f64), (alone, cpu_alone): (f64, f64)) {
    let change = |now: f64, before: f64| (now / before - 1.0) * 100.0;
    println!(
        "  {what:30}     {rate:8.0} {:+6.1} %  {cpu:6.3} {:+6.1} %",
        change(rate, alone),
        change(cpu, cpu_alone)
    );
}

fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Submits a second, and milliseconds of the server's CPU for each.
async fn submits(database: Option<&str>, way: Way, callers: usize) -> (f64, f64) {
    let settings = match way {
        Way::TaskAlone => "",
        Way::Whole | Way::Keyed => PRICES,
    };
    let gateway = benches::BenchGateway::with_database(database, settings).await;
    let keys = gateway.callers(callers).await;
    let router = match way {
        Way::TaskAlone => {
            let endpoint = Router::new().route("/v1/videos", post(task_alone));
            // The same layers around both endpoints, so that only the work for the order differs.
            http::with_layers(endpoint, &gateway.app)
        }
        Way::Whole | Way::Keyed => http::router(&gateway.app),
    };
    let noting = record_disconnects(&gateway.app);
    // Stopping the server also ends its connections to the database.
    let stop = CancellationToken::new();
    let load = ClientLoad {
        address: benches::listen_until(router, stop.clone()).await,
        connections: callers,
        seconds: TIME.as_secs_f64(),
        requests_each: usize::MAX,
        requests: keys.iter().map(|(key, _)| request(key, way)).collect(),
    };
    let before = benches::cpu_time();
    let rate = benches::throughput(&load).await;
    let cpu = benches::cpu_time().checked_sub(before).unwrap();
    noting.abort();
    stop.cancel();
    (rate, cpu.as_secs_f64() * 1000.0 / (rate * load.seconds))
}

fn request(key: &str, way: Way) -> String {
    let prompt = "a lake under the mountains at first light, slow dolly in ".repeat(5);
    let body = format!(r#"{{"model":"animatic-1","prompt":"{prompt}{NUMBER}","seconds":"5"}}"#);
    let idempotency = match way {
        // Keys of an earlier run may be in the same database, and would be answered from there.
        Way::Keyed => format!("idempotency-key: {}-{NUMBER}\r\n", RequestId::generate()),
        Way::TaskAlone | Way::Whole => String::new(),
    };
    format!(
        "POST /v1/videos HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\n{idempotency}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Records which clients have left, as a server does besides answering requests.
fn record_disconnects(app: &App) -> tokio::task::JoinHandle<()> {
    let app = app.clone();
    #[expect(clippy::disallowed_methods, reason = "ends with the round")]
    tokio::spawn(async move {
        loop {
            app.intents.wait_for_client_events().await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            app.intents.flush_client_events().await.unwrap();
        }
    })
}

/// `POST /v1/videos` of a gateway that knows no intents and moves no money.
async fn task_alone(
    NewOrder { context, .. }: NewOrder<VideoOrder>,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Response, mediagate_http::ErrorResponse> {
    let caller = context.caller;
    let (order, _) = body.read(&app, VideoOrder::read).await?;
    let (new, _) = video::prepare(&app, &caller, &order, OrderPurpose::Order).await?;
    let request = RequestId::generate().into();
    let tasks = new.into_iter();
    let tasks: Vec<_> = tasks
        .map(|new| task_acceptance::task(&app, &caller, &request, new))
        .collect();
    let written = app.store.write(move |conn| {
        task_acceptance::write(conn, &caller.key, &tasks, None)?;
        Ok::<_, Error>(tasks)
    });
    let tasks = written.await?;
    let lengths = domain::tasks::usual_lengths(&app, &tasks[0].model).await?;
    let wait = lengths.map(|lengths| lengths.median);
    let headers = [
        ("x-task-id", tasks[0].id.to_string()),
        ("x-cost-usd", tasks[0].cost.to_string()),
        (
            "openai-poll-after-ms",
            wait.unwrap_or_default().as_millis().to_string(),
        ),
    ];
    Ok((headers, Json(VideoObject::new(&tasks[0], None))).into_response())
}

async fn with_groups(database: Option<&str>, is_grouped: bool) -> f64 {
    let gateway = Arc::new(benches::BenchGateway::with_database(database, PRICES).await);
    let callers = Arc::new(gateway.callers(KEYS).await);
    count(move |number| {
        let (gateway, callers) = (gateway.clone(), callers.clone());
        async move {
            let (_, caller) = &callers[number % KEYS];
            let request = RequestId::generate().into();
            let task = task_acceptance::task(
                &gateway.app,
                caller,
                &request,
                benches::film(&gateway, "animatic-1", 5000),
            );
            let key = caller.key.clone();
            let (account, store) = (caller.account.id, &gateway.app.store);
            let work = move |conn: &mut Conn<'_>| {
                task_acceptance::write(conn, &key, std::slice::from_ref(&task), None)
            };
            if is_grouped {
                store.write_for(account, work).await.unwrap();
            } else {
                store.write(work).await.unwrap();
            }
        }
    })
    .await
}

/// Like [`task_alone`], on one connection behind a lock, with a commit for each task.
async fn one_commit_each() -> f64 {
    let gateway = Arc::new(benches::BenchGateway::with_settings(PRICES).await);
    let callers = Arc::new(gateway.callers(KEYS).await);
    let conn = rusqlite::Connection::open(gateway.app.config.sqlite_path()).unwrap();
    conn.pragma_update(None, "synchronous", "FULL").unwrap();
    conn.set_prepared_statement_cache_capacity(256);
    let conn = Arc::new(Mutex::new(conn));
    count(move |number| {
        let (gateway, callers, conn) = (gateway.clone(), callers.clone(), conn.clone());
        async move {
            let caller = callers[number % KEYS].1.clone();
            let request = RequestId::generate().into();
            let task = task_acceptance::task(
                &gateway.app,
                &caller,
                &request,
                benches::film(&gateway, "animatic-1", 5000),
            );
            // What a plain gateway does: a driver that blocks, and one connection behind a lock.
            tokio::task::spawn_blocking(move || {
                let conn = conn.lock().unwrap();
                conn.execute_batch("BEGIN IMMEDIATE").unwrap();
                let mut tx = Conn::Sqlite(&conn);
                task_acceptance::write(&mut tx, &caller.key, std::slice::from_ref(&task), None)
                    .unwrap();
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
