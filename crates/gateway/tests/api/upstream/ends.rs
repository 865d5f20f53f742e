//! How accepted jobs end: what their callers are told, and that no client orders a paid job again
//! because of it.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use simulator::{Fault, PlannedEnd, RequestRole, Simulator};

use super::{
    assert_failed, chat_order, film, gateway, one_provider, order_film, plan, provider,
    request_count, simulator,
};
use crate::support::{Answer, TestGateway, eventually, path_of};

/// The tries of an official SDK.
const TRIES: u32 = 3;
/// How much shorter pauses are, where a test waits for what takes minutes.
const SPEED: u32 = 2000;

/// A request as an official SDK sends it: repeated after a transient status, unless the answer says
/// not to.
async fn as_sdk(gateway: &TestGateway, path: &str, body: &Value) -> Answer {
    let mut count = 0;
    loop {
        let request = gateway
            .request(Method::POST, path)
            .header("x-stainless-retry-count", count.to_string())
            .json(body);
        let answer = gateway.client.send(request).await;
        let is_transient = matches!(answer.status, 408 | 409 | 429 | 500..=599);
        let should_retry = match answer.header("x-should-retry") {
            Some(word) => word == "true",
            None => is_transient,
        };
        count += 1;
        if !should_retry || count == TRIES {
            return answer;
        }
    }
}

/// A gateway that waits less than usual.
async fn hurried(toml: &str) -> TestGateway {
    let gateway = gateway(toml).await;
    gateway.app.models.upstream.set_speed(SPEED);
    gateway
}

/// Four different orders by chat, at once.
async fn four_films(gateway: &TestGateway) -> Vec<Answer> {
    let orders = (0..4).map(|number| chat_order(&format!("lake {number}")));
    let sent =
        orders.map(|order| async move { as_sdk(gateway, "/v1/chat/completions", &order).await });
    futures_util::future::join_all(sent).await
}

fn paid_jobs(simulator: &Simulator) -> usize {
    simulator.world().accepted_count("openai-videos")
}

fn at(simulator: &Simulator, role: RequestRole, fault: Fault, times: u32) {
    simulator
        .world()
        .order_fault(fault, None, Some(role), times);
}

#[tokio::test]
async fn a_film_of_another_container_is_delivered_as_it_came() {
    let webm = simulator::media::webm(4);
    let mut quicktime = simulator::media::video(4).to_vec();
    quicktime[8..12].copy_from_slice(b"qt  ");
    let transport_stream: Vec<u8> = (0..4)
        .flat_map(|_| [&b"G"[..], &[0; 187]].concat())
        .collect();
    for (bytes, mime, extension, codec) in [
        (webm.to_vec(), "video/webm", ".webm", Some("vp9")),
        (quicktime, "video/quicktime", ".mov", Some("h264")),
        (transport_stream, "video/mp2t", ".ts", None),
    ] {
        let simulator = simulator().await;
        at(
            &simulator,
            RequestRole::Download,
            Fault::Another(bytes.clone()),
            100,
        );
        let gateway = gateway(&one_provider(&simulator)).await;
        for answer in four_films(&gateway).await {
            let task = answer.header("x-task-id").unwrap().to_owned();
            let body = answer.ok();
            let message = &body["choices"][0]["message"];
            let (url, video) = (message["content"].as_str().unwrap(), &message["video"]);
            assert!(url.ends_with(extension), "{url}");
            assert_eq!(
                (&video["mime_type"], &video["codec"]),
                (&json!(mime), &json!(codec))
            );
            assert_eq!(video["bytes"], bytes.len());
            let ordered = (&json!(1280), &json!(4.0));
            let measured = (&json!(simulator::media::VIDEO_SIZE.0), &json!(4.0));
            // A container whose codec is read is measured, too.
            let expected = if codec.is_some() { measured } else { ordered };
            assert_eq!((&video["width"], &video["seconds"]), expected);
            let file = gateway.without_key().get(&path_of(url)).await;
            assert_eq!(
                (file.status, file.header("content-type")),
                (200, Some(mime))
            );
            assert_eq!(file.bytes, bytes);
            let id = video["id"].as_str().unwrap();
            let content = gateway.get(&format!("/v1/videos/{id}/content")).await;
            assert_eq!(
                (content.status, content.header("content-type")),
                (200, Some(mime))
            );
            let view = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
            assert_eq!(view["cost_usd"], "0.40", "{view}");
            assert_eq!(view["output"]["videos"][0]["codec"], json!(codec), "{view}");
        }
        assert_eq!(paid_jobs(&simulator), 4);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_file_that_comes_late_is_waited_for() {
    let simulator = simulator().await;
    // Each film takes more tries than fit into eighty seconds, with the usual pauses.
    at(
        &simulator,
        RequestRole::Download,
        super::status(404),
        4 * 12,
    );
    let gateway = hurried(&one_provider(&simulator)).await;
    for answer in four_films(&gateway).await {
        answer.ok();
    }
    assert_eq!(paid_jobs(&simulator), 4);
    assert_eq!(request_count(&simulator, RequestRole::Download), 4 * 12 + 4);
    gateway.stop().await;
}

#[tokio::test]
async fn a_forbidden_file_is_waited_for_too() {
    let simulator = simulator().await;
    at(&simulator, RequestRole::Download, super::status(403), 15);
    let toml = provider("acme", "chat-video", &simulator, "")
        + &film(r#"{ provider = "acme", model = "veo3" }"#);
    let gateway = hurried(&toml).await;
    let task = order_film(&gateway, "a lake").await;
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    assert_eq!(simulator.world().accepted_count("chat-video"), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_page_of_a_proxy_in_place_of_jobs_is_waited_out() {
    let simulator = simulator().await;
    let page = Fault::Says {
        status: 404,
        retry_after: None,
        body: "<html><body>404 Not Found</body></html>".to_owned(),
    };
    // A poll is sent twice, so these are ten polls of each job.
    at(&simulator, RequestRole::Poll, page, 4 * 20);
    let gateway = hurried(&one_provider(&simulator)).await;
    for answer in four_films(&gateway).await {
        answer.ok();
    }
    assert_eq!(paid_jobs(&simulator), 4);
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_that_is_never_found_is_not_ordered_again() {
    let simulator = simulator().await;
    at(&simulator, RequestRole::Poll, super::status(404), 10_000);
    let toml = provider("acme", "openai-videos", &simulator, "job_limit = \"1s\"\n")
        + &film(r#"{ provider = "acme", model = "sora-2" }"#);
    let gateway = hurried(&toml).await;
    let answer = as_sdk(&gateway, "/v1/chat/completions", &chat_order("a lake")).await;
    answer.refused(424, "submission_unconfirmed");
    assert!(
        answer.message().contains("no longer knows the job"),
        "{}",
        answer.message()
    );
    assert_eq!(paid_jobs(&simulator), 1);
    let view = gateway.get("/v1/tasks").await.ok()["data"][0].clone();
    assert_failed(&view, "submission_unconfirmed");
    gateway.stop().await;
}

#[tokio::test]
async fn a_finished_job_without_a_usable_file_is_not_ordered_again() {
    let missing = |simulator: &Simulator| plan(simulator, Duration::ZERO, PlannedEnd::Empty);
    let broken = |simulator: &Simulator| at(simulator, RequestRole::Download, Fault::Lying, 100);
    for reason in ["could not be downloaded", "not a video"] {
        let simulator = simulator().await;
        if reason == "not a video" {
            broken(&simulator);
        } else {
            missing(&simulator);
        }
        let gateway = hurried(&one_provider(&simulator)).await;
        let answer = as_sdk(&gateway, "/v1/chat/completions", &chat_order("a lake")).await;
        answer.refused(422, "provider_rejected");
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        assert!(answer.message().contains(reason), "{}", answer.message());
        assert_eq!(paid_jobs(&simulator), 1);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_job_whose_record_says_that_it_failed_may_be_ordered_again() {
    let simulator = simulator().await;
    plan(&simulator, Duration::ZERO, PlannedEnd::Failure);
    let gateway = gateway(&one_provider(&simulator)).await;
    let answer = as_sdk(&gateway, "/v1/chat/completions", &chat_order("a lake")).await;
    answer.refused(503, "generation_failed");
    assert_eq!(paid_jobs(&simulator), 3);
    gateway.stop().await;
}

/// What a gateway behind this one says about an order of which it does not know what became.
const UNCONFIRMED: &str = r#"{"code": "submission_unconfirmed", "message": "It is unknown whether the provider accepted the task, so it was not sent again. Nothing was charged."}"#;

#[tokio::test]
async fn a_gateway_that_does_not_know_is_believed_at_once() {
    let record = format!(r#"{{"id": "video_1", "status": "failed", "error": {UNCONFIRMED}}}"#);
    let answer = format!(r#"{{"error": {UNCONFIRMED}}}"#);
    for (protocol, model, options, role, status, body) in [
        (
            "openai-videos",
            "sora-2",
            "",
            RequestRole::Poll,
            200,
            record,
        ),
        (
            "openai-videos",
            "sora-2",
            "idempotency = true",
            RequestRole::Submit,
            424,
            answer.clone(),
        ),
        (
            "chat-video",
            "veo3",
            "idempotency = true",
            RequestRole::Submit,
            424,
            answer,
        ),
    ] {
        let simulator = simulator().await;
        let says = Fault::Says {
            status,
            retry_after: None,
            body,
        };
        at(&simulator, role, says, 1);
        let route = format!("{{ provider = \"acme\", model = \"{model}\" }}");
        let toml = provider("acme", protocol, &simulator, options) + &film(&route);
        let gateway = gateway(&toml).await;
        let answer = as_sdk(&gateway, "/v1/chat/completions", &chat_order("a lake")).await;
        answer.refused(424, "submission_unconfirmed");
        assert_eq!(request_count(&simulator, role), 1, "{protocol}");
        let account = gateway.get("/v1/account").await.ok();
        assert_eq!(account["held_usd"], "0.00");
        let operator = crate::admin::operator(&gateway).await;
        let list = operator
            .get("/v1/admin/submissions?state=unconfirmed")
            .await
            .ok();
        assert_eq!(list["data"].as_array().unwrap().len(), 1, "{list}");
        gateway.stop().await;
    }
}

/// Two providers of the protocol `xai`, which cannot look an order up.
fn two_without_lookup(first: &Simulator, second: &Simulator) -> String {
    provider("first", "xai", first, "")
        + &provider("second", "xai", second, "")
        + &film(
            r#"{ provider = "first", model = "grok-imagine-video" }, { provider = "second", model = "grok-imagine-video" }"#,
        )
}

/// The provider that makes the next film.
async fn next_provider(gateway: &TestGateway, prompt: &str) -> Value {
    let task = order_film(gateway, prompt).await;
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    view["provider"].clone()
}

#[tokio::test]
async fn an_outage_beside_a_working_route_costs_one_order_at_most() {
    let (first, second) = (simulator().await, simulator().await);
    let toml = format!(
        "show_providers = true\n{}",
        two_without_lookup(&first, &second)
    );
    let gateway = TestGateway::builder()
        .manual_clock()
        .toml(&toml)
        .start()
        .await;
    assert_eq!(next_provider(&gateway, "before").await, "first");
    first
        .world()
        .order_fault(super::status(503), None, None, 100_000);
    let lost = order_film(&gateway, "lost").await;
    assert_failed(&gateway.finished(&lost).await, "submission_unconfirmed");
    let polls = || request_count(&first, RequestRole::Poll);
    let mut trials = 0;
    for pause in [6, 11, 21, 41] {
        assert_eq!(next_provider(&gateway, &format!("{pause}")).await, "second");
        let before = polls();
        gateway.app.clock.advance(Duration::from_secs(pause));
        eventually("the first provider is tried by a poll", async || {
            (polls() > before).then_some(())
        })
        .await;
        trials += 1;
        // The trial failed, so the next order does not go there either.
        assert_eq!(
            next_provider(&gateway, &format!("after {pause}")).await,
            "second"
        );
    }
    assert_eq!(trials, 4);
    assert_eq!(
        request_count(&first, RequestRole::Submit),
        2,
        "one made a film, one was lost"
    );
    // The provider works again.
    first.world().clear_faults();
    gateway.app.clock.advance(Duration::from_mins(5));
    eventually("the first provider is used again", async || {
        (next_provider(&gateway, "again").await == "first").then_some(())
    })
    .await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_suspended_route_is_tried_by_an_order_if_there_is_no_other() {
    let (first, second) = (simulator().await, simulator().await);
    let toml = format!(
        "show_providers = true\n{}",
        two_without_lookup(&first, &second)
    );
    let gateway = TestGateway::builder()
        .manual_clock()
        .toml(&toml)
        .start()
        .await;
    super::at_submission(&first, super::status(503), 1);
    let lost = order_film(&gateway, "lost").await;
    assert_failed(&gateway.finished(&lost).await, "submission_unconfirmed");
    // It has made no job yet by which it could be tried.
    gateway.app.clock.advance(Duration::from_secs(6));
    assert_eq!(next_provider(&gateway, "a lake").await, "second");
    super::at_submission(&second, super::status(401), 1);
    assert_eq!(next_provider(&gateway, "another lake").await, "first");
    gateway.stop().await;
}

#[tokio::test]
async fn a_gateway_that_made_nothing_of_an_order_is_passed_over() {
    for code in ["shutting_down", "provider_unavailable"] {
        let (first, second) = (simulator().await, simulator().await);
        let says = Fault::Says {
            status: 503,
            retry_after: Some(1),
            body: json!({"error": {"code": code, "message": "No."}}).to_string(),
        };
        super::at_submission(&first, says, 1);
        let gateway = gateway(&super::two_providers(&first, &second)).await;
        let task = order_film(&gateway, "a lake").await;
        let view = gateway.finished(&task).await;
        assert_eq!(view["status"], "succeeded", "{view}");
        assert_eq!((paid_jobs(&first), paid_jobs(&second)), (0, 1));
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_route_that_is_renamed_while_orders_wait_costs_what_was_held() {
    let simulator = simulator().await;
    let model = |name: &str| {
        format!(
            "[models.film]\nkind = \"video\"\nroutes = [{{ provider = \"acme\", model = \"{name}\", price = {{ unit = \"second\", usd = \"0.10\" }} }}]\n"
        )
    };
    let table = provider("acme", "openai-videos", &simulator, "");
    let mut gateway = super::without_workers(&(table.clone() + &model("sora-2"))).await;
    let task = order_film(&gateway, "a lake").await;
    gateway.reconfigure(&(table + &model("sora-2-pro")));
    gateway.start_workers().await;
    let view = gateway.finished(&task).await;
    assert_eq!(
        (&view["status"], &view["cost_usd"]),
        (&json!("succeeded"), &json!("0.40")),
        "{view}"
    );
    assert_eq!(view["billing"]["status"], "settled");
    let operator = crate::admin::operator(&gateway).await;
    let check = operator.get("/v1/admin/ledger/verify").await.ok();
    assert_eq!(check["mismatches"], json!([]), "{check}");
    gateway.stop().await;
}
