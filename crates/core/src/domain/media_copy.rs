//! Copies every media file to another store, while the gateway runs. No progress is stored: files
//! that already exist there are not copied again, so the copy can be stopped and repeated.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::app::Ctx;
use mediagate_media::blob::{BlobError, BlobStore};
use mediagate_model::error::Error;
use mediagate_model::ids::AssetId;
use mediagate_model::media::MediaType;
use mediagate_store as store;

/// Files that are copied at once.
const CONCURRENT_COPIES: usize = 4;
/// Files whose records are read at once.
const RECORDS: usize = 100;
/// How many times the copy of a file is tried.
const TRIES: u32 = 4;

/// A file to be copied.
#[derive(Debug, Clone, Copy)]
pub struct CopyItem {
    id: AssetId,
    media: MediaType,
    pub size_bytes: u64,
}

/// The work to do.
#[derive(Debug, Default)]
pub struct CopyPlan {
    pub missing: Vec<CopyItem>,
    /// Files that already are in the other store.
    pub present: u64,
    /// Files in the other store that were removed here since.
    removed: Vec<(AssetId, MediaType)>,
}

/// The result of a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct CopyReport {
    pub copied: u64,
    pub copied_bytes: u64,
    pub present: u64,
    /// Deleted from the other store, because they were removed here.
    pub removed: u64,
    pub failed: u64,
}

/// Compares two stores.
pub async fn plan(app: &Ctx, from: &BlobStore, to: &BlobStore) -> Result<CopyPlan, Error> {
    let mut plan = CopyPlan::default();
    // Folder by folder, so that the lists in memory stay small however many files there are.
    for folder in 0..=u8::MAX {
        let mut remote = files(to, folder).await?;
        for ((id, media), size_bytes) in files(from, folder).await? {
            // Files never change, so the same id and size mean the same file. Anything else is
            // copied again.
            if remote.remove(&(id, media)) == Some(size_bytes) {
                plan.present += 1;
            } else {
                plan.missing.push(CopyItem {
                    id,
                    media,
                    size_bytes,
                });
            }
        }
        let extra: Vec<_> = remote.into_keys().collect();
        for extra in extra.chunks(RECORDS) {
            let ids: Vec<_> = extra.iter().map(|(id, _)| *id).collect();
            // Only files whose record says that they were removed are deleted there. One without a
            // record may be about to get one.
            let removed = app
                .store
                .read(move |conn| store::assets::removed_ids(conn, &ids))
                .await?;
            let removed_here = extra.iter().filter(|(id, _)| removed.contains(id));
            plan.removed.extend(removed_here);
        }
    }
    Ok(plan)
}

async fn files(
    blobs: &BlobStore,
    folder: u8,
) -> Result<BTreeMap<(AssetId, MediaType), u64>, Error> {
    let listed = blobs.all_of(folder);
    let listed = listed.map_ok(|(id, media, size)| ((id, media), size));
    Ok(listed.try_collect().await?)
}

/// Copies what is missing; `on_progress` is called after each file. It stops when a store is
/// unavailable for longer than the retries of one file, because all further files would fail too.
/// Files that were not tried count as failed.
pub async fn carry_out(
    from: &BlobStore,
    to: &BlobStore,
    plan: CopyPlan,
    mut on_progress: impl FnMut(&CopyReport),
) -> Result<CopyReport, Error> {
    let mut report = CopyReport {
        present: plan.present,
        ..CopyReport::default()
    };
    let mut remaining = plan.missing.len() as u64;
    let copies = stream::iter(plan.missing)
        .map(async |item| (item, copy_with_retries(from, to, item).await));
    let mut copies = std::pin::pin!(copies.buffer_unordered(CONCURRENT_COPIES));
    while let Some((item, copied)) = copies.next().await {
        remaining -= 1;
        match copied {
            Ok(true) => {
                report.copied += 1;
                report.copied_bytes += item.size_bytes;
            }
            // It was removed after it was listed.
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(asset_id = %item.id, %error, "cannot copy a file");
                report.failed += 1;
                if is_transient(&error) {
                    report.failed += remaining;
                    on_progress(&report);
                    return Ok(report);
                }
            }
        }
        on_progress(&report);
    }
    for removed in plan.removed.chunks(RECORDS) {
        to.delete_all(removed).await?;
        report.removed += removed.len() as u64;
    }
    Ok(report)
}

async fn copy_with_retries(
    from: &BlobStore,
    to: &BlobStore,
    item: CopyItem,
) -> Result<bool, BlobError> {
    let mut tries = 1;
    loop {
        match copy(from, to, item).await {
            Err(error) if is_transient(&error) && tries < TRIES => {
                tokio::time::sleep(Duration::from_secs(1 << tries)).await;
                tries += 1;
            }
            result => return result,
        }
    }
}

/// Whether a retry may help.
const fn is_transient(error: &BlobError) -> bool {
    matches!(error, BlobError::Unavailable(_) | BlobError::Busy)
}

async fn copy(from: &BlobStore, to: &BlobStore, item: CopyItem) -> Result<bool, BlobError> {
    let range = 0..item.size_bytes;
    let Some(chunks) = from.stream(item.id, item.media, range).await? else {
        return Ok(false);
    };
    to.put_stream(item.id, item.media, chunks).await?;
    Ok(true)
}
