//! A client that hides nothing: what came over the wire, and how it ended.

use std::io::ErrorKind;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The other side closed it.
    Closed,
    /// The other side reset it.
    Reset,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Came {
    /// 0 when nothing came.
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) ended: Ended,
}

impl Came {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1);
        lines
            .filter_map(|line| line.split_once(": "))
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
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

/// Sends one request on a connection of its own and takes everything that comes.
pub(crate) async fn send(address: SocketAddr, method: &str, path: &str, body: &str) -> Came {
    let head = "content-type: application/json\r\nauthorization: Bearer key\r\n";
    send_with(address, method, path, head, body.as_bytes()).await
}

/// With headers of one's own.
pub(crate) async fn send_with(
    address: SocketAddr,
    method: &str,
    path: &str,
    head: &str,
    body: &[u8],
) -> Came {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{head}content-length: {length}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut all = Vec::new();
    let ended = match stream.read_to_end(&mut all).await {
        Ok(_) => Ended::Closed,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ended::Reset,
        Err(error) => panic!("{error}"),
    };
    let split = all.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, body) = match split {
        Some(at) => (
            String::from_utf8(all[..at].to_vec()).unwrap(),
            all[at + 4..].to_vec(),
        ),
        None => (String::new(), all),
    };
    let status = head
        .split(' ')
        .nth(1)
        .map_or(0, |text| text.parse().unwrap());
    Came {
        status,
        head,
        body,
        ended,
    }
}
