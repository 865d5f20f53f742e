//! Downloads: a result arrives complete, or not at all.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use providers::driver::{DownloadError, DownloadedFile, ProviderRules};
use providers::{Call, ErrorClass, OutputSource};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};

use super::plain::{provider, secret};
use super::server::{CLOSE, ReceivedRequest, Reply, Server, answer, head};

const SIZE: usize = 300_000;

fn content() -> Vec<u8> {
    (0..SIZE)
        .map(|index| u8::try_from(index % 251).unwrap())
        .collect()
}

async fn fetch(
    server: &Server,
    source: OutputSource,
) -> Result<(DownloadedFile, Vec<u8>), DownloadError> {
    let rules = ProviderRules {
        max_result_bytes: SIZE as u64,
        ..ProviderRules::default()
    };
    let provider = provider(&server.url(), &json!({}), rules);
    let mut file = tokio::fs::File::from_std(tempfile::tempfile().unwrap());
    let driver = providers::driver::Driver::new();
    let downloaded = driver
        .download(&provider, &secret(), &source, &mut file)
        .await?;
    let mut bytes = Vec::new();
    file.rewind().await.unwrap();
    file.read_to_end(&mut bytes).await.unwrap();
    Ok((downloaded, bytes))
}

async fn fetch_address(server: &Server) -> Result<(DownloadedFile, Vec<u8>), DownloadError> {
    let url = format!("{}/result.mp4?signature=1", server.url());
    fetch(server, OutputSource::Address(url)).await
}

fn check((downloaded, bytes): &(DownloadedFile, Vec<u8>)) {
    assert!(*bytes == content(), "the content arrives exactly once");
    assert_eq!(downloaded.size_bytes, SIZE as u64);
    let digest = Sha256::digest(content());
    let hex: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(downloaded.sha256, hex.concat());
}

/// Sends at most `max_bytes` of the requested rest, and then closes the connection.
fn partial_reply(request: &ReceivedRequest, max_bytes: usize, supports_ranges: bool) -> Reply {
    let content = content();
    let start = request
        .header("range")
        .filter(|_| supports_ranges)
        .map_or(0, |range| {
            assert_eq!(request.header("if-range"), Some("\"v1\""));
            let start = range.strip_prefix("bytes=").unwrap().strip_suffix('-');
            start.unwrap().parse().unwrap()
        });
    let rest = &content[start..];
    let range = format!("bytes {start}-{}/{SIZE}", SIZE - 1);
    let mut headers = vec![("content-type", "video/mp4; codecs=x"), ("etag", "\"v1\"")];
    let status = if start > 0 { 206 } else { 200 };
    if start > 0 {
        headers.push(("content-range", &range));
    }
    let head = head(status, &headers, rest.len());
    let sent = &rest[..max_bytes.min(rest.len())];
    Reply::AndClose([head.as_bytes(), sent].concat())
}

#[tokio::test]
async fn a_download_resumes_where_it_broke_off() {
    // Five parts: a download that has to start over gets only three tries.
    let server = Server::start(|request| partial_reply(request, SIZE / 5 + 1, true)).await;
    let download = fetch_address(&server).await.unwrap();
    check(&download);
    assert_eq!(download.0.mime.as_deref(), Some("video/mp4"));
    assert_eq!(server.received().len(), 5);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the server ends with its client")]
async fn a_download_that_drips_ends_and_is_not_tried_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let dripping = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // A response that comes before its request is no response.
        stream.read_exact(&mut [0; 16]).await.unwrap();
        let head = head(200, &[("content-type", "video/mp4")], SIZE);
        stream.write_all(head.as_bytes()).await.unwrap();
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        listener
    });
    let rules = ProviderRules {
        least_download: (SIZE as u64 / 2, Duration::from_millis(50)),
        ..ProviderRules::default()
    };
    let provider = provider(&base, &json!({}), rules);
    let mut file = tokio::fs::File::from_std(tempfile::tempfile().unwrap());
    let source = OutputSource::Address(format!("{base}/result.mp4"));
    let driver = providers::driver::Driver::new();
    let download = driver
        .download(&provider, &secret(), &source, &mut file)
        .await;
    let error = download.unwrap_err();
    assert!(matches!(error, DownloadError::TooSlow), "{error}");
    let listener = dripping.await.unwrap();
    let again = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
    assert!(again.is_err(), "its turn is over");
}

#[tokio::test]
async fn a_download_starts_over_if_it_cannot_resume() {
    let number = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let is_last = number.fetch_add(1, Ordering::Relaxed) == 2;
        partial_reply(request, if is_last { SIZE } else { SIZE - 10 }, false)
    })
    .await;
    check(&fetch_address(&server).await.unwrap());
    assert_eq!(server.received().len(), 3);
}

#[tokio::test]
async fn a_short_body_is_no_success() {
    let server = Server::start(|request| partial_reply(request, SIZE - 1, false)).await;
    let error = fetch_address(&server).await.unwrap_err();
    assert!(
        matches!(error, DownloadError::Failed(error) if error.class == ErrorClass::Unavailable)
    );
    assert_eq!(server.received().len(), 3);
}

#[tokio::test]
async fn a_result_that_changed_is_fetched_again() {
    let number = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        match number.fetch_add(1, Ordering::Relaxed) {
            0 => partial_reply(request, 100, true),
            // A different part than requested.
            1 => answer(206, &[("content-range", "bytes 7-9/10")], b"abc"),
            _ => {
                assert_eq!(request.header("range"), None);
                partial_reply(request, SIZE, true)
            }
        }
    })
    .await;
    check(&fetch_address(&server).await.unwrap());
}

#[tokio::test]
async fn files_that_are_too_large_are_not_fetched() {
    let with_length = Server::start(|_| answer(200, &[], &[content(), vec![1]].concat())).await;
    let error = fetch_address(&with_length).await.unwrap_err();
    assert!(matches!(error, DownloadError::TooLarge { limit_bytes } if limit_bytes == SIZE as u64));
    // Without a length, the excess is noticed only during the download.
    let without_length = Server::start(|_| {
        let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
        Reply::AndClose([&head[..], &content(), b"x"].concat())
    })
    .await;
    let error = fetch_address(&without_length).await.unwrap_err();
    assert!(matches!(error, DownloadError::TooLarge { .. }));
    assert_eq!(
        (
            with_length.received().len(),
            without_length.received().len()
        ),
        (1, 1)
    );
}

#[tokio::test]
async fn an_expired_url_is_reported_without_a_retry() {
    for status in [401, 403, 404, 410] {
        let server = Server::start(move |_| answer(status, &[], b"<Error/>")).await;
        let error = fetch_address(&server).await.unwrap_err();
        assert!(matches!(error, DownloadError::Expired), "{status}");
        assert_eq!(server.received().len(), 1);
    }
}

#[tokio::test]
async fn a_temporary_failure_is_retried_and_a_permanent_one_is_not() {
    let number = AtomicUsize::new(0);
    let server = Server::start(
        move |request| match number.fetch_add(1, Ordering::Relaxed) {
            0 => CLOSE,
            1 => answer(503, &[], b""),
            _ => partial_reply(request, SIZE, true),
        },
    )
    .await;
    check(&fetch_address(&server).await.unwrap());
    let rejecting = Server::start(|_| answer(400, &[], b"")).await;
    let error = fetch_address(&rejecting).await.unwrap_err();
    assert!(matches!(error, DownloadError::Failed(_)));
    assert_eq!(rejecting.received().len(), 1);
}

#[tokio::test]
async fn the_credential_is_sent_only_with_a_call() {
    let server = Server::start(|request| partial_reply(request, SIZE, true)).await;
    check(&fetch_address(&server).await.unwrap());
    let call = Call::get("content", "/content");
    let source = OutputSource::Call(Box::new(call));
    check(&fetch(&server, source).await.unwrap());
    let received = server.received();
    assert_eq!(received[0].header("authorization"), None);
    assert_eq!(
        received[1].header("authorization"),
        Some("Bearer plain-secret-4711")
    );
}

#[tokio::test]
async fn inline_results_are_written_too() {
    let server = Server::start(|_| CLOSE).await;
    let source = OutputSource::Bytes(Bytes::from(content()));
    check(&fetch(&server, source).await.unwrap());
    let error = fetch(&server, OutputSource::Nothing).await.unwrap_err();
    assert!(matches!(error, DownloadError::Failed(_)));
    assert!(server.received().is_empty());
}
