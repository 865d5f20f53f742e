//! Pictures and recordings that are small to send and large when decoded. The real
//! program gets less memory than all of them would take together.

use std::io::Cursor;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use stems::encode::FlacWriter;

use crate::support::program::Server;
use crate::support::{Client, eventually, sound};

/// Address space for the program, as `ulimit -v` counts it: 3 GiB. Threads reserve much of it for their heaps: 13 of
/// them, on a busy machine, took 2.06 GB.
const LIMIT: &str = "-v 3145728";

async fn start(data: &std::path::Path) -> (Server, Client) {
    let server = Server::start_within(LIMIT, data, &[]).await;
    let client = Client::new(&server.base, Some(&server.first_key().await));
    (server, client)
}

async fn assert_alive(client: &Client) {
    assert_eq!(client.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn pictures_are_decoded_within_the_memory_limit() {
    let folder = tempfile::tempdir().unwrap();
    let picture = sound::data_url("image/png", &black_png(7_000));
    let (server, client) = start(folder.path()).await;
    let body = json!({"model": "animatic-1", "prompt": "still", "seconds": "1", "size": "854x480", "input_reference": {"image_url": picture}});
    let quote = json!({"endpoint": "/v1/videos", "body": body});
    // Written once: a connection without a request for 15 s is closed, and a busy machine takes that
    // long to write twenty bodies.
    let [quote, body] = [quote, body].map(|body| Bytes::from(body.to_string()));
    let post = |path, body: &Bytes| {
        let request = client.request(reqwest::Method::POST, path);
        let request = request.header("content-type", "application/json");
        client.send(request.body(body.clone()))
    };
    let quotes = (0..8).map(|_| post("/v1/quote", &quote));
    let orders = (0..12).map(|_| post("/v1/videos", &body));
    let (quotes, orders) = tokio::join!(
        futures_util::future::join_all(quotes),
        futures_util::future::join_all(orders)
    );
    for answer in quotes.into_iter().chain(orders) {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_alive(&client).await;
    // Two at a time fit into `decoding_memory_mb`, however many arrive.
    assert_peak_memory(1400 << 20, &server);
    server.crash();
}

#[tokio::test]
async fn hanging_up_frees_no_memory_that_is_still_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let silence = silence(8, 16_000, 890);
    let (server, client) = start(folder.path()).await;
    for _ in 0..7 {
        let upload = upload(&client, &silence);
        let _ = tokio::time::timeout(Duration::from_millis(300), upload).await;
    }
    let clip = upload(&client, &silence).await;
    assert_alive(&client).await;
    // The clip is separated into all groups of the model.
    let order = json!({"task": "gen_stem", "continue_clip_id": clip["id"], "stem_task": "twelve"});
    let task = client.post("/musicgen/submit/music", &order).await.ok();
    let path = format!("/v1/tasks/{}?wait=30", task["id"].as_str().unwrap());
    let ended = eventually("the separation ends", async || {
        let task = client.get(&path).await.ok();
        (task["finished_at"] != Value::Null).then_some(task)
    })
    .await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert_peak_memory(700 << 20, &server);
    server.crash();
}

/// Asserts a limit on the peak memory of the process, in bytes.
#[expect(clippy::print_stdout, reason = "docs/security.md has the figures")]
fn assert_peak_memory(limit: u64, server: &Server) {
    let peak = server.peak_memory();
    println!("peak: {} MiB", peak >> 20);
    assert!(peak <= limit, "{} MiB", peak >> 20);
}

async fn upload(client: &Client, file: &[u8]) -> Value {
    let part = reqwest::multipart::Part::bytes(file.to_vec()).file_name("silence.flac");
    let form = reqwest::multipart::Form::new().part("file", part);
    let request = client.request(reqwest::Method::POST, "/musicgen/uploads/audio");
    client.send(request.multipart(form)).await.ok()
}

/// Silence as FLAC: a few kilobytes that decode to hundreds of megabytes.
fn silence(channels: usize, rate: u32, seconds: usize) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let mut flac = FlacWriter::new(&mut file, rate, channels).unwrap();
    let second = vec![vec![0.0; rate as usize]; channels];
    for _ in 0..seconds {
        flac.push(&second).unwrap();
    }
    flac.finish().unwrap();
    file.into_inner()
}

/// A black square in 16-bit RGBA: all of its bytes but the first are encoded
/// as copies of 258 bytes, in 13 bits each.
fn black_png(side: u32) -> Vec<u8> {
    const COPY_LENGTH: u64 = 258;
    let zeros = u64::from(side) * (1 + 8 * u64::from(side));
    let mut bits = Bits::default();
    // One final block, with the fixed codes.
    bits.push(0b011, 3);
    let zero = |bits: &mut Bits| bits.push(0b0000_1100, 8);
    zero(&mut bits);
    for _ in 0..(zeros - 1) / COPY_LENGTH {
        // Length 258, from one byte before.
        bits.push(0b1010_0011, 8);
        bits.push(0, 5);
    }
    for _ in 0..(zeros - 1) % COPY_LENGTH {
        zero(&mut bits);
    }
    bits.push(0, 7);
    let mut zlib = vec![0x78, 0x01];
    zlib.extend(bits.done());
    let checksum = u32::try_from(zeros % 65_521).unwrap() << 16 | 1;
    zlib.extend(checksum.to_be_bytes());
    let mut header = [side.to_be_bytes(), side.to_be_bytes()].concat();
    header.extend([16, 6, 0, 0, 0]);
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, content) in [(b"IHDR", header), (b"IDAT", zlib), (b"IEND", Vec::new())] {
        let body = [&kind[..], &content].concat();
        png.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
        png.extend(&body);
        png.extend(crc32fast::hash(&body).to_be_bytes());
    }
    png
}

/// Bits, the lowest first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    pending: u32,
    count: u32,
}

impl Bits {
    fn push(&mut self, bits: u32, count: u32) {
        self.pending |= bits << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.pending.to_le_bytes()[0]);
            self.pending >>= 8;
            self.count -= 8;
        }
    }

    fn done(mut self) -> Vec<u8> {
        self.push(0, 7);
        self.bytes
    }
}
