//! `/media/…`: CPU time for a film of 1 MB and for ranges of it, against nginx (one
//! process, `sendfile`) with the same file. Without nginx on the PATH there is no ratio.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark may fail loudly"
)]

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use benches::{BenchGateway, ClientLoad};
use mediagate_http as http;

const FILM: usize = 1_000_000;

fn main() {
    benches::client_or_continue();
    benches::runtime().block_on(async {
        let gateway = BenchGateway::open().await;
        let film: Vec<u8> = (0..=250).cycle().take(FILM).collect();
        let asset = gateway.store_film(film.clone().into()).await;
        let path = gateway.media_path(&asset);
        let ours = benches::listen(http::router(&gateway.app)).await;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("film.mp4"), film).unwrap();
        let nginx = nginx(folder.path());
        println!("CPU microseconds an answer, 16 connections, client in its own process");
        println!("                          ours     nginx     ratio");
        for (what, range) in [
            ("whole, 1 MB", None),
            ("range of 64 KiB", Some("bytes=100000-165535")),
            ("range of 4 KiB", Some("bytes=100000-104095")),
        ] {
            let us = cpu(ours, &path, range, "self").await;
            match &nginx {
                None => println!("  {what:18} {us:9.1}"),
                Some((child, address)) => {
                    let id = child.id().to_string();
                    let theirs = cpu(*address, "/film.mp4", range, &id).await;
                    println!("  {what:18} {us:9.1} {theirs:9.1} {:9.2}", us / theirs);
                }
            }
        }
        if let Some((mut child, _)) = nginx {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    });
}

/// nginx without a master, on a free port.
fn nginx(folder: &Path) -> Option<(Child, SocketAddr)> {
    // nginx cannot choose a free port itself. Another program could take this one meanwhile, which
    // the benchmark risks.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap();
    drop(port);
    let root = folder.display();
    // Without a master process all CPU time is that of the child. nginx closes connections after a
    // thousand requests by default, which would look like a failure.
    let config = format!(
        "daemon off; master_process off; pid {root}/pid; error_log stderr crit;
         events {{ worker_connections 256; }}
         http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000;
           server {{ listen {address}; root {root}; }} }}"
    );
    std::fs::write(folder.join("nginx.conf"), config).unwrap();
    let mut command = Command::new("nginx");
    command
        .arg("-c")
        .arg(folder.join("nginx.conf"))
        .stdin(Stdio::null());
    let child = command.spawn().ok()?;
    while std::net::TcpStream::connect(address).is_err() {
        std::thread::yield_now();
    }
    Some((child, address))
}

/// Microseconds of a process for each answer; the least of three runs.
async fn cpu(address: SocketAddr, path: &str, range: Option<&str>, process: &str) -> f64 {
    let range = range.map_or_else(String::new, |range| format!("range: {range}\r\n"));
    let load = ClientLoad {
        address,
        connections: 16,
        seconds: 3.0,
        requests: vec![format!("GET {path} HTTP/1.1\r\nhost: bench\r\n{range}\r\n")],
    };
    // What else runs on the machine can only add CPU time, so the least is nearest to the truth.
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        let before = benches::cpu_time_of(process);
        let rate = benches::throughput(&load).await;
        let cpu = benches::cpu_time_of(process).checked_sub(before).unwrap();
        least = least.min(cpu.as_secs_f64() * 1e6 / (rate * load.seconds));
    }
    least
}
