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

/// A gateway with a manual clock, and an uploaded clip.
async fn with_clip() -> (TestGateway, Value) {
    let gateway = TestGateway::builder()
        .without_workers()
        .manual_clock()
        .start()
        .await;
    let clip = upload(&gateway, "Song", sound::wav_of(8_000, 1, &[900; 8_000])).await;
    (gateway, clip)
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

#[tokio::test]
async fn an_address_opens_one_file_and_nothing_else() {
    let (gateway, clip) = with_clip().await;
    let address = clip["audio_url"].as_str().unwrap();
    let cover = clip["image_url"].as_str().unwrap();
    assert!(address.ends_with(".flac") && cover.ends_with(".png"));
    let file = request_media(&gateway, Method::GET, address, &[]).await;
    assert_eq!(
        (file.status, file.header("content-type")),
        (200, Some("audio/flac"))
    );
    assert_eq!(file.header("accept-ranges"), Some("bytes"));
    // Opened as a page it runs nothing, and pages of other origins may embed it.
    for address in [address, cover] {
        for range in ["bytes=0-9", "bytes=0-"] {
            let part = request_media(&gateway, Method::GET, address, &[("range", range)]).await;
            let policy = part.header("content-security-policy").unwrap();
            assert!(
                policy.contains("default-src 'none'") && policy.contains("; sandbox"),
                "{policy}"
            );
            let cross_origin = part.header("cross-origin-resource-policy");
            assert_eq!(cross_origin, Some("cross-origin"));
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
    let mut wrong_signature = signature.to_owned();
    let first_char = wrong_signature.remove(0);
    wrong_signature.insert(0, if first_char == 'A' { 'B' } else { 'A' });
    for (ticket, name) in [
        (format!("{later}-{signature}"), name.clone()),
        (format!("{expiry}-{wrong_signature}"), name.clone()),
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
        request_media(&gateway, Method::GET, &path, &[])
            .await
            .refused(404, "media_not_found");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_address_expires_with_its_file() {
    let (gateway, clip) = with_clip().await;
    let address = clip["audio_url"].as_str().unwrap();
    let path = format!("/musicgen/clips/{}", clip["id"].as_str().unwrap());
    gateway.app.clock.advance(29 * DAY);
    assert_eq!(
        request_media(&gateway, Method::GET, address, &[])
            .await
            .status,
        200
    );
    assert_eq!(
        gateway.get(&path).await.ok()["audio_url"],
        address,
        "asking again prolongs nothing"
    );
    gateway.app.clock.advance(2 * DAY);
    request_media(&gateway, Method::GET, address, &[])
        .await
        .refused(410, "link_expired");

    // Upkeep removes the file, and the record says so.
    let asset = asset_of(address);
    assert!(gateway.app.blobs.get(asset, MediaType::Flac).await.is_ok());
    let remove = async || mediagate_worker::remove_expired_media(&gateway.app).await;
    remove().await.unwrap();
    assert!(
        gateway.app.blobs.get(asset, MediaType::Flac).await.is_ok(),
        "it is kept aside for a day"
    );
    // A clock that jumps neither deletes nor restores anything.
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
    request_media(&gateway, Method::GET, address, &[])
        .await
        .refused(410, "link_expired");
    let order = json!({"task": "gen_stem", "continue_clip_id": clip["id"]});
    gateway
        .post("/musicgen/submit/music", &order)
        .await
        .refused(409, "clip_not_ready");
    // A permanent file has a working address at any time.
    let avatar = request_media(
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
async fn an_expired_video_is_marked_as_removed() {
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
    request_media(&gateway, Method::GET, video["url"].as_str().unwrap(), &[])
        .await
        .refused(410, "link_expired");
    gateway.stop().await;
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one scenario, in its order")]
async fn ranges_validators_and_head_requests_follow_the_http_specification() {
    let (gateway, clip) = with_clip().await;
    let address = clip["audio_url"].as_str().unwrap();
    let whole = request_media(&gateway, Method::GET, address, &[]).await;
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
        let answer = request_media(&gateway, Method::GET, address, &[("range", range)]).await;
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
    for range in [
        "bytes=0-1,5-6",
        "lines=1-2",
        "bytes=",
        "bytes=5-2",
        "nonsense",
    ] {
        let answer = request_media(&gateway, Method::GET, address, &[("range", range)]).await;
        assert!(
            matches!(answer.status, 200 | 416),
            "{range}: {}",
            answer.status
        );
    }
    let outside = format!("bytes={size}-");
    for range in [outside.as_str(), "bytes=-0", "bytes=99999999999999999999-"] {
        let answer = request_media(&gateway, Method::GET, address, &[("range", range)]).await;
        answer.refused(416, "range_not_satisfiable");
        assert_eq!(
            answer.header("content-range").unwrap(),
            format!("bytes */{size}")
        );
    }

    for validator in [
        etag.to_owned(),
        format!("W/{etag}"),
        format!("\"other\", {etag}"),
        "*".to_owned(),
    ] {
        let answer = request_media(
            &gateway,
            Method::GET,
            address,
            &[("if-none-match", &validator)],
        )
        .await;
        assert_eq!(
            (answer.status, &answer.bytes),
            (304, &Bytes::new()),
            "{validator}"
        );
        assert_eq!(answer.header("etag"), Some(etag));
    }
    assert_eq!(
        request_media(
            &gateway,
            Method::GET,
            address,
            &[("if-none-match", "\"other\"")]
        )
        .await
        .status,
        200
    );
    let partial = request_media(
        &gateway,
        Method::GET,
        address,
        &[("range", "bytes=0-3"), ("if-range", etag)],
    )
    .await;
    assert_eq!(partial.status, 206);
    let full = request_media(
        &gateway,
        Method::GET,
        address,
        &[("range", "bytes=0-3"), ("if-range", "\"other\"")],
    )
    .await;
    assert_eq!((full.status, full.bytes.len()), (200, size));
    let weak_etag = format!("W/{etag}");
    let full = request_media(
        &gateway,
        Method::GET,
        address,
        &[("range", "bytes=0-3"), ("if-range", &weak_etag)],
    )
    .await;
    assert_eq!((full.status, full.bytes.len()), (200, size));

    let list = format!("\"other\", {etag}");
    for validator in [etag, &list, "*"] {
        let answer =
            request_media(&gateway, Method::GET, address, &[("if-match", validator)]).await;
        assert_eq!((answer.status, answer.bytes.len()), (200, size));
    }
    for validator in ["\"other\"", &weak_etag] {
        request_media(
            &gateway,
            Method::GET,
            address,
            &[("if-match", validator), ("if-none-match", etag)],
        )
        .await
        .refused(412, "precondition_failed");
    }

    let head = request_media(&gateway, Method::HEAD, address, &[]).await;
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
    request_media(&gateway, Method::POST, address, &[])
        .await
        .refused(405, "method_not_allowed");
    gateway.stop().await;
}

#[tokio::test]
async fn files_without_a_record_are_swept_once_they_are_old() {
    let (gateway, clip) = with_clip().await;
    let (recorded, orphan) = (
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
        "its record may be about to be written"
    );
    gateway.app.clock.advance(2 * DAY);
    mediagate_worker::sweep_orphans(&gateway.app).await.unwrap();
    assert!(gateway.app.blobs.get(orphan, MediaType::Png).await.is_err());
    assert!(
        gateway
            .app
            .blobs
            .get(recorded, MediaType::Flac)
            .await
            .is_ok()
    );
    gateway.stop().await;
}

#[tokio::test]
async fn addresses_follow_the_request_or_the_settings() {
    let (gateway, clip) = with_clip().await;
    let path = format!("/musicgen/clips/{}", clip["id"].as_str().unwrap());
    let audio_url = async |headers: &[(&'static str, &'static str)]| {
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
        audio_url(&[("host", "media.example:81")])
            .await
            .starts_with("http://media.example:81/media/")
    );
    // Forwarding headers are ignored unless the settings name the proxy.
    assert!(
        audio_url(&[("x-forwarded-proto", "https")])
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
