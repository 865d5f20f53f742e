//! A NATS server of one's own.

use std::net::SocketAddr;
use std::process::{Child, Stdio};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::cluster::find;
use crate::process::{eventually, free_port};

/// A NATS server that ends with this value.
pub(crate) struct Nats {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Nats {
    pub(crate) async fn start() -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let child = Self::launch(address).await;
        Self { child, address }
    }

    async fn launch(address: SocketAddr) -> Child {
        let program =
            find("nats-server").expect("nats-server is not installed; ./scripts/test installs it");
        let port = address.port().to_string();
        let mut command = std::process::Command::new(program);
        let command = command.args(["--addr", "127.0.0.1", "--port", &port]);
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        eventually("NATS listens", async || {
            tokio::net::TcpStream::connect(address).await.ok()
        })
        .await;
        child.unwrap()
    }

    /// Starts it where it was killed.
    pub(crate) async fn start_again(&mut self) {
        self.child = Self::launch(self.address).await;
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let sent = std::process::Command::new("kill")
            .args([signal, &id])
            .status();
        assert!(sent.unwrap().success());
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends messages with these subjects, as anybody who reaches the server can.
    pub(crate) async fn forge(&self, subjects: &[&str]) {
        let mut stream = tokio::net::TcpStream::connect(self.address).await.unwrap();
        let mut said = "CONNECT {\"verbose\":false}\r\n".to_owned();
        for subject in subjects {
            said.extend(["PUB ", subject, " 4\r\njunk\r\n"]);
        }
        said += "PING\r\n";
        stream.write_all(said.as_bytes()).await.unwrap();
        let mut heard = Vec::new();
        while !heard.windows(4).any(|four| four == b"PONG") {
            let mut some = [0; 1024];
            let count = stream.read(&mut some).await.unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&heard));
            heard.extend_from_slice(&some[..count]);
        }
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
