//! Compression of the public pages, scripts and documents, for clients that accept gzip.
//!
//! Responses of the API are not compressed: they are short, and a compressed response that holds a
//! secret beside the caller's text tells its length.

use std::io::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use moka::sync::Cache;
use sha2::{Digest as _, Sha256};

use mediagate_core::app::App;

/// Below this length, in bytes, a compressed body saves no packet.
const MIN_BYTES: usize = 1024;
/// The longest body that is compressed. All documents are shorter.
const MAX_BYTES: usize = 4 << 20;
/// Total length of the compressed bodies that are kept.
const CACHE_BYTES: u64 = 8 << 20;

/// Adds the compression to routes.
pub(super) fn compressed(routes: Router<App>, bodies: &Arc<CompressedBodies>) -> Router<App> {
    routes.route_layer(from_fn_with_state(bodies.clone(), compress))
}

/// Compressed bodies by the hash of the body. The pages name the address under which they were
/// requested, so there can be several of each.
pub(super) struct CompressedBodies(Cache<[u8; 32], Bytes>);

impl CompressedBodies {
    pub(super) fn new() -> Self {
        let cache = Cache::builder()
            .max_capacity(CACHE_BYTES)
            .weigher(|_, body: &Bytes| u32::try_from(body.len()).unwrap_or(u32::MAX));
        Self(cache.build())
    }

    /// The body, compressed. `None` if the compression fails, which it does not in memory.
    fn compress(&self, body: &[u8]) -> Option<Bytes> {
        let hash: [u8; 32] = Sha256::digest(body).into();
        if let Some(compressed) = self.0.get(&hash) {
            return Some(compressed);
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(body).ok()?;
        let compressed = Bytes::from(encoder.finish().ok()?);
        self.0.insert(hash, compressed.clone());
        Some(compressed)
    }
}

/// Compresses a response if the client accepts gzip and the body is a text of some length.
async fn compress(
    State(bodies): State<Arc<CompressedBodies>>,
    request: Request,
    next: Next,
) -> Response {
    let is_accepted = *request.method() == Method::GET && accepts_gzip(request.headers());
    let mut response = next.run(request).await;
    if response.status() != StatusCode::OK || !is_text(response.headers()) {
        return response;
    }
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if !is_accepted {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, MAX_BYTES).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let plain = body.clone();
    let compressed = if body.len() < MIN_BYTES {
        None
    } else {
        // Half a megabyte takes milliseconds.
        let compression = tokio::task::spawn_blocking(move || bodies.compress(&plain));
        compression.await.ok().flatten()
    };
    let Some(compressed) = compressed else {
        return Response::from_parts(parts, Body::from(body));
    };
    let gzip = HeaderValue::from_static("gzip");
    parts.headers.insert(header::CONTENT_ENCODING, gzip);
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(compressed))
}

/// Whether the client accepts gzip (RFC 9110, 12.5.3).
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut codings = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','));
    codings.any(|coding| {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = parameters
            .trim()
            .strip_prefix("q=")
            .and_then(|weight| weight.trim().parse::<f32>().ok())
            .is_some_and(|weight| weight <= 0.0);
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

fn is_text(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    content_type.is_some_and(|content_type| {
        content_type.starts_with("text/")
            || content_type.starts_with("application/json")
            || content_type.starts_with("image/svg")
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn a_compressed_body_is_the_body() {
        let bodies = CompressedBodies::new();
        let body = "all documents ".repeat(1000);
        for _ in 0..2 {
            let compressed = bodies.compress(body.as_bytes()).unwrap();
            assert!(compressed.len() < body.len() / 10);
            let mut text = String::new();
            GzDecoder::new(&compressed[..])
                .read_to_string(&mut text)
                .unwrap();
            assert_eq!(text, body);
        }
    }

    #[test]
    fn the_header_says_whether_gzip_is_accepted() {
        for (line, expected) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("deflate, gzip, br, zstd", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0, br", false),
            ("br", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(line));
            assert_eq!(accepts_gzip(&headers), expected, "{line}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
