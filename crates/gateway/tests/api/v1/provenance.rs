//! `POST /v1/provenance/check`, and what records tell of a file's origin.

use std::process::Command;

use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use crate::support::client::Answer;
use crate::support::files::Files;
use crate::support::gateway::upload;
use crate::support::program::{output, program, text};
use crate::support::{Client, TestGateway, eventually, sound};

const PATH: &str = "/v1/provenance/check";

/// Checks a file as a form.
pub(super) async fn check(client: &Client, file: Vec<u8>) -> Answer {
    let part = Part::bytes(file).file_name("file.bin");
    let request = client.request(Method::POST, PATH);
    client
        .send(request.multipart(Form::new().part("file", part)))
        .await
}

/// A drawn film: its task's id, its record and its bytes.
pub(super) async fn film(gateway: &TestGateway, more: Value) -> (String, Value, Vec<u8>) {
    let mut order = json!({"model": "animatic-1", "prompt": "a lake at dawn, slow pan left",
        "size": "854x480", "seconds": "3", "seed": 7});
    let fields = order.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
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

/// The file after ffmpeg: with these words it becomes another.
fn through_ffmpeg(file: &[u8], from: &str, words: &[&str], to: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join(format!("source.{from}"));
    let made = folder.path().join(format!("made.{to}"));
    std::fs::write(&source, file).unwrap();
    let done = Command::new("ffmpeg")
        .args(["-v", "error", "-threads", "1", "-i"])
        .arg(&source)
        .args(words)
        .arg(&made)
        .output()
        .expect("this test needs ffmpeg: apt-get install ffmpeg");
    assert!(done.status.success(), "{}", text(&done.stderr));
    std::fs::read(made).unwrap()
}

#[tokio::test]
async fn our_own_film_is_known_as_it_is_and_encoded_again() {
    let gateway = TestGateway::start().await;
    let (task, video, bytes) = film(&gateway, json!({})).await;
    let told = &video["provenance"];
    assert!(
        told["marks"]
            .as_array()
            .unwrap()
            .contains(&json!("watermark")),
        "{told}"
    );
    let found = check(&gateway, bytes.clone()).await.ok();
    assert_eq!(found["sha256"], video["sha256"]);
    assert_eq!(found["mime_type"], "video/mp4");
    assert_eq!(
        (&found["ours"]["exact"], &found["ours"]["watermarked"]),
        (&json!(true), &json!(true))
    );
    let first = &found["matches"][0];
    assert_eq!(
        (&first["match"], &first["kind"]),
        (&json!("exact"), &json!("video"))
    );
    assert_eq!(
        (&first["made_by"], &first["own"]),
        (&json!("embedded"), &json!(true))
    );
    assert_eq!(first["task_id"], task);
    assert_eq!(found["notes"], json!([]));

    let words = [
        "-c:v",
        "libx264",
        "-preset",
        "veryfast",
        "-crf",
        "30",
        "-vf",
        "scale=-2:360",
    ];
    let again = through_ffmpeg(&bytes, "mp4", &words, "mp4");
    let found = check(&gateway, again).await.ok();
    assert_eq!(found["ours"]["exact"], false);
    let near = found["matches"].as_array().unwrap();
    assert_eq!(near.len(), 1, "{found}");
    assert_eq!(near[0]["task_id"], task);
    if found["ours"]["watermarked"] == false {
        assert_eq!(
            (&near[0]["match"], &near[0]["of"]),
            (&json!("near"), &json!("video"))
        );
        assert!(near[0]["distance"].as_f64().unwrap() < 0.2);
    }

    // Somebody else learns when and by what kind of model, not who.
    let other = gateway.caller("others", NewKey::default()).await;
    let found = check(&other, bytes).await.ok();
    let first = &found["matches"][0];
    assert_eq!(
        (&first["match"], &first["own"]),
        (&json!("exact"), &json!(false))
    );
    assert!(first.get("task_id").is_none() && first["made_at"].is_string());
    gateway.stop().await;
}

#[tokio::test]
async fn a_film_without_a_watermark_is_known_by_its_likeness() {
    let gateway = TestGateway::builder()
        .toml("[provenance]\nwatermark = false")
        .start()
        .await;
    let (task, video, bytes) = film(&gateway, json!({})).await;
    assert!(
        !video["provenance"]["marks"]
            .as_array()
            .unwrap()
            .contains(&json!("watermark"))
    );
    let words = ["-c:v", "libx264", "-preset", "veryfast", "-crf", "32"];
    let again = through_ffmpeg(&bytes, "mp4", &words, "mp4");
    let found = check(&gateway, again).await.ok();
    assert_eq!(found["ours"]["watermarked"], false);
    let near = &found["matches"][0];
    assert_eq!(
        (&near["match"], &near["of"]),
        (&json!("near"), &json!("video")),
        "{found}"
    );
    assert_eq!(near["task_id"], task);
    // Codecs that are not decoded are said so.
    let words = ["-c:v", "mpeg4", "-q:v", "5"];
    let found = check(&gateway, through_ffmpeg(&bytes, "mp4", &words, "mp4"))
        .await
        .ok();
    let note = found["notes"][0].as_str().unwrap();
    assert!(note.contains("mp4v, not H.264"), "{note}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_hosted_film_is_known_by_its_likeness_and_one_from_a_picture_is_watermarked() {
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
    let more = json!({"model": "film", "seed": null});
    let (task, _, bytes) = film(&near, more).await;
    let words = ["-c:v", "libx264", "-crf", "32", "-vf", "scale=-2:360"];
    let again = through_ffmpeg(&bytes, "mp4", &words, "mp4");
    // It is looked at once its task is over.
    let found = eventually("the film is looked at", async || {
        let found = check(&near, again.clone()).await.ok();
        (!found["matches"].as_array()?.is_empty()).then_some(found)
    });
    let found = found.await;
    let like = &found["matches"][0];
    assert_eq!(
        (&like["match"], &like["of"], &like["made_by"]),
        (&json!("near"), &json!("video"), &json!("hosted")),
        "{found}"
    );
    assert_eq!(like["task_id"], task);
    far.stop().await;
    let picture = sound::data_url("image/png", &sound::png(64, 48));
    let more =
        json!({"input_reference": {"image_url": picture}, "seconds": "1", "size": "640x480"});
    let (_, video, bytes) = film(&near, more).await;
    let marks = video["provenance"]["marks"].as_array().unwrap();
    assert!(marks.contains(&json!("watermark")), "{video}");
    let found = check(&near, bytes).await.ok();
    assert_eq!(found["ours"]["watermarked"], true, "{found}");
    near.stop().await;
}

#[tokio::test]
async fn stems_are_known_after_lossy_coding() {
    let gateway = TestGateway::start().await;
    let clip = upload(&gateway, "Song", sound::wav(12, 3)).await;
    assert_eq!(clip["provenance"]["status"], "none", "{clip}");
    let task = gateway.separate(clip["id"].as_str().unwrap(), "two").await;
    let view = gateway.finished(task["id"].as_str().unwrap()).await;
    let stem = &view["output"]["clips"][0];
    assert!(stem["provenance"]["status"].is_string(), "{view}");
    let bytes = gateway.get(stem["audio_url"].as_str().unwrap()).await.bytes;
    let found = check(&gateway, bytes.to_vec()).await.ok();
    assert_eq!(found["matches"][0]["match"], "exact", "{found}");
    assert_eq!(found["matches"][0]["clip_id"], stem["id"]);
    assert_eq!(found["ours"]["watermarked"], false, "nobody asked for it");
    let mp3 = through_ffmpeg(&bytes, "flac", &["-b:a", "96k"], "mp3");
    let found = check(&gateway, mp3).await.ok();
    let near = &found["matches"][0];
    assert_eq!(
        (&near["match"], &near["of"]),
        (&json!("near"), &json!("sound")),
        "{found}"
    );
    assert_eq!(
        (&near["clip_id"], &near["kind"]),
        (&stem["id"], &json!("stem"))
    );
    gateway.stop().await;
}

/// A note in a hiss, which fills all bands that carry the mark.
fn rich_song() -> Vec<u8> {
    let mut noise = 1u32;
    let samples = (0..40 * 44_100u32).map(|at| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let hiss = (f64::from(noise >> 16) - 32_768.0) / 6.0;
        let turns = f64::from(at) * 440.0 / 44_100.0;
        let note = (turns * std::f64::consts::TAU).sin() * 6_000.0;
        #[expect(clippy::cast_possible_truncation, reason = "under half of full scale")]
        {
            (note + hiss) as i16
        }
    });
    sound::wav_of(44_100, 1, &samples.collect::<Vec<_>>())
}

#[tokio::test]
async fn stems_are_watermarked_where_the_operator_asks_and_so_is_their_sum() {
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
        let words = ["-ac", "1", "-ar", "44100", "-f", "f32le"];
        let raw = through_ffmpeg(file, from, &words, "raw");
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
    // They sum to the mix but for the mark, which is at least 24 dB below it.
    let mix = samples(&song, "wav");
    assert_eq!(sum.len(), mix.len());
    let power = |samples: &mut dyn Iterator<Item = f32>| samples.map(|x| x * x).sum::<f32>();
    let mark = power(&mut sum.iter().zip(&mix).map(|(a, b)| a - b));
    let ratio = 10.0 * (power(&mut mix.iter().copied()) / mark).log10();
    assert!((24.0..60.0).contains(&ratio), "{ratio} dB");
    // The sum has their mark, after a cut and lossy coding.
    #[expect(clippy::cast_possible_truncation, reason = "within full scale")]
    let sum: Vec<i16> = sum[150_001..]
        .iter()
        .map(|sample| (sample * 32_767.0).clamp(-32_768.0, 32_767.0) as i16)
        .collect();
    let sum = sound::wav_of(44_100, 1, &sum);
    let mp3 = through_ffmpeg(&sum, "wav", &["-b:a", "128k"], "mp3");
    let found = check(&gateway, mp3).await.ok();
    assert_eq!(found["ours"]["watermarked"], true, "{found}");
    let matches = found["matches"].as_array().unwrap();
    let named: Vec<&Value> = matches.iter().map(|found| &found["clip_id"]).collect();
    for stem in stems {
        assert!(named.contains(&&stem["id"]), "{found}");
    }
    assert_eq!(matches[0]["match"], "watermark");
    // The recording itself has none.
    let found = check(&gateway, song).await.ok();
    assert_eq!(found["ours"]["watermarked"], false);
    gateway.stop().await;
}

#[tokio::test]
async fn a_strangers_file_is_nobodys_and_damaged_ones_harm_nothing() {
    let files = Files::start().await;
    let gateway = TestGateway::builder().allow_loopback().start().await;
    let (_, _, bytes) = film(&gateway, json!({})).await;
    let found = gateway
        .post(PATH, &json!({"url": files.url("/song")}))
        .await
        .ok();
    assert_eq!(
        (&found["mime_type"], &found["matches"]),
        (&json!("audio/wav"), &json!([]))
    );
    assert_eq!(found["provenance"]["status"], "none");
    let found = gateway
        .post(PATH, &json!({"url": files.url("/text")}))
        .await
        .ok();
    assert_eq!(
        (&found["mime_type"], &found["provenance"]["status"]),
        (&Value::Null, &json!("unreadable"))
    );
    assert!(found["notes"][0].as_str().unwrap().contains("not MP4"));
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
    let nothing = gateway
        .request(Method::POST, PATH)
        .multipart(Form::new().text("title", "x"));
    gateway
        .send(nothing)
        .await
        .refused(400, "missing_field")
        .on_param("file");
    // Tables that lie, and a stream that is noise.
    let mut noise = bytes.clone();
    let from = noise.windows(4).position(|kind| kind == b"mdat").unwrap() + 4;
    for (at, byte) in noise.iter_mut().enumerate().skip(from).step_by(3) {
        *byte = byte
            .wrapping_mul(31)
            .wrapping_add(u8::try_from(at % 251).unwrap());
    }
    let mut tables = bytes.clone();
    let at = tables.windows(4).position(|kind| kind == b"stsz").unwrap();
    tables[at + 8..at + 24].fill(0xff);
    for hostile in [noise, tables, bytes[..bytes.len() / 2].to_vec(), Vec::new()] {
        let found = check(&gateway, hostile).await.ok();
        assert_eq!(found["ours"]["exact"], false);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn marks_that_came_in_are_told() {
    let gateway = TestGateway::start().await;
    let mut song = sound::wav(1, 1);
    let manifest = b"\0\0\0\x10jumbfoobar!!";
    song.extend(b"C2PA");
    song.extend(u32::try_from(manifest.len()).unwrap().to_le_bytes());
    song.extend(manifest);
    let length = u32::try_from(song.len() - 8).unwrap();
    song[4..8].copy_from_slice(&length.to_le_bytes());
    let found = check(&gateway, song).await.ok();
    assert_eq!(found["provenance"]["marks"], json!(["c2pa"]), "{found}");
    let expected = if cfg!(feature = "c2pa") {
        "invalid"
    } else {
        "unverified"
    };
    assert_eq!(found["provenance"]["status"], expected);
    // Who reads "unverified" is told why.
    let notes = found["notes"].to_string();
    assert_eq!(
        notes.contains("cannot verify"),
        !cfg!(feature = "c2pa"),
        "{notes}"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn strangers_may_ask_only_where_they_are_let_and_not_too_often() {
    let gateway = TestGateway::start().await;
    let song = sound::wav(1, 1);
    check(&gateway.without_key(), song.clone())
        .await
        .refused(401, "missing_api_key");
    let scopes = vec![Scope::VideoCreate];
    let poor = gateway
        .caller(
            "poor",
            NewKey {
                scopes,
                ..NewKey::default()
            },
        )
        .await;
    check(&poor, song.clone())
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
    // All at once: while one after the other is checked, there is room for another.
    let asked = (0..11).map(|_| check(&stranger, song.clone()));
    let answers = futures_util::future::join_all(asked).await;
    let (told, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|one| one.status == 200);
    assert_eq!((told.len(), refused.len()), (10, 1));
    refused[0].refused(429, "rate_limit_exceeded");
    check(&gateway, song).await.ok();
    gateway.stop().await;
}

#[tokio::test]
async fn a_label_is_burnt_in_and_hosted_models_have_none() {
    let gateway = TestGateway::start().await;
    let (_, plain, without) = film(&gateway, json!({"seconds": "1"})).await;
    let (_, labelled, with) = film(&gateway, json!({"seconds": "1", "label": "ai"})).await;
    assert!(plain.get("label_text").is_none() && without != with);
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
    // The corner has a black disk with white letters; without the label it has neither.
    let corner = |file: &[u8]| {
        let words = [
            "-frames:v",
            "1",
            "-vf",
            "crop=52:52:790:12,format=gray",
            "-f",
            "rawvideo",
        ];
        through_ffmpeg(file, "mp4", &words, "raw")
    };
    let dark = |bytes: &[u8]| bytes.iter().filter(|luma| **luma < 40).count() * 2 > bytes.len();
    assert!(dark(&corner(&with)));
    assert!(!dark(&corner(&without)));
    let chat = json!({"model": "animatic-1", "messages": [{"role": "user", "content": "a lake"}],
        "video": {"seconds": 1, "label": "ai"}});
    let made = gateway.post("/v1/chat/completions", &chat).await.ok();
    assert!(
        made["choices"][0]["message"]["video"]["label_text"].is_string(),
        "{made}"
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
async fn config_check_names_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    for (toml, said) in [
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
        let done = output(program(&[
            "config",
            "check",
            "--config",
            file.to_str().unwrap(),
        ]))
        .await;
        assert_eq!(done.status.code(), Some(2));
        assert!(text(&done.stderr).contains(said), "{}", text(&done.stderr));
    }
    std::fs::write(&file, "[provenance]\npublic = true").unwrap();
    let done = output(program(&[
        "config",
        "check",
        "--config",
        file.to_str().unwrap(),
    ]))
    .await;
    assert!(
        text(&done.stdout).contains("watermark = true"),
        "{}",
        text(&done.stderr)
    );
}
