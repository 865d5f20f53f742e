//! `/media/…`: stored files under signed URLs, with ranges and validators (RFC 9110, sections 13
//! and 14).

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::ops::Range;
use std::time::Duration;

use http_range_header::StartPosition;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::ErrorResponse;
use mediagate_config::MediaDelivery;
use mediagate_core::app::App;
use mediagate_core::domain::downloads;
use mediagate_media::blob;
use mediagate_media::url_signer::UrlRejection;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::AssetId;
use mediagate_model::media::{Asset, MediaType};
use mediagate_store as store;

/// Get a stored file.
///
/// The URL is signed; no API key is needed.
#[utoipa::path(get, path = "/media/{ticket}/{name}", tag = "media", security(()), params(
    ("ticket" = String, Path, description = "Expiry time and signature"),
    ("name" = String, Path, description = "The file's id and extension"),
), responses((status = 200, description = "The file", content_type = "application/octet-stream", body = Vec<u8>),
             (status = 206, description = "The requested range"), (status = 304, description = "Not modified"),
             (status = 302, description = "Redirect to a URL that is valid for a few minutes, if `media.delivery` is `redirect`")))]
pub(super) async fn file(
    Path((ticket, name)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
    State(app): State<App>,
) -> Result<Response, ErrorResponse> {
    let (id, media) = app
        .secrets
        .signer
        .open(&ticket, &name, app.clock.now())
        .map_err(|refused| match refused {
            // The same answer as for an unknown file, so that guessing reveals nothing.
            UrlRejection::Forged => not_found(),
            UrlRejection::Expired => link_expired(),
        })?;
    let asset = find(&app, id, media).await?;
    // A caller that has the file already gets its 304 here, without a request to the bucket.
    if method == Method::GET
        && is_redirected(&app, &asset)
        && !matches(&headers, header::IF_NONE_MATCH, &etag(&asset))
    {
        return Ok(redirect(&app, &asset).await?);
    }
    Ok(answer(&app, &asset, &headers).await?)
}

/// Files of at least this size are redirected to the bucket, if `media.delivery` is `redirect`. For
/// smaller ones a redirect would take longer.
const MIN_REDIRECT_BYTES: u64 = 1024 * 1024;
/// How long a signed URL of the bucket is valid at most.
const MAX_LINK_LIFETIME: Duration = Duration::from_mins(5);
/// Pages of other sites may show a file: that is the purpose of its URL.
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const CROSS_ORIGIN: &str = "cross-origin";
/// A file that is opened as a page is shown but runs nothing, whatever type a browser detects,
/// because no source of scripts is allowed. The sandbox still lists `allow-scripts`, otherwise an
/// opened film would not start.
const POLICY: &str = "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; sandbox allow-scripts";
/// How long a caller may reuse a redirect without a new request.
const REUSE_TIME: Duration = Duration::from_mins(1);

fn is_redirected(app: &App, asset: &Asset) -> bool {
    app.config.media.delivery == MediaDelivery::Redirect
        && asset.size_bytes >= MIN_REDIRECT_BYTES
        && matches!(asset.media, MediaType::Mp4 | MediaType::Flac)
}

/// Sends the caller to the bucket. Only for GET: the signature is for one method.
async fn redirect(app: &App, asset: &Asset) -> Result<Response, Error> {
    let lifetime_left = asset.expires_at.map(|at| at.since(app.clock.now()));
    // The link must not outlive the file, and a cached redirect must not outlive the link.
    let time = lifetime_left.map_or(MAX_LINK_LIFETIME, |lifetime_left| {
        lifetime_left.clamp(Duration::from_secs(1), MAX_LINK_LIFETIME)
    });
    let link = app.blobs.link(asset.id, asset.media, time).await?;
    let link = link.ok_or_else(|| Error::internal("a redirect without a bucket"))?;
    let reuse = format!("private, max-age={}", time.min(REUSE_TIME).as_secs());
    let headers = [
        (header::LOCATION, String::from(link)),
        (header::CACHE_CONTROL, reuse),
        (RESOURCE_POLICY, CROSS_ORIGIN.to_owned()),
    ];
    Ok((StatusCode::FOUND, headers).into_response())
}

fn not_found() -> Error {
    Error::plain(ErrorCode::MediaNotFound, "There is no file at this URL.")
}

/// The error for a URL past its time. Most files expire together with their URLs; one that is still
/// stored has a new URL in its record.
fn link_expired() -> Error {
    let message =
        "The URL has expired. If the file is still stored, its record contains a new URL.";
    Error::plain(ErrorCode::LinkExpired, message)
}

/// The error for a file that is no longer stored: no new URL can help.
fn file_removed() -> Error {
    let message = "The file has expired or was deleted.";
    Error::plain(ErrorCode::LinkExpired, message)
}

/// A file's bytes, according to the request's headers.
pub(super) async fn serve(
    app: &App,
    id: AssetId,
    media: MediaType,
    request: &HeaderMap,
) -> Result<Response, Error> {
    let asset = find(app, id, media).await?;
    answer(app, &asset, request).await
}

/// The record of a file that exists.
async fn find(app: &App, id: AssetId, media: MediaType) -> Result<Asset, Error> {
    let row = app
        .store
        .read(move |conn| store::assets::by_id(conn, id))
        .await?;
    let asset = row
        .filter(|asset| asset.media == media)
        .ok_or_else(not_found)?;
    if asset.removed_at.is_some() || asset.expires_at.is_some_and(|at| at <= app.clock.now()) {
        return Err(file_removed());
    }
    Ok(asset)
}

fn etag(asset: &Asset) -> String {
    format!("\"{}\"", asset.sha256)
}

async fn answer(app: &App, asset: &Asset, request: &HeaderMap) -> Result<Response, Error> {
    let etag = etag(asset);
    // Only recordings have a title. For other files the look-up is skipped.
    let title = match asset.media {
        MediaType::Flac => downloads::name_of(app, asset.id).await?,
        _ => None,
    };
    let common = || common(asset, &etag, title.as_deref());
    // RFC 9110 decides validators before ranges (13.2.2), and a 304 has the headers of a 200
    // (15.4.5).
    if matches(request, header::IF_NONE_MATCH, &etag) {
        return Ok((StatusCode::NOT_MODIFIED, common()?).into_response());
    }
    let requested_part = match range(request, &etag, asset.size_bytes) {
        RequestedRange::Whole => None,
        RequestedRange::Part(range) => Some(range),
        RequestedRange::Unsatisfiable => return unsatisfiable(asset.size_bytes),
    };
    let range = requested_part.clone().unwrap_or(0..asset.size_bytes);
    let stream = app
        .blobs
        .stream(asset.id, asset.media, range.clone())
        .await?
        // The file was removed after its record was read.
        .ok_or_else(file_removed)?;
    let mut headers = common()?;
    // A streamed body has no known length, and players need it to seek.
    headers.insert(header::CONTENT_LENGTH, (range.end - range.start).into());
    let status = if requested_part.is_some() {
        let text = format!(
            "bytes {}-{}/{}",
            range.start,
            range.end - 1,
            asset.size_bytes
        );
        headers.insert(
            header::CONTENT_RANGE,
            HeaderValue::try_from(text).map_err(Error::internal)?,
        );
        StatusCode::PARTIAL_CONTENT
    } else {
        StatusCode::OK
    };
    Ok((status, headers, Body::from_stream(stream)).into_response())
}

/// Headers of every response about a file.
fn common(asset: &Asset, etag: &str, title: Option<&str>) -> Result<HeaderMap, Error> {
    let name = title.map_or_else(|| asset.id.to_string(), str::to_owned);
    let name = format!("{name}.{}", asset.media.extension());
    let values = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static(asset.media.mime()),
        ),
        (header::ACCEPT_RANGES, HeaderValue::from_static("bytes")),
        (
            header::CACHE_CONTROL,
            HeaderValue::from_static(blob::CACHE_CONTROL),
        ),
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(POLICY),
        ),
        (RESOURCE_POLICY, HeaderValue::from_static(CROSS_ORIGIN)),
    ];
    let mut headers: HeaderMap = values.into_iter().collect();
    let etag = HeaderValue::try_from(etag).map_err(Error::internal)?;
    headers.insert(header::ETAG, etag);
    headers.insert(header::CONTENT_DISPOSITION, disposition("inline", &name)?);
    Ok(headers)
}

/// The characters to encode in an extended parameter (RFC 8187), and some that need not be.
const ENCODED_CHARS: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A `Content-Disposition` with the file's name as in RFC 6266, including an ASCII form for old
/// clients.
pub(super) fn disposition(how: &str, name: &str) -> Result<HeaderValue, Error> {
    let ascii: String = name
        .chars()
        .map(|c| match c {
            '–' => '-',
            // RFC 6266 (appendix D) advises against these: clients differ in how they read escapes.
            '"' | '\\' | '%' => '_',
            c if c.is_ascii() && !c.is_control() => c,
            _ => '_',
        })
        .collect();
    let mut text = format!("{how}; filename=\"{ascii}\"");
    if ascii != name {
        text.push_str("; filename*=UTF-8''");
        text.extend(utf8_percent_encode(name, &ENCODED_CHARS));
    }
    HeaderValue::try_from(text).map_err(Error::internal)
}

fn matches(request: &HeaderMap, name: header::HeaderName, etag: &str) -> bool {
    let values = request
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|tag| {
        // Weak comparison is right for If-None-Match (RFC 9110, 13.1.2). It is safe for If-Range
        // too, because an ETag here is the digest of the bytes.
        let tag = tag.trim();
        tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag
    })
}

#[derive(Debug, PartialEq)]
enum RequestedRange {
    Whole,
    Part(Range<u64>),
    Unsatisfiable,
}

/// The requested range. Several ranges, or an invalid one, get the whole file, as RFC 9110 allows.
fn range(request: &HeaderMap, etag: &str, size: u64) -> RequestedRange {
    let Some(text) = request
        .get(header::RANGE)
        .and_then(|value| value.to_str().ok())
    else {
        return RequestedRange::Whole;
    };
    // The caller has another version, or names a date, which files here do not have. In both cases
    // it needs all bytes.
    if request.contains_key(header::IF_RANGE) && !matches(request, header::IF_RANGE, etag) {
        return RequestedRange::Whole;
    }
    let Ok(parsed) = http_range_header::parse_range_header(text) else {
        return RequestedRange::Whole;
    };
    let [requested] = parsed.ranges.as_slice() else {
        return RequestedRange::Whole;
    };
    // The last bytes of a shorter file are all of it (RFC 9110, 14.1.2); the parser refuses that.
    if size > 0 && matches!(requested.start, StartPosition::FromLast(length) if length > size) {
        return RequestedRange::Part(0..size);
    }
    match parsed.validate(size) {
        Ok(ranges) => match ranges.first() {
            Some(range) => RequestedRange::Part(*range.start()..*range.end() + 1),
            None => RequestedRange::Whole,
        },
        Err(_) => RequestedRange::Unsatisfiable,
    }
}

/// The response to a range outside the file, with the file's size.
fn unsatisfiable(size: u64) -> Result<Response, Error> {
    let error = Error::plain(
        ErrorCode::RangeNotSatisfiable,
        format!("The range lies outside the file, which has {size} bytes."),
    );
    let size = HeaderValue::try_from(format!("bytes */{size}")).map_err(Error::internal)?;
    Ok(([(header::CONTENT_RANGE, size)], ErrorResponse::from(error)).into_response())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse_range(text: &str) -> RequestedRange {
        range(
            &[(header::RANGE, HeaderValue::try_from(text).unwrap())]
                .into_iter()
                .collect(),
            "\"x\"",
            100,
        )
    }

    #[test]
    fn file_names_are_sent_for_old_and_new_clients() {
        for (name, expected) in [
            ("a.flac", "inline; filename=\"a.flac\""),
            (
                "Für Elise – Bass.flac",
                "inline; filename=\"F_r Elise - Bass.flac\"; filename*=UTF-8''F%C3%BCr%20Elise%20%E2%80%93%20Bass.flac",
            ),
        ] {
            assert_eq!(disposition("inline", name).unwrap(), expected);
        }
    }

    #[test]
    fn ranges_are_read() {
        assert_eq!(parse_range("bytes=0-"), RequestedRange::Part(0..100));
        assert_eq!(parse_range("bytes=0-0"), RequestedRange::Part(0..1));
        assert_eq!(parse_range("bytes=10-19"), RequestedRange::Part(10..20));
        assert_eq!(parse_range("bytes=90-500"), RequestedRange::Part(90..100));
        assert_eq!(parse_range("bytes=-5"), RequestedRange::Part(95..100));
        assert_eq!(parse_range("bytes=-100"), RequestedRange::Part(0..100));
        assert_eq!(parse_range("bytes=-99999999"), RequestedRange::Part(0..100));
        assert_eq!(parse_range("bytes=100-"), RequestedRange::Unsatisfiable);
        assert_eq!(parse_range("bytes=0-1,5-6"), RequestedRange::Whole);
        assert_eq!(parse_range("nonsense"), RequestedRange::Whole);
    }

    #[test]
    fn a_range_of_another_version_gets_the_whole() {
        let value = |text: &str| HeaderValue::try_from(text).unwrap();
        let headers = [
            (header::RANGE, value("bytes=0-1")),
            (header::IF_RANGE, value("\"y\"")),
        ];
        assert_eq!(
            range(&headers.into_iter().collect(), "\"x\"", 100),
            RequestedRange::Whole
        );
    }

    proptest! {
        #[test]
        fn a_parsed_range_is_within_the_file(text in "(bytes=)?[0-9,-]{0,30}") {
            if let RequestedRange::Part(part) = parse_range(&text) {
                prop_assert!(part.start < part.end && part.end <= 100);
            }
        }
    }
}
