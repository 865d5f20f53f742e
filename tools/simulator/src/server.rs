//! One listener for all simulated providers, each under its own path.

#![expect(
    clippy::disallowed_methods,
    reason = "the listener's task ends with the simulator, and its connections with it"
)]

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tower::ServiceExt as _;

use crate::control::{self, ProxyRegistry};
use crate::fault::FaultProxy;
use crate::models::PROVIDERS;
use crate::site::{ConnectionReset, DropConnection, MAX_REQUEST_BYTES};
use crate::world::World;

use crate::site::SimulatedSite;

/// A running simulator; it and its connections end when this is dropped.
#[derive(Debug)]
pub struct Simulator {
    address: SocketAddr,
    scheme: &'static str,
    world: Arc<World>,
    proxies: Arc<ProxyRegistry>,
    server: tokio::task::JoinHandle<()>,
}

/// A certificate and its key, for https.
#[derive(Clone)]
pub struct ServerTls(Arc<ServerConfig>);

impl ServerTls {
    /// Reads PEM files.
    pub fn from_files(certificates: &Path, key: &Path) -> io::Result<Self> {
        let invalid = |path: &Path, reason: String| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{}: {reason}", path.display()),
            )
        };
        let chain = CertificateDer::pem_file_iter(certificates)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| invalid(certificates, error.to_string()))?;
        let key_der =
            PrivateKeyDer::from_pem_file(key).map_err(|error| invalid(key, error.to_string()))?;
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder
                    .with_no_client_auth()
                    .with_single_cert(chain, key_der)
            })
            .map_err(|error| invalid(certificates, error.to_string()))?;
        // Most providers offer HTTP/2. Without ALPN every client would fall back to HTTP/1.1, and
        // its HTTP/2 path would go untested.
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

impl Simulator {
    /// Starts on a free port of loopback.
    pub async fn start() -> io::Result<Self> {
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Starts on this address.
    pub async fn listen(address: SocketAddr) -> io::Result<Self> {
        Self::listen_with(address, None, Arc::default()).await
    }

    /// Starts on this address, optionally with https. With the world of an earlier simulator, a
    /// provider comes back after it went down.
    pub async fn listen_with(
        address: SocketAddr,
        tls: Option<ServerTls>,
        world: Arc<World>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let proxies = Arc::<ProxyRegistry>::default();
        let app = app(&world, proxies.clone(), scheme);
        let tls = tls.map(|tls| TlsAcceptor::from(tls.0));
        let server = tokio::spawn(accept(listener, tls, app));
        Ok(Self {
            address,
            scheme,
            world,
            proxies,
            server,
        })
    }

    /// The base URL of a provider.
    pub fn url(&self, provider: &str) -> String {
        format!("{}://{}/{provider}", self.scheme, self.address)
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its jobs, journal and faults.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Keeps a proxy as long as the simulator runs; it can be controlled over HTTP by the returned
    /// number.
    pub fn keep_proxy(&self, proxy: FaultProxy) -> usize {
        self.proxies.keep(proxy)
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn app(world: &Arc<World>, proxies: Arc<ProxyRegistry>, scheme: &'static str) -> Router {
    let mut app = Router::new().nest("/_", control::router(world, proxies));
    for provider in PROVIDERS {
        let site = SimulatedSite::new(provider.name, scheme, world.clone());
        let router = (provider.routes)(site).into_router();
        // The trailing slash makes the base URL itself a path. `hunyuan` has no other: it names its
        // actions in a header.
        app = app.nest(&format!("/{}/", provider.name), router);
    }
    // By default axum refuses multipart forms of more than 2 MB, and recordings are larger.
    app.layer(DefaultBodyLimit::max(MAX_REQUEST_BYTES))
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, app: Router) {
    // The set aborts its connections when it is dropped with this task. So a dropped simulator
    // disappears at once, like a provider that goes down.
    let mut connections = JoinSet::new();
    loop {
        // An error of `accept` concerns one connection. The others must still be served.
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        // A finished task stays in the set until it is joined. Without this, a load test would keep
        // an entry for every connection that it ever made.
        while connections.try_join_next().is_some() {}
        // Nagle's algorithm would delay small answers and appear as latency in benchmarks.
        let _ = stream.set_nodelay(true);
        let reset = ConnectionReset::default();
        let stream = ResettableStream {
            stream,
            reset: reset.clone(),
        };
        let (tls, app) = (tls.clone(), app.clone());
        connections.spawn(async move {
            match tls {
                None => serve(stream, reset, app).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, reset, app).await;
                    }
                }
            }
        });
    }
}

async fn serve<S>(stream: S, reset: ConnectionReset, app: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = hyper::service::service_fn(move |request: http::Request<_>| {
        let (app, reset) = (app.clone(), reset.clone());
        async move {
            let mut request: http::Request<hyper::body::Incoming> = request;
            request.extensions_mut().insert(reset);
            let Ok(answer) = app.oneshot(request.map(Body::new)).await;
            // hyper closes the connection without an answer if the service fails. It offers no
            // other way to send no answer.
            if answer.extensions().get::<DropConnection>().is_some() {
                return Err(io::Error::other("dropped on order"));
            }
            Ok(answer)
        }
    });
    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    // An error here was caused by a fault, or the client disconnected. Neither needs a report.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

/// A connection that ends with a reset if that was requested.
struct ResettableStream {
    stream: TcpStream,
    reset: ConnectionReset,
}

impl Drop for ResettableStream {
    fn drop(&mut self) {
        if self.reset.is_set() {
            // With a linger time of zero the kernel sends RST instead of FIN. The inner stream is
            // closed right after this, so the option is set in time.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for ResettableStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for ResettableStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
