//! Bodies of requests, through the whole application: router, key check, readers,
//! domain and database.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Request, header};
use axum::response::Response;
use base64::Engine as _;
use http_body_util::BodyExt as _;
use mediagate_config::{Config, Settings};
use mediagate_core::app::App;
use mediagate_core::domain::keys::NewKey;
use mediagate_core::domain::{accounts, keys};
use mediagate_model::clock::Clock;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

use crate::FuzzTarget;

pub(crate) const JSON: FuzzTarget = FuzzTarget {
    name: "json",
    run: json,
    seeds: bodies,
    cases: 600,
};

pub(crate) const FORM: FuzzTarget = FuzzTarget {
    name: "form",
    run: form,
    seeds: forms,
    cases: 120,
};

const ENDPOINTS: [&str; 6] = [
    "/v1/chat/completions",
    "/v1/videos",
    "/v1/quote",
    "/musicgen/submit/music",
    "/musicgen/fetch",
    "/musicgen/persona/create",
];

/// The first byte selects the endpoint to which the rest is sent.
fn json(bytes: &[u8]) {
    if let [selector, body @ ..] = bytes {
        let path = ENDPOINTS[usize::from(*selector) % ENDPOINTS.len()];
        GATEWAY.post(path, "application/json", body);
    }
}

/// Like [`json()`], for forms with the boundary `b`.
fn form(bytes: &[u8]) {
    if let [selector, body @ ..] = bytes {
        let path = ["/v1/videos", "/musicgen/uploads/audio"][usize::from(*selector) % 2];
        GATEWAY.post(path, "multipart/form-data; boundary=b", body);
    }
}

/// A gateway without workers: orders stay queued.
struct FuzzGateway {
    runtime: Runtime,
    router: Router,
    key: String,
    _data: tempfile::TempDir,
}

static GATEWAY: LazyLock<FuzzGateway> = LazyLock::new(|| {
    // Ignored: this fails only if a provider is installed already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let data = tempfile::tempdir().unwrap();
    let mut settings = Settings {
        data: Some(data.path().join("data")),
        // There are no workers, so a request that waits for its result would wait for the limit.
        wait_limit: Some(Duration::from_millis(1)),
        ..Settings::default()
    };
    // Without a port no URL in a body can make the gateway connect to anything.
    settings.fetch.allow_ports = Some(Vec::new());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut config = Config::load(&settings).unwrap();
    config.program = program();
    let app = App::open(config, Clock::system()).unwrap();
    let key = runtime.block_on(async {
        let account = accounts::ensure(&app, "anyone").await.unwrap();
        let new = NewKey {
            // All cases come from one key. With the usual limits most would end in a 429, before
            // the readers.
            rpm: Some(1_000_000),
            max_running: Some(1_000_000),
            ..NewKey::default()
        };
        let (_, secret) = keys::create(&app, &account, new).await.unwrap();
        secret.expose().to_owned()
    });
    FuzzGateway {
        router: mediagate_http::router(&app),
        runtime,
        key,
        _data: data,
    }
});

/// The program that is started as the decoding children: the one in `MEDIAGATE_TEST_PROGRAM`, else
/// the one that was built next to this one.
fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("MEDIAGATE_TEST_PROGRAM") {
        return path.into();
    }
    let executable = std::env::current_exe().unwrap();
    let candidates = executable
        .ancestors()
        .map(|folder| folder.join("mediagate"));
    let program = candidates.into_iter().find(|path| path.is_file());
    assert!(
        program.is_some(),
        "build the program first (cargo build), or name one by MEDIAGATE_TEST_PROGRAM"
    );
    program.unwrap_or_default()
}

impl FuzzGateway {
    /// Sends a body, and checks that the response is one that the API documents.
    fn post(&self, path: &str, kind: &str, body: &[u8]) {
        let request = Request::post(path)
            .header(header::AUTHORIZATION, format!("Bearer {}", self.key))
            .header(header::CONTENT_TYPE, kind)
            .body(Body::from(body.to_vec()))
            .unwrap();
        let (status, bytes) = self.runtime.block_on(async {
            let answer = self.router.clone().oneshot(request).await.unwrap();
            (answer.status().as_u16(), read(answer).await)
        });
        if status == 200 {
            return;
        }
        let text = String::from_utf8_lossy(&bytes);
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let code = answer["error"]["code"].as_str().unwrap_or_default();
        // An answer without a code is not the API's own but the framework's, which no document
        // describes.
        assert!(!code.is_empty(), "{status} {text}");
        // `still_running` is right here: the wait ends after a millisecond.
        let is_expected = status < 500 || code == "still_running";
        assert!(is_expected, "{status} {text}");
    }
}

/// An answer's body. A stream lasts until its order ends, and there are no workers here, so only
/// its first event is read.
async fn read(answer: Response) -> Bytes {
    let kind = answer.headers().get(header::CONTENT_TYPE);
    let is_stream = kind.is_some_and(|kind| kind == "text/event-stream");
    let mut body = answer.into_body();
    if !is_stream {
        return body.collect().await.unwrap().to_bytes();
    }
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"data: {"), "{first:?}");
    first
}

fn bodies() -> Vec<Vec<u8>> {
    let id = "01970000-0000-4000-8000-00000000c0de";
    let picture = format!(
        "data:image/png;base64,{}",
        base64::engine::general_purpose::STANDARD.encode(png())
    );
    let chat = json!({
        "model": "animatic-1", "n": 2, "temperature": 0.5, "user": "u", "seed": 7, "max_tokens": 500, "stop": ["a"],
        "messages": [{"role": "system", "content": "be brief"},
                     {"role": "user", "content": [{"type": "text", "text": "a lake"}, {"type": "image_url", "image_url": {"url": picture}}]}],
        "video": {"size": "480x480", "seconds": 1, "seed": 3, "negative_prompt": ""},
    });
    let stream = json!({"model": "animatic-1", "messages": [{"role": "user", "content": "a lake"}], "stream": true, "stream_options": {"include_usage": true}});
    let video = json!({"model": "animatic-1", "prompt": "a lake", "size": "480x480", "seconds": "1", "input_reference": {"image_url": picture}});
    let quote = json!({"endpoint": "/v1/videos", "body": {"model": "animatic-1", "prompt": "a lake", "seconds": "1"}});
    let music = json!({"task": "gen_stem", "continue_clip_id": id, "stem_task": "two", "stem_type_id": 91, "stem_type_group_name": "Vocals",
                       "generation_type": "TEXT", "make_instrumental": false, "title": "", "mv": "stems-dsp-1"});
    let fetch = json!({"ids": [id], "action": "MUSIC"});
    let persona = json!({"name": "a", "description": "b", "root_clip_id": id, "clips": [id], "is_public": true});
    let requests = [
        (0, chat),
        (0, stream),
        (1, video),
        (2, quote),
        (3, music),
        (4, fetch),
        (5, persona),
    ];
    requests
        .map(|(selector, body)| [&[selector][..], body.to_string().as_bytes()].concat())
        .into()
}

fn forms() -> Vec<Vec<u8>> {
    let part = |head: &str, content: &[u8]| {
        let head = format!("--b\r\nContent-Disposition: form-data; {head}\r\n\r\n");
        [head.as_bytes(), content, b"\r\n"].concat()
    };
    let form_seed =
        |selector: u8, parts: &[Vec<u8>]| [&[selector][..], &parts.concat(), b"--b--\r\n"].concat();
    let text_field = |name: &str, value: &str| part(&format!("name=\"{name}\""), value.as_bytes());
    let picture = "name=\"input_reference\"; filename=\"a.png\"\r\nContent-Type: image/png";
    let song = "name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav";
    vec![
        form_seed(
            0,
            &[
                text_field("prompt", "a lake"),
                text_field("size", "480x480"),
                text_field("seconds", "1"),
                text_field("model", "animatic-1"),
                part(picture, &png()),
            ],
        ),
        form_seed(1, &[part(song, &wav()), text_field("title", "Song")]),
    ]
}

fn png() -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let picture = image::RgbImage::from_pixel(64, 64, image::Rgb([200, 90, 30]));
    picture
        .write_to(&mut bytes, image::ImageFormat::Png)
        .unwrap();
    bytes.into_inner()
}

/// A tenth of a second of sound.
fn wav() -> Vec<u8> {
    let samples: Vec<u8> = (0..800_u32)
        .flat_map(|n| (n * 40 % 8000).to_le_bytes()[..2].to_vec())
        .collect();
    let length = u32::try_from(samples.len()).unwrap();
    let numbers = |numbers: &[u32]| -> Vec<u8> {
        numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect()
    };
    [
        &b"RIFF"[..],
        &numbers(&[36 + length]),
        b"WAVEfmt ",
        &numbers(&[16, 0x0001_0001, 8000, 16_000, 0x0010_0002]),
        b"data",
        &numbers(&[length]),
        &samples,
    ]
    .concat()
}
