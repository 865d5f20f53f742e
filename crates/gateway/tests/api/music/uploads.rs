//! `POST /{brand}/uploads/audio`.

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use crate::support::files::Files;
use crate::support::gateway::upload;
use crate::support::spec::assert_clip;
use crate::support::{TestGateway, sound};

const PATH: &str = "/musicgen/uploads/audio";

#[tokio::test]
async fn an_upload_is_a_complete_clip_with_lossless_sound_and_a_cover() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let wav = sound::wav(2, 3);
    let clip = upload(&gateway, "Night Song", wav.clone()).await;
    assert_clip(&clip);
    assert_eq!(
        (&clip["status"], &clip["title"]),
        (&json!("complete"), &json!("Night Song"))
    );
    assert_eq!(
        (&clip["metadata"]["type"], &clip["metadata"]["task"]),
        (&json!("upload"), &json!(""))
    );
    assert_eq!(clip["metadata"]["history"], json!([]));
    assert_eq!(clip["metadata"]["duration"], 2.0);
    assert_eq!(clip["is_trashed"], false);
    let limits = stems::DecodeLimits::default();
    let sent = stems::decode(&wav, &limits).unwrap().audio;
    let flac = gateway
        .without_key()
        .get(clip["audio_url"].as_str().unwrap())
        .await;
    let stored = stems::decode(&flac.bytes, &limits).unwrap().audio;
    assert_eq!((stored.rate(), stored.channels().len()), (44_100, 2));
    assert_eq!(sent, stored, "not a sample was changed");
    for (field, side) in [("image_url", 512), ("image_large_url", 1024)] {
        let cover = gateway
            .without_key()
            .get(clip[field].as_str().unwrap())
            .await;
        let cover = image::load_from_memory(&cover.bytes).unwrap();
        assert_eq!((cover.width(), cover.height()), (side, side));
    }
    gateway.stop().await;
}

#[tokio::test]
async fn the_title_is_the_field_or_the_file_or_untitled() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let wav = sound::wav_of(8_000, 1, &[100; 800]);
    let send = async |name: Option<&str>, title: Option<&str>| {
        let mut part = Part::bytes(wav.clone());
        if let Some(name) = name {
            part = part.file_name(name.to_owned());
        }
        let mut form = Form::new().part("file", part);
        if let Some(title) = title {
            form = form.text("title", title.to_owned());
        }
        gateway
            .send(gateway.request(Method::POST, PATH).multipart(form))
            .await
    };
    assert_eq!(
        send(Some("a b.mix.wav"), None).await.ok()["title"],
        "a b.mix"
    );
    assert_eq!(
        send(Some("dir/evil\\song.wav"), None).await.ok()["title"],
        "song"
    );
    assert_eq!(
        send(Some("x.wav"), Some("Mine")).await.ok()["title"],
        "Mine"
    );
    assert_eq!(send(Some("x.wav"), Some("")).await.ok()["title"], "x");
    assert_eq!(send(None, None).await.ok()["title"], "Untitled");
    send(None, Some(&"x".repeat(201)))
        .await
        .refused(400, "invalid_value")
        .on_param("title");
    gateway.stop().await;
}

#[tokio::test]
async fn an_upload_by_address_is_fetched_and_checked_by_its_bytes() {
    let gateway = TestGateway::builder()
        .without_workers()
        .allow_loopback()
        .start()
        .await;
    let files = Files::start().await;
    let clip = gateway
        .post(PATH, &json!({"url": files.url("/song"), "title": "Far"}))
        .await
        .ok();
    assert_clip(&clip);
    assert_eq!(
        (&clip["title"], &clip["metadata"]["duration"]),
        (&json!("Far"), &json!(1.0))
    );
    let untitled = gateway
        .post(PATH, &json!({"url": files.url("/song"), "title": ""}))
        .await
        .ok();
    assert_eq!(untitled["title"], "Untitled");
    for (body, status, code, param) in [
        (json!({}), 400, "missing_field", "url"),
        (json!({"url": 1}), 400, "invalid_type", "url"),
        (json!({"url": ""}), 400, "invalid_value", "url"),
        (
            json!({"url": files.url("/song"), "title": 1}),
            400,
            "invalid_type",
            "title",
        ),
        (
            json!({"url": files.url("/missing")}),
            422,
            "audio_fetch_failed",
            "url",
        ),
        (
            json!({"url": files.url("/text")}),
            422,
            "audio_invalid",
            "url",
        ),
        (
            json!({"url": files.url("/picture.png")}),
            422,
            "audio_invalid",
            "url",
        ),
        (
            json!({"url": "ftp://127.0.0.1/a.wav"}),
            422,
            "audio_fetch_blocked",
            "url",
        ),
    ] {
        gateway
            .post(PATH, &body)
            .await
            .refused(status, code)
            .on_param(param);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_form_of_many_megabytes_is_accepted() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let clip = upload(&gateway, "Long", sound::wav(20, 1)).await;
    assert_eq!(clip["metadata"]["duration"], 20.0);
    gateway.stop().await;
}

#[tokio::test]
async fn broken_and_hostile_recordings_are_refused_and_the_next_request_is_served() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let valid = sound::wav(1, 1);
    let mut wrong_rate = valid.clone();
    wrong_rate[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut no_channels = valid.clone();
    no_channels[22..24].copy_from_slice(&0_u16.to_le_bytes());
    // Sixteen minutes of eight-bit silence are longer than the limit, but small.
    let long = sound::wav_of(8_000, 1, &vec![0; 8_000 * 961]);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (Vec::new(), "audio_invalid"),
        (b"RIFF".to_vec(), "audio_invalid"),
        (valid[..44].to_vec(), "audio_invalid"),
        (wrong_rate, "audio_invalid"),
        (no_channels, "audio_invalid"),
        (b"fLaC\x00\x00\x00\x22".to_vec(), "audio_invalid"),
        (b"OggS\x00\x02".repeat(100), "audio_invalid"),
        (b"ID3\x04\x00\x00\x7f\x7f\x7f\x7f".to_vec(), "audio_invalid"),
        (vec![0xff; 10_000], "audio_invalid"),
        (sound::png(10, 10), "audio_invalid"),
        (long, "audio_too_long"),
    ];
    for (number, (bytes, code)) in cases.into_iter().enumerate() {
        let form = Form::new().part("file", Part::bytes(bytes).file_name("x.wav"));
        let answer = gateway
            .send(gateway.request(Method::POST, PATH).multipart(form))
            .await;
        assert_eq!(
            (answer.status, answer.json["error"]["code"].as_str()),
            (422, Some(code)),
            "{number}: {}",
            answer.text()
        );
        answer.on_param("file");
        assert_eq!(answer.json["error"]["type"], "media_error");
    }
    let without_file = || Form::new().text("title", "x");
    let not_chosen = Part::bytes(Vec::new()).file_name("");
    for form in [without_file(), without_file().part("file", not_chosen)] {
        let answer = gateway
            .send(gateway.request(Method::POST, PATH).multipart(form))
            .await;
        answer.refused(400, "missing_field").on_param("file");
    }
    for (name, value) in [("video", "x"), ("cover", "https://example.com/a.png")] {
        let form = Form::new().part("file", Part::bytes(sound::wav(1, 1)).file_name("a.wav"));
        let form = form.text(name, value).text("note", "mine");
        let answer = gateway
            .send(gateway.request(Method::POST, PATH).multipart(form))
            .await;
        answer.refused(400, "unsupported_value").on_param(name);
        let body = json!({"url": "https://example.com/a.wav", name: value, "note": "mine"});
        let answer = gateway.post(PATH, &body).await;
        answer.refused(400, "unsupported_value").on_param(name);
    }
    let two_files = ["a.wav", "b.wav"]
        .into_iter()
        .fold(Form::new(), |form, name| {
            let part = Part::bytes(sound::wav(1, 1)).file_name(name);
            form.part("file", part)
        });
    let answer = gateway
        .send(gateway.request(Method::POST, PATH).multipart(two_files))
        .await;
    answer.refused(400, "invalid_value").on_param("file");
    let list: Value = gateway.get("/musicgen/clips").await.ok();
    assert_eq!(list["data"], json!([]));
    upload(&gateway, "Fine", valid).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_loud_or_damaged_recording_says_so() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let limits = stems::DecodeLimits::default();
    let wave = |level: f32| {
        let wave = (0..60_000_u16).map(|n| (f32::from(n) * 0.05).sin() * level);
        stems::Audio::new(8_000, vec![wave.collect()]).unwrap()
    };
    let loud = stems::encode::wav32f(&wave(1.98)).unwrap();
    let clip = upload(&gateway, "Loud", loud).await;
    assert_clip(&clip);
    let gain = clip["metadata"]["gain_db"].as_f64().unwrap();
    assert!((gain + 5.93).abs() < 0.01, "{gain}");
    let address = clip["audio_url"].as_str().unwrap();
    let stored = gateway.without_key().get(address).await;
    let stored = stems::decode(&stored.bytes, &limits).unwrap().audio;
    let expected = wave(1.0);
    for (x, y) in stored.channels()[0].iter().zip(&expected.channels()[0]) {
        assert!((x - y).abs() < 1e-3, "scaled as a whole: {x} {y}");
    }

    let mut damaged = stems::encode::flac24(&wave(0.5)).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x10;
    let clip = upload(&gateway, "Damaged", damaged).await;
    assert_clip(&clip);
    let damage = clip["metadata"]["damage"].as_array().unwrap();
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert!(damage[0]["start_s"].as_f64() < damage[0]["end_s"].as_f64());
    assert_eq!(clip["metadata"]["duration"], 7.5);
    assert!(clip["metadata"].get("gain_db").is_none());
    // A list shows it, too.
    let id = clip["id"].as_str().unwrap();
    let again = gateway.get(&format!("/musicgen/clips/{id}")).await.ok();
    assert_eq!(again["metadata"]["damage"], clip["metadata"]["damage"]);
    gateway.stop().await;
}
