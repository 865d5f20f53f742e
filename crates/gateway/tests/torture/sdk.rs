//! The official Python SDK as a caller, if the environment names a Python that has it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use crate::callers::CallerHistory;
use crate::dice::Dice;
use crate::intent::{Intent, Kind, RetryStyle};
use crate::knobs::now_micros;
use crate::stage::{PublishedAddress, Stage};
use crate::tries::{Answer, Try, TryOutcome};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/torture/sdk.py");

/// The Python to use, if one is named.
pub(crate) fn python() -> Option<String> {
    static ONCE: std::sync::Once = std::sync::Once::new();
    let named = std::env::var("MEDIAGATE_TEST_SDK_PYTHON").ok();
    if named.is_none() {
        ONCE.call_once(|| {
            println!("NOT RUN: MEDIAGATE_TEST_SDK_PYTHON names no Python with the SDK");
        });
    }
    named
}

/// Orders for the SDK.
pub(crate) struct Orders {
    intents: Vec<Intent>,
    key: String,
    address: PublishedAddress,
}

impl Orders {
    pub(crate) fn any(dice: &mut Dice, stage: &Stage) -> Self {
        let key = &stage.keys[0];
        let mut intents = Vec::new();
        for kind in [Kind::Chat, Kind::Stream, Kind::Videos, Kind::Chat] {
            intents.push(Intent::new(
                dice,
                kind,
                RetryStyle::Sdk,
                0,
                key,
                &stage.recording,
            ));
        }
        Self {
            intents,
            key: key.secret.clone(),
            address: stage.address.clone(),
        }
    }

    /// Runs the SDK until it has all results or gives up.
    pub(crate) async fn run(self, python: &str) -> Vec<CallerHistory> {
        // The SDK has one fixed address, while the gateway's changes.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let forwarder = tokio::spawn(forward(listener, self.address));
        let orders: Vec<Value> = self.intents.iter().map(order).collect();
        let input = json!({"base_url": base, "api_key": self.key, "orders": orders}).to_string();
        let python = python.to_owned();
        let started_at = now_micros();
        let results = tokio::task::spawn_blocking(move || run_script(&python, &input))
            .await
            .unwrap();
        forwarder.abort();
        let results: Vec<Value> =
            serde_json::from_str(&results).unwrap_or_else(|_| panic!("{results}"));
        let pairs = self.intents.into_iter().zip(results);
        pairs
            .map(|(intent, result)| CallerHistory {
                intent,
                tries: vec![try_of(&result, started_at)],
            })
            .collect()
    }
}

fn order(intent: &Intent) -> Value {
    json!({"kind": format!("{:?}", intent.kind), "body": intent.body})
}

fn run_script(python: &str, input: &str) -> String {
    let mut command = Command::new(python);
    command
        .args(["-B", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
        .env("NO_PROXY", "127.0.0.1")
        .env("no_proxy", "127.0.0.1");
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The SDK's final outcome of an order, as a try.
fn try_of(result: &Value, started_at: i64) -> Try {
    let code = result["code"].as_str().map(str::to_owned);
    let outcome = match result["status"].as_u64() {
        None => TryOutcome::Lost,
        Some(status) => TryOutcome::Answered(Answer {
            status: u16::try_from(status).unwrap(),
            code,
            should_retry: result["should_retry"] == true,
            retry_after: result["retry_after"]
                .as_str()
                .and_then(|text| text.parse().ok()),
            replayed: false,
            bytes: Bytes::new(),
            streamed: false,
        }),
    };
    Try {
        sent_at: started_at,
        ended_at: now_micros(),
        outcome,
        task: result["task"].as_str().map(str::to_owned),
        has_other_body: false,
    }
}

/// Forwards connections to the gateway's current address.
async fn forward(listener: TcpListener, address: PublishedAddress) {
    while let Ok((mut caller, _)) = listener.accept().await {
        let Some(base) = address.current() else {
            continue;
        };
        tokio::spawn(async move {
            let address = base.trim_start_matches("http://");
            if let Ok(mut gateway) = TcpStream::connect(address).await {
                let _ = copy_bidirectional(&mut caller, &mut gateway).await;
            }
        });
    }
}
