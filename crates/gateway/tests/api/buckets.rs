//! Media in a bucket: what callers see, with either delivery, and during an outage of the store.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mediagate_config::{MediaDelivery, Settings};
use mediagate_core::domain::assets::sha256_hex;
use mediagate_model::ids::AssetId;
use mediagate_model::media::MediaType;
use mediagate_store::{self as store, StoreError};
use reqwest::Method;
use serde_json::{Value, json};
use simulator::{ConnectionCut, LinkState, NetworkState, ProxyDirection};

use crate::support::bucket::{ACCESS_KEY, SECRET_KEY, TestBucket};
use crate::support::gateway::upload;
use crate::support::program::{output, program, text};
use crate::support::{
    Answer, TestGateway, eventually, mismatches, path_of, sound, video_order, videos_order,
};

const DAY: Duration = Duration::from_hours(24);
/// Longer than any answer may take: only a hang exceeds it.
const HANG_TIME: Duration = Duration::from_secs(30);

fn asset_of(address: &str) -> AssetId {
    let name = address.rsplit('/').next().unwrap();
    name.split('.').next().unwrap().parse().unwrap()
}

async fn request_media(
    gateway: &TestGateway,
    method: Method,
    address: &str,
    headers: &[(&'static str, &str)],
) -> Answer {
    let mut request = gateway.without_key().request(method, address);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    gateway.send(request).await
}

fn video_of(answer: &Value) -> &Value {
    &answer["choices"][0]["message"]["video"]
}

/// A recording whose file is large enough to be redirected.
async fn long_clip(gateway: &TestGateway) -> Value {
    let clip = upload(gateway, "Long", sound::wav(60, 3)).await;
    assert_eq!(clip["status"], "complete", "{clip}");
    clip
}

#[tokio::test(flavor = "multi_thread")]
async fn a_video_is_made_and_fetched_without_a_media_folder() {
    let bucket = TestBucket::start().await;
    let gateway = TestGateway::builder()
        .set(|settings| bucket.set(settings))
        .start()
        .await;
    let answer = gateway
        .post("/v1/chat/completions", &video_order())
        .await
        .ok();
    let video = video_of(&answer);
    let address = video["url"].as_str().unwrap();
    let whole = request_media(&gateway, Method::GET, address, &[]).await;
    assert_eq!(whole.status, 200);
    assert_eq!(sha256_hex(&whole.bytes), video["sha256"]);
    assert_eq!(whole.header("content-type"), Some("video/mp4"));
    let (size, etag) = (whole.bytes.len(), whole.header("etag").unwrap());
    for (range, part) in [
        ("bytes=0-3", 0..4),
        ("bytes=-5", size - 5..size),
        ("bytes=10-", 10..size),
    ] {
        let answer = request_media(&gateway, Method::GET, address, &[("range", range)]).await;
        assert_eq!(answer.status, 206, "{range}");
        assert_eq!(answer.bytes, whole.bytes.slice(part), "{range}");
    }
    let outside = format!("bytes={size}-");
    request_media(&gateway, Method::GET, address, &[("range", &outside)])
        .await
        .refused(416, "range_not_satisfiable");
    let not_modified =
        request_media(&gateway, Method::GET, address, &[("if-none-match", etag)]).await;
    assert_eq!((not_modified.status, not_modified.bytes.len()), (304, 0));
    let head = request_media(&gateway, Method::HEAD, address, &[]).await;
    assert_eq!((head.status, head.bytes.len()), (200, 0));
    assert_eq!(
        head.header("content-length"),
        whole.header("content-length")
    );
    let id = video["id"].as_str().unwrap();
    let content = gateway.get(&format!("/v1/videos/{id}/content")).await;
    assert_eq!(content.bytes, whole.bytes);
    // The video, its poster and its sheet; none of them on this disk.
    let files = bucket.files();
    let is_this_video = |name: &&String| name.contains(&asset_of(address).to_string());
    assert_eq!(files.iter().filter(is_this_video).count(), 1);
    assert!(files.len() >= 3, "{files:?}");
    assert!(!gateway.app.config.media_path().exists());
    // Deleted from the bucket while its record still exists.
    let delete = gateway.app.blobs.delete(asset_of(address), MediaType::Mp4);
    delete.await.unwrap();
    request_media(&gateway, Method::GET, address, &[])
        .await
        .refused(410, "link_expired");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_share_a_database_and_a_bucket() {
    let bucket = TestBucket::start().await;
    let first = TestGateway::builder()
        .on_postgres()
        .without_workers()
        .set(|settings| bucket.set(settings))
        .start()
        .await;
    let second = first.replica().await;
    let clip = upload(&first, "Song", sound::wav(2, 1)).await;
    // The second gateway makes the stems, from a source that the first one stored.
    let job = first.separate(clip["id"].as_str().unwrap(), "two").await;
    let task = job["id"].as_str().unwrap_or_else(|| panic!("{job}"));
    let view = second.finished(task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    for stem in job["clips"].as_array().unwrap() {
        let path = format!("/musicgen/clips/{}", stem["id"].as_str().unwrap());
        let (first_file, second_file) = (first.get(&path).await.ok(), second.get(&path).await.ok());
        let (first_file, second_file) = (
            first_file["audio_url"].as_str(),
            second_file["audio_url"].as_str(),
        );
        let first_file = request_media(&first, Method::GET, first_file.unwrap(), &[]).await;
        let second_file = request_media(&second, Method::GET, second_file.unwrap(), &[]).await;
        assert_eq!((first_file.status, second_file.status), (200, 200));
        assert!(!first_file.bytes.is_empty() && first_file.bytes == second_file.bytes);
    }
    second.stop().await;
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_files_redirect_to_the_bucket_if_configured() {
    let bucket = TestBucket::start().await;
    let gateway = TestGateway::builder()
        .without_workers()
        .manual_clock()
        .set(|settings| {
            bucket.set(settings);
            settings.media.delivery = Some(MediaDelivery::Redirect);
        })
        .start()
        .await;
    let clip = long_clip(&gateway).await;
    let address = clip["audio_url"].as_str().unwrap();
    assert!(address.starts_with(&gateway.base), "the gateway's address");
    let redirect = request_media(&gateway, Method::GET, address, &[]).await;
    assert_eq!(redirect.status, 302);
    assert_eq!(
        redirect.header("cache-control"),
        Some("private, max-age=60")
    );
    let link = redirect.header("location").unwrap();
    assert!(link.contains("X-Amz-Expires=300"), "{link}");
    assert!(!link.contains(SECRET_KEY), "{link}");
    let fetched = gateway.http.get(link).send().await.unwrap();
    assert_eq!(fetched.status(), 200);
    assert_eq!(fetched.headers()["content-type"], "audio/flac");
    let disposition = fetched.headers()["content-disposition"].to_str().unwrap();
    assert!(
        disposition.starts_with("inline; filename=\""),
        "{disposition}"
    );
    let whole = fetched.bytes().await.unwrap();
    assert!(whole.len() > 1 << 20, "{}", whole.len());
    let part = gateway.http.get(link).header("range", "bytes=5-9");
    let part = part.send().await.unwrap();
    assert_eq!(part.status(), 206);
    assert_eq!(part.bytes().await.unwrap(), whole.slice(5..10));
    // The gateway itself answers HEAD requests, conditional requests and small files.
    let head = request_media(&gateway, Method::HEAD, address, &[]).await;
    assert_eq!(head.status, 200);
    let etag = head.header("etag").unwrap();
    let not_modified =
        request_media(&gateway, Method::GET, address, &[("if-none-match", etag)]).await;
    assert_eq!(not_modified.status, 304);
    let short = upload(&gateway, "Short", sound::wav(1, 1)).await;
    for (clip, field) in [(&clip, "image_large_url"), (&short, "audio_url")] {
        let address = clip[field].as_str().unwrap();
        let answer = request_media(&gateway, Method::GET, address, &[]).await;
        assert_eq!(answer.status, 200, "{field}");
    }
    // A link lasts no longer than the file itself.
    gateway
        .app
        .clock
        .advance(29 * DAY + Duration::from_secs(86_400 - 40));
    let redirect = request_media(&gateway, Method::GET, address, &[]).await;
    let link = redirect.header("location").unwrap();
    assert!(link.contains("X-Amz-Expires=40"), "{link}");
    assert_eq!(
        redirect.header("cache-control"),
        Some("private, max-age=40")
    );
    gateway.app.clock.advance(DAY);
    request_media(&gateway, Method::GET, address, &[])
        .await
        .refused(410, "link_expired");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn upkeep_removes_what_has_expired_and_what_nothing_refers_to() {
    let bucket = TestBucket::start().await;
    let gateway = TestGateway::builder()
        .without_workers()
        .manual_clock()
        .set(|settings| bucket.set(settings))
        .start()
        .await;
    let clip = upload(&gateway, "Song", sound::wav(1, 1)).await;
    let audio = asset_of(clip["audio_url"].as_str().unwrap());
    let (orphan, blobs) = (AssetId::new(), &gateway.app.blobs);
    let put = blobs.put(orphan, MediaType::Png, Bytes::from_static(b"x"));
    put.await.unwrap();
    let sweep = async || mediagate_worker::sweep_orphans(&gateway.app).await;
    sweep().await.unwrap();
    assert!(blobs.get(orphan, MediaType::Png).await.is_ok());
    gateway.app.clock.advance(2 * DAY);
    sweep().await.unwrap();
    assert!(blobs.get(orphan, MediaType::Png).await.is_err());
    assert!(blobs.get(audio, MediaType::Flac).await.is_ok());
    // An unavailable store ends the round of upkeep. The next round does the work.
    gateway.app.clock.advance(29 * DAY);
    let expire = async || mediagate_worker::remove_expired_media(&gateway.app).await;
    expire().await.unwrap();
    gateway.app.clock.advance(DAY);
    bucket.fail("");
    assert!(expire().await.is_err());
    bucket.heal();
    eventually("the store is back", async || expire().await.ok()).await;
    assert!(blobs.get(audio, MediaType::Flac).await.is_err());
    let path = format!("/musicgen/clips/{}", clip["id"].as_str().unwrap());
    assert_eq!(gateway.get(&path).await.ok()["audio_url"], "");
    gateway.stop().await;
}

/// The ways in which a store can be unavailable.
#[derive(Debug, Clone, Copy)]
enum Outage {
    Refused,
    Silent,
    Failing,
    /// It answers, but only after every timeout has passed.
    Slow,
}

impl TestBucket {
    fn disable(&self, outage: Outage) {
        let late = LinkState::with_delay(Duration::from_secs(20));
        match outage {
            Outage::Refused => {
                let refuses = true;
                self.proxy.set(NetworkState {
                    refuses,
                    ..NetworkState::default()
                });
                self.proxy.reset();
            }
            Outage::Silent => self.proxy.set(NetworkState::both(LinkState::held())),
            Outage::Failing => self.fail(""),
            Outage::Slow => self.proxy.set(NetworkState {
                down: late,
                ..NetworkState::default()
            }),
        }
    }
}

async fn survives_an_outage(outage: Outage) {
    let bucket = TestBucket::start().await;
    let gateway = TestGateway::builder()
        .without_workers()
        .set(|settings| bucket.set(settings))
        .start()
        .await;
    let clip = upload(&gateway, "Song", sound::wav(1, 1)).await;
    let address = clip["audio_url"].as_str().unwrap();
    bucket.disable(outage);
    // Requests that need the store are rejected, with a time to retry.
    let mut with_picture = video_order();
    with_picture["messages"][0]["content"] = json!([
        {"type": "text", "text": "a lake"},
        {"type": "image_url", "image_url": {"url": sound::data_url("image/png", &sound::png(64, 64))}},
    ]);
    let form = || {
        let song = reqwest::multipart::Part::bytes(sound::wav(1, 2)).file_name("song.wav");
        reqwest::multipart::Form::new()
            .part("file", song)
            .text("title", "Other")
    };
    let upload_request = gateway.request(Method::POST, "/musicgen/uploads/audio");
    let requests = async {
        tokio::join!(
            request_media(&gateway, Method::GET, address, &[]),
            request_media(&gateway, Method::GET, address, &[("range", "bytes=0-3")]),
            gateway.post("/v1/chat/completions", &with_picture),
            gateway.send(upload_request.multipart(form())),
        )
    };
    let answers = tokio::time::timeout(HANG_TIME, requests).await.unwrap();
    for answer in [&answers.0, &answers.1, &answers.2, &answers.3] {
        answer.refused(503, "overloaded");
        assert!(answer.header("retry-after").is_some(), "{outage:?}");
    }
    // Other requests work.
    let ready = gateway.get("/readyz").await.ok();
    assert_eq!(
        ready,
        json!({"status": "ok", "away": ["media"]}),
        "{outage:?}"
    );
    let order = gateway.post("/v1/videos", &videos_order()).await.ok();
    assert_eq!(
        gateway.get("/v1/tasks").await.ok()["data"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    bucket.heal();
    bucket.proxy.reset();
    eventually("the store is back", async || {
        let file = request_media(&gateway, Method::GET, address, &[]).await;
        (file.status == 200).then_some(())
    })
    .await;
    assert_eq!(gateway.get("/readyz").await.ok(), json!({"status": "ok"}));
    let upload_request = gateway.request(Method::POST, "/musicgen/uploads/audio");
    gateway.send(upload_request.multipart(form())).await.ok();
    assert_eq!(order["status"], "queued");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_refuses_is_503_and_comes_back() {
    survives_an_outage(Outage::Refused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_silent_is_503_and_comes_back() {
    survives_an_outage(Outage::Silent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_is_503_and_comes_back() {
    survives_an_outage(Outage::Failing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_slow_is_503_and_comes_back() {
    survives_an_outage(Outage::Slow).await;
}

/// A reader gets the whole file or an error, and never waits forever.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_stalls_in_the_middle_of_a_file_recovers() {
    let bucket = TestBucket::start().await;
    let gateway = TestGateway::builder()
        .without_workers()
        .set(|settings| bucket.set(settings))
        .start()
        .await;
    let clip = long_clip(&gateway).await;
    let address = clip["audio_url"].as_str().unwrap();
    let whole = request_media(&gateway, Method::GET, address, &[])
        .await
        .bytes;
    bucket.proxy.cut(ConnectionCut {
        side: ProxyDirection::Down,
        after: 4,
        ..ConnectionCut::new("").holding()
    });
    let reading = async {
        let request = gateway.without_key().request(Method::GET, address);
        request.send().await?.error_for_status()?.bytes().await
    };
    let result = tokio::time::timeout(HANG_TIME, reading).await.unwrap();
    bucket.proxy.wait_for_strikes(1).await;
    if let Ok(result) = result {
        assert_eq!(result, whole);
    }
    bucket.heal();
    bucket.proxy.reset();
    eventually("the whole file is served again", async || {
        let file = request_media(&gateway, Method::GET, address, &[]).await;
        (file.status == 200).then(|| assert_eq!(file.bytes, whole))
    })
    .await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_made_during_an_outage_is_stored_afterwards() {
    let bucket = TestBucket::start().await;
    let gateway = TestGateway::builder()
        .toml("[models.animatic-1]\nprice = { unit = \"second\", usd = \"0.10\" }")
        .set(|settings| bucket.set(settings))
        .start()
        .await;
    bucket.fail("");
    let before = bucket.request_count("PUT");
    let order = gateway.post("/v1/videos", &videos_order()).await.ok();
    let path = format!("/v1/videos/{}", order["id"].as_str().unwrap());
    // The video is made but cannot be stored.
    eventually("an upload was tried", async || {
        (bucket.request_count("PUT") > before).then_some(())
    })
    .await;
    let status = gateway.get(&path).await.ok()["status"].clone();
    assert_eq!(status, "in_progress");
    bucket.heal();
    let video = eventually("the video is stored", async || {
        let video = gateway.get(&path).await.ok();
        (video["status"] == "completed").then_some(video)
    })
    .await;
    let file = request_media(
        &gateway,
        Method::GET,
        video["video"]["url"].as_str().unwrap(),
        &[],
    )
    .await;
    assert_eq!(sha256_hex(&file.bytes), video["video"]["sha256"]);
    let tasks = gateway.get("/v1/tasks").await.ok();
    assert_eq!(tasks["data"].as_array().unwrap().len(), 1);
    assert_eq!(tasks["data"][0]["cost_usd"], "0.10");
    let files = bucket.files();
    let films = files.iter().filter(|name| name.ends_with(".mp4"));
    assert_eq!(
        (films.count(), bucket.unfinished_uploads()),
        (1, 0),
        "{files:?}"
    );
    assert_eq!(gateway.app.store.read(mismatches).await.unwrap(), []);
    gateway.stop().await;
}

#[tokio::test]
async fn media_addresses_have_the_configured_host() {
    let gateway = TestGateway::builder()
        .without_workers()
        .set(|settings: &mut Settings| settings.media.host = Some("media.example".into()))
        .start()
        .await;
    let clip = upload(&gateway, "Song", sound::wav(1, 1)).await;
    let address = clip["audio_url"].as_str().unwrap();
    assert!(
        address.starts_with("http://media.example/media/"),
        "{address}"
    );
    let path = path_of(address);
    assert_eq!(
        request_media(&gateway, Method::GET, &path, &[])
            .await
            .status,
        200
    );
    gateway.stop().await;
}

#[tokio::test]
async fn requests_beyond_the_stores_limit_get_a_retry_after() {
    let bucket = TestBucket::start().await;
    let gateway = TestGateway::builder()
        .without_workers()
        .set(|settings| bucket.set(settings))
        .start()
        .await;
    let clip = upload(&gateway, "Song", sound::wav(1, 1)).await;
    let address = clip["audio_url"].as_str().unwrap();
    // The store answers only when all that are too many have been refused.
    bucket.proxy.set(NetworkState {
        down: LinkState::held(),
        ..NetworkState::default()
    });
    let requests = (0..100).map(|_| request_media(&gateway, Method::GET, address, &[]));
    let mut answers: FuturesUnordered<_> = requests.collect();
    let assert_refused = |answer: &Answer| {
        answer.refused(503, "overloaded");
        assert!(answer.header("retry-after").is_some());
    };
    for _ in 64..100 {
        assert_refused(&answers.next().await.unwrap());
    }
    bucket.proxy.set(NetworkState::default());
    while let Some(answer) = answers.next().await {
        // On a slow machine the others may have waited too long for the store.
        if answer.status != 200 {
            assert_refused(&answer);
        }
    }
    drop(answers);
    // Those that were refused hold no place.
    eventually("the file is served again", async || {
        let answer = request_media(&gateway, Method::GET, address, &[]).await;
        (answer.status == 200).then_some(())
    })
    .await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_copied_to_a_bucket_while_the_gateway_runs() {
    let bucket = TestBucket::start().await;
    let gateway = TestGateway::builder()
        .set(|settings| bucket.set_access(settings))
        .start()
        .await;
    let (data, target) = (gateway.app.config.data.clone(), TestBucket::address());
    let copy = async |extra_args: &[&str]| {
        let endpoint = format!("http://{}", bucket.proxy.address());
        let mut args = vec!["media", "copy", "--json", "--data", data.to_str().unwrap()];
        args.extend([
            "--media-endpoint",
            &endpoint,
            "--media-access-key",
            ACCESS_KEY,
        ]);
        args.extend(["--media-secret-key", SECRET_KEY]);
        args.extend(extra_args);
        output(program(&args)).await
    };
    let copy_all = async || {
        let result = copy(&["--to", &target]).await;
        assert!(result.status.success(), "{}", text(&result.stderr));
        serde_json::from_slice::<Value>(&result.stdout).unwrap()
    };
    let clip = long_clip(&gateway).await;
    let address = path_of(clip["audio_url"].as_str().unwrap());
    let first = copy_all().await;
    let files = bucket.files().len() as u64;
    assert!(first["copied"] == files && files >= 3, "{first}");
    assert!(first["copied_bytes"].as_u64().unwrap() > 1 << 20, "{first}");
    let second = copy_all().await;
    assert_eq!(
        (&second["copied"], &second["present"]),
        (&json!(0), &json!(files))
    );
    // Since then one clip was made and one picture was removed.
    let new_clip = upload(&gateway, "Other", sound::wav(1, 2)).await;
    let removed = asset_of(clip["image_url"].as_str().unwrap());
    gateway
        .app
        .blobs
        .delete(removed, MediaType::Png)
        .await
        .unwrap();
    let now = gateway.app.clock.now();
    let account = clip["user_id"].as_str().unwrap().parse().unwrap();
    let marked = gateway
        .app
        .store
        .write(move |conn| -> Result<_, StoreError> {
            // The upkeep would restore a file that has not expired, as if a clock that was
            // ahead had removed it.
            store::assets::expire(conn, removed, account, now)?;
            store::assets::mark_removed(conn, removed, now, now)
        });
    marked.await.unwrap();
    let third = copy_all().await;
    assert_eq!(
        (&third["copied"], &third["removed"]),
        (&json!(3), &json!(1)),
        "{third}"
    );
    assert_eq!(third["failed"], 0);
    // On the bucket the gateway serves the same files.
    let before = gateway.get(&address).await;
    let gateway = gateway
        .restart(Some(&format!("[media]\nstore = \"{target}\"")))
        .await;
    std::fs::remove_dir_all(gateway.app.config.media_path()).unwrap();
    for path in [address, path_of(new_clip["audio_url"].as_str().unwrap())] {
        assert_eq!(gateway.get(&path).await.status, 200, "{path}");
    }
    assert!(!before.bytes.is_empty());
    let with_slash = format!("{target}/");
    let onto_itself = ["--from", &target, "--to", &with_slash];
    for (extra_args, reason) in [
        (["--to", "gs://films"].as_slice(), "--to: must be"),
        (&["--to", "folder"], "must differ from the source"),
        (&onto_itself, "must differ from the source"),
    ] {
        let refused = copy(extra_args).await;
        assert_eq!(refused.status.code(), Some(2));
        assert!(
            text(&refused.stderr).contains(reason),
            "{}",
            text(&refused.stderr)
        );
    }
    gateway.stop().await;
}
