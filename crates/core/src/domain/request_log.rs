//! The log of requests: what happened to a request, by its id, and who gets which errors.
//!
//! A crash loses the entries of about the last second. The log is bounded in days, in all and for
//! each account, so that no account can displace the entries of others.

use std::collections::HashMap;
use std::time::Duration;

use crate::app::{AppParts, Ctx};
use crate::domain::accounts;
use mediagate_model::error::Error;
use mediagate_model::ids::{KeyId, RequestEntryId};
use mediagate_model::request_log::RequestEntry;
use mediagate_store::request_log::{ErrorCount, ErrorGroup, ErrorGrouping, RequestFilter};
use mediagate_store::tasks::PageQuery;
use mediagate_store::{self as store, StoreError};

/// How often waiting entries are written.
pub const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of entries.
const MAX_ENTRIES: u64 = 1_000_000;
/// Maximum number of entries of an account, and of all callers without one.
const MAX_ENTRIES_OF_ACCOUNT: u64 = 200_000;
/// Maximum number of entries that are written in one transaction.
const WRITE_BATCH: usize = 500;
/// Maximum number of entries that are removed in one transaction.
const REMOVAL_BATCH: u32 = 1000;
/// Maximum number of groups that are read.
const MAX_GROUPS_READ: u32 = 10_000;
/// Maximum number of groups that are returned.
const MAX_GROUPS: usize = 1000;

/// Writes the entries that wait. After an error they stay, and are written later.
pub async fn write_waiting(app: &AppParts) -> Result<(), Error> {
    let log = &app.process.request_log;
    let _writing = log.writing.lock().await;
    loop {
        let batch = log.oldest(WRITE_BATCH);
        let count = batch.len();
        if count == 0 {
            return Ok(());
        }
        // Not synced: an entry is not worth a write of its own to the disk.
        app.store
            .write_unsynced(move |conn| -> Result<(), StoreError> {
                for entry in &batch {
                    store::request_log::insert(conn, entry)?;
                }
                Ok(())
            })
            .await?;
        log.remove_oldest(count);
    }
}

/// An entry, with the names that its ids stand for.
#[derive(Debug, Clone)]
pub struct ListedRequest {
    pub entry: RequestEntry,
    /// The handle of the account.
    pub account: Option<String>,
    pub key_name: Option<String>,
}

/// A page of the log, and whether more follow.
pub async fn page(
    app: &Ctx,
    filter: RequestFilter,
    page: PageQuery<RequestEntryId>,
) -> Result<(Vec<ListedRequest>, bool), Error> {
    let (limit, one_more) = (page.limit, page.with_one_more());
    let read = app
        .store
        .long_read(move |conn| store::request_log::page(conn, &filter, one_more));
    let mut entries = store::await_within_limit(read).await?;
    let has_more = store::page::truncate_to_limit(&mut entries, limit);
    let handles = accounts::handles(app, entries.iter().filter_map(|entry| entry.account)).await?;
    let key_names = key_names(app, entries.iter().filter_map(|entry| entry.key)).await?;
    let listed = entries.into_iter().map(|entry| ListedRequest {
        account: entry.account.and_then(|id| handles.get(&id).cloned()),
        key_name: entry.key.and_then(|id| key_names.get(&id).cloned()),
        entry,
    });
    Ok((listed.collect(), has_more))
}

/// The errors of a group, with the names that its ids stand for.
#[derive(Debug, Clone)]
pub struct CountedErrors {
    pub group: ErrorGroup,
    /// The handle of the account.
    pub account: Option<String>,
    pub key_name: Option<String>,
    pub count: ErrorCount,
}

/// The numbers of errors among the entries of a filter, the largest groups first, and their sum, with
/// groups that are not returned.
pub async fn error_counts(
    app: &Ctx,
    filter: RequestFilter,
    grouping: ErrorGrouping,
) -> Result<(Vec<CountedErrors>, i64), Error> {
    let read = app.store.long_read(move |conn| {
        store::request_log::error_counts(conn, &filter, grouping, MAX_GROUPS_READ)
    });
    let mut counts = store::await_within_limit(read).await?;
    counts.sort_by(|(group, count), (other_group, other_count)| {
        let by_count = other_count.count.cmp(&count.count);
        by_count.then_with(|| group.cmp(other_group))
    });
    let total: i64 = counts.iter().map(|(_, count)| count.count).sum();
    counts.truncate(MAX_GROUPS);
    let ids = counts.iter().filter_map(|(group, _)| group.account);
    let handles = accounts::handles(app, ids).await?;
    let key_names = key_names(app, counts.iter().filter_map(|(group, _)| group.key)).await?;
    let counted = counts.into_iter().map(|(group, count)| CountedErrors {
        account: group.account.and_then(|id| handles.get(&id).cloned()),
        key_name: group.key.and_then(|id| key_names.get(&id).cloned()),
        group,
        count,
    });
    Ok((counted.collect(), total))
}

pub(super) async fn key_names(
    app: &Ctx,
    ids: impl Iterator<Item = KeyId>,
) -> Result<HashMap<KeyId, String>, Error> {
    let mut ids: Vec<KeyId> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    let read = app.store.long_read(move |conn| -> Result<_, StoreError> {
        let mut names = HashMap::with_capacity(ids.len());
        for id in ids {
            if let Some(name) = store::accounts::key_name(conn, id)? {
                names.insert(id, name);
            }
        }
        Ok(names)
    });
    Ok(read.await?)
}

/// Removes entries that are older than `requests_ttl`, and the oldest of those that are too many.
pub async fn forget_old(app: &Ctx) -> Result<(), Error> {
    let before = app.clock.cutoff(app.config.requests_ttl);
    loop {
        let deletion = app
            .store
            .write(move |conn| store::request_log::forget(conn, before, REMOVAL_BATCH));
        if deletion.await? < u64::from(REMOVAL_BATCH) {
            break;
        }
    }
    let mut total = 0;
    let counts = app
        .store
        .long_read(store::request_log::entries_by_account)
        .await?;
    for (account, count) in counts {
        let surplus = count.saturating_sub(MAX_ENTRIES_OF_ACCOUNT);
        remove_surplus(app, surplus, move |conn, limit| {
            store::request_log::remove_oldest_of(conn, account, limit)
        })
        .await?;
        total += count - surplus;
    }
    let surplus = total.saturating_sub(MAX_ENTRIES);
    remove_surplus(app, surplus, store::request_log::remove_oldest).await
}

/// Removes this number of entries with `remove`, which takes a limit.
async fn remove_surplus(
    app: &Ctx,
    mut surplus: u64,
    remove: impl Fn(&mut store::Conn<'_>, u32) -> Result<u64, StoreError> + Copy + Send + 'static,
) -> Result<(), Error> {
    while surplus > 0 {
        let limit = u32::try_from(surplus)
            .unwrap_or(u32::MAX)
            .min(REMOVAL_BATCH);
        let removed = app.store.write(move |conn| remove(conn, limit)).await?;
        if removed == 0 {
            break;
        }
        surplus = surplus.saturating_sub(removed);
    }
    Ok(())
}
