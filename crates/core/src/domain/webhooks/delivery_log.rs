//! The log of webhook deliveries, sent and still to be sent, and sending them again by hand.

use std::time::Duration;

use crate::app::{AppParts, Ctx};
use crate::callback_urls;
use crate::domain::{tasks, webhooks};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, DeliveryId, EndpointId, TaskId};
use mediagate_model::webhook::{Delivery, DeliveryAttempt, DeliveryState};
use mediagate_store::tasks::PageQuery;
use mediagate_store::webhooks::{deliveries, delivery_log, endpoints};
use mediagate_store::{self as store, StoreError};

/// How long a delivery is kept after it was delivered.
const DELIVERED_TTL: Duration = Duration::from_hours(7 * 24);
/// Deliveries that are deleted in one write.
const BATCH: u32 = 1000;

/// The error for an id that is malformed or not the account's.
pub fn not_found() -> Error {
    let message = "There is no webhook delivery with this id.";
    Error::plain(ErrorCode::DeliveryNotFound, message)
}

/// A page of an endpoint's deliveries, and whether more follow.
pub async fn endpoint_page(
    app: &Ctx,
    account: AccountId,
    endpoint: EndpointId,
    state: Option<DeliveryState>,
    page: PageQuery<DeliveryId>,
) -> Result<(Vec<Delivery>, bool), Error> {
    // The list is selected only by the endpoint, so this check keeps other accounts out.
    webhooks::get(app, account, endpoint).await?;
    let (limit, one_more) = (page.limit, page.with_one_more());
    let read = app
        .store
        .long_read(move |conn| delivery_log::of_endpoint(conn, endpoint, state, one_more));
    let mut deliveries = store::await_within_limit(read).await?;
    let has_more = store::page::truncate_to_limit(&mut deliveries, limit);
    Ok((deliveries, has_more))
}

/// The deliveries of a task, callbacks too.
pub async fn task_deliveries(
    app: &AppParts,
    account: AccountId,
    task: TaskId,
) -> Result<Vec<Delivery>, Error> {
    tasks::get(app, account, task).await?;
    let read = app
        .store
        .read(move |conn| delivery_log::of_task(conn, task, account));
    let deliveries = read.await?.into_iter();
    deliveries.map(|delivery| readable(app, delivery)).collect()
}

/// The delivery with its URL as it is called: a callback's is stored encrypted.
fn readable(app: &AppParts, mut delivery: Delivery) -> Result<Delivery, Error> {
    if delivery.endpoint.is_none() {
        let seal = &app.secrets.seal;
        delivery.url = callback_urls::decrypt(seal, delivery.account, &delivery.url)
            .map_err(Error::internal)?;
    }
    Ok(delivery)
}

/// A delivery with its latest attempts.
pub async fn get(
    app: &AppParts,
    account: AccountId,
    id: DeliveryId,
) -> Result<(Delivery, Vec<DeliveryAttempt>), Error> {
    let read = app.store.read(move |conn| -> Result<_, StoreError> {
        let attempts = delivery_log::attempts(conn, id)?;
        Ok(delivery_log::by_id(conn, id, account)?.map(|delivery| (delivery, attempts)))
    });
    let (delivery, attempts) = read.await?.ok_or_else(not_found)?;
    Ok((readable(app, delivery)?, attempts))
}

/// Sends a `test` event to an endpoint now.
pub async fn test(
    app: &AppParts,
    account: AccountId,
    endpoint: EndpointId,
) -> Result<Delivery, Error> {
    let now = app.clock.now();
    let write = app
        .store
        .write_for(account, move |conn| -> Result<Delivery, Error> {
            let endpoint =
                endpoints::by_id(conn, endpoint, account)?.ok_or_else(webhooks::not_found)?;
            let id = webhooks::events::insert_test_event(conn, &endpoint, now)?;
            delivery_log::by_id(conn, id, account)?.ok_or_else(not_found)
        });
    let delivery = store::await_within_limit(write).await?;
    app.bell.ring_for_deliveries();
    Ok(delivery)
}

/// Sends a delivery again, whatever its state. If it is being sent at this moment, nothing changes.
pub async fn redeliver(
    app: &AppParts,
    account: AccountId,
    id: DeliveryId,
) -> Result<Delivery, Error> {
    let now = app.clock.now();
    let write = app
        .store
        .write_for(account, move |conn| -> Result<Delivery, Error> {
            let delivery = delivery_log::by_id(conn, id, account)?.ok_or_else(not_found)?;
            // The log outlives the endpoint, but a deleted endpoint has no URL to send to.
            if let Some(endpoint) = delivery.endpoint
                && endpoints::by_id(conn, endpoint, account)?.is_none()
            {
                return Err(webhooks::not_found());
            }
            deliveries::redeliver(conn, id, now)?;
            delivery_log::by_id(conn, id, account)?.ok_or_else(not_found)
        });
    let delivery = store::await_within_limit(write).await?;
    app.bell.ring_for_deliveries();
    readable(app, delivery)
}

/// Resends to an endpoint the deliveries since `since` that failed or were held. Returns their
/// number.
pub async fn recover(
    app: &AppParts,
    account: AccountId,
    endpoint: EndpointId,
    since: Timestamp,
) -> Result<u64, Error> {
    let now = app.clock.now();
    let write = app
        .store
        .write_for(account, move |conn| -> Result<u64, Error> {
            endpoints::by_id(conn, endpoint, account)?.ok_or_else(webhooks::not_found)?;
            Ok(deliveries::recover(conn, endpoint, since, now)?)
        });
    let count = store::await_within_limit(write).await?;
    app.bell.ring_for_deliveries();
    Ok(count)
}

/// Deletes deliveries and events whose retention time is over.
pub async fn forget_old(app: &Ctx) -> Result<(), Error> {
    let (delivered, failed) = (
        app.clock.cutoff(DELIVERED_TTL),
        app.clock.cutoff(app.config.webhooks.log_ttl),
    );
    loop {
        let deletion = app
            .store
            .write(move |conn| delivery_log::forget(conn, delivered, failed, BATCH));
        if deletion.await? < u64::from(BATCH) {
            break;
        }
    }
    Ok(())
}
