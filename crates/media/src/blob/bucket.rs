//! Files in a bucket of an S3-compatible store.
//!
//! Every request has a time limit, and the number of simultaneous requests is limited, so that an
//! unavailable store delays callers by seconds only. Files are read in pieces, each by a separate
//! request: a slow reader keeps a piece in memory, but no request and no connection.

use std::future::ready;
use std::ops::Range;
use std::path::Path as FsPath;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey as Key};
use object_store::path::Path;
use object_store::signer::{Method, SignedUrlOptions, Signer as _};
use object_store::{
    Attribute, Attributes, BackoffConfig, ClientOptions, GetOptions, GetRange, MultipartUpload,
    ObjectMeta, ObjectStore as _, ObjectStoreExt as _, PutMultipartOptions, PutOptions,
    RetryConfig, UploadPart,
};
use tokio::sync::Semaphore;
use tokio_util::io::ReaderStream;
use url::Url;

use crate::blob::health::StoreHealth;
use crate::blob::upload::BucketUpload;
use crate::blob::{
    BlobError, BlobName, ByteStream, CACHE_CONTROL, disposition, folder_name, root_cause,
};
use mediagate_config::{BucketEncryption, MediaConfig};
use mediagate_model::bounds;
use mediagate_model::ids::AssetId;
use mediagate_model::media::MediaType;

/// Files of at least this size are stored in parts of this size.
pub(super) const PART_SIZE: usize = 8 * 1024 * 1024;
/// Maximum number of requests at once.
const MAX_REQUESTS: usize = bounds::BUCKET_REQUESTS.total.count();
/// How long a request waits for a free slot.
const PERMIT_WAIT: Duration = Duration::from_secs(1);
/// Timeout of a small request, for which a caller may be waiting.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);
/// Timeout of any other request, including its retries.
const LONG_TIMEOUT: Duration = Duration::from_mins(1);
/// Timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of one attempt of a request.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a request is retried.
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);
/// Size of the first piece of a file, and of the others.
const PIECE_SIZES: (u64, u64) = (256 * 1024, 1024 * 1024);
/// Maximum number of bytes that are sent without first checking whether the store is available.
const MAX_UNPROBED_BYTES: usize = 256 * 1024;

#[derive(Clone)]
pub(super) struct S3Bucket(Arc<BucketInner>);

struct BucketInner {
    s3: AmazonS3,
    prefix: String,
    permits: Semaphore,
    health: StoreHealth,
}

impl S3Bucket {
    pub(super) fn open(media: &MediaConfig, bucket: &str, prefix: &str) -> Result<Self, BlobError> {
        let key = media.key()?;
        let mut builder = match &key {
            Some(key) => AmazonS3Builder::new()
                .with_access_key_id(key.id.expose())
                .with_secret_access_key(key.secret.expose()),
            // The environment, or the role of the machine, has the key.
            None => AmazonS3Builder::from_env(),
        };
        let client = ClientOptions::new()
            .with_connect_timeout(CONNECT_TIMEOUT)
            .with_timeout(ATTEMPT_TIMEOUT)
            .with_allow_http(
                media
                    .endpoint
                    .as_ref()
                    .is_some_and(|endpoint| endpoint.url().scheme() == "http"),
            );
        let retry = RetryConfig {
            backoff: BackoffConfig {
                // The default of 15 seconds would take most of the time available for retries.
                max_backoff: Duration::from_secs(2),
                ..BackoffConfig::default()
            },
            retry_timeout: RETRY_TIMEOUT,
            ..RetryConfig::default()
        };
        builder = builder
            .with_bucket_name(bucket)
            .with_client_options(client)
            .with_retry(retry)
            .with_virtual_hosted_style_request(!media.path_style);
        if let Some(region) = &media.region {
            builder = builder.with_region(region);
        }
        if let Some(endpoint) = &media.endpoint {
            builder =
                builder.with_endpoint(bucket_endpoint(endpoint.url(), bucket, media.path_style));
        }
        builder = match (media.sse, &media.kms_key) {
            (Some(BucketEncryption::Kms), Some(key)) => builder.with_sse_kms_encryption(key),
            (Some(BucketEncryption::S3), _) => with_store_encryption(builder)?,
            _ => builder,
        };
        let s3 = builder
            .build()
            .map_err(|error| BlobError::Setup(root_cause(&error)))?;
        Ok(Self(Arc::new(BucketInner {
            s3,
            prefix: prefix.to_owned(),
            permits: Semaphore::new(MAX_REQUESTS),
            health: StoreHealth::default(),
        })))
    }

    pub(super) async fn put(&self, name: BlobName, bytes: Bytes) -> Result<(), BlobError> {
        if bytes.len() < PART_SIZE {
            return self.put_whole(name, bytes).await;
        }
        self.put_stream(name, stream::iter([Ok(bytes)]).boxed())
            .await
    }

    pub(super) async fn put_file(&self, name: BlobName, file: &FsPath) -> Result<(), BlobError> {
        let source = tokio::fs::File::open(file).await?;
        let chunks = ReaderStream::with_capacity(source, 256 * 1024);
        let chunks = chunks.map_err(BlobError::from).boxed();
        self.put_stream(name, chunks).await
    }

    pub(super) async fn put_stream(
        &self,
        name: BlobName,
        mut chunks: ByteStream,
    ) -> Result<(), BlobError> {
        let mut upload = self.upload(name);
        let result: Result<(), BlobError> = async {
            while let Some(chunk) = chunks.try_next().await? {
                upload.write(&chunk).await?;
            }
            Ok(())
        }
        .await;
        // Leftover parts cost money until the bucket's own rules remove them.
        if let Err(error) = result {
            upload.abort().await;
            return Err(error);
        }
        upload.finish().await
    }

    fn upload(&self, name: BlobName) -> BucketUpload {
        BucketUpload::new(self.clone(), name)
    }

    /// Stores an object with one request.
    pub(super) async fn put_whole(&self, name: BlobName, bytes: Bytes) -> Result<(), BlobError> {
        // If the store is unavailable, a small request detects that sooner than a large upload.
        if bytes.len() > MAX_UNPROBED_BYTES && !self.0.health.answered_within(PERMIT_WAIT) {
            self.ping().await?;
        }
        let options = PutOptions {
            attributes: attributes(name),
            ..PutOptions::default()
        };
        let (path, limit) = (self.path(name), caller_timeout(bytes.len() as u64));
        let put = self.0.s3.put_opts(&path, bytes.into(), options);
        self.request("write", limit, put).await?;
        Ok(())
    }

    /// Begins a multipart upload.
    pub(super) async fn begin(
        &self,
        name: BlobName,
    ) -> Result<Box<dyn MultipartUpload>, BlobError> {
        let options = PutMultipartOptions {
            attributes: attributes(name),
            ..PutMultipartOptions::default()
        };
        let path = self.path(name);
        let begin = self.0.s3.put_multipart_opts(&path, options);
        self.request("write", REQUEST_TIMEOUT, begin).await
    }

    pub(super) async fn send_part(&self, part: UploadPart) -> Result<(), BlobError> {
        self.request("write", LONG_TIMEOUT, part).await
    }

    pub(super) async fn complete(&self, parts: &mut dyn MultipartUpload) -> Result<(), BlobError> {
        self.request("write", LONG_TIMEOUT, parts.complete())
            .await?;
        Ok(())
    }

    /// Aborts a multipart upload. If this fails, its parts stay until the bucket's own rules remove
    /// them.
    pub(super) async fn abort_multipart(&self, parts: &mut dyn MultipartUpload) {
        // Tried even if the store has just failed, because nothing else knows of these parts.
        if let Err(error) = self
            .request_ignoring_backoff("write", REQUEST_TIMEOUT, parts.abort())
            .await
        {
            tracing::warn!(%error, "cannot remove the parts of an incomplete upload from the media store");
        }
    }

    pub(super) async fn get(&self, name: BlobName) -> Result<Bytes, BlobError> {
        let path = self.path(name);
        // Most files fit into this request, which also returns the size of larger ones.
        let (first, size) = self
            .read_range(&path, 0..PART_SIZE as u64, LONG_TIMEOUT)
            .await?;
        if first.len() as u64 == size {
            return Ok(first);
        }
        let mut whole = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        whole.extend_from_slice(&first);
        while (whole.len() as u64) < size {
            let offset = whole.len() as u64;
            let range = offset..size.min(offset + PART_SIZE as u64);
            whole.extend_from_slice(&self.read_exact(&path, range, LONG_TIMEOUT).await?);
        }
        Ok(whole.into())
    }

    pub(super) async fn stream(
        &self,
        name: BlobName,
        Range { start, end }: Range<u64>,
    ) -> Result<Option<ByteStream>, BlobError> {
        let path = self.path(name);
        let next = end.min(start + PIECE_SIZES.0);
        // Read before the response begins, because it shows whether the file exists.
        let first = match self
            .read_exact(&path, start..next, caller_timeout(next - start))
            .await
        {
            Ok(first) => first,
            Err(BlobError::Missing) => return Ok(None),
            Err(error) => return Err(error),
        };
        let unread = (self.clone(), path, next..end);
        let rest = stream::try_unfold(unread, async |(bucket, path, Range { start, end })| {
            if start == end {
                return Ok(None);
            }
            let next = end.min(start + PIECE_SIZES.1);
            let piece = bucket.read_exact(&path, start..next, LONG_TIMEOUT).await?;
            Ok(Some((piece, (bucket, path, next..end))))
        });
        Ok(Some(stream::iter([Ok(first)]).chain(rest).boxed()))
    }

    /// Reads a part of a file; fails if it is incomplete.
    async fn read_exact(
        &self,
        path: &Path,
        range: Range<u64>,
        limit: Duration,
    ) -> Result<Bytes, BlobError> {
        let length = range.end - range.start;
        if length == 0 {
            return Ok(Bytes::new());
        }
        let (piece, _) = self.read_range(path, range, limit).await?;
        // A truncated answer must not look complete.
        if piece.len() as u64 == length {
            Ok(piece)
        } else {
            Err(BlobError::Unavailable(
                "a file is shorter than its record says".into(),
            ))
        }
    }

    /// Reads a part of a file, or less of it if the file ends first. Also returns the file's size.
    async fn read_range(
        &self,
        path: &Path,
        range: Range<u64>,
        limit: Duration,
    ) -> Result<(Bytes, u64), BlobError> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            ..GetOptions::default()
        };
        let read = async {
            let response = self.0.s3.get_opts(path, options).await?;
            let size = response.meta.size;
            Ok((response.bytes().await?, size))
        };
        self.request("read", limit, read).await
    }

    pub(super) async fn link(&self, name: BlobName, time: Duration) -> Result<Url, BlobError> {
        let options = SignedUrlOptions::new().with_query([
            ("response-content-type", name.media.mime().to_owned()),
            (
                "response-content-disposition",
                disposition(name.id, name.media),
            ),
        ]);
        let path = self.path(name);
        // Signing needs no request to the store, but the credentials may have to be fetched.
        let sign = self
            .0
            .s3
            .signed_url_opts(Method::GET, &path, time, &options);
        match tokio::time::timeout(REQUEST_TIMEOUT, sign).await {
            Ok(signed) => signed.map_err(|error| BlobError::Unavailable(redact(&error))),
            Err(_) => Err(BlobError::Unavailable(
                "the credentials were not available in time".into(),
            )),
        }
    }

    pub(super) async fn delete_all(
        &self,
        names: impl Iterator<Item = BlobName>,
    ) -> Result<(), BlobError> {
        let paths: Vec<_> = names.map(|name| Ok(self.path(name))).collect();
        let deleted = self.0.s3.delete_stream(stream::iter(paths).boxed());
        // A missing file needs no deletion, but the others do.
        let deleted = deleted
            .filter(|outcome| ready(!matches!(outcome, Err(error) if is_missing_file(error))))
            .try_for_each(async |_| Ok(()));
        self.request("delete", REQUEST_TIMEOUT, deleted).await
    }

    pub(super) async fn list(
        &self,
        folder: u8,
        from: AssetId,
        to: AssetId,
    ) -> Result<Vec<BlobName>, BlobError> {
        let folder = self.folder(&folder_name(folder));
        // The list begins after this name, which no file has.
        let after = folder.clone().join(from.to_string());
        let files = self.0.s3.list_with_offset(Some(&folder), &after);
        let names = files.try_filter_map(async |file| Ok(blob_name(&file)));
        // Names are sorted by time, so the list ends at the first one that is too late.
        let names = names.try_take_while(|name| {
            let is_before = name.id < to;
            async move { Ok(is_before) }
        });
        self.request("list", LONG_TIMEOUT, names.try_collect())
            .await
    }

    pub(super) fn all_of(
        &self,
        folder: u8,
    ) -> BoxStream<'static, Result<(AssetId, MediaType, u64), BlobError>> {
        let folder = self.folder(&folder_name(folder));
        let files = self.0.s3.list(Some(&folder)).try_filter_map(async |file| {
            Ok(blob_name(&file).map(|name| (name.id, name.media, file.size)))
        });
        files
            .map_err(|error| BlobError::Unavailable(redact(&error)))
            .boxed()
    }

    pub(super) fn unavailable_since(&self) -> Option<Instant> {
        self.0.health.unavailable_since()
    }

    pub(super) fn is_unavailable(&self) -> bool {
        self.0.health.is_unavailable()
    }

    /// A small text next to the media files, which is not a media file itself.
    pub(super) async fn read_note(&self, name: &str) -> Result<String, BlobError> {
        let path = self.folder(name);
        let read = async { self.0.s3.get(&path).await?.bytes().await };
        let bytes = self.request("note", REQUEST_TIMEOUT, read).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(super) async fn write_note(&self, name: &str, text: String) -> Result<(), BlobError> {
        let path = self.folder(name);
        let write = self.0.s3.put(&path, text.into_bytes().into());
        self.request("keep_note", REQUEST_TIMEOUT, write).await?;
        Ok(())
    }

    pub(super) async fn probe(&self) {
        if !self.0.health.answered_within(REQUEST_TIMEOUT) {
            // The request itself records the outcome.
            let _ = self.ping().await;
        }
    }

    /// Lists a folder that is empty: that works only if the bucket exists and may be listed.
    async fn ping(&self) -> Result<(), BlobError> {
        let empty_folder = self.folder("nowhere");
        let mut files = self.0.s3.list(Some(&empty_folder));
        let first = async { files.next().await.transpose() };
        self.request("look", REQUEST_TIMEOUT, first).await?;
        Ok(())
    }

    /// Makes a request within the limits, and records its outcome.
    async fn request<T>(
        &self,
        operation: &'static str,
        limit: Duration,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, BlobError> {
        // Callers get the error at once, instead of each waiting for the same timeout.
        if self.0.health.is_paused() {
            return Err(BlobError::Unavailable(
                "it did not respond a moment ago".into(),
            ));
        }
        self.request_ignoring_backoff(operation, limit, request)
            .await
    }

    /// Like [`Self::request`], even if the store has just failed.
    async fn request_ignoring_backoff<T>(
        &self,
        operation: &'static str,
        limit: Duration,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, BlobError> {
        let permit = tokio::time::timeout(PERMIT_WAIT, self.0.permits.acquire()).await;
        let Ok(Ok(_permit)) = permit else {
            return Err(BlobError::Busy);
        };
        let health = &self.0.health;
        let started = Instant::now();
        let reason = match tokio::time::timeout(limit, request).await {
            Ok(Ok(answer)) => {
                health.note_answer();
                return Ok(answer);
            }
            // A missing file is a valid answer: the store works.
            Ok(Err(error)) if is_missing_file(&error) => {
                health.note_answer();
                return Err(BlobError::Missing);
            }
            Ok(Err(error)) => redact(&error),
            Err(_) => "it did not respond in time".into(),
        };
        health.note_failure(started, operation, &reason);
        Err(BlobError::Unavailable(reason))
    }

    fn folder(&self, name: &str) -> Path {
        match self.0.prefix.as_str() {
            "" => Path::from(name),
            prefix => Path::from(format!("{prefix}/{name}")),
        }
    }

    fn path(&self, name: BlobName) -> Path {
        self.folder(&name.folder()).join(name.file())
    }
}

/// The endpoint for requests to the bucket.
fn bucket_endpoint(endpoint: &Url, bucket: &str, path_style: bool) -> String {
    // For virtual-hosted requests, `object_store` expects the bucket's name in the endpoint.
    let endpoint = endpoint.as_str().trim_end_matches('/');
    match endpoint.split_once("://") {
        Some((scheme, host)) if !path_style => format!("{scheme}://{bucket}.{host}"),
        _ => endpoint.to_owned(),
    }
}

/// Makes the store encrypt with its own key.
fn with_store_encryption(builder: AmazonS3Builder) -> Result<AmazonS3Builder, BlobError> {
    // The builder has methods for the other kinds of encryption only.
    let key = "aws_server_side_encryption".parse::<Key>();
    let key = key.map_err(|error| BlobError::Setup(root_cause(&error)))?;
    Ok(builder.with_config(key, "AES256"))
}

fn attributes(name: BlobName) -> Attributes {
    // Callers who are redirected to the bucket get these headers from the bucket itself.
    let disposition = disposition(name.id, name.media);
    Attributes::from_iter([
        (Attribute::ContentType, name.media.mime().to_owned()),
        (Attribute::ContentDisposition, disposition),
        (Attribute::CacheControl, CACHE_CONTROL.to_owned()),
    ])
}

/// Timeout of a request that transfers this many bytes while a caller waits.
fn caller_timeout(bytes: u64) -> Duration {
    const BYTES_PER_SECOND: u64 = 1024 * 1024;
    REQUEST_TIMEOUT + Duration::from_millis(1000 * bytes / BYTES_PER_SECOND)
}

fn blob_name(file: &ObjectMeta) -> Option<BlobName> {
    BlobName::parse(file.location.filename()?)
}

/// Whether the store reports a missing file, rather than a missing bucket.
fn is_missing_file(error: &object_store::Error) -> bool {
    // A missing bucket is a wrong setting. It must not make files look removed.
    matches!(error, object_store::Error::NotFound { .. })
        && !root_cause(error).contains("NoSuchBucket")
}

/// An error without the store's details, which contain names and keys.
fn redact(error: &object_store::Error) -> String {
    let cause = root_cause(error);
    let code = cause
        .split_once("<Code>")
        .and_then(|(_, rest)| rest.split_once("</Code>"))
        .map(|(code, _)| match code {
            "RequestTimeTooSkewed" => {
                format!("({code}): this machine's clock and the store's differ too much")
            }
            code => format!("({code})"),
        });
    let mut message = cause
        .split('<')
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned();
    message.truncate(message.floor_char_boundary(200));
    [Some(message), code]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_store_are_reduced_to_their_codes() {
        let redacted = |code: &str| {
            let body =
                format!("403 Forbidden: <Error><Code>{code}</Code><Key>secret</Key></Error>");
            redact(&object_store::Error::Generic {
                store: "S3",
                source: body.into(),
            })
        };
        assert_eq!(redacted("AccessDenied"), "403 Forbidden: (AccessDenied)");
        assert_eq!(
            redacted("RequestTimeTooSkewed"),
            "403 Forbidden: (RequestTimeTooSkewed): this machine's clock and the store's differ too much"
        );
    }
}
