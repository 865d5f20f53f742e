//! Faults on request, as a client sees them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::client::{ConnectionEnd, RawResponse, send, send_with};
use serde_json::json;
use simulator::{Fault, FaultOrder, JobPlan, RequestRole, Simulator};

const OPENAI: &str = "openai-videos";

async fn simulator() -> Simulator {
    let simulator = Simulator::start().await.unwrap();
    simulator.world().set_plan(JobPlan {
        queued: Duration::ZERO,
        running: Duration::ZERO,
        ..JobPlan::default()
    });
    simulator
}

async fn submit(address: SocketAddr) -> RawResponse {
    let body = json!({"model": "sora-2", "prompt": "a lake", "seconds": "4"});
    send(address, "POST", "/openai-videos/videos", &body.to_string()).await
}

/// The path of a finished job.
async fn job(simulator: &Simulator) -> String {
    let response = submit(simulator.address()).await;
    let id = response.json()["id"].as_str().unwrap().to_owned();
    format!("/openai-videos/videos/{id}")
}

#[tokio::test]
async fn a_drop_before_does_nothing_and_a_drop_after_does_everything() {
    let simulator = simulator().await;
    let world = simulator.world();
    for (fault, accepted) in [(Fault::DropBefore, 0), (Fault::DropAfter, 1)] {
        world.order_fault(fault, Some(OPENAI), Some(RequestRole::Submit), 1);
        let response = submit(simulator.address()).await;
        assert_eq!((response.status, response.body.len()), (0, 0));
        assert_eq!(world.accepted_count(OPENAI), accepted);
    }
    assert_eq!(world.journal().len(), 2);
    assert_eq!(submit(simulator.address()).await.status, 200);
}

#[tokio::test]
async fn an_answer_breaks_off_in_two_ways() {
    let simulator = simulator().await;
    let content = format!("{}/content", job(&simulator).await);
    let whole = send(simulator.address(), "GET", &content, "").await;
    assert_eq!(
        (whole.end, whole.body.len() > 1000),
        (ConnectionEnd::Closed, true)
    );
    for (fault, end) in [
        (Fault::Truncated, ConnectionEnd::Closed),
        (Fault::DropInBody, ConnectionEnd::Reset),
    ] {
        let world = simulator.world();
        world.order_fault(fault, None, Some(RequestRole::Download), 1);
        let response = send(simulator.address(), "GET", &content, "").await;
        assert_eq!((response.status, response.end), (200, end));
        assert_eq!(response.length(), whole.body.len());
        assert_eq!(
            response.body,
            whole.body[..whole.body.len().div_ceil(8) * 4]
        );
    }
}

#[tokio::test]
async fn a_status_comes_in_the_providers_form_or_bare() {
    let simulator = simulator().await;
    let world = simulator.world();
    let status = |bare| Fault::Status {
        status: 429,
        retry_after: Some(2),
        bare,
    };
    world.order_fault(status(false), None, None, 1);
    let response = submit(simulator.address()).await;
    assert_eq!(
        (response.status, response.header("retry-after")),
        (429, Some("2"))
    );
    assert_eq!(response.json()["error"]["message"], "simulated");
    world.order_fault(status(true), None, None, 1);
    let response = submit(simulator.address()).await;
    assert_eq!((response.status, response.body.len()), (429, 0));
    assert_eq!(world.accepted_count(OPENAI), 0);

    world.order_fault(Fault::StatusAfter(502), None, None, 1);
    let response = submit(simulator.address()).await;
    assert_eq!((response.status, response.body.len()), (502, 0));
    assert_eq!(world.accepted_count(OPENAI), 1);
}

#[tokio::test]
async fn late_and_slow_answers_are_complete() {
    let simulator = simulator().await;
    let content = format!("{}/content", job(&simulator).await);
    let whole = send(simulator.address(), "GET", &content, "").await;
    for (fault, min_milliseconds) in [
        (Fault::Latency(Duration::from_millis(60)), 60),
        (Fault::Slow(Duration::from_millis(10)), 80),
    ] {
        simulator.world().order_fault(fault, None, None, 1);
        let started = Instant::now();
        let response = send(simulator.address(), "GET", &content, "").await;
        assert!(started.elapsed() >= Duration::from_millis(min_milliseconds));
        assert_eq!(
            (response.length(), &response.body),
            (whole.body.len(), &whole.body)
        );
    }
}

#[tokio::test]
async fn a_lying_result_claims_to_be_a_video() {
    let simulator = simulator().await;
    let content = format!("{}/content", job(&simulator).await);
    simulator.world().order_fault(Fault::Lying, None, None, 1);
    let response = send(simulator.address(), "GET", &content, "").await;
    assert_eq!(response.header("content-type"), Some("video/mp4"));
    assert!(response.body.starts_with(b"<html>"));
}

#[tokio::test]
async fn a_fault_waits_for_a_request_that_it_concerns() {
    let simulator = simulator().await;
    let world = simulator.world();
    world.order_fault(Fault::UnknownWord, None, None, 1);
    let job = job(&simulator).await;
    assert_eq!(world.fault_orders().len(), 1);
    let response = send(simulator.address(), "GET", &job, "").await;
    assert_eq!(response.json()["status"], "rendering_preview");
    let response = send(simulator.address(), "GET", &job, "").await;
    assert_eq!(response.json()["status"], "completed");

    world.order_fault(Fault::Expired, Some("fal"), None, 1);
    assert_eq!(world.fault("fal", RequestRole::Poll), None);
    assert_eq!(world.fault(OPENAI, RequestRole::Download), None);
    assert_eq!(
        world.fault("fal", RequestRole::Download),
        Some(Fault::Expired)
    );
    assert_eq!(world.fault("fal", RequestRole::Download), None);
}

#[tokio::test]
async fn some_requests_pass_before_a_fault_strikes() {
    let simulator = simulator().await;
    let mut order = FaultOrder::new(Fault::StatusAfter(500));
    (order.role, order.after, order.times) = (Some(RequestRole::Poll), 2, 2);
    simulator.world().place(order);
    let job = job(&simulator).await;
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(send(simulator.address(), "GET", &job, "").await.status);
    }
    assert_eq!(statuses, [200, 200, 500, 500, 200]);
}

#[tokio::test]
async fn a_duplicate_gives_two_submissions_one_job() {
    let simulator = simulator().await;
    let world = simulator.world();
    // There is no earlier answer to repeat yet.
    world.order_fault(Fault::Duplicate, None, None, 1);
    let first = submit(simulator.address()).await.json();
    world.order_fault(Fault::Duplicate, None, None, 1);
    let second = submit(simulator.address()).await.json();
    assert_eq!(
        (&first["id"], world.accepted_count(OPENAI)),
        (&second["id"], 1)
    );
    let third = submit(simulator.address()).await.json();
    assert_ne!(first["id"], third["id"]);
}

#[tokio::test]
async fn an_expired_address_is_refused() {
    let simulator = simulator().await;
    let (address, world) = (simulator.address(), simulator.world());
    let head = "content-type: application/json\r\nauthorization: Key id:secret\r\n";
    let input = r#"{"prompt": "a lake", "duration": "8s"}"#;
    let response = send_with(
        address,
        "POST",
        "/fal/fal-ai/veo3.1",
        head,
        input.as_bytes(),
    )
    .await;
    let job = response.json()["response_url"].as_str().unwrap().to_owned();
    // Addresses have the host that the caller used.
    let origin = format!("http://{address}");
    let path = job.strip_prefix(&origin).unwrap();
    let response = send_with(address, "GET", path, head, b"").await;
    let video = response.json()["video"]["url"].as_str().unwrap().to_owned();
    world.order_fault(Fault::Expired, Some("fal"), None, 1);
    let path = video.strip_prefix(&origin).unwrap();
    assert_eq!(send(address, "GET", path, "").await.status, 403);
    let response = send(address, "GET", path, "").await;
    assert_eq!(
        (response.status, &response.body[4..8]),
        (200, b"ftyp".as_slice())
    );
}
