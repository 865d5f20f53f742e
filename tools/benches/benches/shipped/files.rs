//! Stored films and ended tasks: CPU time of a response, against nginx (one process, `sendfile`)
//! with the same bytes as a file. Without nginx on the PATH there is no ratio.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use benches::ClientLoad;
use benches::gateway_process::{GatewayProcess, chat_models, free_address};
use serde_json::{Value, json};

use crate::{peers, upstream};

const SECONDS: f64 = 3.0;

pub(crate) async fn measure() {
    let upstream = upstream::start(Duration::ZERO);
    let program = GatewayProcess::start(&chat_models(upstream.address, &[("kept", "")]));
    let (film, task) = stored_film(&program);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("film.mp4"), program.get_bytes(&film)).unwrap();
    std::fs::write(folder.path().join("task.json"), program.get(&task)).unwrap();
    let nginx = nginx(folder.path());
    println!(
        "## Files and tasks\n\n| response | CPU, µs | CPU of nginx, µs | ratio |\n|---|---|---|---|"
    );
    for (name, connections, path, file, range) in [
        ("film of 1 MB", 16, &film, "/film.mp4", ""),
        (
            "range of 64 KiB",
            16,
            &film,
            "/film.mp4",
            "range: bytes=100000-165535\r\n",
        ),
        (
            "range of 4 KiB",
            16,
            &film,
            "/film.mp4",
            "range: bytes=100000-104095\r\n",
        ),
        (
            "`GET /v1/tasks/{id}` of an ended task",
            32,
            &task,
            "/task.json",
            "",
        ),
    ] {
        let request = program.request(path, range);
        let load = ClientLoad::new(program.address, connections, SECONDS, request);
        let ours = cpu(&load, &program.process()).await;
        let Some((child, address)) = &nginx else {
            println!("| {name} | {ours:.1} | | |");
            continue;
        };
        let request = format!("GET {file} HTTP/1.1\r\nhost: bench\r\n{range}\r\n");
        let load = ClientLoad::new(*address, connections, SECONDS, request);
        let theirs = cpu(&load, &child.id().to_string()).await;
        println!(
            "| {name} | {ours:.1} | {theirs:.1} | {:.2} |",
            ours / theirs
        );
    }
    println!();
    if let Some((mut child, _)) = nginx {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// The paths of a film that the gateway has stored, and of its task.
fn stored_film(program: &GatewayProcess) -> (String, String) {
    let message = json!({"role": "user", "content": upstream::LARGE});
    let body = json!({"model": "kept", "messages": [message]});
    program.send(peers::CHAT, &body.to_string());
    let tasks: Value = serde_json::from_str(&program.get("/v1/tasks")).unwrap();
    let task = &tasks["data"][0];
    let video = task["output"]["videos"][0]["url"].as_str().unwrap();
    let url: url::Url = video.parse().unwrap();
    let path = format!("{}?{}", url.path(), url.query().unwrap_or_default());
    (path, format!("/v1/tasks/{}", task["id"].as_str().unwrap()))
}

/// nginx with the files of this folder, on a free port.
fn nginx(folder: &Path) -> Option<(Child, SocketAddr)> {
    if !peers::is_installed("nginx") {
        return None;
    }
    // nginx cannot choose a free port itself. Another program could take this one meanwhile, which
    // the benchmark risks.
    let address = free_address();
    let server = format!("root {};", folder.display());
    let files = "sendfile on; tcp_nopush on;";
    let child = peers::start_nginx(folder, address, files, &server).ok()?;
    peers::wait_for(address);
    Some((child, address))
}

/// Microseconds of a process for each response; the least of three runs.
async fn cpu(load: &ClientLoad, process: &str) -> f64 {
    // What else runs on the machine can only add CPU time, so the least is nearest to the truth.
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        let before = benches::cpu_time_of(process);
        let rate = benches::throughput(load).await;
        let cpu = benches::cpu_time_of(process).checked_sub(before).unwrap();
        least = least.min(cpu.as_secs_f64() * 1e6 / (rate * load.seconds));
    }
    least
}
