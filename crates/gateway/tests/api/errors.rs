//! Errors common to every endpoint, and media that cannot be used.
//! `support/client.rs`, the caller of all tests, checks what every error
//! contains.

use bytes::Bytes;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, TestGateway, sound, video_order};

const CHAT: &str = "/v1/chat/completions";

async fn gateway() -> TestGateway {
    let builder = TestGateway::builder().without_workers();
    builder
        .set(|settings| settings.wait_limit = Some(std::time::Duration::from_millis(10)))
        .start()
        .await
}

async fn post_body(gateway: &TestGateway, kind: &str, body: impl Into<reqwest::Body>) -> Answer {
    let request = gateway
        .request(Method::POST, CHAT)
        .header("content-type", kind)
        .body(body);
    gateway.send(request).await
}

#[tokio::test]
async fn unknown_paths_and_methods() {
    let gateway = gateway().await;
    for path in [
        "/nowhere",
        "/v1",
        "/v1/",
        "/v1/chat/completions/",
        "/musicgen",
        "/V1/models",
        "/v1/videos/x/y/z",
    ] {
        let answer = gateway.get(path).await;
        answer.refused(404, "route_not_found");
        assert!(answer.json["error"]["param"].is_null());
    }
    for (path, suggestion) in [
        ("/chat/completions", "POST /v1/chat/completions"),
        ("/videos", "/v1/videos"),
        ("/videos/video_1/content", "/v1/videos/{id}/content"),
        ("/models", "/v1/models"),
        ("/v1/v1/models", "/v1/models"),
        ("/v1/chat/completion", "POST /v1/chat/completions"),
        ("/submit/music", "POST /musicgen/submit/music"),
    ] {
        let answer = gateway.get(path).await;
        answer.refused(404, "route_not_found");
        let hint = format!("Did you mean {suggestion}?");
        assert!(answer.message().contains(&hint), "{}", answer.message());
    }
    let misspelt = gateway.get("/v1/models/animatic-2").await;
    let message = misspelt.refused(404, "model_not_found").message();
    assert!(
        message.contains("Did you mean \"animatic-1\"?"),
        "{message}"
    );
    // Some clients do not encode the slash in a model's name.
    let with_slash = gateway.get("/v1/models/acme/film-1").await;
    with_slash.refused(404, "model_not_found");
    let other = gateway.post("/v1/videos/generations", &json!({})).await;
    other.refused(405, "method_not_allowed");
    assert!(other.message().contains("Use POST /v1/videos"), "{other:?}");
    assert!(
        !gateway
            .get("/wp-login.php")
            .await
            .message()
            .contains("mean")
    );
    let long = format!("/{}", "x".repeat(5000));
    assert!(
        gateway
            .get(&long)
            .await
            .refused(404, "route_not_found")
            .message()
            .len()
            < 500
    );
    for (method, path, allow) in [
        (Method::GET, CHAT, "POST"),
        (Method::DELETE, CHAT, "POST"),
        (Method::PUT, "/v1/videos", "POST,GET,HEAD"),
        (Method::POST, "/v1/models", "GET,HEAD"),
        (Method::PATCH, "/v1/tasks/x", "GET,HEAD"),
        (Method::GET, "/musicgen/submit/music", "POST"),
        (Method::POST, "/pricing", "GET,HEAD"),
        (Method::DELETE, "/openapi.json", "GET,HEAD"),
    ] {
        let answer = gateway.send(gateway.request(method, path)).await;
        answer.refused(405, "method_not_allowed");
        let mut allowed: Vec<&str> = answer
            .header("allow")
            .unwrap()
            .split(',')
            .map(str::trim)
            .collect();
        let mut expected: Vec<&str> = allow.split(',').collect();
        allowed.sort_unstable();
        expected.sort_unstable();
        assert_eq!(allowed, expected, "{path}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn bodies_that_are_not_json() {
    let gateway = gateway().await;
    let valid_body = video_order().to_string();
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "",
        "multipart/form-data; boundary=x",
    ] {
        post_body(&gateway, kind, valid_body.clone())
            .await
            .refused(415, "unsupported_media_type");
    }
    let without_type = gateway.request(Method::POST, CHAT).body(valid_body.clone());
    gateway
        .send(without_type)
        .await
        .refused(415, "unsupported_media_type");
    for kind in [
        "application/json",
        "application/json; charset=utf-8",
        "APPLICATION/JSON",
        "application/vnd.x+json",
    ] {
        post_body(&gateway, kind, valid_body.clone())
            .await
            .refused(503, "still_running");
    }
    let nested = |open: &str, close: &str, depth: usize| {
        format!("{}1{}", open.repeat(depth), close.repeat(depth))
    };
    let mut not_utf8 = valid_body.clone().into_bytes();
    let index = valid_body.find("lake").unwrap();
    not_utf8[index] = 0xff;
    let broken: Vec<Bytes> = vec![
        "".into(),
        "{".into(),
        "{\"model\":}".into(),
        "{'model': 1}".into(),
        format!("{valid_body}x").into(),
        "NaN".into(),
        nested("[", "]", 100_000).into(),
        nested("{\"a\":", "}", 10_000).into(),
        format!("{{\"x\":{},\"model\":\"m\"}}", nested("[", "]", 500)).into(),
        "\"\\ud800\"".into(),
        not_utf8.into(),
        "1e999999".into(),
    ];
    for body in broken {
        let description = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        let answer = post_body(&gateway, "application/json", body).await;
        assert_eq!(
            (answer.status, answer.json["error"]["code"].as_str()),
            (400, Some("invalid_json")),
            "{description}: {}",
            answer.text()
        );
    }
    for body in ["[]", "1", "\"x\"", "null", "true"] {
        post_body(&gateway, "application/json", body)
            .await
            .refused(400, "invalid_type");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn compressed_bodies_are_named() {
    let gateway = gateway().await;
    let valid_body = video_order().to_string();
    let post = async |encoding: &str, path: &str, kind: &str| {
        let request = gateway.request(Method::POST, path);
        let request = request
            .header("content-type", kind)
            .header("content-encoding", encoding)
            .body(valid_body.clone());
        gateway.send(request).await
    };
    let form = "multipart/form-data; boundary=x";
    for encoding in ["gzip", "br", "identity, zstd"] {
        for (path, kind) in [
            (CHAT, "application/json"),
            ("/v1/videos", "application/json"),
            ("/v1/videos", form),
            ("/v1/quote", "application/json"),
            ("/v1/webhooks", "application/json"),
            ("/v1/provenance/check", form),
            ("/musicgen/submit/music", "application/json"),
            ("/musicgen/uploads/audio", form),
        ] {
            let answer = post(encoding, path, kind).await;
            answer.refused(415, "unsupported_media_type");
            let name = encoding.rsplit(' ').next().unwrap();
            assert!(answer.message().contains(name), "{}", answer.text());
        }
    }
    post("Identity", CHAT, "application/json")
        .await
        .refused(503, "still_running");
    gateway.stop().await;
}

#[tokio::test]
async fn characters_that_cannot_be_stored() {
    let gateway = gateway().await;
    for (field, value) in [
        ("user", json!("a\u{0}b")),
        ("stop", json!("a\u{0}b")),
        ("model", json!("a\u{0}b")),
    ] {
        let mut order = video_order();
        order[field] = value;
        gateway
            .post(CHAT, &order)
            .await
            .refused(400, "invalid_value")
            .on_param(field);
    }
    for query in [
        "/v1/tasks?model=%00",
        "/v1/tasks?after=%00",
        "/musicgen/clips?after=%00",
    ] {
        assert_eq!(gateway.get(query).await.status, 400, "{query}");
    }
    let mut order = video_order();
    order["messages"][0]["content"] = json!("שלום 🌊 \u{202e}\u{fffd}\u{1}");
    gateway
        .post(CHAT, &order)
        .await
        .refused(503, "still_running");
    gateway.stop().await;
}

#[tokio::test]
async fn bodies_that_are_too_large() {
    let gateway = gateway().await;
    let padded_order = |content: Value| json!({"model": "animatic-1", "web_search_options": content, "messages": [{"role": "user", "content": "x"}]});
    let answer = gateway
        .post(CHAT, &padded_order(json!("x".repeat(1_100_000))))
        .await;
    answer.refused(413, "body_too_large");
    assert!(answer.message().contains("1 MB"), "{}", answer.message());
    gateway
        .post(CHAT, &padded_order(json!("x".repeat(900_000))))
        .await
        .refused(503, "still_running");
    // The contents of data: URLs do not count, up to 32 MB in all.
    let data = format!("data:x;base64,{}", "A".repeat(8_000_000));
    gateway
        .post(CHAT, &padded_order(json!(data)))
        .await
        .refused(503, "still_running");
    let answer = gateway
        .post(CHAT, &padded_order(json!([data, data, data, data, data])))
        .await;
    answer.refused(413, "body_too_large");
    assert!(answer.message().contains("32 MB"), "{}", answer.message());
    let picture = json!([{"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{}", "A".repeat(28_000_000))}}]);
    let order = json!({"model": "animatic-1", "messages": [{"role": "user", "content": picture}]});
    gateway
        .post(CHAT, &order)
        .await
        .refused(422, "image_too_large")
        .on_param("messages[0].content[0].image_url.url");
    gateway.stop().await;
}

#[tokio::test]
async fn lists_and_texts_are_bounded() {
    let gateway = gateway().await;
    let message = json!({"role": "user", "content": "x"});
    let order = |messages: Value| json!({"model": "animatic-1", "messages": messages});
    gateway
        .post(CHAT, &order(json!(vec![message.clone(); 257])))
        .await
        .refused(400, "invalid_value")
        .on_param("messages");
    let parts = vec![json!({"type": "text", "text": "x"}); 65];
    gateway
        .post(CHAT, &order(json!([{"role": "user", "content": parts}])))
        .await
        .refused(400, "invalid_value")
        .on_param("messages[0].content");
    // Many faults still make a short message.
    let faults = vec![json!({"role": 1, "content": 1}); 256];
    let answer = gateway.post(CHAT, &order(json!(faults))).await;
    assert_eq!(answer.status, 400);
    assert!(answer.bytes.len() < 100_000, "{} bytes", answer.bytes.len());
    let long_name = json!({"model": "m".repeat(201), "messages": [message]});
    gateway
        .post(CHAT, &long_name)
        .await
        .refused(400, "invalid_value")
        .on_param("model");
    gateway.stop().await;
}

/// A PNG that claims this size and holds one row.
fn lying_png(width: u32, height: u32) -> Vec<u8> {
    let mut png = sound::png(8, 8);
    png[16..20].copy_from_slice(&width.to_be_bytes());
    png[20..24].copy_from_slice(&height.to_be_bytes());
    let checksum = crc32fast::hash(&png[12..29]);
    png[29..33].copy_from_slice(&checksum.to_be_bytes());
    png
}

#[tokio::test]
async fn broken_and_hostile_pictures_are_refused_and_the_next_request_is_served() {
    let gateway = gateway().await;
    let valid_picture = sound::png(64, 48);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (Vec::new(), "image_invalid"),
        (b"hello".to_vec(), "image_invalid"),
        (
            valid_picture[..valid_picture.len() / 2].to_vec(),
            "image_invalid",
        ),
        (valid_picture[..8].to_vec(), "image_invalid"),
        (lying_png(20_000, 20_000), "image_too_large"),
        (lying_png(u32::MAX, u32::MAX), "image_too_large"),
        (lying_png(0, 0), "image_invalid"),
        (lying_png(5_000, 5_000), "image_invalid"),
        (
            b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>".to_vec(),
            "image_invalid",
        ),
        (b"GIF89a\xff\xff\xff\xff".to_vec(), "image_invalid"),
        (
            [&[0xff, 0xd8, 0xff, 0xe0][..], &[0; 100][..]].concat(),
            "image_invalid",
        ),
        (b"RIFF\xff\xff\xff\xffWEBPVP8 ".to_vec(), "image_invalid"),
        (b"II*\0\x08\0\0\0\xff\xff".to_vec(), "image_invalid"),
        (sound::wav(1, 1), "image_invalid"),
    ];
    let order = |url: String| json!({"model": "animatic-1", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]});
    for (number, (bytes, code)) in cases.into_iter().enumerate() {
        let answer = gateway
            .post(CHAT, &order(sound::data_url("image/png", &bytes)))
            .await;
        let error = &answer.json["error"];
        // A picture that claims to be huge may be found broken first.
        let is_expected = error["code"] == code
            || (code == "image_too_large" && error["code"] == "image_invalid");
        assert!(
            answer.status == 422 && is_expected,
            "{number}: {}",
            answer.text()
        );
        assert_eq!(error["type"], "media_error");
        answer.on_param("messages[0].content[0].image_url.url");
    }
    for broken in [
        "data:",
        "data:image/png",
        "data:image/png;base64",
        "data:image/png,%89PNG",
        "data:;base64,@@@",
    ] {
        gateway
            .post(CHAT, &order(broken.into()))
            .await
            .refused(422, "image_invalid");
    }
    assert_eq!(gateway.get("/v1/tasks").await.ok()["data"], json!([]));
    gateway
        .post(CHAT, &order(sound::data_url("image/png", &valid_picture)))
        .await
        .refused(503, "still_running");
    gateway.stop().await;
}

#[tokio::test]
async fn odd_requests_get_a_complete_answer() {
    let gateway = gateway().await;
    for path in [
        "/v1/tasks/%ff%fe",
        "/media/%ff/%ff",
        "/musicgen/clips/%ff",
        "/v1/models/%ff",
        "/assets/%ff",
    ] {
        let answer = gateway.get(path).await;
        assert!(
            (400..500).contains(&answer.status),
            "{path}: {}",
            answer.status
        );
    }
    let head = gateway
        .send(gateway.request(Method::HEAD, "/v1/tasks/x"))
        .await;
    assert_eq!((head.status, head.bytes.len()), (404, 0));
    let options = gateway
        .send(gateway.request(Method::OPTIONS, "/v1/models"))
        .await;
    assert_eq!(options.status, 405);
    gateway.stop().await;
}

/// Sends raw bytes; returns the status line of the answer.
async fn send_raw(gateway: &TestGateway, text: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let host = gateway.base.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    // A server that disconnects without an answer is not a failure here.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test]
async fn malformed_http_harms_nobody() {
    let gateway = gateway().await;
    let key = gateway.key.clone().unwrap();
    let unfinished = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{\"mo"
    );
    let chunked = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"
    );
    for text in [
        "\r\n\r\n",
        "GET",
        "GET / HTTP/9.9\r\n\r\n",
        "\u{0}\u{1}\u{2}",
        &unfinished,
        &chunked,
    ] {
        let line = send_raw(&gateway, text).await;
        assert!(line.is_empty() || line.contains(" 4"), "{line}");
    }
    let many_headers = format!("GET /healthz HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(2000));
    assert!(!send_raw(&gateway, &many_headers).await.contains("200"));
    assert_eq!(gateway.get("/healthz").await.status, 200);
    gateway.stop().await;
}
