//! `POST /v1/provenance/check`, and the provenance in records.

use std::process::Command;

use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::support::client::Answer;
use crate::support::files::Files;
use crate::support::gateway::upload;
use crate::support::program::{output, program, text};
use crate::support::{Client, TestGateway, eventually, sound};

const PATH: &str = "/v1/provenance/check";

/// Sends a file to the check as a form.
pub(super) async fn check(client: &Client, file: Vec<u8>) -> Answer {
    let part = Part::bytes(file).file_name("file.bin");
    let request = client.request(Method::POST, PATH);
    client
        .send(request.multipart(Form::new().part("file", part)))
        .await
}

/// Makes an embedded film; returns its task's identifier, its record and its bytes.
pub(super) async fn make_film(gateway: &TestGateway, extra: Value) -> (String, Value, Vec<u8>) {
    let mut order = json!({"model": "animatic-1", "prompt": "a lake at dawn, slow pan left",
        "size": "854x480", "seconds": "3", "seed": 7});
    let fields = order.as_object_mut().unwrap();
    fields.extend(extra.as_object().unwrap().clone());
    fields.retain(|_, value| !value.is_null());
    let answer = gateway.post("/v1/videos", &order).await;
    let task = answer.header("x-task-id").map(str::to_owned);
    answer.ok();
    let task = task.unwrap();
    let view = gateway.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    let video = view["output"]["videos"][0].clone();
    let bytes = gateway.get(video["url"].as_str().unwrap()).await.bytes;
    (task, video, bytes.to_vec())
}

/// The file after a conversion by ffmpeg with these arguments.
fn convert(file: &[u8], from: &str, args: &[&str], to: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join(format!("source.{from}"));
    let target = folder.path().join(format!("made.{to}"));
    std::fs::write(&source, file).unwrap();
    let result = Command::new("ffmpeg")
        .args(["-v", "error", "-threads", "1", "-i"])
        .arg(&source)
        .args(args)
        .arg(&target)
        .output()
        .expect("this test needs ffmpeg: apt-get install ffmpeg");
    assert!(result.status.success(), "{}", text(&result.stderr));
    std::fs::read(target).unwrap()
}

#[tokio::test]
async fn an_own_film_is_recognized_unchanged_and_reencoded() {
    let gateway = TestGateway::start().await;
    let (task, video, bytes) = make_film(&gateway, json!({})).await;
    let provenance = &video["provenance"];
    assert!(
        provenance["marks"]
            .as_array()
            .unwrap()
            .contains(&json!("watermark")),
        "{provenance}"
    );
    let report = check(&gateway, bytes.clone()).await.ok();
    assert_eq!(report["sha256"], video["sha256"]);
    assert_eq!(report["mime_type"], "video/mp4");
    assert_eq!(
        (&report["ours"]["exact"], &report["ours"]["watermarked"]),
        (&json!(true), &json!(true))
    );
    let first = &report["matches"][0];
    assert_eq!(
        (&first["match"], &first["kind"]),
        (&json!("exact"), &json!("video"))
    );
    assert_eq!(
        (&first["made_by"], &first["own"]),
        (&json!("embedded"), &json!(true))
    );
    assert_eq!(first["task_id"], task);
    assert_eq!(report["notes"], json!([]));

    let args = [
        "-c:v",
        "libx264",
        "-preset",
        "veryfast",
        "-crf",
        "30",
        "-vf",
        "scale=-2:360",
    ];
    let encoded = convert(&bytes, "mp4", &args, "mp4");
    let report = check(&gateway, encoded).await.ok();
    assert_eq!(report["ours"]["exact"], false);
    let matches = report["matches"].as_array().unwrap();
    assert_eq!(matches.len(), 1, "{report}");
    assert_eq!(matches[0]["task_id"], task);
    if report["ours"]["watermarked"] == false {
        assert_eq!(
            (&matches[0]["match"], &matches[0]["of"]),
            (&json!("near"), &json!("video"))
        );
        assert!(matches[0]["distance"].as_f64().unwrap() < 0.2);
    }

    // Another account sees the time and the kind of model, not the task.
    let other = gateway.caller("others", NewKey::default()).await;
    let report = check(&other, bytes).await.ok();
    let first = &report["matches"][0];
    assert_eq!(
        (&first["match"], &first["own"]),
        (&json!("exact"), &json!(false))
    );
    assert!(first.get("task_id").is_none() && first["made_at"].is_string());
    gateway.stop().await;
}

#[tokio::test]
async fn a_film_without_a_watermark_is_recognized_by_its_fingerprint() {
    let gateway = TestGateway::builder()
        .toml("[provenance]\nwatermark = false")
        .start()
        .await;
    let (task, video, bytes) = make_film(&gateway, json!({})).await;
    assert!(
        !video["provenance"]["marks"]
            .as_array()
            .unwrap()
            .contains(&json!("watermark"))
    );
    let args = ["-c:v", "libx264", "-preset", "veryfast", "-crf", "32"];
    let encoded = convert(&bytes, "mp4", &args, "mp4");
    let report = check(&gateway, encoded).await.ok();
    assert_eq!(report["ours"]["watermarked"], false);
    let near = &report["matches"][0];
    assert_eq!(
        (&near["match"], &near["of"]),
        (&json!("near"), &json!("video")),
        "{report}"
    );
    assert_eq!(near["task_id"], task);
    // A codec that is not decoded is named in a note.
    let args = ["-c:v", "mpeg4", "-q:v", "5"];
    let report = check(&gateway, convert(&bytes, "mp4", &args, "mp4"))
        .await
        .ok();
    let note = report["notes"][0].as_str().unwrap();
    assert!(note.contains("mp4v, not H.264"), "{note}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_hosted_film_is_recognized_by_its_fingerprint_and_one_from_a_picture_is_watermarked() {
    let far = TestGateway::builder()
        .toml("[provenance]\nwatermark = false")
        .start()
        .await;
    let key = far.new_key("reseller", NewKey::default()).await;
    let toml = format!(
        "[providers.far]\nprotocol = \"openai-videos\"\nbase_url = \"{}/v1\"\napi_key = \"{key}\"\n\
         [models.film]\nkind = \"video\"\nprice = {{ unit = \"second\", usd = \"0.10\" }}\n\
         routes = [{{ provider = \"far\", model = \"animatic-1\" }}]\n\
         limits = {{ sizes = [\"854x480\"], seconds = [3] }}\n",
        far.base
    );
    let near = TestGateway::builder().toml(&toml).start().await;
    let fields = json!({"model": "film", "seed": null});
    let (task, _, bytes) = make_film(&near, fields).await;
    let args = ["-c:v", "libx264", "-crf", "32", "-vf", "scale=-2:360"];
    let encoded = convert(&bytes, "mp4", &args, "mp4");
    // The film's fingerprint is taken after its task has ended.
    let report = eventually("the film has a fingerprint", async || {
        let report = check(&near, encoded.clone()).await.ok();
        (!report["matches"].as_array()?.is_empty()).then_some(report)
    });
    let report = report.await;
    let similar = &report["matches"][0];
    assert_eq!(
        (&similar["match"], &similar["of"], &similar["made_by"]),
        (&json!("near"), &json!("video"), &json!("hosted")),
        "{report}"
    );
    assert_eq!(similar["task_id"], task);
    far.stop().await;
    let picture = sound::data_url("image/png", &sound::png(64, 48));
    let fields =
        json!({"input_reference": {"image_url": picture}, "seconds": "1", "size": "640x480"});
    let (_, video, bytes) = make_film(&near, fields).await;
    let marks = video["provenance"]["marks"].as_array().unwrap();
    assert!(marks.contains(&json!("watermark")), "{video}");
    let report = check(&near, bytes).await.ok();
    assert_eq!(report["ours"]["watermarked"], true, "{report}");
    near.stop().await;
}

#[tokio::test]
async fn stems_are_recognized_after_lossy_coding() {
    let gateway = TestGateway::start().await;
    let clip = upload(&gateway, "Song", sound::wav(12, 3)).await;
    assert_eq!(clip["provenance"]["status"], "none", "{clip}");
    let task = gateway.separate(clip["id"].as_str().unwrap(), "two").await;
    let view = gateway.finished(task["id"].as_str().unwrap()).await;
    let stem = &view["output"]["clips"][0];
    assert!(stem["provenance"]["status"].is_string(), "{view}");
    let bytes = gateway.get(stem["audio_url"].as_str().unwrap()).await.bytes;
    let report = check(&gateway, bytes.to_vec()).await.ok();
    assert_eq!(report["matches"][0]["match"], "exact", "{report}");
    assert_eq!(report["matches"][0]["clip_id"], stem["id"]);
    assert_eq!(report["ours"]["watermarked"], false, "not configured");
    let mp3 = convert(&bytes, "flac", &["-b:a", "96k"], "mp3");
    let report = check(&gateway, mp3).await.ok();
    let near = &report["matches"][0];
    assert_eq!(
        (&near["match"], &near["of"]),
        (&json!("near"), &json!("sound")),
        "{report}"
    );
    assert_eq!(
        (&near["clip_id"], &near["kind"]),
        (&stem["id"], &json!("stem"))
    );
    gateway.stop().await;
}

/// A tone with noise, which fills all bands that carry the watermark.
fn rich_song() -> Vec<u8> {
    let mut noise = 1u32;
    let samples = (0..40 * 44_100u32).map(|index| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let hiss = (f64::from(noise >> 16) - 32_768.0) / 6.0;
        let cycles = f64::from(index) * 440.0 / 44_100.0;
        let note = (cycles * std::f64::consts::TAU).sin() * 6_000.0;
        #[expect(clippy::cast_possible_truncation, reason = "under half of full scale")]
        {
            (note + hiss) as i16
        }
    });
    sound::wav_of(44_100, 1, &samples.collect::<Vec<_>>())
}

#[tokio::test]
async fn stems_are_watermarked_if_configured_and_so_is_their_sum() {
    let gateway = TestGateway::builder()
        .toml("[provenance]\nwatermark_audio = true")
        .start()
        .await;
    let song = rich_song();
    let clip = upload(&gateway, "Song", song.clone()).await;
    let task = gateway.separate(clip["id"].as_str().unwrap(), "two").await;
    let view = gateway.finished(task["id"].as_str().unwrap()).await;
    let stems = view["output"]["clips"].as_array().unwrap();
    let samples = |file: &[u8], from: &str| -> Vec<f32> {
        let args = ["-ac", "1", "-ar", "44100", "-f", "f32le"];
        let raw = convert(file, from, &args, "raw");
        let (samples, _) = raw.as_chunks::<4>();
        samples
            .iter()
            .map(|sample| f32::from_le_bytes(*sample))
            .collect()
    };
    let mut sum: Vec<f32> = Vec::new();
    for stem in stems {
        let marks = stem["provenance"]["marks"].as_array().unwrap();
        assert!(marks.contains(&json!("watermark")), "{stem}");
        let flac = gateway.get(stem["audio_url"].as_str().unwrap()).await.bytes;
        let stem = samples(&flac, "flac");
        sum.resize(stem.len(), 0.0);
        sum.iter_mut()
            .zip(&stem)
            .for_each(|(sum, sample)| *sum += sample);
    }
    // The stems sum to the mix except for the watermark, which is at least 24 dB below it.
    let mix = samples(&song, "wav");
    assert_eq!(sum.len(), mix.len());
    let power = |samples: &mut dyn Iterator<Item = f32>| samples.map(|x| x * x).sum::<f32>();
    let mark_power = power(&mut sum.iter().zip(&mix).map(|(a, b)| a - b));
    let ratio = 10.0 * (power(&mut mix.iter().copied()) / mark_power).log10();
    assert!((24.0..60.0).contains(&ratio), "{ratio} dB");
    // The sum has the stems' watermark, even after a cut and lossy coding.
    #[expect(clippy::cast_possible_truncation, reason = "within full scale")]
    let sum: Vec<i16> = sum[150_001..]
        .iter()
        .map(|sample| (sample * 32_767.0).clamp(-32_768.0, 32_767.0) as i16)
        .collect();
    let sum = sound::wav_of(44_100, 1, &sum);
    let mp3 = convert(&sum, "wav", &["-b:a", "128k"], "mp3");
    let report = check(&gateway, mp3).await.ok();
    assert_eq!(report["ours"]["watermarked"], true, "{report}");
    let matches = report["matches"].as_array().unwrap();
    let clip_ids: Vec<&Value> = matches.iter().map(|hit| &hit["clip_id"]).collect();
    for stem in stems {
        assert!(clip_ids.contains(&&stem["id"]), "{report}");
    }
    assert_eq!(matches[0]["match"], "watermark");
    // The recording itself has no watermark.
    let report = check(&gateway, song).await.ok();
    assert_eq!(report["ours"]["watermarked"], false);
    gateway.stop().await;
}

#[tokio::test]
async fn a_foreign_file_has_no_match_and_damaged_files_do_no_harm() {
    let files = Files::start().await;
    let gateway = TestGateway::builder().allow_loopback().start().await;
    let (_, _, bytes) = make_film(&gateway, json!({})).await;
    let report = gateway
        .post(PATH, &json!({"url": files.url("/song")}))
        .await
        .ok();
    assert_eq!(
        (&report["mime_type"], &report["matches"]),
        (&json!("audio/wav"), &json!([]))
    );
    assert_eq!(report["provenance"]["status"], "none");
    let report = gateway
        .post(PATH, &json!({"url": files.url("/text")}))
        .await
        .ok();
    assert_eq!(
        (&report["mime_type"], &report["provenance"]["status"]),
        (&Value::Null, &json!("unreadable"))
    );
    assert!(report["notes"][0].as_str().unwrap().contains("not MP4"));
    gateway
        .post(PATH, &json!({"url": files.url("/to-private")}))
        .await
        .refused(422, "file_fetch_blocked")
        .on_param("url");
    gateway
        .post(PATH, &json!({}))
        .await
        .refused(400, "missing_field")
        .on_param("url");
    let without_file = gateway
        .request(Method::POST, PATH)
        .multipart(Form::new().text("title", "x"));
    gateway
        .send(without_file)
        .await
        .refused(400, "missing_field")
        .on_param("file");
    // Wrong tables, and a stream of noise.
    let mut noise = bytes.clone();
    let media_start = noise.windows(4).position(|kind| kind == b"mdat").unwrap() + 4;
    for (index, byte) in noise.iter_mut().enumerate().skip(media_start).step_by(3) {
        *byte = byte
            .wrapping_mul(31)
            .wrapping_add(u8::try_from(index % 251).unwrap());
    }
    let mut lying_tables = bytes.clone();
    let index = lying_tables
        .windows(4)
        .position(|kind| kind == b"stsz")
        .unwrap();
    lying_tables[index + 8..index + 24].fill(0xff);
    for hostile in [
        noise,
        lying_tables,
        bytes[..bytes.len() / 2].to_vec(),
        Vec::new(),
    ] {
        let report = check(&gateway, hostile).await.ok();
        assert_eq!(report["ours"]["exact"], false);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn marks_of_a_received_file_are_reported() {
    let gateway = TestGateway::start().await;
    let mut song = sound::wav(1, 1);
    let manifest = b"\0\0\0\x10jumbfoobar!!";
    song.extend(b"C2PA");
    song.extend(u32::try_from(manifest.len()).unwrap().to_le_bytes());
    song.extend(manifest);
    let length = u32::try_from(song.len() - 8).unwrap();
    song[4..8].copy_from_slice(&length.to_le_bytes());
    let report = check(&gateway, song).await.ok();
    assert_eq!(report["provenance"]["marks"], json!(["c2pa"]), "{report}");
    let expected = if cfg!(feature = "c2pa") {
        "invalid"
    } else {
        "unverified"
    };
    assert_eq!(report["provenance"]["status"], expected);
    // A note explains "unverified".
    let notes = report["notes"].to_string();
    assert_eq!(
        notes.contains("cannot verify"),
        !cfg!(feature = "c2pa"),
        "{notes}"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn checks_without_a_key_need_the_setting_and_are_limited() {
    let gateway = TestGateway::start().await;
    let song = sound::wav(1, 1);
    check(&gateway.without_key(), song.clone())
        .await
        .refused(401, "missing_api_key");
    let scopes = vec![Scope::VideoCreate];
    let without_scope = gateway
        .caller(
            "poor",
            NewKey {
                scopes,
                ..NewKey::default()
            },
        )
        .await;
    check(&without_scope, song.clone())
        .await
        .refused(403, "insufficient_scope");
    gateway.stop().await;

    let gateway = TestGateway::builder()
        .toml("[provenance]\npublic = true")
        .start()
        .await;
    let stranger = gateway.without_key();
    check(&gateway.with_key("sk-mg-nonsense"), song.clone())
        .await
        .refused(401, "invalid_api_key");
    // Concurrently: one after the other, the limit would recover meanwhile. On a busy machine, it recovers a little
    // before the last of them arrives.
    let checks = (0..15).map(|_| check(&stranger, song.clone()));
    let answers = futures_util::future::join_all(checks).await;
    let (answered, refused): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.status == 200);
    assert!((10..15).contains(&answered.len()), "{}", answered.len());
    for answer in refused {
        answer.refused(429, "rate_limit_exceeded");
    }
    check(&gateway, song).await.ok();
    gateway.stop().await;
}

/// Strangers take turns by their addresses: one of them cannot take all slots with slow uploads.
#[tokio::test]
async fn slow_checks_of_one_address_keep_no_other_address_waiting() {
    let gateway = TestGateway::builder()
        .without_workers()
        .toml("trusted_proxies = [\"127.0.0.0/8\"]\n[provenance]\npublic = true")
        .start()
        .await;
    let head = "POST /v1/provenance/check HTTP/1.1\r\nhost: mediagate\r\nx-forwarded-for: 192.0.2.1\r\n\
        content-type: multipart/form-data; boundary=b\r\ncontent-length: 1000000\r\n\r\n\
        --b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF";
    // As many as the address may send in a minute. They never end.
    let address = gateway.base.strip_prefix("http://").unwrap();
    let mut slow = Vec::new();
    for _ in 0..10 {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    let spool = gateway.app.config.spool_path();
    let uploads = || std::fs::read_dir(&spool).unwrap().count();
    eventually("two uploads have begun", async || {
        (uploads() == 2).then_some(())
    })
    .await;
    for address in ["192.0.2.2", "2001:db8::1"] {
        let form = Form::new().part("file", Part::bytes(sound::wav(1, 1)).file_name("a.wav"));
        let stranger = gateway.without_key();
        let request = stranger.request(Method::POST, "/v1/provenance/check");
        let request = request.header("x-forwarded-for", address).multipart(form);
        stranger.send(request).await.ok();
    }
    assert_eq!(uploads(), 2, "the others of that address wait");
    drop(slow);
    gateway.stop().await;
}

#[tokio::test]
async fn a_label_is_drawn_into_the_film_and_an_unknown_one_is_refused() {
    let gateway = TestGateway::start().await;
    let (_, plain, plain_bytes) = make_film(&gateway, json!({"seconds": "1"})).await;
    let (_, labelled, labelled_bytes) =
        make_film(&gateway, json!({"seconds": "1", "label": "ai"})).await;
    assert!(plain.get("label_text").is_none() && plain_bytes != labelled_bytes);
    assert!(
        labelled["label_text"]
            .as_str()
            .unwrap()
            .contains("made with AI")
    );
    assert!(
        labelled["provenance"]["marks"]
            .as_array()
            .unwrap()
            .contains(&json!("label"))
    );
    // With the label the corner has a black disk with white letters.
    let corner = |file: &[u8]| {
        let args = [
            "-frames:v",
            "1",
            "-vf",
            "crop=52:52:790:12,format=gray",
            "-f",
            "rawvideo",
        ];
        convert(file, "mp4", &args, "raw")
    };
    let is_dark = |bytes: &[u8]| bytes.iter().filter(|luma| **luma < 40).count() * 2 > bytes.len();
    assert!(is_dark(&corner(&labelled_bytes)));
    assert!(!is_dark(&corner(&plain_bytes)));
    let chat = json!({"model": "animatic-1", "messages": [{"role": "user", "content": "a lake"}],
        "video": {"seconds": 1, "label": "ai"}});
    let completion = gateway.post("/v1/chat/completions", &chat).await.ok();
    assert!(
        completion["choices"][0]["message"]["video"]["label_text"].is_string(),
        "{completion}"
    );
    let order = json!({"model": "animatic-1", "prompt": "a lake", "label": "human"});
    gateway
        .post("/v1/videos", &order)
        .await
        .refused(400, "unsupported_value")
        .on_param("label");
    gateway.stop().await;
}

#[tokio::test]
async fn config_check_names_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    for (toml, expected) in [
        (
            "[provenance]\nkey = \"k.pem\"",
            ":2: `provenance.key`: requires a certificate",
        ),
        ("[provenance]\nwatermrk = true", "did you mean `watermark`?"),
        (
            "\n[provenance]\ncertificate = \"/no/such.pem\"\nkey = \"k\"",
            "provenance.certificate",
        ),
    ] {
        std::fs::write(&file, toml).unwrap();
        let result = output(program(&[
            "config",
            "check",
            "--config",
            file.to_str().unwrap(),
        ]))
        .await;
        assert_eq!(result.status.code(), Some(2));
        assert!(
            text(&result.stderr).contains(expected),
            "{}",
            text(&result.stderr)
        );
    }
    std::fs::write(&file, "[provenance]\npublic = true").unwrap();
    let result = output(program(&[
        "config",
        "check",
        "--config",
        file.to_str().unwrap(),
    ]))
    .await;
    assert!(
        text(&result.stdout).contains("watermark = true"),
        "{}",
        text(&result.stderr)
    );
}
