//! What a provider delivers is fetched whole and checked before a task succeeds.

use std::time::Duration;

use mediagate_store::StoreError;
use reqwest::Method;
use serde_json::{Value, json};
use simulator::{Fault, PlannedEnd, RequestRole, Simulator};

use super::{
    assert_failed, change, film, gateway, one_provider, order_film, plan, provider, simulator,
    submissions,
};
use crate::support::bucket::TestBucket;
use crate::support::program::Home;
use crate::support::{TestGateway, eventually, sound};

/// A simulator with a fault on the next requests of a role, its gateway, and the
/// finished task of one order.
async fn order_with_fault(
    fault: Fault,
    role: RequestRole,
    times: u32,
) -> (Simulator, TestGateway, Value) {
    let simulator = simulator().await;
    simulator
        .world()
        .order_fault(fault, None, Some(role), times);
    let gateway = gateway(&one_provider(&simulator)).await;
    let task = order_film(&gateway, "a lake").await;
    let view = gateway.finished(&task).await;
    assert_eq!(submissions(&simulator), 1, "the film is not ordered again");
    (simulator, gateway, view)
}

/// Asserts that the task succeeded with the provider's complete film.
#[track_caller]
fn assert_complete(view: &Value) {
    let film = simulator::media::video(4);
    assert_eq!(view["status"], "succeeded", "{view}");
    let video = &view["output"]["videos"][0];
    assert_eq!(video["bytes"], film.len());
    let hex = mediagate_core::domain::assets::sha256_hex(&film);
    assert_eq!(video["sha256"], hex);
    assert_eq!(view["cost_usd"], "0.40");
}

#[tokio::test]
async fn a_page_with_a_videos_content_type_is_no_video() {
    let (_simulator, gateway, view) =
        order_with_fault(Fault::Lying, RequestRole::Download, 100).await;
    assert_failed(&view, "provider_rejected");
    let message = view["error"]["message"].as_str().unwrap();
    assert!(message.contains("not a video"), "{message}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_truncated_download_is_repeated() {
    for (fault, times) in [
        (Fault::Truncated, 2),
        (Fault::DropInBody, 1),
        (Fault::DropBefore, 2),
    ] {
        let (_simulator, gateway, view) =
            order_with_fault(fault, RequestRole::Download, times).await;
        assert_complete(&view);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn slow_downloads_and_failed_polls_do_not_fail_the_task() {
    let (_simulator, gateway, view) = order_with_fault(
        Fault::Slow(Duration::from_millis(30)),
        RequestRole::Download,
        1,
    )
    .await;
    assert_complete(&view);
    gateway.stop().await;
    let (_simulator, gateway, view) =
        order_with_fault(super::status(500), RequestRole::Poll, 2).await;
    assert_complete(&view);
    gateway.stop().await;
}

#[tokio::test]
async fn an_unknown_job_status_does_not_fail_the_task() {
    let (simulator, gateway, view) =
        order_with_fault(Fault::UnknownWord, RequestRole::Poll, 2).await;
    assert_complete(&view);
    assert!(super::request_count(&simulator, RequestRole::Poll) >= 3);
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_that_is_not_found_for_a_moment_is_polled_again() {
    let (_simulator, gateway, view) =
        order_with_fault(super::status(404), RequestRole::Poll, 5).await;
    assert_complete(&view);
    gateway.stop().await;
}

#[tokio::test]
async fn an_expired_url_is_renewed_by_a_poll() {
    let simulator = simulator().await;
    simulator
        .world()
        .order_fault(Fault::Expired, None, Some(RequestRole::Download), 1);
    let toml = provider("acme", "xai", &simulator, "")
        + &film(r#"{ provider = "acme", model = "grok-imagine-video" }"#);
    let gateway = gateway(&toml).await;
    let task = order_film(&gateway, "a lake").await;
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    assert!(
        super::request_count(&simulator, RequestRole::Poll) >= 2,
        "a poll gives a new URL"
    );
    assert_eq!(
        (
            submissions(&simulator),
            super::request_count(&simulator, RequestRole::Download)
        ),
        (1, 2)
    );
    gateway.stop().await;
}

/// The task of a job that ends in this way.
async fn task_after(end: PlannedEnd) -> Value {
    let simulator = simulator().await;
    plan(&simulator, Duration::from_millis(20), end);
    let gateway = gateway(&one_provider(&simulator)).await;
    let body = super::chat_order("a lake");
    let answer = gateway.post("/v1/chat/completions", &body).await;
    let view = gateway.get("/v1/tasks").await.ok()["data"][0].clone();
    assert_eq!(submissions(&simulator), 1);
    assert_eq!(answer.json["error"]["code"], view["error"]["code"]);
    let is_transient = view["error"]["code"] == "generation_failed";
    assert_eq!(answer.status, if is_transient { 503 } else { 422 });
    gateway.stop().await;
    view
}

#[tokio::test]
async fn a_failed_job_costs_nothing() {
    assert_failed(&task_after(PlannedEnd::Failure).await, "generation_failed");
    assert_failed(&task_after(PlannedEnd::Refusal).await, "content_policy");
    // After a 503 callers would repeat the order, and it would fail again.
    assert_failed(&task_after(PlannedEnd::Unfit).await, "provider_rejected");
}

#[tokio::test]
async fn a_film_shorter_than_ordered_is_charged_by_its_length() {
    let simulator = simulator().await;
    // The service reports eight seconds and supports no other length.
    let toml = provider("acme", "chat-video", &simulator, "")
        + &film(r#"{ provider = "acme", model = "veo3", limits = { seconds = [20] } }"#);
    let gateway = gateway(&toml).await;
    let task = order_film(&gateway, "a lake").await;
    let view = gateway.finished(&task).await;
    let delivered = view["output"]["videos"][0]["seconds"].as_f64().unwrap();
    assert!((1.0..20.0).contains(&delivered), "{view}");
    assert_eq!((delivered, &view["cost_usd"]), (8.0, &json!("0.80")));
    gateway.stop().await;
}

#[tokio::test]
async fn a_stem_that_is_no_recording_fails_the_task_and_its_clips() {
    let simulator = simulator().await;
    simulator
        .world()
        .order_fault(Fault::Lying, None, Some(RequestRole::Download), 100);
    let toml = provider("acme", "replicate", &simulator, "")
        + "[models.band]\nkind = \"music\"\nprice = { unit = \"stem\", usd = \"0.05\" }\nroutes = [{ provider = \"acme\", model = \"cjwbw/demucs:25a173108cff36ef9f80f854c162d01df9e6528be175794b81158fa03836d953\" }]\n";
    let gateway = gateway(&toml).await;
    let source = crate::support::gateway::upload(&gateway, "Song", sound::wav(1, 1)).await;
    let body = json!({"task": "gen_stem", "mv": "band", "continue_clip_id": source["id"]});
    let record = gateway.post("/musicgen/submit/music", &body).await.ok();
    let task = record["id"].as_str().unwrap();
    assert_failed(&gateway.finished(task).await, "provider_rejected");
    let record = gateway.get(&format!("/musicgen/tasks/{task}")).await.ok();
    for clip in record["clips"].as_array().unwrap() {
        assert_eq!(
            (&clip["status"], &clip["audio_url"]),
            (&json!("error"), &json!(""))
        );
    }
    gateway.stop().await;
}

/// A provider whose answer to an order names the result and no job.
fn answers_with_a_link(simulator: &Simulator) -> String {
    provider("acme", "chat-video", simulator, "")
        + &film(r#"{ provider = "acme", model = "veo3" }"#)
}

#[tokio::test]
async fn a_link_that_does_not_work_yet_is_fetched_again() {
    let simulator = simulator().await;
    simulator
        .world()
        .order_fault(Fault::Expired, None, Some(RequestRole::Download), 2);
    let gateway = gateway(&answers_with_a_link(&simulator)).await;
    let task = order_film(&gateway, "a lake").await;
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_broken_file_is_fetched_again() {
    let (simulator, gateway, view) = order_with_fault(Fault::Lying, RequestRole::Download, 1).await;
    assert_complete(&view);
    assert_eq!(super::request_count(&simulator, RequestRole::Download), 2);
    gateway.stop().await;
}

/// The process dies between a provider's answer and the download of its result.
#[tokio::test]
async fn a_link_survives_a_crash() {
    let simulator = simulator().await;
    let slow = Fault::Latency(Duration::from_secs(30));
    simulator
        .world()
        .order_fault(slow, None, Some(RequestRole::Download), 1);
    let home = Home::with_settings(&answers_with_a_link(&simulator));
    let (server, client) = home.start().await;
    let order = json!({"model": "film", "prompt": "a lake"});
    let answer = client.post("/v1/videos", &order).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    super::wait_for_requests(&simulator, RequestRole::Download, 1).await;
    server.crash();
    let (server, client) = home.start_again(client).await;
    let finished = crate::support::gateway::finished(&client, &task).await;
    assert_eq!(finished["status"], "succeeded", "{finished}");
    assert_eq!(submissions(&simulator), 1);
    server.stop().await;
}

/// Runs `work` while nothing can be written to the media folder.
async fn without_media<T>(gateway: &TestGateway, work: impl Future<Output = T>) -> T {
    let media = gateway.app.config.media_path();
    let aside_path = media.with_extension("aside");
    std::fs::rename(&media, &aside_path).unwrap();
    std::fs::write(&media, "in the way").unwrap();
    let output = work.await;
    std::fs::remove_file(&media).unwrap();
    std::fs::rename(&aside_path, &media).unwrap();
    output
}

#[tokio::test]
async fn a_result_that_cannot_be_stored_for_a_moment_is_stored_later() {
    let simulator = simulator().await;
    let gateway = gateway(&answers_with_a_link(&simulator)).await;
    let (hosted, embedded) = without_media(&gateway, async {
        let hosted = order_film(&gateway, "a lake").await;
        let order = crate::support::videos_order();
        let answer = gateway.post("/v1/videos", &order).await;
        let embedded = answer.header("x-task-id").unwrap().to_owned();
        eventually("both videos are made", async || {
            let path = format!("/v1/tasks/{embedded}?wait=1");
            let view = gateway.get(&path).await.ok();
            let is_fetched = super::request_count(&simulator, RequestRole::Download) > 0;
            (view["progress"].as_u64()? > 98 && is_fetched).then_some(())
        })
        .await;
        // Longer than the first attempts.
        tokio::time::sleep(Duration::from_secs(1)).await;
        (hosted, embedded)
    })
    .await;
    for task in [hosted, embedded] {
        let view = gateway.finished(&task).await;
        assert_eq!(view["status"], "succeeded", "{view}");
    }
    assert_eq!(super::request_count(&simulator, RequestRole::Download), 1);
    gateway.stop().await;
}

/// A gateway whose callers may get URLs of this machine, where the simulated provider is.
async fn gateway_with_local_links(toml: &str) -> TestGateway {
    let builder = TestGateway::builder().toml(toml).allow_loopback();
    builder.start().await
}

/// `results = "link"`: the provider's address is the result, and nothing is fetched.
#[tokio::test]
async fn a_film_may_stay_with_its_provider() {
    let simulator = simulator().await;
    let table = provider("acme", "runway", &simulator, "results = \"link\"\n")
        + &film(r#"{ provider = "acme", model = "gen4.5" }"#);
    let gateway = gateway_with_local_links(&table).await;
    let task = order_film(&gateway, "a lake").await;
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    let video = &view["output"]["videos"][0];
    let url = video["url"].as_str().unwrap();
    assert!(url.starts_with(&simulator.url("")), "{url}");
    assert_eq!(video["linked"], true);
    for unknown in ["bytes", "sha256", "expires_at", "provenance"] {
        assert_eq!(video[unknown], Value::Null, "{unknown}");
    }
    assert_eq!(super::request_count(&simulator, RequestRole::Download), 0);
    // What was ordered is charged.
    let seconds = video["seconds"].as_f64().unwrap();
    let cost: f64 = view["cost_usd"].as_str().unwrap().parse().unwrap();
    assert!((cost - seconds / 10.0).abs() < 1e-9, "{view}");

    let id = video["id"].as_str().unwrap();
    let object = gateway.get(&format!("/v1/videos/{id}")).await.ok();
    assert_eq!(object["video"]["url"], url);
    // Clients of OpenRouter send their key to this URL, and the provider must not get it.
    let object = gateway.get(&format!("/api/v1/videos/{id}")).await.ok();
    let unsigned = object["unsigned_urls"][0].as_str().unwrap();
    let content = format!("{}/api/v1/videos/{id}/content?index=0", gateway.base);
    assert_eq!(
        (unsigned, &object["urls"][0]),
        (content.as_str(), &json!(url))
    );
    let content = gateway.get(unsigned).await;
    assert_eq!(
        (content.status, content.header("location")),
        (302, Some(url))
    );
    let path = format!("/v1/videos/{id}/content");
    let content = gateway.get(&path).await;
    assert_eq!(content.status, 302);
    assert_eq!(content.header("location"), Some(url));
    let thumbnail = gateway.get(&format!("{path}?variant=thumbnail")).await;
    thumbnail.refused(404, "media_not_found");

    gateway.delete(&format!("/v1/videos/{id}")).await.ok();
    let view = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
    assert_eq!(view["output"]["videos"][0]["url"], "", "{view}");
    gateway.stop().await;
}

/// The provider is in the operator's network: the gateway reaches it, but callers get no URL of it.
#[tokio::test]
async fn a_link_to_a_private_provider_is_not_handed_out() {
    let simulator = simulator().await;
    let table = provider("acme", "runway", &simulator, "results = \"link\"\n")
        + &film(r#"{ provider = "acme", model = "gen4.5" }"#);
    let gateway = gateway(&table).await;
    let answer = gateway
        .post("/v1/chat/completions", &super::chat_order("a lake"))
        .await;
    answer.refused(422, "provider_rejected");
    let task = answer.header("x-task-id").unwrap();
    let view = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
    assert_failed(&view, "provider_rejected");
    let text = view.to_string() + &answer.text();
    assert!(!text.contains("127.0.0.1"), "{text}");
    assert_eq!(super::request_count(&simulator, RequestRole::Download), 0);
    gateway.stop().await;
}

/// Addresses that no result can have: each ends its order at once.
fn invalid_addresses() -> Vec<String> {
    let mut addresses: Vec<String> = [
        "javascript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "file:///etc/passwd",
        "ftp://cdn.example/a.mp4",
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1:1/a.mp4",
        "http://[::1]:1/a.mp4",
        "http://localhost:1/a.mp4",
        "http://10.0.0.1/a.mp4",
        "https://user:hunter2@cdn.example/a.mp4",
        "https://cdn.example/a.mp4\r\nset-cookie: a=b",
        "https://cdn.example/a\0.mp4",
    ]
    .map(str::to_owned)
    .to_vec();
    addresses.push(format!("https://cdn.example/{}.mp4", "a".repeat(200_000)));
    addresses
}

/// Checks that a task is rejected if its provider reports one of these result addresses.
async fn check_rejected_addresses(addresses: &[String], options: &str) {
    let simulator = simulator().await;
    let table = provider("acme", "runway", &simulator, options)
        + &film(r#"{ provider = "acme", model = "gen4.5" }"#);
    let gateway = gateway(&table).await;
    for address in addresses {
        let body = json!({"id": "a", "status": "SUCCEEDED", "output": [address]});
        let answer_fault = Fault::Says {
            status: 200,
            retry_after: None,
            body: body.to_string(),
        };
        simulator
            .world()
            .order_fault(answer_fault, None, Some(RequestRole::Poll), 1);
    }
    // The orders are concurrent, because each is polled only after some seconds.
    let orders = (0..addresses.len()).map(|number| {
        let order = super::chat_order(&format!("lake {number}"));
        let gateway = &gateway;
        async move { gateway.post("/v1/chat/completions", &order).await }
    });
    for answer in futures_util::future::join_all(orders).await {
        answer.refused(422, "provider_rejected");
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        let task = answer.header("x-task-id").unwrap();
        let view = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
        assert_failed(&view, "provider_rejected");
        let text = view.to_string() + &answer.text();
        let disclosed = addresses.iter().find(|address| text.contains(*address));
        assert!(disclosed.is_none() && !text.contains("hunter2"), "{text}");
    }
    assert_eq!(
        super::request_count(&simulator, RequestRole::Poll),
        addresses.len(),
        "no job is polled again"
    );
    assert_eq!(super::request_count(&simulator, RequestRole::Download), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn a_link_without_a_public_target_is_rejected() {
    let mut addresses = invalid_addresses();
    addresses.extend([
        // Relative texts, which would become URLs at `base_url`.
        "/files/a.mp4".to_owned(),
        "files/a.mp4".to_owned(),
        "?file=a.mp4".to_owned(),
        "//cdn.example/a.mp4".to_owned(),
        // Names of local networks, which need not resolve here.
        "http://intranet/a.mp4".to_owned(),
        "https://films.internal/a.mp4".to_owned(),
        "/\\cdn.example/a.mp4".to_owned(),
        // A URL longer than many clients accept.
        format!("https://cdn.example/{}.mp4", "a".repeat(2_000)),
    ]);
    check_rejected_addresses(&addresses, "results = \"link\"\n").await;
}

#[tokio::test]
async fn a_result_that_can_never_be_fetched_ends_its_order_at_once() {
    check_rejected_addresses(&invalid_addresses(), "").await;
}

/// Two linked films of one chat whose answer was lost; the links of `expired_count` of them have
/// expired since.
async fn gateway_with_lost_links(expired_count: usize) -> (TestGateway, Vec<String>, Value) {
    const LINK_OUTPUT: &str = r#"{"type":"link_v1","url":"https://films.example/1.mp4","width":1280,"height":720,"milliseconds":4000,"expires_at_micros":1}"#;
    let simulator = simulator().await;
    let table = provider("acme", "runway", &simulator, "results = \"link\"\n")
        + &film(r#"{ provider = "acme", model = "gen4.5" }"#);
    let gateway = gateway_with_local_links(&table).await;
    let body =
        json!({"model": "film", "n": 2, "messages": [{"role": "user", "content": "a lake"}]});
    let request = gateway.request(Method::POST, "/v1/chat/completions");
    let request_task = tokio::spawn(request.json(&body).send());
    let tasks = eventually("both tasks are accepted", async || {
        let list = gateway.get("/v1/tasks").await.ok();
        let ids = list["data"].as_array().unwrap().iter();
        let ids = ids.map(|task| task["id"].as_str().unwrap().to_owned());
        Some(ids.collect::<Vec<_>>()).filter(|ids| ids.len() == 2)
    })
    .await;
    request_task.abort();
    drop(request_task.await);
    for task in &tasks {
        let view = gateway.finished(task).await;
        assert_eq!(view["status"], "succeeded", "{view}");
    }
    for _ in 0..expired_count {
        let sql = "UPDATE tasks SET output = ?1 WHERE id = \
             (SELECT id FROM tasks WHERE output NOT LIKE '%films.example%' LIMIT 1)";
        change(&gateway, sql, LINK_OUTPUT).await;
    }
    gateway.app.caches.ended_tasks.invalidate_all();
    // A closed connection is noticed within a second.
    tokio::time::sleep(Duration::from_secs(1)).await;
    (gateway, tasks, body)
}

#[tokio::test]
async fn a_repeated_request_with_expired_links_gets_their_cost() {
    let (gateway, tasks, body) = gateway_with_lost_links(2).await;
    let answer = gateway.post("/v1/chat/completions", &body).await;
    answer.refused(410, "link_expired");
    let (text, cost) = (answer.text(), answer.header("x-cost-usd").unwrap());
    assert_ne!(cost, "0");
    let charge_note = format!("{cost} USD were charged");
    assert!(text.contains(&charge_note), "{text}");
    let are_tasks_named = tasks.iter().all(|task| text.contains(task.as_str()));
    assert!(are_tasks_named, "{text}");
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    gateway.stop().await;
}

#[tokio::test]
async fn of_two_films_the_one_with_the_expired_link_is_named() {
    let (gateway, _, body) = gateway_with_lost_links(1).await;
    let answer = gateway.post("/v1/chat/completions", &body).await.ok();
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 1, "{answer}");
    assert_ne!(choices[0]["message"]["content"], "");
    let missing = &answer["incomplete"][0];
    assert_eq!(missing["code"], "link_expired");
    let message = missing["message"].as_str().unwrap();
    assert!(message.contains("USD were charged"), "{message}");
    gateway.stop().await;
}

/// A gateway whose provider answers an order with the film's link, after a second.
async fn gateway_with_late_link() -> (Simulator, TestGateway, String) {
    let simulator = simulator().await;
    let slow = Fault::Latency(Duration::from_secs(1));
    simulator
        .world()
        .order_fault(slow, None, Some(RequestRole::Submit), 1);
    let table = provider("acme", "chat-video", &simulator, "results = \"link\"\n")
        + &film(r#"{ provider = "acme", model = "veo3" }"#);
    let gateway = gateway_with_local_links(&table).await;
    let task = order_film(&gateway, "a lake").await;
    super::wait_for_requests(&simulator, RequestRole::Submit, 1).await;
    (simulator, gateway, task)
}

async fn submission_state(gateway: &TestGateway, task: &str) -> String {
    let task = task.to_owned();
    let read = gateway.app.store.read(move |conn| {
        conn.one(
            "SELECT state FROM submissions WHERE task_id = ?1",
            &[(&task).into()],
            |row| row.text(0),
        )
    });
    let state: Result<_, StoreError> = read.await;
    state.unwrap().unwrap()
}

/// The provider's acceptance and the film's URL are normally written with the end of the task. They
/// are also written if another run has taken the task over.
#[tokio::test]
async fn a_link_that_arrives_after_its_task_was_taken_over_is_kept() {
    let (simulator, gateway, task) = gateway_with_late_link().await;
    let take_over = "UPDATE tasks SET lease_owner = 'another' WHERE id = ?1";
    change(&gateway, take_over, &task).await;
    eventually("the provider's answer is written", async || {
        let state = submission_state(&gateway, &task).await;
        (state == "accepted").then_some(())
    })
    .await;
    let release = "UPDATE tasks SET lease_owner = NULL WHERE id = ?1";
    change(&gateway, release, &task).await;
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    let url = view["output"]["videos"][0]["url"].as_str().unwrap();
    assert!(url.starts_with(&simulator.url("")), "{url}");
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_link_that_arrives_after_its_task_was_cancelled_ends_its_submission() {
    let (simulator, gateway, task) = gateway_with_late_link().await;
    let path = format!("/v1/tasks/{task}/cancel");
    let cancelled = gateway.post(&path, &json!({})).await.ok();
    assert_eq!(cancelled["status"], "cancelled");
    eventually("the submission has ended", async || {
        let state = submission_state(&gateway, &task).await;
        (state == "ended").then_some(())
    })
    .await;
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}

/// If a provider's files need its key, there is no URL for callers.
#[tokio::test]
async fn a_film_that_needs_the_providers_key_is_stored_nevertheless() {
    let simulator = simulator().await;
    let table = provider("acme", "openai-videos", &simulator, "results = \"link\"\n")
        + &film(r#"{ provider = "acme", model = "sora-2" }"#);
    let gateway = gateway(&table).await;
    let task = order_film(&gateway, "a lake").await;
    assert_complete(&gateway.finished(&task).await);
    gateway.stop().await;
}

/// A paid result survives a bucket that is unavailable before and after the order.
#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_bucket_only_delays_a_task() {
    let (simulator, bucket) = (simulator().await, TestBucket::start().await);
    let mut gateway = TestGateway::builder()
        .toml(&one_provider(&simulator))
        .without_workers()
        .set(|settings| bucket.set(settings))
        .start()
        .await;
    let mut order = json!({"model": "film", "prompt": "a lake"});
    let picture = sound::data_url("image/png", &sound::png(1280, 720));
    order["input_reference"] = json!({"image_url": picture});
    let answer = gateway.post("/v1/videos", &order).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    answer.ok();
    bucket.fail("");
    gateway.start_workers().await;
    eventually("the picture is requested", async || {
        (bucket.request_count("GET") > 0).then_some(())
    })
    .await;
    assert_eq!(submissions(&simulator), 0);
    bucket.heal();
    super::wait_for_requests(&simulator, RequestRole::Submit, 1).await;
    bucket.fail("PUT");
    let earlier_puts = bucket.request_count("PUT");
    eventually("storing the film has failed", async || {
        (bucket.request_count("PUT") > earlier_puts).then_some(())
    })
    .await;
    bucket.heal();
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    assert_eq!(
        view["output"]["videos"][0]["bytes"],
        simulator::media::video(4).len()
    );
    assert_eq!(
        (submissions(&simulator), view["cost_usd"].as_str()),
        (1, Some("0.40"))
    );
    gateway.stop().await;
}
