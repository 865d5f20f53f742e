//! `/media/…` of a film in a bucket, by either delivery: through the gateway, and by a redirect to
//! the store, which is a process of its own. Prints MB a second, and the gateway's CPU time for
//! each film.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    reason = "a benchmark may fail loudly; what it starts ends with it"
)]

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use benches::{BenchGateway, ClientLoad};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mediagate_http as http;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;

const FILM: usize = 10_000_000;
const KEY: &str = "bench-bench-bench";
/// In the environment of the process that is the store: its folder.
const STORE: &str = "MEDIAGATE_BENCH_STORE";

fn main() {
    benches::client_or_continue();
    if let Ok(folder) = std::env::var(STORE) {
        benches::runtime().block_on(be_the_store(&folder));
        return;
    }
    let (mut child, store, _folder) = start_the_store();
    benches::runtime().block_on(async {
        let proxied = one(store, "proxy").await;
        let redirected = one(store, "redirect").await;
        println!("a film of 10 MB, 8 connections, client and store in their own processes");
        println!("             MB/s    gateway's CPU ms a film");
        println!("  proxy     {:6.0}   {:8.3}", proxied.0, proxied.1);
        println!("  redirect  {:6.0}   {:8.3}", redirected.0, redirected.1);
        println!(
            "  ratio     {:6.2}   {:8.1}",
            proxied.0 / redirected.0,
            proxied.1 / redirected.1
        );
    });
    child.kill().unwrap();
    child.wait().unwrap();
}

/// MB a second and milliseconds of CPU time for each film.
async fn one(store: SocketAddr, delivery: &str) -> (f64, f64) {
    let gateway = BenchGateway::with_settings(&format!(
        "[media]\nstore = \"s3://films/bench\"\nendpoint = \"http://{store}\"\n\
         access_key = \"{KEY}\"\nsecret_key = \"{KEY}\"\ndelivery = \"{delivery}\"\n"
    ))
    .await;
    let film: Vec<u8> = (0..=250).cycle().take(FILM).collect();
    let asset = gateway.store_film(film.into()).await;
    let path = gateway.media_path(&asset);
    let ours = benches::listen(http::router(&gateway.app)).await;
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: {store}\r\n\r\n");
    if delivery == "proxy" {
        let (rate, cpu) = measure(ours, get(&path)).await;
        return (rate * FILM as f64 / 1e6, cpu);
    }
    // The client follows no redirect, so the two halves are measured apart: what a redirect costs
    // the gateway, and how fast the store sends.
    let (_, cpu) = measure(ours, get(&path)).await;
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let sent = client
        .build()
        .unwrap()
        .get(format!("http://{ours}{path}"))
        .send()
        .await
        .unwrap();
    let link = url::Url::parse(sent.headers()["location"].to_str().unwrap()).unwrap();
    let (rate, _) = measure(store, get(&link[url::Position::BeforePath..])).await;
    (rate * FILM as f64 / 1e6, cpu)
}

async fn measure(address: SocketAddr, request: String) -> (f64, f64) {
    let load = ClientLoad::new(address, 8, 5.0, request);
    let before = benches::cpu_time_of("self");
    let rate = benches::throughput(&load).await;
    let cpu = benches::cpu_time_of("self").checked_sub(before).unwrap();
    (rate, cpu.as_secs_f64() * 1e3 / (rate * load.seconds))
}

fn start_the_store() -> (Child, SocketAddr, tempfile::TempDir) {
    let folder = benches::folder_on_disk();
    std::fs::create_dir(folder.path().join("films")).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(STORE, folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let read = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
    assert!(read.unwrap() > 0);
    (child, line.trim().parse().unwrap(), folder)
}

async fn be_the_store(folder: &str) {
    let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(folder).unwrap());
    service.set_auth(SimpleAuth::from_single(KEY, KEY));
    let service = service.build();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let service = service.clone();
        tokio::spawn(async move {
            let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            // An error here means that the client hung up.
            let _ = server.serve_connection(TokioIo::new(socket), service).await;
        });
    }
}
