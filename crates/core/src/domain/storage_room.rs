//! Room for files: what an account may store (`storage_limit`), and how full the disk may get
//! (`disk_floor`).
//!
//! Whatever stores files is refused before it is taken. What was taken is always delivered, so the
//! open tasks of an account count too: each with an estimate of the files that it will store.

use crate::app::{AppParts, Ctx};
use mediagate_config::MediaStore;
use mediagate_config::byte_size::ByteSize;
use mediagate_config::providers::ResultPolicy;
use mediagate_model::catalog::{Model, Route};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::AccountId;
use mediagate_model::task::{Task, TaskPayload};
use mediagate_store::{self as store, Conn};

/// Refuses an upload or an order if the account's storage or the disk is almost full. Called before
/// anything is received or made; [`check_stored`] and [`check_order`] have the last word.
pub async fn check(app: &Ctx, account: AccountId, more_bytes: u64) -> Result<(), Error> {
    check_disk(app)?;
    let limit = app.config.storage_limit;
    let used = app
        .store
        .read(move |conn| StorageUse::read(conn, account))
        .await?;
    // At the limit nothing fits, not even input of unknown size.
    used.check(more_bytes.max(1), limit)
}

/// Like [`check_disk`], for an order that brings no file: its result can wait until the folder is
/// back.
pub fn check_disk_for_order(app: &Ctx) -> Result<(), Error> {
    if app.config.media.store == MediaStore::Folder && !app.config.media_path().exists() {
        return Ok(());
    }
    check_disk(app)
}

/// Refuses to fill the disk beyond `disk_floor`.
pub fn check_disk(app: &Ctx) -> Result<(), Error> {
    // With media in a bucket only files in transit fill the disk.
    let folder = match app.config.media.store {
        MediaStore::Folder => app.config.media_path(),
        MediaStore::S3 { .. } => app.config.spool_path(),
    };
    let disk = match rustix::fs::statvfs(folder) {
        Ok(disk) => disk,
        // The folder itself is missing, perhaps because it is not mounted. That is an outage of the
        // media store, which may be temporary.
        Err(error) if app.config.media.store == MediaStore::Folder => {
            return Err(Error::media_unavailable(error));
        }
        Err(error) => return Err(Error::internal(error)),
    };
    // The space that this user may fill: `f_bfree` would include blocks that are reserved for root.
    if disk.f_bavail.saturating_mul(disk.f_frsize) >= app.config.disk_floor.0 {
        return Ok(());
    }
    tracing::warn!("orders and uploads are rejected: the disk is almost full");
    let message = "The disk is almost full. Try again later.";
    Err(Error::retry_later(ErrorCode::Overloaded, message, 60))
}

/// Refuses files that take the account over its limit, in the transaction that has recorded them.
pub fn check_stored(conn: &mut Conn<'_>, account: AccountId, limit: ByteSize) -> Result<(), Error> {
    StorageUse::read(conn, account)?.check(0, limit)
}

/// Refuses an order if there is no room for it, in the transaction that has recorded its tasks and
/// input files. The other open tasks count with what they are expected to store. This order needs
/// room for its files, and one byte more if it will store results: their size is only an estimate,
/// which must not refuse the first order of an account with a small limit.
pub fn check_order(
    conn: &mut Conn<'_>,
    account: AccountId,
    tasks: &[Task],
    limit: ByteSize,
) -> Result<(), Error> {
    let own_bytes: u64 = tasks.iter().filter_map(|task| task.expected_bytes).sum();
    // Simultaneous orders of an account see each other's tasks.
    store::assets::lock_storage(conn, account)?;
    let mut used = StorageUse::read(conn, account)?;
    used.expected = used.expected.saturating_sub(own_bytes);
    used.check(u64::from(own_bytes > 0), limit)
}

/// What the files of a task will add to the account's storage, as far as that can be known before
/// they are made. `None` if the task stores no files.
pub fn expected_bytes(app: &AppParts, model: &Model, payload: &TaskPayload) -> Option<u64> {
    let (routes, sites) = (model.routes(), app.models.upstream.sites());
    let leaves_films = |route: &Route| {
        let site = sites.get(&route.provider);
        site.is_some_and(|site| site.config.results == ResultPolicy::Link)
    };
    // Only films can stay where they were made.
    let stays_at_provider = matches!(payload, TaskPayload::VideoV1(_))
        && !routes.is_empty()
        && routes.iter().all(leaves_films);
    (!stays_at_provider).then(|| payload.expected_bytes())
}

/// What an account stores, and what its open tasks are expected to add, in bytes.
struct StorageUse {
    stored: u64,
    expected: u64,
}

impl StorageUse {
    fn read(conn: &mut Conn<'_>, account: AccountId) -> Result<Self, Error> {
        Ok(Self {
            stored: store::assets::stored_bytes(conn, account)?,
            expected: store::assets::expected_bytes(conn, account)?,
        })
    }

    fn check(&self, more_bytes: u64, limit: ByteSize) -> Result<(), Error> {
        let used = self.stored.saturating_add(self.expected);
        if used.saturating_add(more_bytes) <= limit.0 {
            return Ok(());
        }
        let message = if self.stored.saturating_add(more_bytes) > limit.0 {
            format!(
                "The account has used up its storage_limit of {limit}. \
                 Delete videos, or wait until older files expire."
            )
        } else {
            format!(
                "The account stores {} of its storage_limit of {limit}, and its open tasks need \
                 about {} more. Wait until they end, or delete videos.",
                ByteSize(self.stored),
                ByteSize(self.expected)
            )
        };
        Err(Error::plain(ErrorCode::StorageFull, message))
    }
}
