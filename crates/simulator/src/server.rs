//! One listener for all simulated providers: reads requests, lets faults
//! strike, writes the journal, sends replies.

#![expect(
    clippy::disallowed_methods,
    reason = "a program for tests: its connections end with its runtime, and its time is the real one"
)]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, RawPathParams};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tower::ServiceExt as _;

use crate::models::MODELS;
use crate::world::{Fault, Received, Role, World};

/// Most bytes of a request.
const LIMIT: usize = 300_000_000;

/// A running simulator; it ends when this is dropped.
#[derive(Debug)]
pub struct Simulator {
    address: SocketAddr,
    world: Arc<World>,
    server: tokio::task::JoinHandle<()>,
}

impl Simulator {
    /// Starts on a free port of loopback.
    pub async fn start() -> std::io::Result<Self> {
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Starts on this address.
    pub async fn listen(address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let world = Arc::new(World::default());
        let app = app(&world, address);
        let server = tokio::spawn(accept(listener, app));
        Ok(Self {
            address,
            world,
            server,
        })
    }

    /// The base address of a provider.
    pub fn url(&self, provider: &str) -> String {
        format!("http://{}/{provider}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its jobs, journal and faults.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn app(world: &Arc<World>, address: SocketAddr) -> Router {
    let mut app = Router::new();
    for model in MODELS {
        let site = Site {
            name: model.name,
            base: format!("http://{address}/{}", model.name),
            world: world.clone(),
            router: Router::new(),
            error: |status| json!({"error": status}),
        };
        app = app.nest(&format!("/{}", model.name), (model.routes)(site).router);
    }
    app.layer(DefaultBodyLimit::max(LIMIT))
}

async fn accept(listener: TcpListener, app: Router) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let app = app.clone();
        tokio::spawn(async move {
            let service = hyper::service::service_fn(move |request| {
                let app = app.clone();
                async move {
                    let request: http::Request<hyper::body::Incoming> = request;
                    let Ok(answer) = app.oneshot(request.map(Body::new)).await;
                    // An error here closes the connection without an answer.
                    if answer.extensions().get::<Hang>().is_some() {
                        return Err(std::io::Error::other("dropped on order"));
                    }
                    Ok(answer)
                }
            });
            let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// Marks an answer that is never sent.
#[derive(Debug, Clone, Copy)]
struct Hang;

/// A provider's routes in the making.
pub struct Site {
    name: &'static str,
    base: String,
    world: Arc<World>,
    router: Router,
    error: fn(u16) -> Value,
}

/// Answers a request; the simulator itself never waits.
pub type Handler = fn(&Request) -> Reply;

#[derive(Clone)]
struct Route {
    provider: &'static str,
    base: Arc<str>,
    world: Arc<World>,
    role: Role,
    handler: Handler,
    error: fn(u16) -> Value,
}

impl Site {
    /// The provider's own form of an error, for a status that a fault orders.
    #[must_use]
    pub fn error(mut self, body: fn(u16) -> Value) -> Self {
        self.error = body;
        self
    }

    /// Adds a route below the provider's base: `{name}` is one segment,
    /// `{*name}` all that follow.
    #[must_use]
    pub fn route(mut self, method: &str, path: &str, role: Role, handler: Handler) -> Self {
        let filter = match method {
            "GET" => MethodFilter::GET,
            "PUT" => MethodFilter::PUT,
            "DELETE" => MethodFilter::DELETE,
            _ => MethodFilter::POST,
        };
        let route = Route {
            provider: self.name,
            base: self.base.as_str().into(),
            world: self.world.clone(),
            role,
            handler,
            error: self.error,
        };
        let service = move |params: RawPathParams, request: axum::extract::Request| {
            let params = params
                .iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            serve(route.clone(), params, request)
        };
        self.router = self.router.route(path, on(filter, service));
        self
    }
}

/// A request, whole and parsed.
pub struct Request {
    /// The method.
    pub method: Method,
    /// The path below the provider's base.
    pub path: String,
    /// The query, decoded.
    pub query: HashMap<String, String>,
    /// The headers.
    pub headers: HeaderMap,
    /// The parsed body, as in [`Received::body`].
    pub body: Value,
    /// The body as it came, but empty for multipart.
    pub bytes: Bytes,
    /// The provider's base address, such as `http://127.0.0.1:4000/fal`.
    pub base: Arc<str>,
    /// Jobs, journal and faults.
    pub world: Arc<World>,
    /// The answer shall hold a status word that no document has.
    pub unknown_word: bool,
    /// The result's address is past its time.
    pub expired: bool,
    params: HashMap<String, String>,
}

impl Request {
    /// A part of the path; empty when there is none of this name.
    pub fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("", String::as_str)
    }

    /// A header's text; empty when there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// The bearer key.
    pub fn bearer(&self) -> Option<&str> {
        self.header("authorization")
            .strip_prefix("Bearer ")
            .filter(|key| !key.is_empty())
    }

    /// An instant in Unix seconds.
    pub fn unix_seconds(&self, instant: Instant) -> u64 {
        let then = SystemTime::now() - instant.elapsed();
        then.duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs()
    }
}

/// What a model answers.
pub struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: ReplyBody,
    after: Duration,
}

enum ReplyBody {
    Whole(Bytes),
    /// Pieces, each after a pause.
    Pieces(Vec<(Duration, Bytes)>),
}

impl Reply {
    /// An answer without a body.
    pub fn empty(status: u16) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            headers: HeaderMap::new(),
            body: ReplyBody::Whole(Bytes::new()),
            after: Duration::ZERO,
        }
    }

    /// JSON.
    pub fn json(status: u16, body: &Value) -> Self {
        let mut reply = Self::empty(status);
        reply.body = ReplyBody::Whole(body.to_string().into());
        reply.with_header("content-type", "application/json")
    }

    /// A file.
    pub fn file(mime: &'static str, bytes: impl Into<Bytes>) -> Self {
        let mut reply = Self::empty(200);
        reply.body = ReplyBody::Whole(bytes.into());
        reply.with_header("content-type", mime)
    }

    /// Server-sent events, or any pieces, each after a pause.
    pub fn pieces(mime: &'static str, pieces: Vec<(Duration, String)>) -> Self {
        let mut reply = Self::empty(200);
        let pieces = pieces.into_iter().map(|(pause, text)| (pause, text.into()));
        reply.body = ReplyBody::Pieces(pieces.collect());
        reply.with_header("content-type", mime)
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// Sends it only after a while, the connection staying open.
    #[must_use]
    pub fn after(mut self, pause: Duration) -> Self {
        self.after = pause;
        self
    }
}

async fn serve(
    route: Route,
    params: HashMap<String, String>,
    request: axum::extract::Request,
) -> Response {
    let fault = route.world.fault(route.provider, route.role);
    let Some(request) = read(&route, params, request, fault.as_ref()).await else {
        return plain(StatusCode::BAD_REQUEST, "the request cannot be read");
    };
    route.world.record(Received {
        provider: route.provider,
        role: route.role,
        method: request.method.clone(),
        path: request.path.clone(),
        headers: request.headers.clone(),
        body: request.body.clone(),
    });
    match fault {
        Some(Fault::DropBefore) => hang(),
        Some(Fault::Status {
            status,
            retry_after,
            bare,
        }) => {
            let mut reply = if bare {
                Reply::empty(status)
            } else {
                Reply::json(status, &(route.error)(status))
            };
            if let Some(seconds) = retry_after {
                reply = reply.with_header("retry-after", &seconds.to_string());
            }
            send(reply, None).await
        }
        Some(Fault::StatusAfter(status)) => {
            (route.handler)(&request);
            send(Reply::empty(status), None).await
        }
        Some(Fault::DropAfter) => {
            (route.handler)(&request);
            hang()
        }
        Some(Fault::Lying) => {
            (route.handler)(&request);
            let page = "<html><body>Not what you asked for</body></html>";
            send(Reply::file("video/mp4", page), None).await
        }
        fault => send((route.handler)(&request), fault).await,
    }
}

async fn read(
    route: &Route,
    params: HashMap<String, String>,
    request: axum::extract::Request,
    fault: Option<&Fault>,
) -> Option<Request> {
    let (method, uri, headers) = (
        request.method().clone(),
        request.uri().clone(),
        request.headers().clone(),
    );
    let mime = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let (body, bytes) = if mime.starts_with("multipart/form-data") {
        let form = Multipart::from_request(request, &()).await.ok()?;
        (multipart(form).await?, Bytes::new())
    } else {
        let bytes = axum::body::to_bytes(request.into_body(), LIMIT)
            .await
            .ok()?;
        (parse(&mime, &bytes), bytes)
    };
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Some(Request {
        method,
        path: path.to_owned(),
        query: decode(uri.query().unwrap_or_default()),
        headers,
        body,
        bytes,
        base: route.base.clone(),
        world: route.world.clone(),
        unknown_word: fault == Some(&Fault::UnknownWord),
        expired: fault == Some(&Fault::Expired),
        params,
    })
}

fn parse(mime: &str, bytes: &Bytes) -> Value {
    if bytes.is_empty() {
        return Value::Null;
    }
    if mime.starts_with("application/x-www-form-urlencoded") {
        let form = decode(&String::from_utf8_lossy(bytes));
        return json!(form);
    }
    serde_json::from_slice(bytes).unwrap_or_else(|_| json!({"bytes": bytes.len()}))
}

async fn multipart(mut form: Multipart) -> Option<Value> {
    let mut fields = Map::new();
    while let Some(field) = form.next_field().await.ok()? {
        let name = field.name()?.to_owned();
        let file_name = field.file_name().map(str::to_owned);
        let mime = field.content_type().unwrap_or_default().to_owned();
        let bytes = field.bytes().await.ok()?;
        let value = match file_name {
            Some(file_name) => json!({"file_name": file_name, "mime": mime, "bytes": bytes.len()}),
            None => json!(String::from_utf8_lossy(&bytes)),
        };
        fields.insert(name, value);
    }
    Some(Value::Object(fields))
}

/// `a=1&b=2`, percent-decoded.
fn decode(query: &str) -> HashMap<String, String> {
    let uri = format!("/?{query}").parse::<http::Uri>();
    let parsed = uri
        .ok()
        .and_then(|uri| axum::extract::Query::<HashMap<String, String>>::try_from_uri(&uri).ok());
    parsed.map(|query| query.0).unwrap_or_default()
}

async fn send(reply: Reply, fault: Option<Fault>) -> Response {
    tokio::time::sleep(reply.after).await;
    if let Some(Fault::Latency(pause)) = fault {
        tokio::time::sleep(pause).await;
    }
    let mut headers = reply.headers;
    let pieces = match reply.body {
        ReplyBody::Pieces(pieces) => pieces,
        ReplyBody::Whole(bytes) => {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
            match fault {
                Some(Fault::Slow(pause)) => bytes
                    .chunks(bytes.len().div_ceil(8).max(1))
                    .map(|piece| (pause, Bytes::copy_from_slice(piece)))
                    .collect(),
                Some(Fault::Truncated | Fault::DropInBody) => {
                    vec![(Duration::ZERO, bytes.slice(..bytes.len() / 2))]
                }
                _ => vec![(Duration::ZERO, bytes)],
            }
        }
    };
    let breaks_off = matches!(fault, Some(Fault::Truncated | Fault::DropInBody));
    let body = if pieces.len() == 1 && !breaks_off {
        Body::from(
            pieces
                .into_iter()
                .next()
                .map(|piece| piece.1)
                .unwrap_or_default(),
        )
    } else {
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            for (pause, piece) in pieces {
                tokio::time::sleep(pause).await;
                if sender.send(Ok(piece)).await.is_err() {
                    return;
                }
            }
            if breaks_off {
                let _ = sender
                    .send(Err(std::io::Error::other("cut off on order")))
                    .await;
            }
        });
        Body::from_stream(Channel(receiver))
    };
    let mut answer = Response::new(body);
    *answer.status_mut() = reply.status;
    *answer.headers_mut() = headers;
    answer
}

/// The receiving end of a channel as a stream.
struct Channel(tokio::sync::mpsc::Receiver<Result<Bytes, std::io::Error>>);

impl futures_core::Stream for Channel {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

fn hang() -> Response {
    let mut answer = Response::new(Body::empty());
    answer.extensions_mut().insert(Hang);
    answer
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    let mut answer = Response::new(Body::from(text));
    *answer.status_mut() = status;
    answer
}
