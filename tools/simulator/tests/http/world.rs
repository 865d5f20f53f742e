//! Jobs, the journal, the listener and the API for other processes.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::client::{send, send_with};
use serde_json::json;
use simulator::{JobPhase, JobPlan, PlannedEnd, RequestRole, Simulator, World};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

const ORDER: &str = r#"{"model": "sora-2", "prompt": "a lake"}"#;

async fn submit(address: SocketAddr) -> String {
    let response = send(address, "POST", "/openai-videos/videos", ORDER).await;
    response.json()["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_job_follows_its_plan() {
    let world = World::default();
    let plan = |queued, running, end| JobPlan {
        incomplete: false,
        queued: Duration::from_secs(queued),
        running: Duration::from_secs(running),
        polls: 0,
        end,
    };
    world.set_plan(plan(60, 60, PlannedEnd::Success));
    world.set_plan_of("b", plan(0, 0, PlannedEnd::Refusal));
    let waiting = world.accept("a", "1", json!({}), json!(null));
    assert_eq!(waiting.phase(), JobPhase::Queued);
    assert!(world.cancel("1") && !world.cancel("1"));
    assert_eq!(world.job("1").unwrap().phase(), JobPhase::Cancelled);
    world.accept("b", "2", json!({}), json!(null));
    assert_eq!(
        world.job("2").unwrap().phase(),
        JobPhase::Ended(PlannedEnd::Refusal)
    );
    assert!(!world.cancel("2"));
    world.set_plan(plan(0, 60, PlannedEnd::Success));
    let working = world.accept("b", "3", json!({}), json!(null));
    assert!(matches!(working.phase(), JobPhase::Running(share) if share < 0.5));

    world.set_plan(JobPlan {
        polls: 2,
        ..plan(0, 0, PlannedEnd::Success)
    });
    world.accept("a", "4", json!({}), json!(null));
    let mut ended = Vec::new();
    for _ in 0..4 {
        let phase = world.poll_job("4").unwrap().phase();
        ended.push(matches!(phase, JobPhase::Ended(_)));
    }
    assert_eq!(ended, [false, false, true, true]);

    world.forget("2");
    assert_eq!(world.job("2").map(|job| job.id), None);
    let ids: Vec<String> = world.jobs("b").into_iter().map(|job| job.id).collect();
    assert_eq!((ids, world.accepted_count("b")), (vec!["3".to_owned()], 2));
}

#[tokio::test]
async fn the_journal_has_every_request() {
    let simulator = Simulator::start().await.unwrap();
    let (address, world) = (simulator.address(), simulator.world());
    submit(address).await;
    let response = send(address, "PATCH", "/openai-videos/videos?x=1", "{").await;
    assert_eq!(
        (response.status, &response.json()["error"]["code"]),
        (405, &json!("405"))
    );
    let response = send(address, "GET", "/openai-videos/video", "").await;
    assert_eq!(
        (response.status, &response.json()["error"]["code"]),
        (404, &json!("404"))
    );
    let journal = world.journal();
    let roles: Vec<_> = journal
        .iter()
        .map(|request| (request.role, request.path.as_str()))
        .collect();
    assert_eq!(
        roles,
        [
            (RequestRole::Submit, "/videos"),
            (RequestRole::Other, "/videos?x=1"),
            (RequestRole::Other, "/video"),
        ]
    );
    assert_eq!(journal[0].body["prompt"], "a lake");
    assert_eq!(journal[0].headers["authorization"], "Bearer key");
    assert_eq!(journal[1].body, json!({"bytes": 1}));

    world.set_journal(false);
    submit(address).await;
    assert_eq!(world.journal().len(), 3);
    world.clear_journal();
    assert_eq!(world.journal().len(), 0);
}

#[tokio::test]
async fn multipart_bodies_are_read_completely() {
    let simulator = Simulator::start().await.unwrap();
    let mut body = Vec::new();
    for (name, value) in [
        ("prompt", "a lake"),
        ("tag", "1"),
        ("tag", "2"),
        ("tag", "3"),
    ] {
        let field =
            format!("--edge\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        body.extend(field.as_bytes());
    }
    body.extend(b"--edge\r\ncontent-disposition: form-data; name=\"input_reference\"; filename=\"a.png\"\r\ncontent-type: image/png\r\n\r\n");
    body.extend(vec![0; 20_000_000]);
    body.extend(b"\r\n--edge--\r\n");
    let head = "content-type: multipart/form-data; boundary=edge\r\nauthorization: Bearer key\r\n";
    let response = send_with(
        simulator.address(),
        "POST",
        "/openai-videos/videos",
        head,
        &body,
    )
    .await;
    assert_eq!(response.status, 200);
    let file = json!({"file_name": "a.png", "mime": "image/png", "bytes": 20_000_000});
    assert_eq!(
        simulator.world().journal()[0].body,
        json!({"prompt": "a lake", "tag": ["1", "2", "3"], "input_reference": file})
    );
}

#[tokio::test]
async fn a_provider_goes_down_and_comes_back() {
    let simulator = Simulator::start().await.unwrap();
    let (address, world) = (simulator.address(), simulator.world().clone());
    let id = submit(address).await;
    let mut open = TcpStream::connect(address).await.unwrap();
    drop(simulator);
    assert_eq!(open.read(&mut [0]).await.unwrap_or(0), 0);
    assert!(TcpStream::connect(address).await.is_err());

    let restarted = Simulator::listen_with(address, None, world).await.unwrap();
    let path = format!("/openai-videos/videos/{id}");
    assert_eq!(
        send(restarted.address(), "GET", &path, "").await.status,
        200
    );
}

#[tokio::test]
async fn everything_can_be_ordered_over_http() {
    let simulator = Simulator::start().await.unwrap();
    let address = simulator.address();
    assert_eq!(
        send(address, "GET", "/_/health", "").await.json(),
        json!({"ok": true})
    );
    let orders = [
        json!({"fault": "drop_after", "provider": "fal", "role": "submit", "after": 1, "times": 3}),
        json!({"fault": {"latency": 5}}),
        json!({"fault": {"slow": 1}}),
        json!({"fault": {"status": {"status": 503}}}),
        json!({"fault": {"status_after": 500}, "role": "cancel"}),
    ];
    for order in &orders {
        let response = send(address, "POST", "/_/faults", &order.to_string()).await;
        assert_eq!(response.status, 204, "{order}");
    }
    let placed = send(address, "GET", "/_/faults", "").await.json();
    assert_eq!(placed[0], orders[0]);
    assert_eq!(
        placed[3],
        json!({
            "fault": {"status": {"status": 503, "retry_after": null, "bare": false}},
            "provider": null, "role": null, "after": 0, "times": 1,
        })
    );
    for invalid in [
        "{}",
        r#"{"fault": "drop"}"#,
        r#"{"fault": "drop_after", "roles": "submit"}"#,
        r#"{"fault": {"status": {"status": 503, "retry-after": 1}}}"#,
    ] {
        let response = send(address, "POST", "/_/faults", invalid).await;
        assert_eq!(response.status, 400, "{invalid}");
    }
    assert_eq!(send(address, "DELETE", "/_/faults", "").await.status, 204);
    assert_eq!(simulator.world().fault_orders(), []);

    let plan = r#"{"queued": 0, "running": 0, "end": "failure"}"#;
    send(address, "POST", "/_/plan?provider=openai-videos", plan).await;
    let id = submit(address).await;
    let jobs = send(address, "GET", "/_/jobs?provider=openai-videos", "")
        .await
        .json();
    assert_eq!(
        (&jobs[0]["id"], &jobs[0]["phase"]),
        (&json!(id), &json!({"ended": "failure"}))
    );
    assert_eq!(
        send(address, "GET", "/_/jobs?provider=fal", "")
            .await
            .json(),
        json!([])
    );
    let journal = send(address, "GET", "/_/journal", "").await.json();
    let first = &journal[0];
    assert_eq!(
        (
            &first["provider"],
            &first["method"],
            &first["path"],
            &first["role"]
        ),
        (
            &json!("openai-videos"),
            &json!("POST"),
            &json!("/videos"),
            &json!("submit")
        )
    );
    assert_eq!(first["headers"]["authorization"], "Bearer key");
    send(address, "PUT", "/_/journal", "false").await;
    send(address, "DELETE", "/_/journal", "").await;
    submit(address).await;
    assert_eq!(
        send(address, "GET", "/_/journal", "").await.json(),
        json!([])
    );

    send(address, "POST", "/_/reset", "").await;
    assert_eq!(send(address, "GET", "/_/jobs", "").await.json(), json!([]));
    assert_eq!(submit(address).await, id);
}

#[test]
fn the_program_says_where_it_listens() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_simulator"))
        .args(["--listen", "127.0.0.1:0", "--no-journal"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let output = program.stdout.take().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on http://").unwrap();
    let reachable = std::net::TcpStream::connect(address).is_ok();
    program.kill().unwrap();
    program.wait().unwrap();
    assert!(reachable, "{line}");
}

#[tokio::test]
async fn a_world_is_shared_by_two_listeners() {
    let world = Arc::new(World::default());
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let first = Simulator::listen_with(loopback, None, world.clone())
        .await
        .unwrap();
    let second = Simulator::listen_with(loopback, None, world.clone())
        .await
        .unwrap();
    submit(first.address()).await;
    submit(second.address()).await;
    assert_eq!(world.accepted_count("openai-videos"), 2);
}
