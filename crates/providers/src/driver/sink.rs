//! The file that a result is written to, and the facts about its content.

use std::fmt::Write as _;
use std::io::SeekFrom;
use std::time::Duration;

use http::header::{
    CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG, HeaderMap, HeaderValue, IF_RANGE, LAST_MODIFIED, RANGE,
};
use sha2::{Digest as _, Sha256};
use tokio::fs::File;
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _, BufWriter};

use super::download::{DownloadError, DownloadedFile, broken_download};

/// The file, and the facts about its content.
pub(super) struct DownloadSink<'a> {
    file: BufWriter<&'a mut File>,
    limit_bytes: u64,
    size: u64,
    hash: Sha256,
    mime: Option<String>,
    /// The size that it must reach, if the server declared it.
    expected: Option<u64>,
    /// The validator that proves that a later part belongs to this one.
    validator: Option<HeaderValue>,
    /// Whether the latest answer continued the existing content.
    resumed: bool,
}

impl<'a> DownloadSink<'a> {
    pub(super) fn new(file: &'a mut File, limit_bytes: u64) -> Self {
        Self {
            file: BufWriter::with_capacity(64 * 1024, file),
            limit_bytes,
            size: 0,
            hash: Sha256::new(),
            mime: None,
            expected: None,
            validator: None,
            resumed: false,
        }
    }

    /// Starts over, with the size and validator of a new answer.
    pub(super) async fn restart(
        &mut self,
        answer: Option<(&HeaderMap, Option<u64>)>,
    ) -> Result<(), DownloadError> {
        // Each of these operations runs on a blocking thread. An empty file needs none of them.
        if self.size > 0 {
            self.file.flush().await.map_err(DownloadError::Local)?;
            let file = self.file.get_mut();
            let seeked = file.seek(SeekFrom::Start(0)).await;
            seeked.map_err(DownloadError::Local)?;
            file.set_len(0).await.map_err(DownloadError::Local)?;
        }
        (self.size, self.hash, self.resumed) = (0, Sha256::new(), false);
        if let Some((headers, length)) = answer {
            self.mime = headers.get(CONTENT_TYPE).and_then(plain_mime);
            self.validator = validator(headers);
            self.expected = length;
        }
        if self.expected.is_some_and(|size| size > self.limit_bytes) {
            return Err(self.too_large());
        }
        Ok(())
    }

    /// Continues the existing content, if the answer's part is the next one of the same file.
    pub(super) fn resume(
        &mut self,
        headers: &HeaderMap,
        length: Option<u64>,
    ) -> Result<(), DownloadError> {
        // A server may ignore the requested range. Only a part that begins exactly here can be
        // used.
        let next_part = range(headers).filter(|(start, _)| self.size > 0 && *start == self.size);
        let Some((_, total)) = next_part else {
            self.forget();
            return Err(broken_download(
                "the server sent a different range than requested",
            ));
        };
        let total = total.or(length.map(|length| self.size + length));
        if total.is_some() && self.expected.is_some() && total != self.expected {
            self.forget();
            return Err(broken_download("the result changed during the download"));
        }
        self.expected = self.expected.or(total);
        self.resumed = true;
        Ok(())
    }

    /// Bytes received so far.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Whether the latest answer added data to a resumed download.
    pub(super) fn has_resumed_past(&self, size_before: u64) -> bool {
        self.resumed && self.size > size_before
    }

    /// Checks that the file has the declared size.
    pub(super) fn check_whole(&self) -> Result<(), DownloadError> {
        // An answer without a length may end early and look complete.
        if self.expected.is_some_and(|expected| expected != self.size) {
            return Err(broken_download(
                "the result is shorter than its stated length",
            ));
        }
        Ok(())
    }

    /// Marks the content so far as unusable.
    pub(super) fn forget(&mut self) {
        self.validator = None;
    }

    /// Headers that request the rest.
    pub(super) fn resumption(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let range = HeaderValue::from_str(&format!("bytes={}-", self.size));
        // Without a validator the parts of two versions could be joined, so everything is fetched
        // again.
        if let (Some(validator), Ok(range), 1..) = (&self.validator, range, self.size) {
            headers.insert(RANGE, range);
            headers.insert(IF_RANGE, validator.clone());
        }
        headers
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), DownloadError> {
        if self.size + bytes.len() as u64 > self.limit_bytes {
            return Err(self.too_large());
        }
        let written = self.file.write_all(bytes).await;
        written.map_err(DownloadError::Local)?;
        self.hash.update(bytes);
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn too_large(&self) -> DownloadError {
        DownloadError::TooLarge {
            limit_bytes: self.limit_bytes,
        }
    }

    pub(super) async fn finish(mut self) -> Result<DownloadedFile, DownloadError> {
        self.file.flush().await.map_err(DownloadError::Local)?;
        let digest = self.hash.finalize();
        let mut sha256 = String::with_capacity(64);
        for byte in digest {
            // Writing to a string cannot fail.
            let _ = write!(sha256, "{byte:02x}");
        }
        Ok(DownloadedFile {
            size_bytes: self.size,
            sha256,
            mime: self.mime,
        })
    }
}

/// The beginning of a part, and the total size if it is known: 5 and 10 of `bytes 5-9/10`.
fn range(headers: &HeaderMap) -> Option<(u64, Option<u64>)> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (part, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let start = part.split_once('-')?.0.trim().parse().ok()?;
    Some((start, total.trim().parse().ok()))
}

/// A strong `ETag`, otherwise the time of the last change if that is strong.
fn validator(headers: &HeaderMap) -> Option<HeaderValue> {
    // A weak tag may also belong to other bytes with the same meaning (RFC 9110, 8.8.1), so it
    // cannot prove that two parts belong together.
    let strong_tag = headers
        .get(ETAG)
        .filter(|tag| !tag.as_bytes().starts_with(b"W/"));
    strong_tag
        .or_else(|| {
            headers
                .get(LAST_MODIFIED)
                .filter(|modified| is_strong(modified, headers))
        })
        .cloned()
}

/// Whether the file had not changed for a second when the answer was made: within one, it may have
/// changed twice (RFC 9110, 8.8.2.2).
fn is_strong(last_modified: &HeaderValue, headers: &HeaderMap) -> bool {
    let time = |value: &HeaderValue| httpdate::parse_http_date(value.to_str().ok()?).ok();
    let answered_at = headers.get(DATE).and_then(time);
    let age =
        time(last_modified).and_then(|changed_at| answered_at?.duration_since(changed_at).ok());
    age.is_some_and(|age| age >= Duration::from_secs(1))
}

fn plain_mime(value: &HeaderValue) -> Option<String> {
    let text = value.to_str().ok()?.split(';').next()?;
    Some(text.trim().to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    #[test]
    fn a_part_is_joined_only_by_a_validator_that_proves_it() {
        let validator_of = |headers: &[(HeaderName, &'static str)]| {
            let headers = headers.iter().map(|(name, value)| {
                let value = HeaderValue::from_static(value);
                (name.clone(), value)
            });
            validator(&headers.collect())
        };
        let (changed, later) = (
            "Thu, 26 Nov 2026 12:00:00 GMT",
            "Thu, 26 Nov 2026 12:00:01 GMT",
        );
        assert_eq!(validator_of(&[(ETAG, "\"a\"")]).unwrap(), "\"a\"");
        assert!(validator_of(&[(ETAG, "W/\"a\"")]).is_none());
        let aged = [(ETAG, "W/\"a\""), (LAST_MODIFIED, changed), (DATE, later)];
        assert_eq!(validator_of(&aged).unwrap(), changed);
        for headers in [
            &[(LAST_MODIFIED, changed)][..],
            &[(LAST_MODIFIED, changed), (DATE, changed)],
            &[(LAST_MODIFIED, later), (DATE, changed)],
            &[(LAST_MODIFIED, "yesterday"), (DATE, later)],
        ] {
            assert!(validator_of(headers).is_none(), "{headers:?}");
        }
    }
}
