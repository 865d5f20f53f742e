//! What a provider delivers is fetched whole and checked before a task succeeds.

use std::time::Duration;

use mediagate_store::StoreError;
use reqwest::Method;
use serde_json::{Value, json};
use simulator::{Fault, PlannedEnd, RequestRole, Simulator};

use super::{
    assert_failed, change, film, gateway, one_provider, ordered, plan, provider, simulator,
    submissions,
};
use crate::support::bucket::TestBucket;
use crate::support::program::Home;
use crate::support::{TestGateway, eventually, sound};

/// A gateway whose provider does this to the next requests for something; the
/// end of one order.
async fn made(fault: Fault, role: RequestRole, times: u32) -> (Simulator, TestGateway, Value) {
    let simulator = simulator().await;
    simulator
        .world()
        .order_fault(fault, None, Some(role), times);
    let gateway = gateway(&one_provider(&simulator)).await;
    let task = ordered(&gateway, "a lake").await;
    let view = gateway.finished(&task).await;
    assert_eq!(submissions(&simulator), 1, "it is not ordered again");
    (simulator, gateway, view)
}

/// It succeeded, with all that the provider has.
#[track_caller]
fn assert_whole(view: &Value) {
    let whole = simulator::media::video(4);
    assert_eq!(view["status"], "succeeded", "{view}");
    let video = &view["output"]["videos"][0];
    assert_eq!(video["bytes"], whole.len());
    let hex = mediagate_core::domain::assets::sha256_hex(&whole);
    assert_eq!(video["sha256"], hex);
    assert_eq!(view["cost_usd"], "0.40");
}

#[tokio::test]
async fn a_page_that_calls_itself_a_video_is_no_video() {
    let (_simulator, gateway, view) = made(Fault::Lying, RequestRole::Download, 100).await;
    assert_failed(&view, "generation_failed");
    let message = view["error"]["message"].as_str().unwrap();
    assert!(message.contains("not an MP4"), "{message}");
    gateway.stop().await;
}

#[tokio::test]
async fn what_ends_early_is_fetched_again() {
    for (fault, times) in [
        (Fault::Truncated, 2),
        (Fault::DropInBody, 1),
        (Fault::DropBefore, 2),
    ] {
        let (_simulator, gateway, view) = made(fault, RequestRole::Download, times).await;
        assert_whole(&view);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn slow_results_and_polls_that_fail_are_waited_for() {
    let (_simulator, gateway, view) = made(
        Fault::Slow(Duration::from_millis(30)),
        RequestRole::Download,
        1,
    )
    .await;
    assert_whole(&view);
    gateway.stop().await;
    let (_simulator, gateway, view) = made(super::status(500), RequestRole::Poll, 2).await;
    assert_whole(&view);
    gateway.stop().await;
}

#[tokio::test]
async fn a_word_that_nobody_knows_ends_nothing() {
    let (simulator, gateway, view) = made(Fault::UnknownWord, RequestRole::Poll, 2).await;
    assert_whole(&view);
    assert!(super::arrived(&simulator, RequestRole::Poll) >= 3);
    gateway.stop().await;
}

#[tokio::test]
async fn a_provider_that_knows_no_such_job_for_a_moment_has_it_all_the_same() {
    let (_simulator, gateway, view) = made(super::status(404), RequestRole::Poll, 5).await;
    assert_whole(&view);
    gateway.stop().await;
}

#[tokio::test]
async fn an_address_that_has_expired_is_asked_for_again() {
    let simulator = simulator().await;
    simulator
        .world()
        .order_fault(Fault::Expired, None, Some(RequestRole::Download), 1);
    let toml = provider("acme", "xai", &simulator, "")
        + &film(r#"{ provider = "acme", model = "grok-imagine-video" }"#);
    let gateway = gateway(&toml).await;
    let task = ordered(&gateway, "a lake").await;
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    assert!(
        super::arrived(&simulator, RequestRole::Poll) >= 2,
        "the poll gives a fresh one"
    );
    assert_eq!(
        (
            submissions(&simulator),
            super::arrived(&simulator, RequestRole::Download)
        ),
        (1, 2)
    );
    gateway.stop().await;
}

/// How a task ends whose job ends so.
async fn ends(end: PlannedEnd) -> Value {
    let simulator = simulator().await;
    plan(&simulator, Duration::from_millis(20), end);
    let gateway = gateway(&one_provider(&simulator)).await;
    let body = super::chat_order("a lake");
    let answer = gateway.post("/v1/chat/completions", &body).await;
    let view = gateway.get("/v1/tasks").await.ok()["data"][0].clone();
    assert_eq!(submissions(&simulator), 1);
    assert_eq!(answer.json["error"]["code"], view["error"]["code"]);
    let transient = view["error"]["code"] == "generation_failed";
    assert_eq!(answer.status, if transient { 503 } else { 422 });
    gateway.stop().await;
    view
}

#[tokio::test]
async fn a_job_that_ends_badly_costs_nothing() {
    assert_failed(&ends(PlannedEnd::Failure).await, "generation_failed");
    assert_failed(&ends(PlannedEnd::Empty).await, "generation_failed");
    assert_failed(&ends(PlannedEnd::Refusal).await, "content_policy");
    // Said under 503 it would be ordered again, and fail again.
    assert_failed(&ends(PlannedEnd::Unfit).await, "provider_rejected");
}

#[tokio::test]
async fn what_is_shorter_than_ordered_costs_what_was_delivered() {
    let simulator = simulator().await;
    // The service tells of eight seconds and knows no other length.
    let toml = provider("acme", "chat-video", &simulator, "")
        + &film(r#"{ provider = "acme", model = "veo3", limits = { seconds = [20] } }"#);
    let gateway = gateway(&toml).await;
    let task = ordered(&gateway, "a lake").await;
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
    assert_failed(&gateway.finished(task).await, "generation_failed");
    let done = gateway.get(&format!("/musicgen/tasks/{task}")).await.ok();
    for clip in done["clips"].as_array().unwrap() {
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
async fn a_link_that_leads_nowhere_yet_is_followed_again() {
    let simulator = simulator().await;
    simulator
        .world()
        .order_fault(Fault::Expired, None, Some(RequestRole::Download), 2);
    let gateway = gateway(&answers_with_a_link(&simulator)).await;
    let task = ordered(&gateway, "a lake").await;
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_broken_file_is_fetched_again() {
    let (simulator, gateway, view) = made(Fault::Lying, RequestRole::Download, 1).await;
    assert_whole(&view);
    assert_eq!(super::arrived(&simulator, RequestRole::Download), 2);
    gateway.stop().await;
}

/// The program dies between a provider's answer and the result that it names.
#[tokio::test]
async fn a_link_outlives_the_process() {
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
    super::arrives(&simulator, RequestRole::Download, 1).await;
    server.crash();
    let (server, client) = home.start_again(client).await;
    let done = crate::support::gateway::finished(&client, &task).await;
    assert_eq!(done["status"], "succeeded", "{done}");
    assert_eq!(submissions(&simulator), 1);
    server.stop().await;
}

/// The media folder takes nothing until the work of this is done.
async fn without_media<T>(gateway: &TestGateway, work: impl Future<Output = T>) -> T {
    let media = gateway.app.config.media_path();
    let aside = media.with_extension("aside");
    std::fs::rename(&media, &aside).unwrap();
    std::fs::write(&media, "in the way").unwrap();
    let done = work.await;
    std::fs::remove_file(&media).unwrap();
    std::fs::rename(&aside, &media).unwrap();
    done
}

#[tokio::test]
async fn what_cannot_be_stored_for_a_moment_is_stored_later() {
    let simulator = simulator().await;
    let gateway = gateway(&answers_with_a_link(&simulator)).await;
    let (hosted, embedded) = without_media(&gateway, async {
        let hosted = ordered(&gateway, "a lake").await;
        let order = crate::support::videos_order();
        let answer = gateway.post("/v1/videos", &order).await;
        let embedded = answer.header("x-task-id").unwrap().to_owned();
        eventually("both are made", async || {
            let path = format!("/v1/tasks/{embedded}?wait=1");
            let view = gateway.get(&path).await.ok();
            let is_fetched = super::arrived(&simulator, RequestRole::Download) > 0;
            (view["progress"].as_u64()? > 98 && is_fetched).then_some(())
        })
        .await;
        // Longer than the first tries.
        tokio::time::sleep(Duration::from_secs(1)).await;
        (hosted, embedded)
    })
    .await;
    for task in [hosted, embedded] {
        let view = gateway.finished(&task).await;
        assert_eq!(view["status"], "succeeded", "{view}");
    }
    assert_eq!(super::arrived(&simulator, RequestRole::Download), 1);
    gateway.stop().await;
}

/// `results = "link"`: the provider's address is the result, and nothing is fetched.
#[tokio::test]
async fn a_film_may_stay_with_its_provider() {
    let simulator = simulator().await;
    let table = provider("acme", "runway", &simulator, "results = \"link\"\n")
        + &film(r#"{ provider = "acme", model = "gen4.5" }"#);
    let gateway = gateway(&table).await;
    let task = ordered(&gateway, "a lake").await;
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    let video = &view["output"]["videos"][0];
    let url = video["url"].as_str().unwrap();
    assert!(url.starts_with(&simulator.url("")), "{url}");
    assert_eq!(video["linked"], true);
    for unknown in ["bytes", "sha256", "expires_at", "provenance"] {
        assert_eq!(video[unknown], Value::Null, "{unknown}");
    }
    assert_eq!(super::arrived(&simulator, RequestRole::Download), 0);
    // What was ordered is charged.
    let seconds = video["seconds"].as_f64().unwrap();
    let cost: f64 = view["cost_usd"].as_str().unwrap().parse().unwrap();
    assert!((cost - seconds / 10.0).abs() < 1e-9, "{view}");

    let id = video["id"].as_str().unwrap();
    let object = gateway.get(&format!("/v1/videos/{id}")).await.ok();
    assert_eq!(object["video"]["url"], url);
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

/// Where no result can be: each ends its order at once.
fn nowhere() -> Vec<String> {
    let mut all: Vec<String> = [
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
    all.push(format!("https://cdn.example/{}.mp4", "a".repeat(200_000)));
    all
}

/// Runway says that the films are at these addresses, of one job each.
async fn told_to_be_at(addresses: &[String], options: &str) {
    let simulator = simulator().await;
    let table = provider("acme", "runway", &simulator, options)
        + &film(r#"{ provider = "acme", model = "gen4.5" }"#);
    let gateway = gateway(&table).await;
    for address in addresses {
        let body = json!({"id": "a", "status": "SUCCEEDED", "output": [address]});
        let said = Fault::Says {
            status: 200,
            retry_after: None,
            body: body.to_string(),
        };
        simulator
            .world()
            .order_fault(said, None, Some(RequestRole::Poll), 1);
    }
    // At once: each is asked for only after seconds.
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
        let told = addresses.iter().find(|address| text.contains(*address));
        assert!(told.is_none() && !text.contains("hunter2"), "{text}");
    }
    assert_eq!(
        super::arrived(&simulator, RequestRole::Poll),
        addresses.len(),
        "none is asked for again"
    );
    assert_eq!(super::arrived(&simulator, RequestRole::Download), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn a_link_that_leads_nowhere_public_is_not_handed_on() {
    let mut all = nowhere();
    all.extend([
        "//cdn.example/a.mp4".to_owned(),
        "/\\cdn.example/a.mp4".to_owned(),
        // Where servers would take it, and many clients would not.
        format!("https://cdn.example/{}.mp4", "a".repeat(2_000)),
    ]);
    told_to_be_at(&all, "results = \"link\"\n").await;
}

#[tokio::test]
async fn a_result_that_can_never_be_fetched_ends_its_order_at_once() {
    told_to_be_at(&nowhere(), "").await;
}

/// Two linked films of one chat whose answer was lost; the addresses of so many of them have ended since.
async fn lost_links(ended: usize) -> (TestGateway, Vec<String>, Value) {
    const ENDED: &str = r#"{"type":"link_v1","url":"https://films.example/1.mp4","width":1280,"height":720,"milliseconds":4000,"expires_at_micros":1}"#;
    let simulator = simulator().await;
    let table = provider("acme", "runway", &simulator, "results = \"link\"\n")
        + &film(r#"{ provider = "acme", model = "gen4.5" }"#);
    let gateway = gateway(&table).await;
    let body =
        json!({"model": "film", "n": 2, "messages": [{"role": "user", "content": "a lake"}]});
    let request = gateway.request(Method::POST, "/v1/chat/completions");
    let sent = tokio::spawn(request.json(&body).send());
    let tasks = eventually("both are accepted", async || {
        let list = gateway.get("/v1/tasks").await.ok();
        let ids = list["data"].as_array().unwrap().iter();
        let ids = ids.map(|task| task["id"].as_str().unwrap().to_owned());
        Some(ids.collect::<Vec<_>>()).filter(|ids| ids.len() == 2)
    })
    .await;
    sent.abort();
    drop(sent.await);
    for task in &tasks {
        let view = gateway.finished(task).await;
        assert_eq!(view["status"], "succeeded", "{view}");
    }
    for _ in 0..ended {
        let sql = "UPDATE tasks SET output = ?1 WHERE id = \
             (SELECT id FROM tasks WHERE output NOT LIKE '%films.example%' LIMIT 1)";
        change(&gateway, sql, ENDED).await;
    }
    gateway.app.caches.ended_tasks.invalidate_all();
    // A hang-up is noticed within a second.
    tokio::time::sleep(Duration::from_secs(1)).await;
    (gateway, tasks, body)
}

#[tokio::test]
async fn a_lost_answer_whose_links_have_ended_tells_what_they_cost() {
    let (gateway, tasks, body) = lost_links(2).await;
    let answer = gateway.post("/v1/chat/completions", &body).await;
    answer.refused(410, "link_expired");
    let (text, cost) = (answer.text(), answer.header("x-cost-usd").unwrap());
    assert_ne!(cost, "0");
    let told = format!("{cost} USD were charged");
    assert!(text.contains(&told), "{text}");
    let named = tasks.iter().all(|task| text.contains(task.as_str()));
    assert!(named, "{text}");
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    gateway.stop().await;
}

#[tokio::test]
async fn of_two_films_the_one_whose_link_has_ended_is_named() {
    let (gateway, _, body) = lost_links(1).await;
    let answer = gateway.post("/v1/chat/completions", &body).await.ok();
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 1, "{answer}");
    assert_ne!(choices[0]["message"]["content"], "");
    let missing = &answer["incomplete"][0];
    assert_eq!(missing["code"], "link_expired");
    let why = missing["message"].as_str().unwrap();
    assert!(why.contains("USD were charged"), "{why}");
    gateway.stop().await;
}

/// A provider whose answer is the link to the film takes a second for it.
async fn links_late() -> (Simulator, TestGateway, String) {
    let simulator = simulator().await;
    let slow = Fault::Latency(Duration::from_secs(1));
    simulator
        .world()
        .order_fault(slow, None, Some(RequestRole::Submit), 1);
    let table = provider("acme", "chat-video", &simulator, "results = \"link\"\n")
        + &film(r#"{ provider = "acme", model = "veo3" }"#);
    let gateway = gateway(&table).await;
    let task = ordered(&gateway, "a lake").await;
    super::arrives(&simulator, RequestRole::Submit, 1).await;
    (simulator, gateway, task)
}

async fn state_of_its_submission(gateway: &TestGateway, task: &str) -> String {
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

/// That a provider took an order and where the film is, is written once, with the end of the task;
/// but it is written also when the task is not this run's to end any more.
#[tokio::test]
async fn a_link_that_comes_after_its_task_was_taken_over_is_not_lost() {
    let (simulator, gateway, task) = links_late().await;
    let taken = "UPDATE tasks SET lease_owner = 'another' WHERE id = ?1";
    change(&gateway, taken, &task).await;
    eventually("the provider's answer is written", async || {
        let state = state_of_its_submission(&gateway, &task).await;
        (state == "accepted").then_some(())
    })
    .await;
    let freed = "UPDATE tasks SET lease_owner = NULL WHERE id = ?1";
    change(&gateway, freed, &task).await;
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    let url = view["output"]["videos"][0]["url"].as_str().unwrap();
    assert!(url.starts_with(&simulator.url("")), "{url}");
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_link_that_comes_after_its_task_was_cancelled_ends_its_submission() {
    let (simulator, gateway, task) = links_late().await;
    let path = format!("/v1/tasks/{task}/cancel");
    let cancelled = gateway.post(&path, &json!({})).await.ok();
    assert_eq!(cancelled["status"], "cancelled");
    eventually("the submission is over", async || {
        let state = state_of_its_submission(&gateway, &task).await;
        (state == "ended").then_some(())
    })
    .await;
    assert_eq!(submissions(&simulator), 1);
    gateway.stop().await;
}

/// A provider whose files ask for its key has no address to pass on.
#[tokio::test]
async fn a_film_behind_a_key_is_kept_all_the_same() {
    let simulator = simulator().await;
    let table = provider("acme", "openai-videos", &simulator, "results = \"link\"\n")
        + &film(r#"{ provider = "acme", model = "sora-2" }"#);
    let gateway = gateway(&table).await;
    let task = ordered(&gateway, "a lake").await;
    assert_whole(&gateway.finished(&task).await);
    gateway.stop().await;
}

/// What was paid for survives a bucket that is away, before the order and after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_is_away_costs_time_and_nothing_else() {
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
    eventually("the picture is asked for", async || {
        (bucket.request_count("GET") > 0).then_some(())
    })
    .await;
    assert_eq!(submissions(&simulator), 0);
    bucket.heal();
    super::arrives(&simulator, RequestRole::Submit, 1).await;
    bucket.fail("PUT");
    let stored = bucket.request_count("PUT");
    eventually("the film is here and cannot be stored", async || {
        (bucket.request_count("PUT") > stored).then_some(())
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
