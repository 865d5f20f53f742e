//! Webhook delivery: claims due deliveries under this process's lease, posts them, and records the
//! outcomes in batches.
//!
//! Delivery is at least once: if a process dies between the answer and the write, another process
//! sends the delivery again, with the same `webhook-id`.

mod lanes;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use locks::lock;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::runs::Lease;
use crate::{WorkerContext, random};
use lanes::{MAX_IN_FLIGHT, ReceiverLanes};
use mediagate_core::app::App;
use mediagate_core::callback_urls;
use mediagate_core::crash;
use mediagate_core::domain::webhooks::outcome::{self, AttemptOutcome};
use mediagate_core::domain::webhooks::signing_keys::SigningKeys;
use mediagate_core::domain::webhooks::{account_keys, owner_of};
use mediagate_core::webhook_client::WebhookResponse;
use mediagate_model::error::Error;
use mediagate_model::ids::DeliveryId;
use mediagate_model::webhook::{AttemptError, DeliveryAttempt, DueDelivery};
use mediagate_store::StoreError;
use mediagate_store::webhooks::deliveries;
use mediagate_telemetry::traces;

/// Maximum number of deliveries considered for one claim.
const CANDIDATE_LIMIT: u32 = 1000;
/// Maximum number of outcomes in one write.
const BATCH: usize = 200;

/// The state of this process's webhook delivery.
struct WebhookSender {
    context: Arc<WorkerContext>,
    lanes: Mutex<ReceiverLanes>,
    outcomes: mpsc::Sender<(Arc<Lease>, AttemptOutcome)>,
}

/// Delivers for as long as the process runs.
pub(super) async fn deliver(context: Arc<WorkerContext>, tracker: TaskTracker) {
    if context.until_registered().await.is_none() {
        return;
    }
    let (outcomes, outcome_rx) = mpsc::channel(MAX_IN_FLIGHT);
    let sender = Arc::new(WebhookSender {
        context: context.clone(),
        lanes: Mutex::default(),
        outcomes,
    });
    tracker.spawn(record_outcomes(sender.clone(), outcome_rx));
    // Whether an earlier claim may be in the database although its answer was lost.
    let mut in_doubt = false;
    while !context.stop.is_cancelled() {
        match claim(&sender, &mut in_doubt).await {
            Ok((lease, claimed)) if !claimed.is_empty() => {
                crash::point("delivery-claimed");
                for delivery in claimed {
                    let (sender, lease) = (sender.clone(), lease.clone());
                    tracker.spawn(async move { sender.send(lease, delivery).await });
                }
            }
            Ok(_) => tokio::select! {
                () = context.app.bell.wait_for_deliveries() => {}
                () = context.stop.cancelled() => {}
            },
            Err(error) => {
                tracing::error!(inside = ?error.internal_cause(), "cannot claim webhooks");
                in_doubt = true;
                context.pause(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Claims deliveries that are due and within the limits.
async fn claim(
    sender: &WebhookSender,
    in_doubt: &mut bool,
) -> Result<(Arc<Lease>, Vec<DueDelivery>), Error> {
    let app = &sender.context.app;
    let lease = sender.context.runs.lease();
    // The claim whose answer was lost may hold deliveries that are not being sent.
    if *in_doubt {
        let in_flight = sender.with_lanes(|lanes| lanes.in_flight());
        let owner = lease.name.clone();
        app.store
            .write(move |conn| deliveries::free_others(conn, &owner, &in_flight))
            .await?;
        *in_doubt = false;
    }
    let ids = take_slots(sender).await?;
    if ids.is_empty() {
        return Ok((lease, Vec::new()));
    }
    let (owner, requested_ids, now) = (lease.name.clone(), ids.clone(), app.clock.now());
    let claimed = app
        .store
        .write(move |conn| deliveries::claim(conn, &owner, &requested_ids, now))
        .await;
    let claimed = claimed.inspect_err(|_| *in_doubt = true);
    let claimed_ids: HashSet<DeliveryId> = claimed
        .iter()
        .flatten()
        .map(|delivery| delivery.id)
        .collect();
    // The others were claimed by another process, or are withheld.
    sender.with_lanes(|lanes| {
        for id in ids.iter().filter(|id| !claimed_ids.contains(*id)) {
            lanes.release(*id);
        }
    });
    Ok((lease, claimed?))
}

/// Takes slots for due deliveries.
async fn take_slots(sender: &WebhookSender) -> Result<Vec<DeliveryId>, Error> {
    let app = &sender.context.app;
    let mut ids = Vec::new();
    loop {
        let now = app.clock.now();
        let Some(capacity) = sender.with_lanes(|lanes| lanes.room(now)) else {
            return Ok(ids);
        };
        let candidates = app
            .store
            .read(move |conn| deliveries::candidates(conn, &capacity, CANDIDATE_LIMIT, now));
        let candidates = match candidates.await {
            Ok(candidates) => candidates,
            Err(error) if ids.is_empty() => return Err(error.into()),
            // The claim continues with those chosen so far, and frees their slots if it fails.
            Err(_) => return Ok(ids),
        };
        let candidate_count = candidates.len();
        let previous_count = ids.len();
        sender.with_lanes(|lanes| {
            let accepted = candidates
                .iter()
                .filter(|candidate| lanes.take(candidate, now));
            ids.extend(accepted.map(|candidate| candidate.id));
        });
        // A full page may consist of a single busy lane, with other lanes after it.
        if candidate_count < CANDIDATE_LIMIT as usize || ids.len() == previous_count {
            return Ok(ids);
        }
    }
}

impl WebhookSender {
    fn with_lanes<T>(&self, change: impl FnOnce(&mut ReceiverLanes) -> T) -> T {
        change(&mut lock(&self.lanes))
    }

    async fn send(&self, lease: Arc<Lease>, delivery: DueDelivery) {
        let outcome = attempt(&self.context.app, delivery).await;
        crash::point("delivery-sent");
        let label = if outcome.attempt.error.is_none() {
            "delivered"
        } else {
            "failed"
        };
        metrics::counter!("mediagate_webhooks_attempts_total", "outcome" => label).increment(1);
        // Fails only when the process is stopping; the delivery is freed when the lease ends.
        let _ = self.outcomes.send((lease, outcome)).await;
    }
}

/// Makes one delivery attempt.
async fn attempt(app: &App, delivery: DueDelivery) -> AttemptOutcome {
    let (at, start) = (app.clock.now(), Instant::now());
    let delay = at.since(delivery.due_at);
    metrics::histogram!("mediagate_webhooks_delay_seconds").record(delay.as_secs_f64());
    let span = traces::webhook(&delivery);
    let result = span.around(post(app, &delivery)).await;
    let took_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (response, error) = match result {
        Ok(response) => {
            let error = (!(200..300).contains(&response.status)).then_some(AttemptError::Status);
            (Some(response), error)
        }
        Err(error) => (None, Some(error)),
    };
    if let Some(response) = &response {
        span.set("http.response.status_code", i64::from(response.status));
    }
    if let Some(error) = error {
        span.fail(error.name());
    }
    let attempt = DeliveryAttempt {
        number: delivery.attempts + 1,
        at,
        took_ms,
        status: response.as_ref().map(|response| response.status),
        error,
        response: response.as_ref().map(|response| response.text.clone()),
    };
    AttemptOutcome {
        due: delivery,
        attempt,
        retry_after: response.and_then(|response| response.retry_after),
        chance: random(),
    }
}

/// Signs a delivery and posts it.
async fn post(app: &App, delivery: &DueDelivery) -> Result<WebhookResponse, AttemptError> {
    let decrypt = |stored: &str| {
        let plain = callback_urls::decrypt(&app.secrets.seal, delivery.account, stored);
        plain.map_err(|error| {
            tracing::error!(delivery_id = %delivery.id, %error, "cannot decrypt a callback");
            AttemptError::Unsigned
        })
    };
    // An endpoint's URL is not encrypted. A deleted endpoint has none.
    let url = match delivery.endpoint {
        Some(_) => delivery.url.clone(),
        None => decrypt(&delivery.url)?,
    };
    let body = decrypt(&delivery.body)?;
    let headers = sign(app, delivery, &body).await.map_err(|error| {
        tracing::error!(delivery_id = %delivery.id, inside = ?error.internal_cause(), "cannot sign a webhook");
        AttemptError::Unsigned
    })?;
    app.net
        .hooks
        .post(&url, headers, body.into(), app.clock.now())
        .await
}

async fn sign(
    app: &App,
    delivery: &DueDelivery,
    body: &str,
) -> Result<[(&'static str, String); 3], Error> {
    let keys = match (&delivery.secrets, delivery.endpoint) {
        (Some(sealed), endpoint) => {
            SigningKeys::unseal(app, &owner_of(delivery.account, endpoint), sealed)?
        }
        (None, None) => account_keys(app, delivery.account).await?,
        (None, Some(_)) => return Err(Error::internal("the endpoint has been deleted")),
    };
    let (message, now) = (delivery.event.message(), app.clock.now());
    let signature = keys.sign(delivery.scheme, &message, now.seconds(), body, now)?;
    Ok([
        ("webhook-id", message),
        ("webhook-timestamp", now.seconds().to_string()),
        ("webhook-signature", signature),
    ])
}

/// Records outcomes, all available ones in one write.
async fn record_outcomes(
    sender: Arc<WebhookSender>,
    mut outcomes: mpsc::Receiver<(Arc<Lease>, AttemptOutcome)>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        tokio::select! {
            _ = outcomes.recv_many(&mut batch, BATCH) => {}
            () = wait_until_drained(&sender) => return,
        }
        let app = &sender.context.app;
        let now = app.clock.now();
        let pauses = sender.with_lanes(|lanes| {
            let pauses = batch.iter().filter_map(|(_, outcome)| {
                Some((
                    outcome.due.lane.clone(),
                    lanes.record_outcome(outcome, now)?,
                ))
            });
            pauses.collect::<Vec<_>>()
        });
        write(app, &batch, &pauses).await;
        crash::point("delivery-written");
        // Slots are released only once the outcomes are on disk: a delivery without a slot counts
        // as claimed by mistake, and would be freed and sent again.
        sender.with_lanes(|lanes| {
            for (_, outcome) in batch.drain(..) {
                lanes.release(outcome.due.id);
            }
        });
        app.bell.ring_for_deliveries();
    }
}

/// Waits until the process stops and the outcomes of all requests are recorded.
async fn wait_until_drained(sender: &WebhookSender) {
    sender.context.stop.cancelled().await;
    while !sender.with_lanes(|lanes| lanes.in_flight().is_empty()) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Writes a batch of outcomes. Retries until they are written, or until other processes hold these
/// deliveries.
async fn write(app: &App, batch: &[(Arc<Lease>, AttemptOutcome)], pauses: &[(String, Duration)]) {
    let mut retry_pause = Duration::from_millis(250);
    let rows: Arc<[(Arc<str>, AttemptOutcome)]> = batch
        .iter()
        .map(|(lease, outcome)| (lease.name.clone(), outcome.clone()))
        .collect();
    let now = app.clock.now();
    let pauses: Arc<[_]> = pauses
        .iter()
        .map(|(lane, pause)| (lane.clone(), now.plus(*pause)))
        .collect();
    loop {
        let (rows, pauses) = (rows.clone(), pauses.clone());
        let written = app.store.write(move |conn| -> Result<(), Error> {
            for (owner, outcome) in rows.iter() {
                outcome::write(conn, owner, outcome)?;
            }
            for (lane, until) in pauses.iter() {
                deliveries::pause(conn, lane, *until)?;
            }
            Ok(())
        });
        // The requests have been sent. Until that is recorded, the webhooks would be sent again.
        let Err(error) = written.await else { return };
        tracing::error!(inside = ?error.internal_cause(), "cannot record sent webhooks; trying again");
        tokio::select! {
            () = tokio::time::sleep(retry_pause) => {}
            () = wait_until_leases_lost(batch) => return,
        }
        retry_pause = (retry_pause * 2).min(super::LONGEST_PAUSE);
    }
}

/// Waits until every lease under which these were claimed has been lost.
async fn wait_until_leases_lost(batch: &[(Arc<Lease>, AttemptOutcome)]) {
    for (lease, _) in batch {
        lease.wait_lost().await;
    }
}

/// Counts the due deliveries, for the metric.
pub(super) async fn count(app: &App) {
    let now = app.clock.now();
    let due: Result<i64, StoreError> = app
        .store
        .read(move |conn| deliveries::count_due(conn, now))
        .await;
    if let Ok(due) = due {
        let due = u32::try_from(due).unwrap_or(u32::MAX);
        metrics::gauge!("mediagate_webhooks_due").set(f64::from(due));
    }
}
