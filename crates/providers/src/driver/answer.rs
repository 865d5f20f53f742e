//! Answers of providers, from their first byte until an adapter has read them.
//!
//! A small answer stays in memory and is read at once. A large one is spooled to disk while it
//! arrives, so that a provider that sends it slowly holds no memory. Once it is complete, it is
//! loaded and read on a thread that may block, within one budget of memory for all providers.

use std::io::{self, Read as _, Seek as _};
use std::path::Path;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use orders::bounds::LARGE_ANSWER_MEMORY;
use tokio::io::AsyncWriteExt as _;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

use super::provider::Provider;
use crate::error::{ErrorClass, ProviderError};
use crate::response::{MAX_JSON_VALUES, ProviderResponse};

/// Largest answer that is kept in memory while it arrives, and read on the thread that received it:
/// less than a millisecond of parsing.
const SMALL_BYTES: usize = 32 << 10;

/// The budget of memory for large answers, counted in units of this many bytes.
const UNIT_BYTES: u64 = 64 << 10;
const MEMORY_UNITS: u32 = 8192;
const _: () = assert!(MEMORY_UNITS as u64 * UNIT_BYTES == LARGE_ANSWER_MEMORY);
/// Memory that a parsed value or name takes at most, in bytes: an object with one member, which
/// counts as three, takes about 700.
const VALUE_BYTES: u64 = 250;
/// The shortest text of a value, with its comma.
const VALUE_TEXT_BYTES: u64 = 2;

/// One budget for all providers of the process.
static MEMORY: Semaphore = Semaphore::const_new(MEMORY_UNITS as usize);

/// The body of an answer while it arrives.
pub(super) struct ArrivingBody<'a> {
    /// The folder for large ones.
    spool: &'a Path,
    size: u64,
    /// The whole body, unless it is in the file.
    memory: BytesMut,
    file: Option<tokio::fs::File>,
}

impl<'a> ArrivingBody<'a> {
    pub(super) fn new(spool: &'a Path) -> Self {
        Self {
            spool,
            size: 0,
            memory: BytesMut::new(),
            file: None,
        }
    }

    /// Its size so far, in bytes.
    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    pub(super) async fn push(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.size += chunk.len() as u64;
        if self.file.is_none() && self.memory.len() + chunk.len() > SMALL_BYTES {
            let file = tempfile::tempfile_in(self.spool)?;
            let mut file = tokio::fs::File::from_std(file);
            file.write_all(&std::mem::take(&mut self.memory)).await?;
            self.file = Some(file);
        }
        if let Some(file) = &mut self.file {
            return file.write_all(chunk).await;
        }
        self.memory.extend_from_slice(chunk);
        Ok(())
    }

    async fn finish(self) -> io::Result<AnswerBody> {
        let Some(mut file) = self.file else {
            return Ok(AnswerBody::Memory(self.memory.freeze()));
        };
        // tokio writes in the background, so an error of the last write is returned only here.
        file.flush().await?;
        Ok(AnswerBody::File(file.into_std().await, self.size))
    }
}

enum AnswerBody {
    Memory(Bytes),
    /// A spooled file without a name, and its size.
    File(std::fs::File, u64),
}

/// A complete answer that was not read yet.
pub(super) struct ReceivedAnswer {
    status: StatusCode,
    headers: HeaderMap,
    body: AnswerBody,
}

impl ReceivedAnswer {
    pub(super) async fn new(
        status: StatusCode,
        headers: HeaderMap,
        body: ArrivingBody<'_>,
    ) -> io::Result<Self> {
        Ok(Self {
            status,
            headers,
            body: body.finish().await?,
        })
    }

    /// Reads it. If it is large, this waits for its turn, and does not keep an async thread from
    /// other work meanwhile.
    pub(super) async fn read<T>(
        self,
        provider: &Provider,
        read: impl FnOnce(&ProviderResponse) -> Result<T, ProviderError>,
    ) -> Result<T, ProviderError> {
        let units = match &self.body {
            AnswerBody::Memory(_) => return read(&self.load()?),
            AnswerBody::File(_, size) => units(memory_of(*size)),
        };
        let _turn = provider.large_answers().acquire().await;
        let _memory = MEMORY.acquire_many(units).await;
        off_async_threads(|| read(&self.load()?))
    }

    fn load(self) -> Result<ProviderResponse, ProviderError> {
        let body = match self.body {
            AnswerBody::Memory(bytes) => bytes,
            AnswerBody::File(file, size) => read_back(file, size).map_err(|_| {
                // It may have contained a job's id.
                let message = "the provider's response could not be stored";
                ProviderError::new(ErrorClass::Unclear, message)
            })?,
        };
        Ok(ProviderResponse {
            status: self.status,
            headers: self.headers,
            body,
        })
    }
}

fn read_back(mut file: std::fs::File, size: u64) -> io::Result<Bytes> {
    file.rewind()?;
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    file.read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

/// The most memory that reading an answer of this size takes: its bytes, a string in it, a file that
/// the string encodes, and its values.
fn memory_of(size: u64) -> u64 {
    let values = (size / VALUE_TEXT_BYTES).min(MAX_JSON_VALUES as u64);
    3 * size + values * VALUE_BYTES
}

fn units(bytes: u64) -> u32 {
    let units = u32::try_from(bytes.div_ceil(UNIT_BYTES));
    units.unwrap_or(MEMORY_UNITS).min(MEMORY_UNITS)
}

/// Runs work that blocks while other threads take over what this one has to do.
fn off_async_threads<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // There is no other thread.
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_large_body_is_spooled_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        for size in [0, 1, SMALL_BYTES, SMALL_BYTES + 1, 3 * SMALL_BYTES + 7] {
            let sent: Vec<u8> = (0..=u8::MAX).cycle().take(size).collect();
            let mut body = ArrivingBody::new(folder.path());
            for chunk in sent.chunks(10_000) {
                body.push(chunk).await.unwrap();
            }
            assert_eq!(body.size(), size as u64);
            assert!(body.memory.len() <= SMALL_BYTES);
            assert_eq!(body.file.is_some(), size > SMALL_BYTES);
            let answer = ReceivedAnswer::new(StatusCode::OK, HeaderMap::new(), body);
            let answer = answer.await.unwrap().load().unwrap();
            assert_eq!(answer.body, sent);
        }
        // A spooled file has no name.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn memory_is_reserved_for_the_worst_answer_and_never_more_than_there_is() {
        // Fifteen of the largest status answers are read at once.
        assert!(units(memory_of(256_000)) <= MEMORY_UNITS / 15);
        assert!(memory_of(256_000) > 20 << 20);
        assert_eq!(units(memory_of(300_000_000)), MEMORY_UNITS);
    }
}
