//! The program at rest: cold start, memory, CPU and what it writes while nobody calls it.

use std::time::Duration;

use benches::gateway_process::GatewayProcess;

/// How long an idle process is watched.
const WATCH_TIME: Duration = Duration::from_secs(30);
const STARTS: usize = 9;

pub(crate) async fn measure() {
    println!("## At rest\n\n| SQLite, no models but the embedded ones | |\n|---|---|");
    let mut starts: Vec<f64> = Vec::new();
    let mut program = GatewayProcess::start("");
    println!(
        "| first start until the first response, ms | {:.0} |",
        millis(&program)
    );
    for _ in 0..STARTS {
        program = program.stop_and_restart();
        starts.push(millis(&program));
    }
    starts.sort_by(f64::total_cmp);
    println!(
        "| later start (median of {STARTS}), ms | {:.0} |",
        starts[STARTS / 2]
    );
    tokio::time::sleep(Duration::from_secs(5)).await;
    println!("| memory, MiB | {:.0} |", program.resident());
    let (cpu, written) = (program.cpu(), program.bytes_written());
    tokio::time::sleep(WATCH_TIME).await;
    let cpu = program.cpu_seconds_since(cpu) / WATCH_TIME.as_secs_f64();
    let written = (program.bytes_written() - written) as f64 / WATCH_TIME.as_secs_f64() / 1024.0;
    println!("| CPU, % of a core | {:.2} |", cpu * 100.0);
    println!("| written to the disk, KiB a second | {written:.1} |\n");
}

fn millis(program: &GatewayProcess) -> f64 {
    program.started_in.as_secs_f64() * 1000.0
}
