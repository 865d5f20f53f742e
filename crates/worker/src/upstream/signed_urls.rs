//! Expiry of signed URLs, as far as the URL contains it.

use std::time::Duration;

use url::Url;

use mediagate_model::clock::Timestamp;

/// The time until which a signed URL is valid, from parameters that differ by host:
///
/// * `X-Amz-Date` and `X-Amz-Expires`, and their equivalents of Google, Alibaba and Volcano: the
///   time of signing, and the validity in seconds;
/// * `Expires`: Unix seconds (older signatures of S3 and Google, `CloudFront`, Alibaba);
/// * `se`: RFC 3339 (shared access signatures of Azure).
pub(super) fn expiry(url: &str) -> Option<Timestamp> {
    let url = Url::parse(url).ok()?;
    let (mut signed_at, mut validity_seconds) = (None, None);
    for (name, value) in url.query_pairs() {
        // Hosts write these names in different cases, for example `X-Amz-Date` and `x-oss-date`.
        match name.to_ascii_lowercase().as_str() {
            "expires" => return Some(Timestamp::from_seconds(value.parse().ok()?)),
            "se" => return Timestamp::parse(&value),
            "x-amz-date" | "x-goog-date" | "x-oss-date" | "x-tos-date" => {
                signed_at = parse_basic_iso8601(&value);
            }
            "x-amz-expires" | "x-goog-expires" | "x-oss-expires" | "x-tos-expires" => {
                validity_seconds = value.parse().ok();
            }
            _ => {}
        }
    }
    Some(signed_at?.plus(Duration::from_secs(validity_seconds?)))
}

/// `20261123T221500Z`, the basic format of ISO 8601.
fn parse_basic_iso8601(text: &str) -> Option<Timestamp> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp::from_micros(time.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expiry_is_read_in_the_form_of_each_host() {
        for (query, expected) in [
            (
                "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20261123T221500Z&X-Amz-Expires=3600&X-Amz-Signature=0a",
                Some("2026-11-23T23:15:00Z"),
            ),
            (
                "X-Goog-Expires=60&X-Goog-Date=20261123T221500Z",
                Some("2026-11-23T22:16:00Z"),
            ),
            (
                "Expires=1795471200&Signature=a",
                Some("2026-11-23T22:00:00Z"),
            ),
            (
                "sv=2024&se=2026-11-23T22%3A15%3A00Z&sig=a",
                Some("2026-11-23T22:15:00Z"),
            ),
            ("", None),
            ("X-Amz-Date=20261123T221500Z", None),
            ("X-Amz-Date=now&X-Amz-Expires=60", None),
            ("Expires=soon", None),
            ("Expires=99999999999999999999", None),
        ] {
            let expiry_time = expiry(&format!("https://cdn.test/a.mp4?{query}"));
            let expected = expected.and_then(Timestamp::parse);
            assert_eq!(expiry_time, expected, "{query}");
        }
        assert_eq!(expiry("not an address"), None);
    }
}
