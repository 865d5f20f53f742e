//! Endless forms.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::PATIENCE;
use crate::support::TestGateway;

/// Sends the beginning of a form and then the same bytes repeatedly, as long as
/// the gateway reads them; returns the bytes written and the answer.
async fn send_endless_form(
    gateway: &TestGateway,
    path: &str,
    beginning: &str,
    repeated: &[u8],
) -> (usize, String) {
    let address = gateway.base.strip_prefix("http://").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut read_half, mut write_half) = stream.into_split();
    let reader = tokio::spawn(async move {
        let mut answer = Vec::new();
        let _ = read_half.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    });
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\
         content-type: multipart/form-data; boundary=b\r\ncontent-length: 100000000000\r\n\r\n{beginning}",
        key = gateway.key.as_deref().unwrap(),
    );
    write_half.write_all(head.as_bytes()).await.unwrap();
    let repeated = repeated.repeat(65_536_usize.div_ceil(repeated.len()));
    let mut written = 0;
    let writing = async {
        while write_half.write_all(&repeated).await.is_ok() {
            written += repeated.len();
        }
    };
    tokio::time::timeout(PATIENCE, writing)
        .await
        .expect("the gateway reads forever");
    (written, reader.await.unwrap())
}

#[tokio::test]
async fn forms_end_at_their_limits() {
    /// The capacity of socket buffers, in addition to what the gateway reads.
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
    for (path, beginning, repeated, limit) in cases {
        let (written, answer) = send_endless_form(&gateway, path, beginning, repeated).await;
        let context = format!("{path} {beginning:?} {written}: {answer}");
        assert!(written < limit + ON_THE_WAY, "{context}");
        // The answer may be lost where the connection was cut in the middle of a write.
        let status = if limit == 0 {
            "HTTP/1.1 400"
        } else {
            "HTTP/1.1 413"
        };
        assert!(answer.is_empty() || answer.starts_with(status), "{context}");
    }
    gateway.stop().await;
}
