//! `HAProxy` before several gateways, with the settings that `deploy/` has.

use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};

use super::cluster::find_program;
use crate::process::{eventually, free_port};

const SETTINGS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../deploy/proxy/haproxy.cfg"
);

/// A proxy that ends when this value is dropped.
pub(crate) struct Balancer {
    child: Child,
    pub(crate) base: String,
    _folder: tempfile::TempDir,
}

/// The deployed settings, with these gateways instead of those that a name server lists.
fn settings(port: u16, gateways: &[u16]) -> String {
    let deployed = std::fs::read_to_string(SETTINGS).unwrap();
    let (before, resolvers) = deployed.split_once("resolvers container_names\n").unwrap();
    let (_, after) = resolvers.split_once("\n\n").unwrap();
    let text = format!("{before}{after}");
    let (text, template) = text.split_once("    server-template gateway ").unwrap();
    assert!(template.trim_end().lines().count() == 1, "{template}");
    assert!(text.contains("bind :8080\n"), "{text}");
    let mut text = text.replace("bind :8080\n", &format!("bind 127.0.0.1:{port}\n"));
    // A build machine may allow a process few open files.
    text = text.replace("    maxconn 8000\n", "    maxconn 500\n");
    for gateway in gateways {
        writeln!(text, "    server gateway{gateway} 127.0.0.1:{gateway}").unwrap();
    }
    text
}

impl Balancer {
    pub(crate) async fn in_front_of(gateways: &[u16]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (file, port) = (folder.path().join("haproxy.cfg"), free_port());
        std::fs::write(&file, settings(port, gateways)).unwrap();
        let program =
            find_program("haproxy").expect("HAProxy is not installed; ./scripts/test installs it");
        let mut command = Command::new(program);
        let command = command.args(["-q", "-db", "-f"]).arg(&file);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = child.stderr(Stdio::null()).spawn().unwrap();
        eventually("the proxy listens", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", port))
                .await
                .ok()
        })
        .await;
        Self {
            child,
            base: format!("http://127.0.0.1:{port}"),
            _folder: folder,
        }
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
