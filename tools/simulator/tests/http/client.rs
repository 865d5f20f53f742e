//! A client that hides nothing: the bytes received, and how the connection ended.

use std::io::ErrorKind;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// The other side closed it.
    Closed,
    /// The other side reset it.
    Reset,
}

/// A response as it was received.
#[derive(Debug)]
pub(crate) struct RawResponse {
    /// 0 if nothing was received.
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) end: ConnectionEnd,
}

impl RawResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1);
        lines
            .filter_map(|line| line.split_once(": "))
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("{error}: {}", String::from_utf8_lossy(&self.body));
        })
    }

    /// The length that was announced.
    pub(crate) fn length(&self) -> usize {
        self.header("content-length").unwrap().parse().unwrap()
    }
}

/// Sends one request on its own connection and reads everything that is received.
pub(crate) async fn send(address: SocketAddr, method: &str, path: &str, body: &str) -> RawResponse {
    let head = "content-type: application/json\r\nauthorization: Bearer key\r\n";
    send_with(address, method, path, head, body.as_bytes()).await
}

/// Like [`send`], with these headers.
pub(crate) async fn send_with(
    address: SocketAddr,
    method: &str,
    path: &str,
    head: &str,
    body: &[u8],
) -> RawResponse {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{head}content-length: {length}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut bytes = Vec::new();
    let end = match stream.read_to_end(&mut bytes).await {
        Ok(_) => ConnectionEnd::Closed,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => ConnectionEnd::Reset,
        Err(error) => panic!("{error}"),
    };
    let split = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let (head, body) = match split {
        Some(index) => (
            String::from_utf8(bytes[..index].to_vec()).unwrap(),
            bytes[index + 4..].to_vec(),
        ),
        None => (String::new(), bytes),
    };
    let status = head
        .split(' ')
        .nth(1)
        .map_or(0, |text| text.parse().unwrap());
    RawResponse {
        status,
        head,
        body,
        end,
    }
}
