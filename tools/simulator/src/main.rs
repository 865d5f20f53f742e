//! The simulator as a program: simulates every provider on one address, each under its protocol's
//! name, until it is stopped.
//!
//! ```text
//! simulator --listen 127.0.0.1:4000
//! curl -X POST 127.0.0.1:4000/_/faults -d '{"fault": "drop_after", "provider": "fal", "role": "submit"}'
//!
//! simulator --listen 127.0.0.1:4000 --proxy 127.0.0.1:6432=127.0.0.1:5432
//! curl -X PUT 127.0.0.1:4000/_/proxies/0 -d '{"down": {"held": true}}'
//! ```

use std::io::Write as _;
use std::net::{AddrParseError, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use simulator::{FaultProxy, ServerTls, Simulator};

/// Simulates the hosted providers over HTTP, with faults on request.
#[derive(Parser)]
#[command(name = "simulator", version)]
struct Arguments {
    /// Where to listen; port 0 is any free port.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// PEM files of a certificate and its key: speaks https.
    #[arg(long, num_args = 2, value_names = ["CERTIFICATE", "KEY"])]
    tls: Option<Vec<PathBuf>>,
    /// Keeps no journal of the requests, for load tests.
    #[arg(long)]
    no_journal: bool,
    /// A TCP proxy that can be disturbed, from the first address (any free port when
    /// left out) to the second; they are numbered from 0.
    #[arg(long, value_name = "[LISTEN=]TO", value_parser = parse_proxy_route)]
    proxy: Vec<ProxyRoute>,
}

/// The listening and target addresses of a proxy.
#[derive(Clone, Copy)]
struct ProxyRoute {
    listen: SocketAddr,
    target: SocketAddr,
}

fn parse_proxy_route(text: &str) -> Result<ProxyRoute, AddrParseError> {
    let (listen, target) = text.split_once('=').unwrap_or(("127.0.0.1:0", text));
    Ok(ProxyRoute {
        listen: listen.parse()?,
        target: target.parse()?,
    })
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    let tls = match arguments.tls.as_deref() {
        Some([certificate, key]) => Some(ServerTls::from_files(certificate, key)?),
        _ => None,
    };
    let simulator = Simulator::listen_with(arguments.listen, tls, Arc::default()).await?;
    simulator.world().set_journal(!arguments.no_journal);
    let address = simulator.url("");
    let address = address.trim_end_matches('/');
    // With port 0 only this line contains the simulator's address, so the program that starts it
    // reads it here.
    writeln!(std::io::stdout(), "listening on {address}")?;
    for route in arguments.proxy {
        let proxy = FaultProxy::listen(route.listen, route.target).await?;
        let address = proxy.address();
        let number = simulator.keep_proxy(proxy);
        writeln!(std::io::stdout(), "proxy {number} on {address}")?;
    }
    shutdown_signal().await
}

/// Waits for Ctrl-C or SIGTERM.
async fn shutdown_signal() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            result = tokio::signal::ctrl_c() => result,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}
