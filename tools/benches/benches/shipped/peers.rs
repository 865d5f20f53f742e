//! Peers that could be put in front of the upstream instead: nginx and `HAProxy`, one process each,
//! and those that the user of this benchmark has running.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use benches::gateway_process::{free_address, on_gateway_cpu};

use crate::chats::ChatTarget;

pub(crate) const CHAT: &str = "/v1/chat/completions";

/// Peers in front of one upstream. Dropping this ends them.
pub(crate) struct Peers {
    upstream: SocketAddr,
    started: Vec<(&'static str, Child, SocketAddr)>,
    _folder: tempfile::TempDir,
}

impl Drop for Peers {
    fn drop(&mut self) {
        for (_, child, _) in &mut self.started {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

pub(crate) fn start(upstream: SocketAddr) -> Peers {
    let folder = tempfile::tempdir().unwrap();
    let mut started = Vec::new();
    for (name, start) in [("nginx", nginx as Start), ("haproxy", haproxy)] {
        if is_installed(name) {
            let address = free_address();
            let child = start(folder.path(), address, upstream).unwrap();
            wait_for(address);
            started.push((name, child, address));
        }
    }
    Peers {
        upstream,
        started,
        _folder: folder,
    }
}

type Start = fn(&Path, SocketAddr, SocketAddr) -> std::io::Result<Child>;

impl Peers {
    pub(crate) fn direct(&self) -> ChatTarget {
        chat_target("direct", self.upstream, None)
    }

    pub(crate) fn targets(&self) -> Vec<ChatTarget> {
        let own = self.started.iter();
        own.map(|(name, child, address)| chat_target(name, *address, Some(child.id().to_string())))
            .collect()
    }
}

/// The peers in `RACE_PEERS`, separated by commas: `name|address|process|model`.
pub(crate) fn targets_from_env() -> Vec<ChatTarget> {
    let peer_list = std::env::var("RACE_PEERS").unwrap_or_default();
    let headers = std::env::var("RACE_HEADERS").unwrap_or_default();
    let headers = headers.split(';').filter(|header| !header.is_empty());
    let headers: String = headers.flat_map(|header| ["\r\n", header.trim()]).collect();
    let peers = peer_list.split(',').filter(|peer| !peer.is_empty());
    peers
        .map(|peer| {
            let parts: Vec<&str> = peer.split('|').collect();
            let [name, url, process, model] = parts.try_into().unwrap();
            let url: url::Url = url.parse().unwrap();
            let address = url.socket_addrs(|| None).unwrap()[0];
            ChatTarget {
                path: url.path().into(),
                model: model.into(),
                headers: headers.clone(),
                ..chat_target(name, address, Some(process.into()))
            }
        })
        .collect()
}

fn chat_target(name: &str, address: SocketAddr, process: Option<String>) -> ChatTarget {
    ChatTarget {
        name: name.into(),
        address,
        path: CHAT.into(),
        process,
        model: "film".into(),
        key: "k".into(),
        headers: String::new(),
    }
}

/// Whether a program is on the PATH.
pub(crate) fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Waits until a program listens.
pub(crate) fn wait_for(address: SocketAddr) {
    let started = Instant::now();
    while std::net::TcpStream::connect(address).is_err() {
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "{address} is silent"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn nginx(folder: &Path, address: SocketAddr, upstream: SocketAddr) -> std::io::Result<Child> {
    // Connections are kept open on both sides: otherwise nginx would open one for each request and
    // lose the race by that alone.
    let upstream =
        format!("upstream up {{ server {upstream}; keepalive 512; keepalive_requests 1000000; }}");
    let location = "location / { proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection \"\"; }";
    start_nginx(folder, address, &upstream, location)
}

/// nginx without a master process, so that all CPU time is that of the child.
pub(crate) fn start_nginx(
    folder: &Path,
    address: SocketAddr,
    http: &str,
    server: &str,
) -> std::io::Result<Child> {
    let root = folder.display();
    // nginx closes connections after a thousand requests by default, which would look like a
    // failure.
    let text = format!(
        "daemon off; master_process off; pid {root}/nginx.pid; error_log {root}/nginx.log;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; client_body_temp_path {root}/body; proxy_temp_path {root}/proxy;\n\
           fastcgi_temp_path {root}/fastcgi; uwsgi_temp_path {root}/uwsgi; scgi_temp_path {root}/scgi;\n\
           keepalive_requests 1000000000; {http}\n\
           server {{ listen {address}; {server} }} }}\n"
    );
    let file = folder.join("nginx.conf");
    std::fs::write(&file, text)?;
    let mut nginx = on_gateway_cpu("nginx");
    nginx.arg("-p").arg(folder).arg("-c").arg(file);
    nginx.stdin(Stdio::null()).stderr(Stdio::null()).spawn()
}

fn haproxy(folder: &Path, address: SocketAddr, upstream: SocketAddr) -> std::io::Result<Child> {
    let text = format!(
        "global\n  nbthread 1\n  maxconn 4096\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  \
         timeout server 60s\n  option http-keep-alive\nfrontend f\n  bind {address}\n  default_backend b\n\
         backend b\n  http-reuse always\n  server up {upstream} pool-max-conn 1024\n"
    );
    let file = folder.join("haproxy.cfg");
    std::fs::write(&file, text)?;
    let mut haproxy = on_gateway_cpu("haproxy");
    haproxy.arg("-db").arg("-f").arg(file);
    haproxy.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}
