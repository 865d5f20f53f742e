//! The provider: answers a chat with a link to a film, and serves the film. In a process of its
//! own (this program, started again).

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::http::header;
use axum::routing::{get, post};
use serde_json::{Value, json};

const UPSTREAM: &str = "MEDIAGATE_BENCH_UPSTREAM";

/// A prompt with this word gets a film of 1 MB.
pub(crate) const LARGE: &str = "megabyte";

/// The upstream's process. Dropping this ends it.
pub(crate) struct Upstream {
    child: Child,
    pub address: SocketAddr,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Starts an upstream that takes this long for an answer.
pub(crate) fn start(pause: Duration) -> Upstream {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .env(UPSTREAM, pause.as_millis().to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    Upstream {
        child,
        address: line.trim().parse().unwrap(),
    }
}

/// In the upstream's process: serves until it is killed.
pub(crate) fn serve_or_continue() {
    let Ok(pause) = std::env::var(UPSTREAM) else {
        return;
    };
    let pause = Duration::from_millis(pause.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let fixed_address = std::env::var("RACE_UPSTREAM").ok();
        let address = fixed_address.filter(|_| pause.is_zero());
        let address = address.as_deref().unwrap_or("127.0.0.1:0");
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (film, large) = (simulator::media::video(4), film_of_a_megabyte());
        let answers = ["film", LARGE].map(|film| answer(address, film));
        let chat = move |body: Bytes| async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let mut words = body.windows(LARGE.len());
            let [small, large] = answers;
            Json(if words.any(|word| word == LARGE.as_bytes()) {
                large
            } else {
                small
            })
        };
        let serve =
            |film: Bytes| get(move || async move { ([(header::CONTENT_TYPE, "video/mp4")], film) });
        let router = axum::Router::new()
            .route("/v1/chat/completions", post(chat))
            .route("/film.mp4", serve(film))
            .route(&format!("/{LARGE}.mp4"), serve(large));
        println!("{address}");
        axum::serve(listener, router).await.unwrap();
    });
}

/// A film, filled up with a box that players skip (`free`, ISO 14496-12).
fn film_of_a_megabyte() -> Bytes {
    let mut film = simulator::media::video(4).to_vec();
    let rest = 1_000_000 - film.len();
    film.extend(u32::try_from(rest).unwrap().to_be_bytes());
    film.extend(b"free");
    film.resize(1_000_000, 0);
    film.into()
}

fn answer(address: SocketAddr, film: &str) -> Value {
    json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_795_471_200,
        "model": "film",
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": format!("[film](http://{address}/{film}.mp4)")},
            "finish_reason": "stop",
        }],
        "usage": {"prompt_tokens": 8, "completion_tokens": 8, "total_tokens": 16},
    })
}
