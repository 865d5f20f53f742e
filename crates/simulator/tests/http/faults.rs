//! Faults on order, as they are on the wire.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::client::{Came, Ended, send, send_with};
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

async fn submit(address: SocketAddr) -> Came {
    let body = json!({"model": "sora-2", "prompt": "a lake", "seconds": "4"});
    send(address, "POST", "/openai-videos/videos", &body.to_string()).await
}

/// A finished job's address.
async fn job(simulator: &Simulator) -> String {
    let came = submit(simulator.address()).await;
    let id = came.json()["id"].as_str().unwrap().to_owned();
    format!("/openai-videos/videos/{id}")
}

#[tokio::test]
async fn a_connection_dropped_before_has_done_nothing_and_after_has_done_all() {
    let simulator = simulator().await;
    let world = simulator.world();
    for (fault, taken) in [(Fault::DropBefore, 0), (Fault::DropAfter, 1)] {
        world.order_fault(fault, Some(OPENAI), Some(RequestRole::Submit), 1);
        let came = submit(simulator.address()).await;
        assert_eq!((came.status, came.body.len()), (0, 0));
        assert_eq!(world.accepted_count(OPENAI), taken);
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
        (whole.ended, whole.body.len() > 1000),
        (Ended::Closed, true)
    );
    for (fault, ended) in [
        (Fault::Truncated, Ended::Closed),
        (Fault::DropInBody, Ended::Reset),
    ] {
        let world = simulator.world();
        world.order_fault(fault, None, Some(RequestRole::Download), 1);
        let came = send(simulator.address(), "GET", &content, "").await;
        assert_eq!((came.status, came.ended), (200, ended));
        assert_eq!(came.length(), whole.body.len());
        assert_eq!(came.body, whole.body[..whole.body.len().div_ceil(8) * 4]);
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
    let came = submit(simulator.address()).await;
    assert_eq!((came.status, came.header("retry-after")), (429, Some("2")));
    assert_eq!(came.json()["error"]["message"], "simulated");
    world.order_fault(status(true), None, None, 1);
    let came = submit(simulator.address()).await;
    assert_eq!((came.status, came.body.len()), (429, 0));
    assert_eq!(world.accepted_count(OPENAI), 0);

    world.order_fault(Fault::StatusAfter(502), None, None, 1);
    let came = submit(simulator.address()).await;
    assert_eq!((came.status, came.body.len()), (502, 0));
    assert_eq!(world.accepted_count(OPENAI), 1);
}

#[tokio::test]
async fn late_and_slow_answers_are_whole() {
    let simulator = simulator().await;
    let content = format!("{}/content", job(&simulator).await);
    let whole = send(simulator.address(), "GET", &content, "").await;
    for (fault, least) in [
        (Fault::Latency(Duration::from_millis(60)), 60),
        (Fault::Slow(Duration::from_millis(10)), 80),
    ] {
        simulator.world().order_fault(fault, None, None, 1);
        let begun = Instant::now();
        let came = send(simulator.address(), "GET", &content, "").await;
        assert!(begun.elapsed() >= Duration::from_millis(least));
        assert_eq!((came.length(), &came.body), (whole.body.len(), &whole.body));
    }
}

#[tokio::test]
async fn a_lie_calls_itself_a_video() {
    let simulator = simulator().await;
    let content = format!("{}/content", job(&simulator).await);
    simulator.world().order_fault(Fault::Lying, None, None, 1);
    let came = send(simulator.address(), "GET", &content, "").await;
    assert_eq!(came.header("content-type"), Some("video/mp4"));
    assert!(came.body.starts_with(b"<html>"));
}

#[tokio::test]
async fn a_fault_waits_for_a_request_that_it_concerns() {
    let simulator = simulator().await;
    let world = simulator.world();
    world.order_fault(Fault::UnknownWord, None, None, 1);
    let job = job(&simulator).await;
    assert_eq!(world.fault_orders().len(), 1);
    let came = send(simulator.address(), "GET", &job, "").await;
    assert_eq!(came.json()["status"], "rendering_preview");
    let came = send(simulator.address(), "GET", &job, "").await;
    assert_eq!(came.json()["status"], "completed");

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
    // There is nothing yet to be repeated.
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
    let came = send_with(
        address,
        "POST",
        "/fal/fal-ai/veo3.1",
        head,
        input.as_bytes(),
    )
    .await;
    let job = came.json()["response_url"].as_str().unwrap().to_owned();
    // Addresses are by the name that the caller used.
    let origin = format!("http://{address}");
    let path = job.strip_prefix(&origin).unwrap();
    let came = send_with(address, "GET", path, head, b"").await;
    let video = came.json()["video"]["url"].as_str().unwrap().to_owned();
    world.order_fault(Fault::Expired, Some("fal"), None, 1);
    let path = video.strip_prefix(&origin).unwrap();
    assert_eq!(send(address, "GET", path, "").await.status, 403);
    let came = send(address, "GET", path, "").await;
    assert_eq!((came.status, &came.body[4..8]), (200, b"ftyp".as_slice()));
}
