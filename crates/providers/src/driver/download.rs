//! A result into a file: within limits, whole, and gone on with where the
//! connection broke when the server can.

use std::fmt::Write as _;
use std::io::SeekFrom;
use std::time::Duration;

use http::header::{
    ACCEPT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_RANGE,
    LAST_MODIFIED, LOCATION, RANGE,
};
use http::{Method, StatusCode};
use sha2::{Digest as _, Sha256};
use tokio::fs::File;
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _, BufWriter};
use tokio::time::Instant;

use super::provider::Provider;
use super::step::{backoff, is_blocked};
use super::{Driver, guard, redact};
use crate::answer::{Answer, Described};
use crate::error::{Class, ProviderError};
use crate::port::{Call, Source, Target};
use crate::secret::Secret;

/// Redirects followed at most.
const REDIRECTS: usize = 3;
/// Tries that bring nothing new.
const TRIES: u32 = 3;
/// Tries in all, when each brings a piece.
const PIECES: u32 = 20;
/// Until the answer begins.
const FIRST_BYTE: Duration = Duration::from_mins(1);
/// For one download.
const IN_ALL: Duration = Duration::from_hours(1);
/// The longest wait for a server that asks for one.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// A result that is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Downloaded {
    /// Its size.
    pub size_bytes: u64,
    /// SHA-256 of it, in hexadecimal.
    pub sha256: String,
    /// The media type that the server says it has, without parameters.
    pub mime: Option<String>,
}

/// Why a result is not here.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The address is past its time (401, 403, 404, 410): poll the job again.
    #[error("the result is no longer at its address")]
    Expired,
    /// It is larger than allowed.
    #[error("the result is larger than {} MB", limit_bytes / 1_000_000)]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// It did not come whole.
    #[error("{0}")]
    Failed(ProviderError),
    /// The file could not be written here.
    #[error("the result cannot be written: {0}")]
    Local(std::io::Error),
}

impl Driver {
    /// Writes a result to `file`, from its start. What breaks off is gone on
    /// with, or fetched again.
    pub async fn download(
        &self,
        provider: &Provider,
        secret: &Secret,
        source: &Source,
        file: &mut File,
    ) -> Result<Downloaded, DownloadError> {
        let nothing = || ProviderError::new(Class::Failed, "there is nothing to fetch");
        let call = match source {
            Source::Address(url) => Call::get("download", "")
                .to(Target::Address(url.clone()))
                .without_credential(),
            Source::Call(call) => (**call).clone(),
            Source::Bytes(bytes) => {
                let mut sink = Sink::new(file, provider.rules().max_result_bytes);
                sink.restart(None).await?;
                sink.write(bytes).await?;
                return sink.finish().await;
            }
            Source::Nothing => return Err(DownloadError::Failed(nothing())),
        };
        let _permit = self.downloads.acquire().await;
        let mut sink = Sink::new(file, provider.rules().max_result_bytes);
        let whole = fetch(provider, secret, &call, &mut sink);
        let whole = tokio::time::timeout(IN_ALL, whole).await;
        let slow = || broken("the result did not arrive within an hour");
        whole.unwrap_or_else(|_| Err(slow())).map_err(|error| {
            if let DownloadError::Failed(error) = error {
                return DownloadError::Failed(redact::error(error, secret));
            }
            error
        })?;
        sink.finish().await
    }
}

/// Tries until the result is whole.
async fn fetch(
    provider: &Provider,
    secret: &Secret,
    call: &Call,
    sink: &mut Sink<'_>,
) -> Result<(), DownloadError> {
    let mut in_vain = 0;
    for _ in 0..PIECES {
        let had = sink.size;
        let started = Instant::now();
        let tried = attempt(provider, secret, call, sink).await;
        let failed = match &tried {
            Err(DownloadError::Failed(error)) => Some(error.clone()),
            Err(DownloadError::Expired) => Some(ProviderError::new(Class::Lost, "")),
            Ok(()) | Err(_) => None,
        };
        provider.count("download", started, failed.as_ref());
        let Err(DownloadError::Failed(error)) = tried else {
            return tried;
        };
        in_vain = if sink.size > had && had > 0 {
            0
        } else {
            in_vain + 1
        };
        let wait = backoff(in_vain).max(error.retry_after.unwrap_or_default());
        let hopeless = !error.class.is_passing() || is_blocked(&error);
        if hopeless || in_vain >= TRIES || wait > LONGEST_WAIT {
            return Err(DownloadError::Failed(error));
        }
        tokio::time::sleep(wait).await;
    }
    Err(broken("the result comes in ever more pieces"))
}

async fn attempt(
    provider: &Provider,
    secret: &Secret,
    call: &Call,
    sink: &mut Sink<'_>,
) -> Result<(), DownloadError> {
    let mut answer = open(provider, secret, call, sink.resumption()).await?;
    let status = answer.status();
    match status.as_u16() {
        200..=299 => {}
        401 | 403 | 404 | 410 => return Err(DownloadError::Expired),
        // What was there before cannot be gone on with.
        412 | 416 => {
            sink.forget();
            return Err(broken("the result changed while it was fetched"));
        }
        _ => {
            let answer = Answer {
                status,
                headers: answer.headers().clone(),
                body: bytes::Bytes::new(),
            };
            return Err(DownloadError::Failed(
                answer.failure(|_| Described::default()),
            ));
        }
    }
    let headers = answer.headers().clone();
    let length = answer.content_length();
    let goes_on = status == StatusCode::PARTIAL_CONTENT && range_start(&headers) == Some(sink.size);
    if goes_on {
        sink.awaits(length);
    } else if status == StatusCode::PARTIAL_CONTENT {
        sink.forget();
        return Err(broken("the server sent another part than was asked for"));
    } else {
        sink.restart(Some((&headers, length))).await?;
    }
    let idle = provider.rules().idle_timeout;
    loop {
        let chunk = tokio::time::timeout(idle, answer.chunk()).await;
        let chunk = chunk.map_err(|_| broken("the result stopped halfway"))?;
        let chunk = chunk.map_err(|_| broken("the connection broke before the result was here"))?;
        let Some(chunk) = chunk else { break };
        sink.write(&chunk).await?;
    }
    if sink.expected.is_some_and(|expected| expected != sink.size) {
        return Err(broken("the result ended before its length was reached"));
    }
    Ok(())
}

/// The answer after redirects. Each hop is checked; the credential and the
/// call's own headers stay with trusted hosts.
async fn open(
    provider: &Provider,
    secret: &Secret,
    call: &Call,
    resumption: HeaderMap,
) -> Result<reqwest::Response, DownloadError> {
    let mut to = provider.destination(call).map_err(DownloadError::Failed)?;
    let mut call = call.clone();
    for _ in 0..=REDIRECTS {
        let wanted = call.with_credential && to.trusted;
        let here = to.url.clone();
        let credential = provider
            .credential(secret, wanted)
            .await
            .map_err(DownloadError::Failed)?;
        let request = provider
            .prepare(&call, to, &credential)
            .map_err(DownloadError::Failed)?
            .into_request()
            .headers(resumption.clone())
            .header(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let answer = tokio::time::timeout(FIRST_BYTE, request.send()).await;
        let answer = answer.map_err(|_| broken("the server did not answer within a minute"))?;
        let answer = answer.map_err(|error| unreached(&error))?;
        let found = answer.headers().get(LOCATION);
        let Some(location) = found.filter(|_| answer.status().is_redirection()) else {
            return Ok(answer);
        };
        let next = location.to_str().ok().and_then(|to| here.join(to).ok());
        let nowhere = || broken("the server redirects to nowhere");
        let next = next.filter(|_| call.method == Method::GET);
        to = provider
            .check(next.ok_or_else(nowhere)?)
            .map_err(DownloadError::Failed)?;
        if !to.trusted {
            call.headers.clear();
        }
    }
    Err(broken("the server redirects more than 3 times"))
}

fn unreached(error: &reqwest::Error) -> DownloadError {
    if guard::is_not_public(error) {
        return DownloadError::Failed(super::provider::blocked(guard::NotPublic.to_string()));
    }
    let what = if error.is_connect() {
        "the server that holds the result cannot be reached"
    } else {
        "the connection broke before the result was here"
    };
    broken(what)
}

fn broken(what: &str) -> DownloadError {
    DownloadError::Failed(ProviderError::new(Class::Unavailable, what))
}

/// `5` of `bytes 5-9/10`.
fn range_start(headers: &HeaderMap) -> Option<u64> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (start, _) = text.strip_prefix("bytes ")?.split_once('-')?;
    start.trim().parse().ok()
}

/// The file, and what is known of what is in it.
struct Sink<'a> {
    file: BufWriter<&'a mut File>,
    limit_bytes: u64,
    size: u64,
    hash: Sha256,
    mime: Option<String>,
    /// Size that it must reach, where the server said.
    expected: Option<u64>,
    /// What proves that a later part belongs to this one.
    validator: Option<HeaderValue>,
}

impl<'a> Sink<'a> {
    fn new(file: &'a mut File, limit_bytes: u64) -> Self {
        Self {
            file: BufWriter::with_capacity(256 * 1024, file),
            limit_bytes,
            size: 0,
            hash: Sha256::new(),
            mime: None,
            expected: None,
            validator: None,
        }
    }

    /// Begins anew, with what an answer says of its body.
    async fn restart(
        &mut self,
        answer: Option<(&HeaderMap, Option<u64>)>,
    ) -> Result<(), DownloadError> {
        self.file.flush().await.map_err(DownloadError::Local)?;
        let file = self.file.get_mut();
        let from_start = file.seek(SeekFrom::Start(0)).await;
        from_start.map_err(DownloadError::Local)?;
        file.set_len(0).await.map_err(DownloadError::Local)?;
        (self.size, self.hash) = (0, Sha256::new());
        if let Some((headers, length)) = answer {
            self.mime = headers.get(CONTENT_TYPE).and_then(plain_mime);
            self.validator = validator(headers);
            self.awaits(length);
        }
        if self.expected.is_some_and(|size| size > self.limit_bytes) {
            return Err(self.too_large());
        }
        Ok(())
    }

    /// This many more bytes are to come.
    fn awaits(&mut self, length: Option<u64>) {
        self.expected = length.map(|length| self.size + length);
    }

    /// What is here is worth nothing.
    fn forget(&mut self) {
        self.validator = None;
    }

    /// Headers that ask for the rest of what is here.
    fn resumption(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let range = HeaderValue::from_str(&format!("bytes={}-", self.size));
        if let (Some(validator), Ok(range), 1..) = (&self.validator, range, self.size) {
            headers.insert(RANGE, range);
            headers.insert(IF_RANGE, validator.clone());
        }
        headers
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), DownloadError> {
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

    async fn finish(mut self) -> Result<Downloaded, DownloadError> {
        self.file.flush().await.map_err(DownloadError::Local)?;
        let digest = self.hash.finalize();
        let mut sha256 = String::with_capacity(64);
        for byte in digest {
            // Writing to a string cannot fail.
            let _ = write!(sha256, "{byte:02x}");
        }
        Ok(Downloaded {
            size_bytes: self.size,
            sha256,
            mime: self.mime,
        })
    }
}

/// A strong `ETag`, else the time of the last change.
fn validator(headers: &HeaderMap) -> Option<HeaderValue> {
    let strong = headers
        .get(ETAG)
        .filter(|tag| !tag.as_bytes().starts_with(b"W/"));
    strong.or_else(|| headers.get(LAST_MODIFIED)).cloned()
}

fn plain_mime(value: &HeaderValue) -> Option<String> {
    let text = value.to_str().ok()?.split(';').next()?;
    Some(text.trim().to_ascii_lowercase())
}
