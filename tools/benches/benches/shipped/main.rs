//! The program as it is shipped, beside what a user would pick instead: `mediagate serve` as a
//! child process with its default settings, and nginx and `HAProxy` in the same run. Prints the
//! tables of docs/performance.md.
//!
//! ```text
//! cargo build --release && cargo bench -p benches --bench shipped
//! cargo bench -p benches --bench shipped -- chats orders     only these parts
//! RACE_PEERS="litellm|http://127.0.0.1:4000/v1/chat/completions|1234|film" \
//!     cargo bench -p benches --bench shipped -- chats        with others that listen already
//! ```
//!
//! The gateway and each peer have the first processor, load and upstreams the second. nginx and
//! `HAProxy` run if they are on the PATH. `MEDIAGATE_BENCH_PROGRAM` names another build.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    reason = "a benchmark may fail loudly, and prints rounded figures"
)]

mod chats;
mod figures;
mod files;
mod jobs;
mod orders;
mod peers;
mod polling_loop;
mod provider;
mod rest;
mod upstream;

const PARTS: [&str; 5] = ["chats", "orders", "files", "jobs", "rest"];

fn main() {
    benches::client_or_continue();
    upstream::serve_or_continue();
    provider::play_or_continue();
    benches::gateway_process::split_processors();
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let is_chosen = |part| {
        let mut parts = chosen.iter().filter(|word| PARTS.contains(&word.as_str()));
        parts.clone().next().is_none() || parts.any(|chosen| chosen == part)
    };
    benches::runtime().block_on(async {
        if is_chosen("chats") {
            chats::measure().await;
        }
        if is_chosen("orders") {
            orders::measure().await;
        }
        if is_chosen("files") {
            files::measure().await;
        }
        if is_chosen("jobs") {
            jobs::measure().await;
        }
        if is_chosen("rest") {
            rest::measure().await;
        }
    });
    benches::gateway_process::delete_data();
}
