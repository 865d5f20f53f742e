//! `/media/…`: stored files under signed URLs, with ranges and validators (RFC 9110, sections 13
//! and 14).

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::ops::Range;
use std::time::Duration;

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
        && failed_precondition(&headers, &etag(&asset)).is_none()
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
        && asset.media.is_played()
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
    // RFC 9110 decides preconditions before ranges (13.2.2), and a 304 has the headers of a 200
    // (15.4.5).
    match failed_precondition(request, &etag) {
        Some(FailedPrecondition::OtherVersion) => return Err(other_version()),
        Some(FailedPrecondition::SameVersion) => {
            return Ok((StatusCode::NOT_MODIFIED, common()?).into_response());
        }
        None => {}
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

/// A precondition that does not hold.
#[derive(Debug, PartialEq)]
enum FailedPrecondition {
    /// The caller requires a version that this is not.
    OtherVersion,
    /// The caller has this version already.
    SameVersion,
}

/// The first precondition that does not hold, in the order of RFC 9110 (13.2.2). Files here have no
/// date, so conditions on dates do not apply.
fn failed_precondition(request: &HeaderMap, etag: &str) -> Option<FailedPrecondition> {
    if request.contains_key(header::IF_MATCH)
        && !tags(request, header::IF_MATCH).any(|tag| tag == "*" || tag == etag)
    {
        return Some(FailedPrecondition::OtherVersion);
    }
    // Weak comparison is right for If-None-Match (13.1.2), and strong comparison for the others.
    let is_known = tags(request, header::IF_NONE_MATCH)
        .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag);
    is_known.then_some(FailedPrecondition::SameVersion)
}

/// The entity tags in a header that lists them.
fn tags(request: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = request.get_all(name).into_iter();
    let values = values.filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// The error for a file that is not the version that `If-Match` names.
fn other_version() -> Error {
    let message = "The file is not the version that the header If-Match names.";
    Error::plain(ErrorCode::PreconditionFailed, message)
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
    // it needs all bytes. A weak tag matches nothing (RFC 9110, 13.1.5).
    let validator = request.get(header::IF_RANGE);
    if validator.is_some_and(|validator| validator.as_bytes().trim_ascii() != etag.as_bytes()) {
        return RequestedRange::Whole;
    }
    requested_part(text, size).unwrap_or(RequestedRange::Whole)
}

/// The part of a file that the text of a `Range` header names; `None` if it names several or is
/// invalid.
fn requested_part(text: &str, size: u64) -> Option<RequestedRange> {
    let (unit, positions) = text.split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = positions.trim().split_once('-')?;
    if first.is_empty() {
        let length = position(last)?;
        return match (length, size) {
            (0, _) => Some(RequestedRange::Unsatisfiable),
            // The last bytes of an empty file are all of it, and `Content-Range` cannot name them.
            (_, 0) => None,
            // The last bytes of a shorter file are all of it (RFC 9110, 14.1.2).
            _ => Some(RequestedRange::Part(size.saturating_sub(length)..size)),
        };
    }
    let first = position(first)?;
    let last = if last.is_empty() {
        u64::MAX
    } else {
        position(last)?
    };
    if last < first {
        return None;
    }
    if first >= size {
        return Some(RequestedRange::Unsatisfiable);
    }
    Some(RequestedRange::Part(
        first..last.saturating_add(1).min(size),
    ))
}

/// A position or a length. RFC 9110 sets no limit on its digits, and one that is too large for a
/// `u64` lies beyond every file.
fn position(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
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

    const ETAG: &str = "\"x\"";

    fn headers(values: &[(HeaderName, &str)]) -> HeaderMap {
        let values = values
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::try_from(*value).unwrap()));
        values.collect()
    }

    fn parse_range(text: &str, size: u64) -> RequestedRange {
        range(&headers(&[(header::RANGE, text)]), ETAG, size)
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
        use RequestedRange::{Part, Unsatisfiable, Whole};
        for (text, expected) in [
            ("bytes=0-", Part(0..100)),
            ("bytes=0-0", Part(0..1)),
            ("bytes=10-19", Part(10..20)),
            ("Bytes=010-19", Part(10..20)),
            ("bytes=90-500", Part(90..100)),
            ("bytes=90-99999999999999999999", Part(90..100)),
            ("bytes=-5", Part(95..100)),
            ("bytes=-100", Part(0..100)),
            ("bytes=-99999999", Part(0..100)),
            ("bytes=-99999999999999999999", Part(0..100)),
            ("bytes=-0", Unsatisfiable),
            ("bytes=100-", Unsatisfiable),
            ("bytes=100-200", Unsatisfiable),
            ("bytes=99999999999999999999-", Unsatisfiable),
            ("bytes=0-1,5-6", Whole),
            ("bytes=5-2", Whole),
            ("bytes=-", Whole),
            ("bytes=", Whole),
            ("bytes=+1-2", Whole),
            ("lines=1-2", Whole),
            ("nonsense", Whole),
        ] {
            assert_eq!(parse_range(text, 100), expected, "{text}");
        }
        // No byte of an empty file can be requested.
        for (text, expected) in [
            ("bytes=0-", Unsatisfiable),
            ("bytes=0-0", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=-1", Whole),
        ] {
            assert_eq!(parse_range(text, 0), expected, "{text}");
        }
    }

    #[test]
    fn a_range_of_another_version_gets_the_whole() {
        for (validator, expected) in [
            ("\"x\"", RequestedRange::Part(0..2)),
            ("\"y\"", RequestedRange::Whole),
            ("W/\"x\"", RequestedRange::Whole),
            ("*", RequestedRange::Whole),
            ("Wed, 21 Oct 2015 07:28:00 GMT", RequestedRange::Whole),
        ] {
            let headers = headers(&[(header::RANGE, "bytes=0-1"), (header::IF_RANGE, validator)]);
            assert_eq!(range(&headers, ETAG, 100), expected, "{validator}");
        }
    }

    #[test]
    fn preconditions_are_compared_as_their_header_requires() {
        use FailedPrecondition::{OtherVersion, SameVersion};
        for (if_match, if_none_match, expected) in [
            (Some("\"x\""), None, None),
            (Some("\"y\", \"x\""), None, None),
            (Some("*"), None, None),
            (Some("\"y\""), None, Some(OtherVersion)),
            (Some("W/\"x\""), None, Some(OtherVersion)),
            (Some("\"y\""), Some("\"x\""), Some(OtherVersion)),
            (Some("\"x\""), Some("\"x\""), Some(SameVersion)),
            (None, Some("W/\"x\""), Some(SameVersion)),
            (None, Some("*"), Some(SameVersion)),
            (None, Some("\"y\""), None),
            (None, None, None),
        ] {
            let if_match = if_match.map(|value| (header::IF_MATCH, value));
            let if_none_match = if_none_match.map(|value| (header::IF_NONE_MATCH, value));
            let values: Vec<_> = if_match.into_iter().chain(if_none_match).collect();
            assert_eq!(
                failed_precondition(&headers(&values), ETAG),
                expected,
                "{values:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_parsed_range_is_within_the_file(
            text in "(bytes=)?[0-9,-]{0,30}",
            size in prop_oneof![0..200_u64, any::<u64>()],
        ) {
            if let RequestedRange::Part(part) = parse_range(&text, size) {
                prop_assert!(part.start < part.end && part.end <= size);
            }
        }

        #[test]
        fn a_range_has_the_bytes_at_its_positions(
            first in 0..150_u64,
            length in 1..150_u64,
            size in 0..100_u64,
        ) {
            let last = first + length - 1;
            let bytes: Vec<u64> = (0..size).filter(|at| (first..=last).contains(at)).collect();
            let read: Vec<u64> = match parse_range(&format!("bytes={first}-{last}"), size) {
                RequestedRange::Part(part) => part.collect(),
                _ => Vec::new(),
            };
            prop_assert_eq!(read, bytes);
            let suffix: Vec<u64> = (0..size).filter(|at| at + length >= size).collect();
            let read: Vec<u64> = match parse_range(&format!("bytes=-{length}"), size) {
                RequestedRange::Part(part) => part.collect(),
                _ => Vec::new(),
            };
            prop_assert_eq!(read, suffix);
        }
    }
}
