//! `/media/…`: signed addresses.

use std::time::Duration;

use bytes::Bytes;
use mediagate_model::ids::AssetId;
use mediagate_model::media::MediaType;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::gateway::upload;
use crate::support::{Answer, TestGateway, path_of, sound, video_order};

const DAY: Duration = Duration::from_hours(24);

/// A gateway whose clock is the test's, and an uploaded clip.
async fn with_clip() -> (TestGateway, Value) {
    let gateway = TestGateway::builder()
        .without_workers()
        .manual_clock()
        .start()
        .await;
    let clip = upload(&gateway, "Song", sound::wav_of(8_000, 1, &[900; 8_000])).await;
    (gateway, clip)
}

async fn asked(
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

#[tokio::test]
async fn an_address_opens_one_file_and_nothing_else() {
    let (gateway, clip) = with_clip().await;
    let address = clip["audio_url"].as_str().unwrap();
    let cover = clip["image_url"].as_str().unwrap();
    assert!(address.ends_with(".flac") && cover.ends_with(".png"));
    let file = asked(&gateway, Method::GET, address, &[]).await;
    assert_eq!(
        (file.status, file.header("content-type")),
        (200, Some("audio/flac"))
    );
    assert_eq!(file.header("accept-ranges"), Some("bytes"));
    // As a page it runs nothing, and others' pages may show it.
    for address in [address, cover] {
        for range in ["bytes=0-9", "bytes=0-"] {
            let part = asked(&gateway, Method::GET, address, &[("range", range)]).await;
            let policy = part.header("content-security-policy").unwrap();
            assert!(
                policy.contains("default-src 'none'") && policy.contains("; sandbox"),
                "{policy}"
            );
            let of_others = part.header("cross-origin-resource-policy");
            assert_eq!(of_others, Some("cross-origin"));
        }
    }
    assert_eq!(
        file.header("content-length").unwrap(),
        file.bytes.len().to_string()
    );
    assert!(
        file.header("content-disposition")
            .unwrap()
            .starts_with("inline; filename=\"")
    );
    assert!(file.header("cache-control").unwrap().contains("private"));
    let (ticket, name) = path_of(address)
        .strip_prefix("/media/")
        .unwrap()
        .split_once('/')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let (cover_ticket, cover_name) = path_of(cover)
        .strip_prefix("/media/")
        .unwrap()
        .split_once('/')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let (expiry, signature) = ticket.split_once('-').unwrap();
    let later = expiry.parse::<i64>().unwrap() + 1;
    let mut flipped = signature.to_owned();
    let last = flipped.remove(0);
    flipped.insert(0, if last == 'A' { 'B' } else { 'A' });
    for (ticket, name) in [
        (format!("{later}-{signature}"), name.clone()),
        (format!("{expiry}-{flipped}"), name.clone()),
        (format!("{expiry}-"), name.clone()),
        (expiry.to_owned(), name.clone()),
        (ticket.clone(), name.replace(".flac", ".mp4")),
        (ticket.clone(), cover_name),
        (cover_ticket, name.clone()),
        (ticket.clone(), format!("{}.flac", AssetId::new())),
        (ticket.clone(), "..%2f..%2fsigning.key".into()),
        (format!("-{signature}"), name.clone()),
        ("x".into(), "x".into()),
    ] {
        let path = format!("/media/{ticket}/{name}");
        asked(&gateway, Method::GET, &path, &[])
            .await
            .refused(404, "media_not_found");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_address_ends_with_its_file() {
    let (gateway, clip) = with_clip().await;
    let address = clip["audio_url"].as_str().unwrap();
    let path = format!("/musicgen/clips/{}", clip["id"].as_str().unwrap());
    gateway.app.clock.advance(29 * DAY);
    assert_eq!(asked(&gateway, Method::GET, address, &[]).await.status, 200);
    assert_eq!(
        gateway.get(&path).await.ok()["audio_url"],
        address,
        "asking again prolongs nothing"
    );
    gateway.app.clock.advance(2 * DAY);
    asked(&gateway, Method::GET, address, &[])
        .await
        .refused(410, "link_expired");

    // Upkeep removes the file, and the record says so.
    let asset = asset_of(address);
    assert!(gateway.app.blobs.get(asset, MediaType::Flac).await.is_ok());
    let remove = async || mediagate_worker::remove_expired_media(&gateway.app).await;
    remove().await.unwrap();
    assert!(
        gateway.app.blobs.get(asset, MediaType::Flac).await.is_ok(),
        "it lies apart for a day"
    );
    // A clock that jumps deletes nothing, and brings nothing back.
    gateway.app.clock.set_ahead(40 * DAY);
    remove().await.unwrap();
    assert_eq!(gateway.get(&path).await.ok()["audio_url"], "");
    assert!(gateway.app.blobs.get(asset, MediaType::Flac).await.is_ok());
    gateway.app.clock.set_ahead(Duration::ZERO);
    gateway.app.clock.advance(DAY);
    remove().await.unwrap();
    assert!(gateway.app.blobs.get(asset, MediaType::Flac).await.is_err());
    let record = gateway.get(&path).await.ok();
    crate::support::spec::assert_clip(&record);
    assert_eq!(
        (
            &record["audio_url"],
            &record["image_url"],
            &record["image_large_url"]
        ),
        (&json!(""), &json!(""), &json!(""))
    );
    assert!(record["more"].as_str().unwrap().contains("removed"));
    assert_eq!(
        (&record["status"], &record["metadata"]["duration"]),
        (&json!("complete"), &json!(1.0))
    );
    asked(&gateway, Method::GET, address, &[])
        .await
        .refused(410, "link_expired");
    let order = json!({"task": "gen_stem", "continue_clip_id": clip["id"]});
    gateway
        .post("/musicgen/submit/music", &order)
        .await
        .refused(409, "clip_not_ready");
    // What stays has an address that works, however long it has been.
    let avatar = asked(
        &gateway,
        Method::GET,
        record["avatar_image_url"].as_str().unwrap(),
        &[],
    )
    .await;
    assert_eq!(avatar.status, 200);
    gateway.stop().await;
}

fn asset_of(address: &str) -> AssetId {
    let name = address.rsplit('/').next().unwrap();
    name.split('.').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_video_past_its_time_says_so() {
    let gateway = TestGateway::builder()
        .manual_clock()
        .set(|settings| settings.media_ttl = Some(DAY))
        .start()
        .await;
    let body = gateway
        .post("/v1/chat/completions", &video_order())
        .await
        .ok();
    let video = &body["choices"][0]["message"]["video"];
    let id = video["id"].as_str().unwrap();
    gateway.app.clock.advance(DAY);
    mediagate_worker::remove_expired_media(&gateway.app)
        .await
        .unwrap();
    let later = gateway.get(&format!("/v1/videos/{id}")).await.ok();
    assert_eq!(later["status"], "completed");
    assert_eq!(
        (&later["video"]["removed"], &later["video"]["url"]),
        (&json!(true), &json!(""))
    );
    assert_eq!(later["video"]["sha256"], video["sha256"]);
    gateway
        .get(&format!("/v1/videos/{id}/content"))
        .await
        .refused(410, "link_expired");
    asked(&gateway, Method::GET, video["url"].as_str().unwrap(), &[])
        .await
        .refused(410, "link_expired");
    gateway.stop().await;
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one scene, in its order")]
async fn ranges_validators_and_heads_are_answered_by_the_book() {
    let (gateway, clip) = with_clip().await;
    let address = clip["audio_url"].as_str().unwrap();
    let whole = asked(&gateway, Method::GET, address, &[]).await;
    let size = whole.bytes.len();
    let etag = whole.header("etag").unwrap();
    let ranges = [
        ("bytes=0-3", 0..4),
        ("bytes=4-", 4..size),
        ("bytes=-5", size - 5..size),
        ("bytes=10-999999999", 10..size),
        ("bytes=0-", 0..size),
    ];
    for (range, part) in ranges {
        let answer = asked(&gateway, Method::GET, address, &[("range", range)]).await;
        assert_eq!(answer.status, 206, "{range}");
        assert_eq!(answer.bytes, whole.bytes.slice(part.clone()), "{range}");
        assert_eq!(
            answer.header("content-range").unwrap(),
            format!("bytes {}-{}/{size}", part.start, part.end - 1)
        );
        assert_eq!(
            answer.header("content-length").unwrap(),
            part.len().to_string()
        );
        assert_eq!(answer.header("etag"), Some(etag));
    }
    for whole_anyway in [
        "bytes=0-1,5-6",
        "lines=1-2",
        "bytes=",
        "bytes=5-2",
        "nonsense",
    ] {
        let answer = asked(&gateway, Method::GET, address, &[("range", whole_anyway)]).await;
        assert!(
            matches!(answer.status, 200 | 416),
            "{whole_anyway}: {}",
            answer.status
        );
    }
    let outside = format!("bytes={size}-");
    let answer = asked(&gateway, Method::GET, address, &[("range", &outside)]).await;
    answer.refused(416, "range_not_satisfiable");
    assert_eq!(
        answer.header("content-range").unwrap(),
        format!("bytes */{size}")
    );

    for seen in [
        etag.to_owned(),
        format!("W/{etag}"),
        format!("\"other\", {etag}"),
        "*".to_owned(),
    ] {
        let answer = asked(&gateway, Method::GET, address, &[("if-none-match", &seen)]).await;
        assert_eq!(
            (answer.status, &answer.bytes),
            (304, &Bytes::new()),
            "{seen}"
        );
        assert_eq!(answer.header("etag"), Some(etag));
    }
    assert_eq!(
        asked(
            &gateway,
            Method::GET,
            address,
            &[("if-none-match", "\"other\"")]
        )
        .await
        .status,
        200
    );
    let same = asked(
        &gateway,
        Method::GET,
        address,
        &[("range", "bytes=0-3"), ("if-range", etag)],
    )
    .await;
    assert_eq!(same.status, 206);
    let other = asked(
        &gateway,
        Method::GET,
        address,
        &[("range", "bytes=0-3"), ("if-range", "\"other\"")],
    )
    .await;
    assert_eq!((other.status, other.bytes.len()), (200, size));

    let head = asked(&gateway, Method::HEAD, address, &[]).await;
    assert_eq!((head.status, head.bytes.len()), (200, 0));
    for name in [
        "content-type",
        "content-length",
        "etag",
        "accept-ranges",
        "content-disposition",
    ] {
        assert_eq!(head.header(name), whole.header(name), "{name}");
    }
    asked(&gateway, Method::POST, address, &[])
        .await
        .refused(405, "method_not_allowed");
    gateway.stop().await;
}

#[tokio::test]
async fn files_without_a_record_are_swept_once_they_are_old() {
    let (gateway, clip) = with_clip().await;
    let (known, orphan) = (
        asset_of(clip["audio_url"].as_str().unwrap()),
        AssetId::new(),
    );
    gateway
        .app
        .blobs
        .put(orphan, MediaType::Png, Bytes::from_static(b"x"))
        .await
        .unwrap();
    mediagate_worker::sweep_orphans(&gateway.app).await.unwrap();
    assert!(
        gateway.app.blobs.get(orphan, MediaType::Png).await.is_ok(),
        "it may be on its way to a record"
    );
    gateway.app.clock.advance(2 * DAY);
    mediagate_worker::sweep_orphans(&gateway.app).await.unwrap();
    assert!(gateway.app.blobs.get(orphan, MediaType::Png).await.is_err());
    assert!(gateway.app.blobs.get(known, MediaType::Flac).await.is_ok());
    gateway.stop().await;
}

#[tokio::test]
async fn addresses_follow_the_request_or_the_settings() {
    let (gateway, clip) = with_clip().await;
    let path = format!("/musicgen/clips/{}", clip["id"].as_str().unwrap());
    let ask = async |headers: &[(&'static str, &'static str)]| {
        let mut request = gateway.request(Method::GET, &path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        gateway.send(request).await.ok()["audio_url"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(
        ask(&[("host", "media.example:81")])
            .await
            .starts_with("http://media.example:81/media/")
    );
    // Nobody is believed to be a proxy unless the settings say so.
    assert!(
        ask(&[("x-forwarded-proto", "https")])
            .await
            .starts_with("http://")
    );
    gateway.stop().await;

    let gateway = TestGateway::builder()
        .without_workers()
        .set(|settings| settings.public_url = Some("https://media.example/base/".parse().unwrap()))
        .start()
        .await;
    let clip = upload(&gateway, "Song", sound::wav_of(8_000, 1, &[900; 800])).await;
    assert!(
        clip["audio_url"]
            .as_str()
            .unwrap()
            .starts_with("https://media.example/base/media/")
    );
    gateway.stop().await;
}
