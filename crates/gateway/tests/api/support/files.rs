//! A server of files on loopback, well-behaved and otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};

use crate::support::sound;

/// Serves until its test ends.
pub(crate) struct Files {
    pub(crate) base: String,
    pub(crate) port: u16,
    hits: Arc<AtomicUsize>,
}

impl Files {
    pub(crate) async fn start() -> Self {
        let hits = Arc::new(AtomicUsize::new(0));
        let counted = hits.clone();
        let barrier = Arc::new(tokio::sync::Barrier::new(2));
        let router = Router::new()
            .route("/picture.png", get(async || sound::png(64, 48)))
            // Answered once two requests wait for it.
            .route(
                "/picture-for-two.png",
                get(async move || {
                    barrier.wait().await;
                    sound::png(64, 48)
                }),
            )
            // The type is decided by the bytes, not by what the server says.
            .route(
                "/song",
                get(async || ([(header::CONTENT_TYPE, "text/html")], sound::wav(1, 7))),
            )
            .route("/redirect/{left}", get(redirect))
            .route(
                "/to-private",
                get(async || Redirect::temporary("http://10.0.0.1/x.png")),
            )
            .route(
                "/to-file",
                get(async || Redirect::temporary("file:///etc/passwd")),
            )
            .route(
                "/to-nowhere",
                get(async || StatusCode::FOUND.into_response()),
            )
            .route("/slow", get(async || std::future::pending::<()>().await))
            .route("/oversize", get(async || oversize(true)))
            .route("/oversize-unannounced", get(async || oversize(false)))
            .route("/truncated", get(async || truncated_response()))
            .route("/text", get(async || "just words"))
            .layer(axum::middleware::from_fn_with_state(
                counted,
                async |State(hits): State<Arc<AtomicUsize>>,
                       request: axum::extract::Request,
                       next: axum::middleware::Next| {
                    hits.fetch_add(1, Ordering::SeqCst);
                    next.run(request).await
                },
            ));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            base: format!("http://127.0.0.1:{port}"),
            port,
            hits,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// How many requests came.
    pub(crate) fn hits(&self) -> usize {
        self.hits.load(Ordering::SeqCst)
    }
}

async fn redirect(Path(remaining): Path<u32>) -> Redirect {
    match remaining {
        0 | 1 => Redirect::temporary("/picture.png"),
        _ => Redirect::temporary(&format!("/redirect/{}", remaining - 1)),
    }
}

/// Just over the limit for pictures.
fn oversize(announced: bool) -> Response {
    const CHUNKS: usize = 21;
    let chunk = Bytes::from(vec![0_u8; 1_000_000]);
    let chunks = std::iter::repeat_n(chunk, CHUNKS).map(Ok::<_, std::io::Error>);
    let body = stream::iter(chunks);
    let mut response = Body::from_stream(body).into_response();
    if announced {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_LENGTH, (CHUNKS * 1_000_000).into());
    }
    response
}

fn truncated_response() -> Response {
    let part = Bytes::from(sound::png(64, 48)[..100].to_vec());
    let broken = stream::once(async { Ok(part) })
        .chain(stream::once(async { Err(std::io::Error::other("broken")) }));
    let mut response = Body::from_stream(broken).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, 5000.into());
    response
}
