//! Forms without an end.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::PATIENCE;
use crate::support::TestGateway;

/// Sends the beginning of a form and then the same again and again, as long as
/// the gateway takes it; how much that was, and the answer.
async fn pour(gateway: &TestGateway, path: &str, begin: &str, again: &[u8]) -> (usize, String) {
    let address = gateway.base.strip_prefix("http://").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut from, mut into) = stream.into_split();
    let reader = tokio::spawn(async move {
        let mut answer = Vec::new();
        let _ = from.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    });
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\
         content-type: multipart/form-data; boundary=b\r\ncontent-length: 100000000000\r\n\r\n{begin}",
        key = gateway.key.as_deref().unwrap(),
    );
    into.write_all(head.as_bytes()).await.unwrap();
    let again = again.repeat(65_536_usize.div_ceil(again.len()));
    let mut poured = 0;
    let pouring = async {
        while into.write_all(&again).await.is_ok() {
            poured += again.len();
        }
    };
    tokio::time::timeout(PATIENCE, pouring)
        .await
        .expect("the gateway takes it for ever");
    (poured, reader.await.unwrap())
}

#[tokio::test]
async fn forms_end_at_their_limits() {
    /// What a socket holds on its way, beside what the gateway reads.
    const ON_THE_WAY: usize = 12_000_000;
    let gateway = TestGateway::builder().without_workers().start().await;
    let head = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"x\"\r\n";
    let text = "--b\r\ncontent-disposition: form-data; name=\"x\"\r\n\r\n";
    let part = b"\r\n--b\r\ncontent-disposition: form-data; name=\"x\"\r\n\r\n";
    let cases: [(&str, &str, &[u8], usize); 8] = [
        ("/v1/videos", "", b"x", 0),
        ("/v1/videos", head, b"a: b\r\n", 0),
        ("/v1/videos", &format!("{head}a: "), b"b", 0),
        ("/v1/videos", text, part, 0),
        ("/v1/videos", text, b"x", 33_000_000),
        ("/musicgen/uploads/audio", head, b"a: b\r\n", 0),
        ("/musicgen/uploads/audio", text, part, 0),
        (
            "/musicgen/uploads/audio",
            &format!("{head}\r\n"),
            b"x",
            201_000_000,
        ),
    ];
    for (path, begin, again, most) in cases {
        let (poured, answer) = pour(&gateway, path, begin, again).await;
        let about = format!("{path} {begin:?} {poured}: {answer}");
        assert!(poured < most + ON_THE_WAY, "{about}");
        // The answer may be lost where the connection was cut in the middle of a write.
        let status = if most == 0 {
            "HTTP/1.1 400"
        } else {
            "HTTP/1.1 413"
        };
        assert!(answer.is_empty() || answer.starts_with(status), "{about}");
    }
    gateway.stop().await;
}
