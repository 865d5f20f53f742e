//! The official Python SDK as a caller, where a Python with it is named.

use std::io::Write as _;
use std::process::{Command, Stdio};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use crate::callers::Told;
use crate::dice::Dice;
use crate::intent::{Intent, Kind, Way};
use crate::knobs::now_micros;
use crate::stage::{Door, Stage};
use crate::tries::{Answer, Got, Try};

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

/// What the SDK is to ask for.
pub(crate) struct Orders {
    intents: Vec<Intent>,
    key: String,
    door: Door,
}

impl Orders {
    pub(crate) fn any(dice: &mut Dice, stage: &Stage) -> Self {
        let key = &stage.keys[0];
        let mut intents = Vec::new();
        for kind in [Kind::Chat, Kind::Stream, Kind::Videos, Kind::Chat] {
            intents.push(Intent::new(dice, kind, Way::Sdk, 0, key, &stage.recording));
        }
        Self {
            intents,
            key: key.secret.clone(),
            door: stage.door.clone(),
        }
    }

    /// Runs the SDK until it has all or gives up.
    pub(crate) async fn ask(self, python: &str) -> Vec<Told> {
        // It knows one address, whatever becomes of the gateway.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let forwarding = tokio::spawn(forward(listener, self.door));
        let orders: Vec<Value> = self.intents.iter().map(order).collect();
        let input = json!({"base_url": base, "api_key": self.key, "orders": orders}).to_string();
        let python = python.to_owned();
        let began = now_micros();
        let said = tokio::task::spawn_blocking(move || said(&python, &input))
            .await
            .unwrap();
        forwarding.abort();
        let said: Vec<Value> = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
        let told = self.intents.into_iter().zip(said);
        told.map(|(intent, said)| Told {
            intent,
            tries: vec![as_try(&said, began)],
        })
        .collect()
    }
}

fn order(intent: &Intent) -> Value {
    json!({"kind": format!("{:?}", intent.kind), "body": intent.body})
}

fn said(python: &str, input: &str) -> String {
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

/// The SDK's last word on an order.
fn as_try(said: &Value, began: i64) -> Try {
    let code = said["code"].as_str().map(str::to_owned);
    let got = match said["status"].as_u64() {
        None => Got::Lost,
        Some(status) => Got::Whole(Answer {
            status: u16::try_from(status).unwrap(),
            code,
            should_retry: said["should_retry"] == true,
            retry_after: said["retry_after"]
                .as_str()
                .and_then(|text| text.parse().ok()),
            replayed: false,
            bytes: Bytes::new(),
            streamed: false,
        }),
    };
    Try {
        sent_at: began,
        ended_at: now_micros(),
        got,
        task: said["task"].as_str().map(str::to_owned),
        otherwise: false,
    }
}

/// Hands connections on to wherever the gateway is now.
async fn forward(listener: TcpListener, door: Door) {
    while let Ok((mut caller, _)) = listener.accept().await {
        let Some(base) = door.address() else {
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
