//! Upload of a file to a bucket while its bytes arrive: small ones with one request, others in
//! parts.

use bytes::{Bytes, BytesMut};
use object_store::MultipartUpload;
use tokio::task::JoinSet;

use crate::blob::bucket::{PART_SIZE, S3Bucket};
use crate::blob::{BlobError, BlobName};

/// Maximum number of parts that are uploaded at once; each is in memory.
const MAX_PARTS_IN_FLIGHT: usize = 2;

/// An upload. Nothing is stored before [`BucketUpload::finish`] returns; one that is dropped leaves
/// parts behind, which only the bucket's lifecycle rules remove.
pub(super) struct BucketUpload {
    bucket: S3Bucket,
    name: BlobName,
    buffer: BytesMut,
    parts: Option<Box<dyn MultipartUpload>>,
    in_flight: JoinSet<Result<(), BlobError>>,
}

impl BucketUpload {
    pub(super) fn new(bucket: S3Bucket, name: BlobName) -> Self {
        Self {
            bucket,
            name,
            buffer: BytesMut::new(),
            parts: None,
            in_flight: JoinSet::new(),
        }
    }

    /// Adds bytes; waits while the limit of simultaneous parts is reached.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.buffer.extend_from_slice(bytes);
        while self.buffer.len() >= PART_SIZE {
            let part = self.buffer.split_to(PART_SIZE).freeze();
            self.send(part).await?;
        }
        Ok(())
    }

    async fn send(&mut self, part: Bytes) -> Result<(), BlobError> {
        while self.in_flight.len() >= MAX_PARTS_IN_FLIGHT {
            self.join_part().await?;
        }
        let parts = match &mut self.parts {
            Some(parts) => parts,
            // Begun with the first full part, so that a small file takes one request instead of
            // three.
            none => none.insert(self.bucket.begin(self.name).await?),
        };
        let sending = parts.put_part(part.into());
        let bucket = self.bucket.clone();
        self.in_flight
            .spawn(async move { bucket.send_part(sending).await });
        Ok(())
    }

    /// Waits for one of the parts in flight, if there is one.
    async fn join_part(&mut self) -> Result<(), BlobError> {
        match self.in_flight.join_next().await {
            Some(Ok(result)) => result,
            Some(Err(error)) => Err(BlobError::Unavailable(error.to_string())),
            None => Ok(()),
        }
    }

    /// Completes the file; an upload that cannot be completed is aborted.
    pub(super) async fn finish(mut self) -> Result<(), BlobError> {
        let result = self.complete().await;
        if result.is_err() {
            self.abort().await;
        }
        result
    }

    async fn complete(&mut self) -> Result<(), BlobError> {
        let rest = self.buffer.split().freeze();
        if self.parts.is_none() {
            return self.bucket.put_whole(self.name, rest).await;
        }
        if !rest.is_empty() {
            self.send(rest).await?;
        }
        while !self.in_flight.is_empty() {
            self.join_part().await?;
        }
        match &mut self.parts {
            Some(parts) => self.bucket.complete(parts.as_mut()).await,
            None => Ok(()),
        }
    }

    /// Aborts the upload: discards all bytes, here and in the bucket.
    pub(super) async fn abort(&mut self) {
        self.buffer.clear();
        // The parts in flight are stopped first: one that arrives after the abort would stay in the
        // bucket.
        self.in_flight.shutdown().await;
        if let Some(mut parts) = self.parts.take() {
            self.bucket.abort_multipart(parts.as_mut()).await;
        }
    }
}
